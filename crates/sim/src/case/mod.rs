//! A case: triples, checked one by one and together, as typed settings of every entity.
//!
//! [`Case::from_triples`] reports every error at once, each with its path, so that a plan file's line can be shown.
//! A case that is made is complete and consistent; nothing later in a run refuses it.

mod given;
mod idle;
mod rules;
mod settings;

pub use idle::{IdlePath, completion};
pub use settings::{
    Adaptive, HostSettings, Jitter, LinkSettings, Mark, NicSettings, QueueSettings, SmallQueues,
};

use crate::element::Pace;
use crate::params::grammar::{Buffers, LinkRate};
use crate::params::{Setting, Substrate, Value};
use crate::topology::{Net, Routes, Shape};
use given::{Given, Scope};
use std::collections::BTreeMap;
use std::fmt;
use tcpassay_units::{Bytes, Dur, Rate, Seed};
use tcpassay_workload::{Background, HostId, Pair, Part, Plan, Spec};

/// What is wrong with a case, in one sentence: the parameter, the value, and what is allowed.
#[derive(Clone, PartialEq, Debug)]
pub struct CaseError {
    /// The path as it was given, with its address.
    pub path: String,
    /// A second path that the first contradicts, when there is one.
    pub other: Option<String>,
    /// The value; `None` when the path itself is wrong.
    pub value: Option<Value>,
    /// What is wrong, and what is allowed.
    pub why: String,
}

impl CaseError {
    fn new(path: &str, value: Option<&Value>, why: impl Into<String>) -> CaseError {
        CaseError { path: path.to_owned(), other: None, value: value.cloned(), why: why.into() }
    }

    /// A contradiction between two settings.
    fn between(a: (&str, &Setting), b: (&str, &Setting), why: impl Into<String>) -> CaseError {
        CaseError {
            path: a.0.to_owned(),
            other: Some(b.0.to_owned()),
            value: Some(Value::Text(a.1.to_string())),
            why: format!("with `{}` = `{}`: {}", b.0, b.1, why.into()),
        }
    }
}

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "`{}` = `{value}`: {}", self.path, self.why),
            None => write!(f, "`{}`: {}", self.path, self.why),
        }
    }
}

impl std::error::Error for CaseError {}

/// A complete and consistent case.
#[derive(Clone, Debug)]
pub struct Case {
    given: Given,
    /// Who is joined to whom.
    pub net: Net,
    /// Shortest paths.
    pub routes: Routes,
    /// In the order of [`Net::hosts`].
    pub hosts: Vec<HostSettings>,
    /// In the order of [`Net::links`].
    pub links: Vec<LinkSettings>,
    /// `switch.buffers`.
    pub buffers: Buffers,
    /// `app.*` of each distinct set of flow groups: what they do and between whom.
    pub apps: Vec<(Spec, Vec<Pair>)>,
    /// `app.background`.
    pub background: Background,
    /// When the run ends at the latest.
    pub end: Dur,
    /// Traces of `link.rate = trace:<file>`, by file name.
    pub traces: BTreeMap<String, Pace>,
}

/// Text of a file that a case names.
pub type ReadFile<'a> = &'a dyn Fn(&str) -> std::io::Result<String>;

/// Bytes that a file that a case names may have.
const LARGEST_FILE: u64 = 64 << 20;

/// Text of a regular file of at most 64 MiB: reading a pipe or a device might never end.
///
/// # Errors
/// What the system says, and `InvalidInput` for what is not such a file.
pub fn read_file(path: &std::path::Path) -> std::io::Result<String> {
    let about = std::fs::metadata(path)?;
    let wrong = |why: &str| Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
    if !about.is_file() {
        return wrong("it is not a regular file");
    }
    if about.len() > LARGEST_FILE {
        return wrong("it has more than 64 MiB");
    }
    std::fs::read_to_string(path)
}

impl Case {
    /// Reads and checks triples. Files that values name are read from the working directory.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the paths.
    pub fn from_triples(triples: &BTreeMap<String, Value>) -> Result<Case, Vec<CaseError>> {
        Case::with_files(triples, &|name| read_file(name.as_ref()))
    }

    /// As [`Case::from_triples`], with files read by `read`.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the paths.
    pub fn with_files(triples: &BTreeMap<String, Value>, read: ReadFile) -> Result<Case, Vec<CaseError>> {
        Case::on(Substrate::Model, triples, read)
    }

