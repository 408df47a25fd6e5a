//! Who decides the windows of this machine's senders: `stack.cc_engine`.
//!
//! With `shim` the controllers of `cc` do, with the parameters and the random streams that the model would give them, one registered for each
//! controller and its settings that the hosts of the case have; with an object file its BPF program does. They are registered for
//! the length of the run, and the kernel takes them back should the agent be killed.

use crate::system::Failure;
use std::collections::BTreeMap;
use std::path::Path;
use tcpassay_bpf::objects::Objects;
use tcpassay_bpf::shim::{Outcome, Shim, Spec};
use tcpassay_case::Case;
use tcpassay_case::params::Setting;
use tcpassay_cc::Params;
use tcpassay_tcp::EcnMode;
use tcpassay_units::Seed;
use tcpassay_workload::TrafficSchedule;

/// The row.
pub const ROW: &str = "stack.cc_engine";

/// Who decides at one host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CcEngine {
    /// Linux's own controller of the name.
    Kernel,
    /// The model's, through BPF.
    Shim,
    /// The one in this object file.
    Object(String),
}

impl CcEngine {
    /// Of a host of the case.
    pub fn of(case: &Case, host: usize) -> CcEngine {
        match case.host_setting(host, ROW).0 {
            Setting::Word("shim") => CcEngine::Shim,
            Setting::Text(path) => CcEngine::Object(path),
            _ => CcEngine::Kernel,
        }
    }
}

/// The kernel's name for the controller of a host, by host and `stack.cc`; those that Linux has itself are not in it.
pub type KernelCcNames = BTreeMap<(usize, String), String>;

/// What is registered for the run.
#[derive(Debug, Default)]
pub struct CcEngines {
    shims: Vec<(Spec, Shim)>,
    objects: BTreeMap<String, Objects>,
    /// What sockets ask for.
    pub names: KernelCcNames,
}

impl CcEngines {
    /// Registers what the hosts need; object files are relative to `base`.
    pub fn start(case: &Case, plan: &TrafficSchedule, base: &Path, seed: Seed) -> Result<CcEngines, Failure> {
        let mut all = CcEngines::default();
        for host in 0..case.hosts.len() {
            let own = &case.hosts[host].cc;
            let asked = plan.parts().iter().map(|part| part.cc.as_deref().unwrap_or(own));
            for cc in asked.collect::<std::collections::BTreeSet<_>>() {
                let name = match CcEngine::of(case, host) {
                    CcEngine::Kernel => continue,
                    CcEngine::Shim => all.shim(case, host, cc, seed)?,
                    CcEngine::Object(path) => all.object(&path, base)?,
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
        spec.params = Params {
            values: if cc == settings.cc { settings.cc_values.clone() } else { BTreeMap::new() },
            byte_counting: settings.stack.byte_counting,
            hystart: settings.stack.hystart,
            arithmetic: settings.stack.cc_arithmetic,
            rng: seed.stream(&format!("cc.{cc}")),
        };
        let same = |other: &Spec| {
            let (a, b) = (&other.params, &spec.params);
            other.controller == spec.controller
                && other.dctcp_ecn == spec.dctcp_ecn
                && (&a.values, a.byte_counting, a.hystart, a.arithmetic)
                    == (&b.values, b.byte_counting, b.hystart, b.arithmetic)
        };
        if let Some((_, shim)) = self.shims.iter().find(|(other, _)| same(other)) {
            return Ok(shim.name().to_owned());
        }
        spec.name = Some(format!("run{}_{cc}", self.shims.len()));
        let shim = Shim::start(&spec).map_err(|e| format!("{ROW} = shim, stack.cc = {cc}: {e}"))?;
        let name = shim.name().to_owned();
        self.shims.push((spec, shim));
        Ok(name)
    }

    fn object(&mut self, path: &str, base: &Path) -> Result<String, Failure> {
        if !self.objects.contains_key(path) {
            let objects = Objects::load(&base.join(path)).map_err(|e| format!("{ROW}: {e}"))?;
            self.objects.insert(path.to_owned(), objects);
        }
        match self.objects[path].names() {
            [name] => Ok(name.clone()),
            names => Err(format!("{ROW} = {path}: it has {}; allowed is one controller", names.join(", "))),
        }
    }

    /// Takes the names away; what the shims did, as counters of the recording. Nothing when there were none.
    pub fn stop(self) -> Result<BTreeMap<String, u64>, Failure> {
        let mut counters = BTreeMap::new();
        for (spec, shim) in self.shims {
            let outcome = shim.stop().map_err(|e| format!("{ROW}, {}: {e}", spec.kernel_name()))?;
            for (what, n) in told(&outcome) {
                let all = counters.entry(what.to_owned()).or_insert(0);
                // Latencies of several are the worst of them.
                *all = if what.ends_with("_us") { n.max(*all) } else { *all + n };
            }
        }
        Ok(counters)
    }
}

fn told(outcome: &Outcome) -> [(&'static str, u64); 8] {
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
