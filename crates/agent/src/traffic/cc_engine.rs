//! The setting `stack.cc_engine`: which code controls the congestion window of senders on a host.
//!
//! With `shim` it is a controller of `cc`, with the same parameters and random streams as in the model. One shim is registered for each
//! controller with different settings. With an object file it is the BPF program in that file. Controllers are registered for
//! the duration of the run; the kernel unregisters them if the agent is killed.

use crate::netns::topology::NetnsTopology;
use crate::system::Failure;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tcpassay_bpf::objects::Objects;
use tcpassay_bpf::shim::{Shim, ShimCounts, Spec};
use tcpassay_case::{Case, CcEngine};
use tcpassay_tcp::EcnMode;
use tcpassay_units::Seed;
use tcpassay_workload::TrafficSchedule;

/// The path of the parameter.
pub const PARAMETER: &str = "stack.cc_engine";

/// The names of controllers in the kernel, by host and `stack.cc`. Controllers of Linux are not contained: their names are the same.
pub type KernelCcNames = BTreeMap<(usize, String), String>;

/// The controllers that are registered for the run.
#[derive(Debug, Default)]
pub struct CcEngines {
    prefix: String,
    shims: Vec<(Spec, Shim)>,
    objects: BTreeMap<String, Objects>,
    /// The names that sockets ask for.
    pub names: KernelCcNames,
}

impl CcEngines {
    /// Registers the controllers that the hosts of this machine need, with names that begin with `prefix`. `contents`
    /// has a file for each name of an object file.
    pub fn start(
        case: &Case,
        topology: &NetnsTopology,
        plan: &TrafficSchedule,
        contents: &BTreeMap<String, PathBuf>,
        seed: Seed,
        prefix: &str,
    ) -> Result<CcEngines, Failure> {
        let mut all = CcEngines { prefix: prefix.to_owned(), ..CcEngines::default() };
        for host in (0..case.hosts.len()).filter(|host| topology.has_host(*host)) {
            let own = case.hosts[host].cc.name();
            let asked = plan.parts().iter().map(|part| part.cc.as_deref().unwrap_or(own));
            for cc in asked.collect::<std::collections::BTreeSet<_>>() {
                let name = match &case.hosts[host].engine {
                    CcEngine::Kernel => continue,
                    CcEngine::Shim => all.shim(case, host, cc, seed)?,
                    CcEngine::Object(path) => all.object(path, contents)?,
                };
                all.names.insert((host, cc.to_owned()), name);
            }
        }
        Ok(all)
    }

    fn shim(&mut self, case: &Case, host: usize, cc: &str, seed: Seed) -> Result<String, Failure> {
        let settings = &case.hosts[host];
        let mut spec = Spec::new(cc);
        spec.dctcp_ecn = settings.stack.ecn == EcnMode::Dctcp;
        spec.params = settings.cc_params(cc, seed.stream(&format!("cc.{cc}")));
        if let Some((_, shim)) = self.shims.iter().find(|(other, _)| have_equal_settings(other, &spec)) {
            return Ok(shim.name().to_owned());
        }
        spec.name = Some(format!("{}{}_{cc}", self.prefix, self.shims.len()));
        let shim = Shim::start(&spec).map_err(|e| format!("{PARAMETER} = shim, stack.cc = {cc}: {e}"))?;
        let name = shim.name().to_owned();
        self.shims.push((spec, shim));
        Ok(name)
    }

    fn object(&mut self, path: &str, contents: &BTreeMap<String, PathBuf>) -> Result<String, Failure> {
        if !self.objects.contains_key(path) {
            let content =
                contents.get(path).ok_or_else(|| format!("{PARAMETER}: {path}: it was not accepted"))?;
            let objects = Objects::load(path, content).map_err(|e| format!("{PARAMETER}: {e}"))?;
            self.objects.insert(path.to_owned(), objects);
        }
        match self.objects[path].names() {
            [name] => Ok(name.clone()),
            names => {
                Err(format!("{PARAMETER} = {path}: it has {}; allowed is one controller", names.join(", ")))
            }
        }
    }

    /// Unregisters the controllers. Returns the counters of the shims for the recording; empty without shims.
    pub fn stop(self) -> Result<BTreeMap<String, u64>, Failure> {
        let mut counters = BTreeMap::new();
        for (spec, shim) in self.shims {
            let outcome = shim.stop().map_err(|e| format!("{PARAMETER}, {}: {e}", spec.kernel_name()))?;
            add_counters(&mut counters, &counters_of(&outcome));
        }
        Ok(counters)
    }
}

/// Returns true if one shim can control the senders of both settings. The random stream and the name are not compared.
fn have_equal_settings(one: &Spec, other: &Spec) -> bool {
    let (a, b) = (&one.params, &other.params);
    one.controller == other.controller
        && one.dctcp_ecn == other.dctcp_ecn
        && (&a.values, a.byte_counting, a.hystart, a.arithmetic)
            == (&b.values, b.byte_counting, b.hystart, b.arithmetic)
}

/// Adds the counters of a shim. The latency of several shims is the largest of them.
fn add_counters(all: &mut BTreeMap<String, u64>, counters: &[(&str, u64)]) {
    for (what, n) in counters {
        let sum = all.entry((*what).to_owned()).or_insert(0);
        *sum = if what.ends_with("_us") { (*n).max(*sum) } else { *sum + n };
    }
}

/// The counters of a shim.
fn counters_of(outcome: &ShimCounts) -> [(&'static str, u64); 8] {
    let micros = |quantile| outcome.latency.value_at_quantile(quantile) / 1000;
    [
        ("connections", outcome.connections),
        ("records", outcome.records),
        ("lost", outcome.lost),
        ("decided", outcome.decided),
        ("followed", outcome.applied),
        ("clamps", outcome.clamps),
        ("latency_p50_us", micros(0.5)),
        ("latency_p99_us", micros(0.99)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_cc::ByteCounting;

    #[test]
    fn counts_of_several_shims_are_added_and_the_largest_latency_is_kept() {
        let mut all = BTreeMap::new();
        add_counters(&mut all, &[("connections", 2), ("latency_p99_us", 80)]);
        add_counters(&mut all, &[("connections", 3), ("latency_p99_us", 50)]);
        let expected = [("connections".to_owned(), 5), ("latency_p99_us".to_owned(), 80)];
        assert_eq!(all, BTreeMap::from(expected));
    }

    #[test]
    fn senders_with_equal_settings_share_a_shim_whatever_its_name_and_random_stream() {
        let reno = Spec::new("reno");
        let mut named = Spec { name: Some("run0_reno".to_owned()), ..reno.clone() };
        named.params.rng = Seed(7).stream("cc.reno");
        assert!(have_equal_settings(&reno, &named));
    }

    #[test]
    fn senders_with_different_controllers_parameters_or_ecn_have_shims_of_their_own() {
        let reno = Spec::new("reno");
        let mut counting = reno.clone();
        counting.params.byte_counting = ByteCounting::Limit(2);
        for other in [Spec::new("cubic"), Spec { dctcp_ecn: true, ..reno.clone() }, counting] {
            assert!(!have_equal_settings(&reno, &other), "{other:?}");
        }
    }
}