    /// As [`Case::with_files`], for a substrate: rows that it cannot honour are errors. On a kernel a row at `profile` is
    /// what the kernel does by itself.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the paths.
    pub fn on(
        substrate: Substrate,
        triples: &BTreeMap<String, Value>,
        read: ReadFile,
    ) -> Result<Case, Vec<CaseError>> {
        let mut errors = Vec::new();
        let given = Given::parse(substrate, triples, &mut errors);
        let whole = given.whole();
        let shape: Shape = whole.read("topology");
        let net = match Net::of(&shape, whole.int("rack.hosts"), read) {
            Ok(net) => net,
            Err(why) => {
                errors.push(CaseError::new(
                    "topology",
                    Some(&Value::Text(whole.get("topology").to_string())),
                    why,
                ));
                return Err(errors);
            }
        };
        given.check_addresses(&net.addresses(), &mut errors);
        let routes = Routes::of(&net);
        let mut case = Case {
            hosts: (0..net.hosts.len())
                .map(|i| HostSettings::of(&given.scope(&net.host_addresses(i), true)))
                .collect(),
            links: Vec::new(),
            buffers: whole.read("switch.buffers"),
            apps: Vec::new(),
            background: Background::read(&whole.get("app.background").to_string())
                .expect("the table checked it"),
            end: Dur::ZERO,
            traces: BTreeMap::new(),
            routes,
            net,
            given,
        };
        case.links = (0..case.net.links.len()).map(|i| case.link_settings(i, &mut errors)).collect();
        case.read_apps(read, &mut errors);
        case.read_traces(read, &mut errors);
        rules::check(&case, &mut errors);
        if errors.is_empty() {
            Ok(case)
        } else {
            errors.sort_by(|a, b| (&a.path, &a.why).cmp(&(&b.path, &b.why)));
            errors.dedup();
            Err(errors)
        }
    }

    /// The triples that are not at their default: the shortest case that does the same.
    pub fn to_triples(&self) -> BTreeMap<String, Value> {
        self.given.to_triples()
    }

    /// The setting of `path` at host `i`, and where it was said: a row at its default has the plain path.
    pub fn host_setting(&self, i: usize, path: &str) -> (Setting, String) {
        self.host_scope(&self.net.host_addresses(i)).find(path)
    }

    /// The setting of `path` at link `i`, and where it was said.
    pub fn link_setting(&self, i: usize, path: &str) -> (Setting, String) {
        self.given.scope(&self.net.link_addresses(i), self.net.links[i].main).find(path)
    }

    /// The setting of a row that holds for the whole network.
    pub fn setting(&self, path: &str) -> Setting {
        self.given.whole().get(path)
    }

    /// Whether the queue of `link` stands in the sending host, above its NIC: `queue.place`.
    pub fn stands_at_sender(&self, link: usize) -> bool {
        let queue = &self.links[link].queue;
        match queue.place {
            "sender" => true,
            "link" => false,
            _ => matches!(self.net.shape, Shape::Pair) && matches!(queue.kind, "htb" | "tbf"),
        }
    }

