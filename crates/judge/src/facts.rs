//! What the case says of each host and path.

use std::collections::BTreeMap;
use tcpassay_case::params::{Substrate, Value};
use tcpassay_case::{Case, HostSettings};
use tcpassay_measure::Recording;
use tcpassay_units::Dur;

/// Settings of the hosts of a recording, by their places.
#[derive(Debug)]
pub(crate) struct Facts {
    case: Case,
    model: bool,
}

impl Facts {
    /// The case of a recording; `None` when its header does not hold a complete case (a case that names files, or a script).
    pub fn of(recording: &Recording) -> Option<Facts> {
        let header = &recording.header;
        let substrate = match header.substrate.as_str() {
            "kernel" => Substrate::Kernel,
            "host" => Substrate::Host,
            _ => Substrate::Model,
        };
        let triples: BTreeMap<String, Value> = header
            .case
            .iter()
            .map(|triple| {
                let path = if triple.entity.is_empty() {
                    triple.parameter.clone()
                } else {
                    format!("{}/{}", triple.entity, triple.parameter)
                };
                (path, Value::Text(triple.value.clone()))
            })
            .collect();
        let no_file = |name: &str| Err(std::io::Error::other(format!("{name} is not read again")));
        let case = Case::on(substrate, &triples, &no_file).ok()?;
        (case.hosts.len() == recording.hosts.len())
            .then_some(Facts { case, model: substrate == Substrate::Model })
    }

    /// The settings of host `host`.
    pub fn host(&self, host: u32) -> Option<&HostSettings> {
        self.case.hosts.get(host as usize)
    }

    /// The recording is of the model: its timers are exact, and its profile is the one that the case names.
    pub fn is_model(&self) -> bool {
        self.model
    }

    /// A time that no round trip between two hosts can be shorter than: propagation both ways, without what jitter takes off.
    pub fn least_rtt(&self, from: u32, to: u32) -> Dur {
        let Some(path) = self.case.routes.path(&self.case.net, from as usize, to as usize) else {
            return Dur::ZERO;
        };
        path.iter()
            .map(|port| {
                let link = &self.case.links[port.link];
                if link.jitter.size.is_zero() { link.delay * 2 } else { Dur::ZERO }
            })
            .fold(Dur::ZERO, |sum, delay| sum + delay)
    }
}
