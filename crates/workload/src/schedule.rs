//! The traffic between the hosts of a topology.

use crate::spec::{Behaviour, WorkloadSpec};
use tcpassay_units::{Seed, Stream};

/// Index of a host in the topology.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostIndex(pub u32);

/// Two hosts with traffic between them. Data of `bulk` flows from `sender` to `receiver`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostPair {
    /// Opens the connections, except with `incast`.
    pub sender: HostIndex,
    /// Accepts the connections, except with `incast`, where it sends requests to all its senders at once.
    pub receiver: HostIndex,
}

/// A behaviour and the pairs of hosts to which it applies.
#[derive(Clone, PartialEq, Debug)]
pub struct TrafficPart {
    /// Name in completions and reports: `bulk`, `rpc`, `background`.
    pub class: String,
    /// The behaviour of the applications.
    pub spec: WorkloadSpec,
    /// The pairs of hosts.
    pub pairs: Vec<HostPair>,
    /// The congestion control of its connections, when it differs from that of the host (`app.background`).
    pub cc: Option<String>,
}

/// The traffic of all hosts of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct TrafficSchedule {
    parts: Vec<TrafficPart>,
    seed: Seed,
}

/// The identity of a connection, the same at both endpoints. Its [`Display`](std::fmt::Display) form is the name of
/// the random stream of both endpoints.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnKey {
    /// The host that opens the connection.
    pub client: HostIndex,
    /// The host that accepts the connection.
    pub server: HostIndex,
    /// Index into [`TrafficSchedule::parts`].
    pub part: u16,
    /// Number of connections of this part that the client opened before.
    pub index: u32,
}

impl std::fmt::Display for ConnKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "app.{}.{}.{}.{}", self.part, self.client.0, self.server.0, self.index)
    }
}

impl TrafficSchedule {
    /// The traffic of `spec` between `pairs`; a [`Behaviour::Mix`] has one part per member.
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

    /// The parts, in the order of [`ConnKey::part`].
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
    /// Whether `host` accepts connections.
    pub fn accepts_at(&self, host: HostIndex) -> bool {
        let incast = self.spec.behaviour == Behaviour::Incast;
        self.pairs.iter().any(|pair| host == if incast { pair.sender } else { pair.receiver })
    }

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
