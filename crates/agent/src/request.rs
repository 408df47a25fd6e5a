//! The requests to the agent and its answers, as JSON.

use crate::environment::Environment;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tcpassay_case::params::Value;
use tcpassay_case::{Case, CaseError, read_file};
use tcpassay_measure::reason::RunEnd;
use tcpassay_measure::{CollectOptions, metrics};
use tcpassay_messages::{CaseProblem, Collect, RemoteCase};
use tcpassay_units::{Dur, UnitError};

/// A case to run: the fields of the model's `run_case`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The case.
    pub triples: BTreeMap<String, Value>,
    /// The seed of the run.
    #[serde(default)]
    pub seed: u64,
    /// The folder of the files to which settings refer.
    pub base: PathBuf,
    /// The data to collect.
    #[serde(default)]
    pub collect: CollectRequest,
    /// The longest time that a run in real time waits until few processors are busy, in seconds.
    #[serde(default)]
    patience_s: f64,
    /// Set to measure the traffic generators: two hosts are joined by a veth pair only, and the path is not measured.
    #[serde(default, rename = "bare")]
    pub benchmark: Option<GeneratorBenchmark>,
    /// For tests of the probes: commands that change the path after it was built, as namespace, tool (`ip`, `tc`) and command line.
    #[serde(default)]
    pub tamper: Vec<(String, String, String)>,
    /// Files with the content of the object files of `stack.cc_engine`, by the name in the case. Others are not loaded.
    #[serde(default)]
    pub objects: BTreeMap<String, PathBuf>,
    /// The folder of the recording, which must not exist.
    #[serde(default)]
    pub folder: PathBuf,
    /// The contents of files to which settings refer, by name: those of a testbed are not on its hosts.
    #[serde(skip)]
    files: BTreeMap<String, String>,
}

/// Settings for the measurement of the traffic generators.
#[derive(Deserialize, Clone, Copy, Default)]
#[serde(default, deny_unknown_fields)]
pub struct GeneratorBenchmark {
    /// Bulk receivers copy the data that they read, instead of discarding them in the kernel.
    pub copy: bool,
}

/// The data to collect. Durations are texts, as in a plan.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each a key of a plan")]
pub struct CollectRequest {
    series: Option<String>,
    warmup: Option<String>,
    deliveries: bool,
    events: bool,
    packets: bool,
    /// Taps capture packets. Without taps the recording contains only what sockets, queues and trace events report.
    taps: bool,
}

impl Default for CollectRequest {
    fn default() -> CollectRequest {
        CollectRequest {
            series: None,
            warmup: None,
            deliveries: false,
            events: false,
            packets: false,
            taps: true,
        }
    }
}

/// The result of a check of a case.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckResult {
    /// The substrate can run the case. The settings that differ from the defaults, as texts.
    Said(BTreeMap<String, String>),
    /// The problems of the case.
    Errors(Vec<CaseProblem>),
}

/// The result of a case.
#[derive(Serialize, Default)]
pub struct CaseAnswer {
    /// The reason for the end of the run.
    pub ended: RunEnd,
    /// The error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The problems of a refused case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<CaseProblem>,
    /// A digest of all packets at the taps. Two runs with the same packets have the same digest, whatever they collect. Empty without taps.
    pub trace: String,
    /// The metrics of the recording.
    pub metrics: Option<metrics::Metrics>,
}

impl CaseAnswer {
    /// The answer for an error.
    pub fn failed(message: impl Into<String>) -> CaseAnswer {
        CaseAnswer { ended: RunEnd::Failed, message: message.into(), ..CaseAnswer::default() }
    }
}

impl CollectRequest {
    /// The typed options.
    ///
    /// # Errors
    /// A text that is not a duration.
    pub fn read(&self) -> Result<(CollectOptions, metrics::MetricOptions), UnitError> {
        let warmup = self.warmup.as_ref().map(|t| t.parse()).transpose()?.unwrap_or(Dur::ZERO);
        let collect = CollectOptions {
            series: self.series.as_ref().map(|t| t.parse()).transpose()?,
            latency: true,
            deliveries: self.deliveries,
            events: self.events,
            packets: self.packets,
            warmup,
            unseen: !self.taps,
        };
        Ok((collect, metrics::MetricOptions { warmup }))
    }
}

impl Request {
    /// The longest time to wait until few processors are busy.
    pub fn max_wait_for_quiet(&self) -> std::time::Duration {
        std::time::Duration::try_from_secs_f64(self.patience_s).unwrap_or_default()
    }

    /// The case, or its problems on this substrate.
    pub fn case(&self, environment: &Environment) -> Result<Case, Vec<CaseProblem>> {
        case(&self.triples, (&self.base, &self.files), environment)
            .map_err(|errors| errors.into_iter().map(problem).collect())
    }

    /// Checks whether this substrate can run the case.
    pub fn check(&self, environment: &Environment) -> CheckResult {
        match self.case(environment) {
            Ok(case) => {
                CheckResult::Said(case.to_triples().into_iter().map(|(k, v)| (k, v.to_string())).collect())
            }
            Err(errors) => CheckResult::Errors(errors),
        }
    }
}

fn case(
    triples: &BTreeMap<String, Value>,
    (base, files): (&Path, &BTreeMap<String, String>),
    environment: &Environment,
) -> Result<Case, Vec<CaseError>> {
    let read =
        |name: &str| files.get(name).map_or_else(|| read_file(&base.join(name)), |text| Ok(text.clone()));
    let mut case = Case::on(environment.substrate, triples, &read)?;
    case.adopt(&crate::system::release());
    let unsupported = crate::unsupported::unsupported(&case, environment);
    if unsupported.is_empty() { Ok(case) } else { Err(unsupported) }
}

