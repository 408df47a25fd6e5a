//! Who talks to whom.

use crate::spec::{Behaviour, WorkloadSpec};
use tcpassay_units::{Seed, Stream};

/// A host, by its place in the topology.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostIndex(pub u32);

/// Two hosts of the topology between which traffic runs. Data of `bulk` flows from `sender` to `receiver`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostPair {
    /// Opens the connections, except with `incast`.
    pub sender: HostIndex,
    /// Accepts them, except with `incast`, where it asks all its senders at once.
    pub receiver: HostIndex,
}

/// One behaviour and the pairs that it runs between.
#[derive(Clone, PartialEq, Debug)]
pub struct TrafficPart {
    /// Name in completions and reports: `bulk`, `rpc`, `background`.
    pub class: String,
    /// What the applications do.
    pub spec: WorkloadSpec,
    /// Between whom.
    pub pairs: Vec<HostPair>,
    /// The congestion control of its connections, when it is not that of the host (`app.background`).
    pub cc: Option<String>,
}

/// Everything that the applications of a run do, shared by its hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct TrafficSchedule {
    parts: Vec<TrafficPart>,
    seed: Seed,
}

/// What a connection is for: the same at both ends. Its [`Display`](std::fmt::Display) form names the stream from which
/// both ends draw.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnKey {
    /// The host that opens it.
    pub client: HostIndex,
    /// The host that accepts it.
    pub server: HostIndex,
    /// Index into [`TrafficSchedule::parts`].
    pub part: u16,
    /// Counts the connections of this part that the client opened.
    pub index: u32,
}

impl std::fmt::Display for ConnKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "app.{}.{}.{}.{}", self.part, self.client.0, self.server.0, self.index)
    }
}

impl TrafficSchedule {
    /// The plan of `spec` between `pairs`; a [`Behaviour::Mix`] becomes one part for each of its members.
    pub fn new(spec: &WorkloadSpec, pairs: &[HostPair], seed: Seed) -> TrafficSchedule {
        let members =
            if spec.behaviour == Behaviour::Mix { &spec.mix[..] } else { std::slice::from_ref(spec) };
        let parts = members
            .iter()
            .map(|member| TrafficPart {
                class: member.class(),
                spec: member.clone(),
                pairs: pairs.to_vec(),
                cc: None,
            })
            .collect();
        TrafficSchedule { parts, seed }
    }

    /// Adds a part, such as background traffic.
    pub fn push(&mut self, part: TrafficPart) {
        self.parts.push(part);
    }

    /// The parts, in the order that [`ConnKey::part`] counts.
    pub fn parts(&self) -> &[TrafficPart] {
        &self.parts
    }

    /// The part that a connection belongs to.
    pub fn part(&self, key: ConnKey) -> &TrafficPart {
        &self.parts[usize::from(key.part)]
    }

    pub(crate) fn stream(&self, name: &str) -> Stream {
        self.seed.stream(name)
    }
}

impl TrafficPart {
    /// The hosts that `host` opens connections to.
    pub(crate) fn servers_of(&self, host: HostIndex) -> Vec<HostIndex> {
        let incast = self.spec.behaviour == Behaviour::Incast;
        self.pairs
            .iter()
            .map(|pair| if incast { (pair.receiver, pair.sender) } else { (pair.sender, pair.receiver) })
            .filter(|(client, _)| *client == host)
            .map(|(_, server)| server)
            .collect()
    }
}
