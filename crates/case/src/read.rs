//! Conversion of triples to a [`Case`]: parses values, adds defaults, and checks everything.

use crate::case::Case;
use crate::error::CaseError;
use crate::files::{ReadFile, read_file};
use crate::given::{GivenTriples, split};
use crate::pace::Pace;
use crate::params::grammar::{LinkRate, STEPS, trace_of_steps};
use crate::params::{LinkSettings, Setting, SmallQueues, Substrate, Value, table};
use crate::topology::{Net, RackCounts, Routes, Shape};
use crate::{python_files, rules, settings};
use std::collections::BTreeMap;
use tcpassay_tcp::Profile;
use tcpassay_units::{Dur, Rate};
use tcpassay_workload::{HostIndex, HostPair, WorkloadSpec};

impl Case {
    /// Parses and checks triples. Files to which values refer are read from the working directory.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the paths.
    pub fn from_triples(triples: &BTreeMap<String, Value>) -> Result<Case, Vec<CaseError>> {
        Case::with_files(triples, &|name| read_file(name.as_ref()))
    }

    /// Like [`Case::from_triples`], with files read by `read`.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the paths.
    pub fn with_files(triples: &BTreeMap<String, Value>, read: ReadFile) -> Result<Case, Vec<CaseError>> {
        Case::on(Substrate::Model, triples, read)
    }

    /// The kernels of the hosts are of this release, as in `7.3.4-tcpassay`: their profile is that of its version where the case has `linux`, the
    /// profile of every kernel, as far as buffers are concerned.
    pub fn adopt(&mut self, release: &str) {
        if let Some(own) = Profile::of_release(release) {
            self.hosts.iter_mut().for_each(|host| host.adopt(own));
        }
    }

    /// Like [`Case::with_files`], for a substrate. A row that the substrate does not support is an error. On
    /// a kernel, `profile` means the default behaviour of the kernel.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the paths.
    pub fn on(
        substrate: Substrate,
        triples: &BTreeMap<String, Value>,
        read: ReadFile,
    ) -> Result<Case, Vec<CaseError>> {
        let mut errors = Vec::new();
        let mut given = GivenTriples::parse(substrate, triples, &mut errors);
        let python = python_files::read(&mut given, read, &mut errors);
        let network = settings::network(&given.whole());
        let racks = RackCounts { hosts: network.rack_hosts, fanout: network.rack_fanout };
        let net = match Net::of(&network.shape, racks, read) {
            Ok(net) => net,
            Err(why) => {
                let topology = given.whole().find("topology").0;
                errors.push(CaseError::new("topology", Some(&Value::Text(topology.to_string())), why));
                return Err(errors);
            }
        };
        given.check_addresses(&net.addresses(), &mut errors);
        let routes = Routes::of(&net);
        let mut case = Case {
            hosts: (0..net.hosts.len())
                .map(|i| settings::host(&given.scope(&net.host_addresses(i), true), &python))
                .collect(),
            links: Vec::new(),
            apps: Vec::new(),
            network,
            end: Dur::ZERO,
            traces: BTreeMap::new(),
            routes,
            net,
            given,
        };
        case.links = (0..case.net.links.len()).map(|i| case.link_settings(i, &mut errors)).collect();
        case.settle_small_queues();
        // Rules between several settings are not checked if one of them could not be parsed, because it has
        // its default then and the message would be wrong.
        if !errors.iter().any(|error| split(&error.path).1.starts_with("app.")) {
            case.read_apps(read, &mut errors);
        }
        case.read_traces(read, &mut errors);
        if errors.is_empty() {
            rules::check(&case, &mut errors);
        }
        if errors.is_empty() {
            Ok(case)
        } else {
            errors.sort_by(|a, b| (&a.path, &a.why).cmp(&(&b.path, &b.why)));
            errors.dedup();
            Err(errors)
        }
    }

    /// The profile `linux` limits what waits for the line of a host, or for late completions of its NIC.
    fn settle_small_queues(&mut self) {
        for i in 0..self.hosts.len() {
            let host = &self.hosts[i];
            if host.small_queues == SmallQueues::Profile {
                let limited = host.stack.skbs.is_some();
                self.hosts[i].small_queues = match self.line_rate(i) {
                    _ if limited && !host.nic.tx_delay.is_zero() => SmallQueues::Auto,
                    Some(_) if limited => SmallQueues::Line,
                    _ => SmallQueues::Off,
                };
            }
        }
    }