    fn host_scope<'a>(&'a self, addresses: &'a [&'a str]) -> Scope<'a> {
        self.given.scope(addresses, true)
    }

    fn link_settings(&self, i: usize, errors: &mut Vec<CaseError>) -> LinkSettings {
        let link = &self.net.links[i];
        let names = self.net.link_addresses(i);
        let scope = self.given.scope(&names, link.main);
        let mut settings = LinkSettings::of(&scope);
        let addressed = |path: &str| scope.place(path).contains('/');
        if !link.main && !addressed("link.delay") {
            settings.delay = Dur::ZERO;
        }
        if link.group == "uplink" && !addressed("link.rate") {
            settings.rate = self.uplink_rate(i);
        }
        if link.group == "access" && !link.main && !addressed("link.rate") {
            settings.rate = self.access_rate();
        }
        let file = |what: &str, text: &str, why: String, errors: &mut Vec<CaseError>| {
            errors.push(CaseError::new(
                "topology",
                None,
                format!("link `{}`: {what} = `{text}`: {why}", link.name),
            ));
        };
        if let Some(text) = link.rate.as_ref().filter(|_| !addressed("link.rate")) {
            match text.parse() {
                Ok(rate) => settings.rate = LinkRate::Fixed(rate),
                Err(why) => file("rate", text, format!("{why}"), errors),
            }
        }
        if let Some(text) = link.delay.as_ref().filter(|_| !addressed("link.delay")) {
            match text.parse() {
                Ok(delay) => settings.delay = delay,
                Err(why) => file("delay", text, format!("{why}"), errors),
            }
        }
        settings
    }

    /// `rack.uplink`, or the sum of the rack's host links.
    fn uplink_rate(&self, i: usize) -> LinkRate {
        if let Some(rate) = self.given.whole().maybe_rate("rack.uplink") {
            return LinkRate::Fixed(rate);
        }
        let racks = [self.net.links[i].from, self.net.links[i].to];
        let mut sum = 0;
        for (j, link) in self.net.links.iter().enumerate() {
            if link.group == "access" && (racks.contains(&link.from) || racks.contains(&link.to)) {
                let scope_names = self.net.link_addresses(j);
                if let LinkRate::Fixed(rate) = self.given.scope(&scope_names, true).read("link.rate") {
                    sum += rate.bits_per_sec();
                }
            }
        }
        LinkRate::Fixed(Rate::from_bits_per_sec(sum.max(1)))
    }

    /// Access links of a star are as fast as the bottleneck, those of a dumbbell ten times as fast.
    fn access_rate(&self) -> LinkRate {
        let bottleneck = self.given.scope(&["bottleneck"], true).read("link.rate");
        match bottleneck {
            LinkRate::Fixed(rate) if matches!(self.net.shape, Shape::Dumbbell(_)) => {
                LinkRate::Fixed(Rate::from_bits_per_sec(rate.bits_per_sec().saturating_mul(10)))
            }
            LinkRate::Fixed(rate) => LinkRate::Fixed(rate),
            // A variable bottleneck is somewhere below this.
            LinkRate::Trace(_) => LinkRate::Fixed(Rate::from_gbit(10)),
        }
    }

    /// Groups the senders by what their applications do.
    fn read_apps(&mut self, read: ReadFile, errors: &mut Vec<CaseError>) {
        let file = |name: &str| read(name).map_err(|why| format!("cannot read `{name}`: {why}"));
        let mut apps: Vec<(Spec, Vec<Pair>)> = Vec::new();
        let mut end = Dur::ZERO;
        for &(sender, receiver) in &self.net.flows {
            let names = self.net.host_addresses(sender);
            let scope = self.host_scope(&names);
            let values: Vec<(&str, Setting, String)> = SPEC_ROWS
                .iter()
                .map(|path| {
                    let (setting, place) = scope.find(path);
                    (*path, setting, place)
                })
                .filter(|(path, setting, _)| *path != "app.mix" || *setting != Setting::Word("none"))
                .collect();
            let texts: Vec<(&str, String)> =
                values.iter().map(|(path, s, _)| (*path, s.to_string())).collect();
            let mut spec = match Spec::read(texts.iter().map(|(path, text)| (*path, text.as_str())), &file) {
                Ok(spec) => spec,
                Err(bad) => {
                    let place = values.iter().find(|(path, _, _)| *path == bad.path);
                    let place = place.map_or(bad.path.clone(), |(_, _, place)| place.clone());
                    let why = format!("{}; allowed: {}", bad.why, bad.allowed);
                    errors.push(CaseError::new(&place, Some(&Value::Text(bad.value)), why));
                    continue;
                }
            };
            // The run's end bounds what is offered; nothing stops before it.
            end = end.max(spec.start.saturating_add(spec.duration.unwrap_or(Dur::ZERO)));
            spec.duration = None;
            for member in &mut spec.mix {
                member.duration = None;
            }
            let index = |i: usize| HostId(u32::try_from(i).expect("fewer than 2^32 hosts"));
            let pair = Pair { sender: index(sender), receiver: index(receiver) };
            match apps.iter_mut().find(|(known, _)| *known == spec) {
                Some((_, pairs)) => pairs.push(pair),
                None => apps.push((spec, vec![pair])),
            }
        }
        self.apps = apps;
        self.end = end;
    }

    /// Traces of `link.rate`.
    fn read_traces(&mut self, read: ReadFile, errors: &mut Vec<CaseError>) {
        for (i, link) in self.links.iter().enumerate() {
            let LinkRate::Trace(name) = &link.rate else { continue };
            let names = self.net.link_addresses(i);
            let place = self.given.scope(&names, true).place("link.rate");
            let wrong =
                |why: String| CaseError::new(&place, Some(&Value::Text(format!("trace:{name}"))), why);
            let text = match read(name) {
                Ok(text) => text,
                Err(why) => {
                    errors.push(wrong(format!("cannot read `{name}`: {why}")));
                    continue;
                }
            };
            match Pace::from_trace(&text) {
                Ok(trace) => drop(self.traces.insert(name.clone(), trace)),
                Err(why) => errors.push(wrong(format!("{name}: {why}"))),
            }
        }
    }

    /// Round-trip time of an idle path: delays both ways, and a packet of `size` there and an ACK back at every link's rate.
    pub fn base_rtt(&self, from: usize, to: usize, size: Bytes) -> Dur {
        crate::build::base_rtt(self, from, to, size)
    }

    /// The slowest link of a path, for background load and checks; a trace counts with its mean.
    pub fn bottleneck_rate(&self, sender: usize, receiver: usize) -> Option<Rate> {
        let path = self.routes.path(&self.net, sender, receiver)?;
        path.iter().map(|port| self.link_rate(port.link)).min()
    }

    /// The rate of a link: a shaper before it counts; a trace counts with its mean.
    pub fn link_rate(&self, link: usize) -> Rate {
        let settings = &self.links[link];
        let wire = match &settings.rate {
            LinkRate::Fixed(rate) => *rate,
            LinkRate::Trace(name) => self.traces.get(name).map_or(Rate::from_bits_per_sec(1), mean_rate),
        };
        match settings.queue.rate {
            Some(rate) if matches!(settings.queue.kind, "htb" | "tbf") => wire.min(rate),
            _ => wire,
        }
    }

    /// The applications of the whole network.
    pub fn plan(&self, seed: Seed) -> Plan {
        let mut plan: Option<Plan> = None;
        for (spec, pairs) in &self.apps {
            let part = Plan::new(spec, pairs, seed);
            match &mut plan {
                None => plan = Some(part),
                Some(plan) => part.parts().iter().for_each(|p: &Part| plan.push(p.clone())),
            }
        }
        let mut plan = plan.expect("a topology has flows");
        let all: Vec<Pair> = self.apps.iter().flat_map(|(_, pairs)| pairs.iter().copied()).collect();
        let (s, r) = self.net.flows[0];
        let capacity = self.bottleneck_rate(s, r).expect("checked: flows have paths");
        if let Some(part) = self.background.part(&all, capacity) {
            plan.push(part);
        }
        plan
    }
}