/// The form of a problem in answers and messages.
pub fn problem(e: CaseError) -> CaseProblem {
    CaseProblem { path: e.path, other: e.other, value: e.value.map(|v| v.to_string()), why: e.why }
}

/// The case of a testbed. Its files are in the message, and nothing in it changes the path for tests.
impl From<RemoteCase> for Request {
    fn from(case: RemoteCase) -> Request {
        let RemoteCase { triples, seed, files, collect, patience_s } = case;
        Request {
            triples,
            seed,
            base: PathBuf::from("/nonexistent"),
            collect: collect.into(),
            patience_s,
            benchmark: None,
            tamper: Vec::new(),
            objects: BTreeMap::new(),
            folder: PathBuf::new(),
            files,
        }
    }
}

impl From<Collect> for CollectRequest {
    fn from(collect: Collect) -> CollectRequest {
        let Collect { series, warmup, deliveries, events, packets, taps } = collect;
        CollectRequest { series, warmup, deliveries, events, packets, taps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(rows: &[(&str, &str)]) -> Vec<String> {
        wrong_on(&Environment::guest(), rows)
    }

    fn wrong_on(environment: &Environment, rows: &[(&str, &str)]) -> Vec<String> {
        let triples = rows.iter().map(|(p, v)| ((*p).to_owned(), Value::from(*v))).collect();
        match case(&triples, (Path::new("."), &BTreeMap::new()), environment) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn an_unsupported_setting_is_refused_with_the_substrates_that_support_it() {
        for (rows, words) in [
            (
                &[("topology", "racks:16x16"), ("rack.hosts", "16")][..],
                "it has 512 hosts; a guest has at most 128",
            ),
            (&[("nic.ring", "512")], "substrates that do are model"),
            (&[("stack.cc", "bbr3")], "the model supports it"),
            (&[("stack.profile", "freebsd")], "a kernel supports only `linux`, which"),
            (&[("queue.kind", "dualpi2")], "the model supports it"),
            (&[("stack.delayed_ack", "2,40ms")], "Linux delays ACKs by its own rule"),
            (&[("stack.cc", "dctcp"), ("stack.ecn", "dctcp"), ("stack.cc.g", "0.1")], "powers of two"),
            (&[("stack.cc", "reno"), ("stack.hystart", "linux")], "Linux has it only in cubic"),
            (&[("stack.cc", "cubic"), ("stack.hystart", "hystart++")], "a different HyStart"),
            (&[("stack.cc", "bbr"), ("stack.pacing", "off")], "bbr always paces"),
            (&[("stack.fin_wait2", "1500ms")], "whole seconds"),
            (&[("stack.cc", "vegas"), ("receiver/stack.cc.alpha", "3")], "one set of parameters"),
            (&[("stack.cc.beta", "0.7")], "no such parameter"),
            (&[("stack.cc_engine", "shim")], "substrates that do are host"),
            (
                &[("topology", "dumbbell:1"), ("stack.ecn", "classic"), ("queue.ecn_mark", "ack")],
                "returning ACKs are marked in topology = pair only",
            ),
        ] {
            let errors = wrong(rows);
            assert!(errors.len() == 1 && errors[0].contains(words), "{rows:?}: {errors:?}");
        }
    }

    #[test]
    fn a_host_without_netem_refuses_only_settings_that_need_it_and_gives_the_reason() {
        let bare = Environment::without(&["netem", "red", "codel"]);
        for (rows, words) in [
            (
                &[][..],
                "`link.delay` = `50us`: the substrate `host` does not support this: this kernel has no netem",
            ),
            (
                &[("link.delay", "0s"), ("link.loss", "1%")],
                "`link.loss` = `0.01`: the substrate `host` does not",
            ),
            (&[("link.delay", "0s"), ("queue.kind", "codel")], "this kernel has no `codel`"),
            (
                &[("link.delay", "0s"), ("stack.ecn", "classic"), ("queue.ecn_mark", "data")],
                "this kernel has no `red`, and no BPF",
            ),
        ] {
            let errors = wrong_on(&bare, rows);
            assert!(errors.len() == 1 && errors[0].contains(words), "{rows:?}: {errors:?}");
        }
        let htb = [("link.delay", "0s"), ("queue.kind", "htb"), ("queue.rate", "500Mbit")];
        assert_eq!(wrong_on(&bare, &htb), Vec::<String>::new());
        assert_eq!(wrong_on(&Environment::without(&[]), &[("link.loss", "1%")]), Vec::<String>::new());
    }

    #[test]
    fn a_controller_that_only_linux_has_is_accepted() {
        assert_eq!(wrong(&[("stack.cc", "bbr"), ("app.blocking", "on")]), Vec::<String>::new());
    }

    #[test]
    fn settings_that_linux_has_are_accepted() {
        for rows in [
            &[("stack.cc", "cubic"), ("stack.cc.beta", "0.8"), ("stack.hystart", "off")][..],
            &[("stack.cc", "vegas"), ("stack.cc.alpha", "3"), ("stack.cc.gamma", "2")],
            &[("stack.delayed_ack", "off"), ("stack.pacing", "150%,110%"), ("stack.tso_autosize", "rate")],
            &[("stack.max_sndbuf", "1MB"), ("stack.fin_wait2", "5s"), ("link.policer", "500Mbit,100KB")],
            &[("app.background", "udp:10Mbit")],
        ] {
            assert_eq!(wrong(rows), Vec::<String>::new(), "{rows:?}");
        }
    }
}