    fn link_settings(&self, i: usize, errors: &mut Vec<CaseError>) -> LinkSettings {
        let link = &self.net.links[i];
        let names = self.net.link_addresses(i);
        let scope = self.given.scope(&names, link.main);
        let mut settings = settings::link(&scope);
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
        if let Some(back) = &link.back {
            // A direction with a line of its own has the rate and the delay of a link, not those of the other direction.
            let plain = (settings.rate.clone(), settings.delay);
            settings.back_rate.get_or_insert(plain.0);
            settings.back_delay.get_or_insert(plain.1);
            if let Some(text) = back.rate.as_ref().filter(|_| !addressed("link.back_rate")) {
                match text.parse() {
                    Ok(rate) => settings.back_rate = Some(LinkRate::Fixed(rate)),
                    Err(why) => file("rate of the reverse direction", text, format!("{why}"), errors),
                }
            }
            if let Some(text) = back.delay.as_ref().filter(|_| !addressed("link.back_delay")) {
                match text.parse() {
                    Ok(delay) => settings.back_delay = Some(delay),
                    Err(why) => file("delay of the reverse direction", text, format!("{why}"), errors),
                }
            }
        }
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
        if let Some(rate) = self.network.rack_uplink {
            return LinkRate::Fixed(rate);
        }
        let racks = [self.net.links[i].from, self.net.links[i].to];
        let mut sum = 0;
        for (j, link) in self.net.links.iter().enumerate() {
            if link.group == "access" && (racks.contains(&link.from) || racks.contains(&link.to)) {
                let scope_names = self.net.link_addresses(j);
                if let LinkRate::Fixed(rate) = settings::link(&self.given.scope(&scope_names, true)).rate {
                    sum += rate.bits_per_sec();
                }
            }
        }
        LinkRate::Fixed(Rate::from_bits_per_sec(sum.max(1)))
    }

    /// Access links of a star are as fast as the bottleneck, those of a dumbbell ten times as fast.
    fn access_rate(&self) -> LinkRate {
        let bottleneck = settings::link(&self.given.scope(&["bottleneck"], true)).rate;
        match bottleneck {
            LinkRate::Fixed(rate) if matches!(self.net.shape, Shape::Dumbbell(_)) => {
                LinkRate::Fixed(Rate::from_bits_per_sec(rate.bits_per_sec().saturating_mul(10)))
            }
            LinkRate::Fixed(rate) => LinkRate::Fixed(rate),
            // The rate of a trace is assumed to be below this rate.
            LinkRate::Trace(_) => LinkRate::Fixed(Rate::from_gbit(10)),
        }
    }

    /// Groups the senders by their workload.
    fn read_apps(&mut self, read: ReadFile, errors: &mut Vec<CaseError>) {
        let file = |name: &str| read(name).map_err(|why| format!("cannot read `{name}`: {why}"));
        let mut apps: Vec<(WorkloadSpec, Vec<HostPair>)> = Vec::new();
        let mut end = Dur::ZERO;
        for &(sender, receiver) in &self.net.flows {
            let names = self.net.host_addresses(sender);
            let scope = self.host_scope(&names);
            let values: Vec<(&str, Setting, String)> = table::WORKLOAD
                .iter()
                .map(|row| {
                    let (setting, place) = scope.find(row.path);
                    (row.path, setting, place)
                })
                .filter(|(path, setting, _)| *path != "app.mix" || *setting != Setting::Word("none"))
                .collect();
            let texts: Vec<(&str, String)> =
                values.iter().map(|(path, s, _)| (*path, s.to_string())).collect();
            let mut spec =
                match WorkloadSpec::read(texts.iter().map(|(path, text)| (*path, text.as_str())), &file) {
                    Ok(spec) => spec,
                    Err(bad) => {
                        let place = values.iter().find(|(path, _, _)| *path == bad.path);
                        let place = place.map_or(bad.path.clone(), |(_, _, place)| place.clone());
                        let why = format!("{}; allowed: {}", bad.why, bad.allowed);
                        errors.push(CaseError::new(&place, Some(&Value::Text(bad.value)), why));
                        continue;
                    }
                };
            // The traffic has no end of its own, so the run ends after its duration.
            end = end.max(spec.start.saturating_add(spec.duration.unwrap_or(Dur::ZERO)));
            spec.duration = None;
            for member in &mut spec.mix {
                member.duration = None;
            }
            let index = |i: usize| HostIndex(u32::try_from(i).expect("fewer than 2^32 hosts"));
            let pair = HostPair { sender: index(sender), receiver: index(receiver) };
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
        let rates = self.links.iter().enumerate().flat_map(|(i, link)| {
            [
                Some((i, "link.rate", &link.rate)),
                link.back_rate.as_ref().map(|rate| (i, "link.back_rate", rate)),
            ]
        });
        for (i, path, rate) in rates.flatten() {
            let LinkRate::Trace(name) = rate else { continue };
            if self.traces.contains_key(name) {
                continue; // of another link
            }
            let names = self.net.link_addresses(i);
            let place = self.given.scope(&names, true).place(path);
            let wrong =
                |why: String| CaseError::new(&place, Some(&Value::Text(format!("trace:{name}"))), why);
            let text = match name.strip_prefix(STEPS).map_or_else(|| read(name), |s| Ok(trace_of_steps(s))) {
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
}