/// What passes in a whole cycle of a trace, over its length.
fn mean_rate(pace: &Pace) -> Rate {
    match pace {
        Pace::Unlimited => Rate::from_bits_per_sec(u64::MAX),
        Pace::Fixed(rate) => *rate,
        Pace::Opportunities(at) => {
            let packets = u64::try_from(at.len()).expect("a file's lines");
            Rate::from_bytes_per(Bytes::new(1500 * packets), *at.last().expect("not empty"))
        }
        Pace::Steps(steps, cycle) => {
            let ends = steps.iter().skip(1).map(|s| s.0).chain([*cycle]);
            // Before the first instant the last rate holds.
            let before = steps.first().map_or(Dur::ZERO, |s| s.0);
            let wrap = steps.last().and_then(|s| s.1).map_or(Bytes::ZERO, |r| r.bytes_in(before));
            let within: Bytes = steps
                .iter()
                .zip(ends)
                .filter_map(|((from, rate), to)| Some(rate.as_ref()?.bytes_in(to.saturating_sub(*from))))
                .sum();
            Rate::from_bytes_per(wrap + within, *cycle)
        }
    }
}

/// The rows that the workload crate reads.
const SPEC_ROWS: [&str; 18] = [
    "app.workload",
    "app.mix",
    "app.flows",
    "app.flow_size",
    "app.arrival",
    "app.start",
    "app.duration",
    "app.request",
    "app.response",
    "app.concurrency",
    "app.reuse",
    "app.think",
    "app.rate",
    "app.burst",
    "app.gap",
    "app.write_size",
    "app.read_size",
    "app.read_rate",
];

#[cfg(test)]
mod tests;
