//! The messages between the controller and the agents of a testbed.
//!
//! The types of Python (`python/tcpassay/testbed/messages.py`) are generated from the declarations in this crate. A message is one
//! JSON object in a frame ([`frames`]); [`PROTOCOL`] is the version of all of them.

mod declare;
pub mod frames;

pub use declare::{Field, RecordDeclaration, UnionDeclaration, WordsDeclaration};
use declare::{messages, record, words};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use tcpassay_case::params::Value;
use tcpassay_measure::reason::RunEnd;

/// The version of the messages. An agent and a controller with different versions do not work together.
pub const PROTOCOL: u32 = 4;
/// The agent ends when its controller has sent nothing for this time, in milliseconds: the network may be lost.
pub const SILENCE: i32 = 30_000;
/// The files of the recording of a host.
pub const FILES: [&str; 7] = [
    "recording.json",
    "latency.parquet",
    "series.parquet",
    "completions.parquet",
    "events.parquet",
    "packets.pcapng",
    "part.json",
];
/// The largest size of all files of a host in bytes.
pub const LARGEST: u64 = 4 << 30;

messages! {
    /// A message of the controller.
    enum FromController {
        /// The first message: the version of the messages.
        Hello {
            /// The version of the controller.
            protocol: u32,
        },
        /// Requests the features of this machine.
        Inspect {
            /// The test interfaces.
            interfaces: Vec<String>,
        },
        /// Reserves this machine until the end of the connection.
        Claim {},
        /// Requests a check whether this machine can run its part of the case.
        Check {
            /// The case.
            case: RemoteCase,
            /// The part of this machine.
            part: Part,
        },
        /// Requests the time of the clock of this machine.
        Clock {},
        /// Prepares the part of this machine.
        Run {
            /// The case.
            case: RemoteCase,
            /// The part of this machine.
            part: Part,
        },
        /// Measures the paths to other machines. All machines are prepared, and answer probes.
        Probe {},
        /// Starts the traffic.
        Start {
            /// Time of the start by the clock of this machine, in nanoseconds.
            at: u64,
        },
        /// All applications of all machines have finished.
        Stop {
            /// Time in nanoseconds after the start.
            end: u64,
        },
        /// The controller is alive.
        Alive {},
    }
}

messages! {
    /// A message of an agent.
    enum FromAgent {
        /// The answer to `Hello`.
        Welcome {
            /// The version of the messages.
            protocol: u32,
            /// The version of tcpassay.
            version: String,
            /// The agent has root rights.
            root: bool,
            /// The release of the kernel.
            release: String,
            /// The number that the kernel has drawn at its boot: agents with the same one share a kernel.
            boot: String,
        },
        /// The answer to `Inspect`.
        Inspected {
            /// The features, each with its state.
            found: Vec<Finding>,
        },
        /// This machine is reserved.
        Claimed {
            /// Messages about settings that a killed agent had left, and about their restoration.
            restored: Vec<String>,
        },
        /// Another controller uses this machine.
        Busy {},
        /// The answer to `Check`: the problems of the case, or its settings.
        Checked {
            /// The settings that differ from the defaults, as texts.
            settings: BTreeMap<String, String>,
            /// The problems of the case; without problems the machine can run its part.
            errors: Vec<CaseProblem>,
        },
        /// The answer to `Clock`.
        Time {
            /// The clock of this machine in nanoseconds.
            now: u64,
        },
        /// Everything is ready for `Probe` and `Start`.
        Prepared {},
        /// The answer to `Probe`.
        Probed {
            /// The paths of the hosts of this machine that send data.
            paths: Vec<ProbedPath>,
        },
        /// The start arrived too late at this machine, whose run ends.
        Late {},
        /// Whether all applications of this machine have finished.
        Idle {
            /// In nanoseconds after the start.
            at: u64,
            /// True if all applications have finished.
            idle: bool,
        },
        /// A file of the recording; its bytes follow in frames of their own.
        File {
            /// The name, one of `FILES`.
            name: String,
            /// The length in bytes.
            size: u64,
        },
        /// The end of a run.
        Ended {
            /// The reason for the end.
            ended: RunEnd,
            /// The error.
            message: String,
            /// The problems of a refused case.
            errors: Vec<CaseProblem>,
        },
        /// The settings of this machine are as they were before the run.
        Restored {
            /// Settings that could not be restored.
            problems: Vec<String>,
        },
        /// The message cannot be processed.
        Failed {
            /// The reason.
            message: String,
        },
    }
}

record! {
    /// A case to run on the machines of a testbed.
    struct RemoteCase {
        /// The settings.
        triples: BTreeMap<String, Value>,
        /// The seed of the run.
        seed: u64,
        /// The contents of the files to which settings refer, by name.
        files: BTreeMap<String, String>,
        /// The data to collect.
        collect: Collect,
        /// The longest time that a run waits until few processors are busy, in seconds.
        patience_s: f64,
    }
}

record! {
    /// The data to collect. Durations are texts, as in a plan.
    struct Collect {
        /// The interval of the series.
        series: Option<String>,
        /// The time at the beginning that metrics leave out.
        warmup: Option<String>,
        /// One-way delays of packets.
        deliveries: bool,
        /// The event log.
        events: bool,
        /// Packets as pcapng.
        packets: bool,
        /// Taps capture packets.
        taps: bool,
    }
}

words! {
    /// The role of a machine of a testbed.
    enum Role {
        /// It has hosts that send data.
        Sender = "sender",
        /// It has hosts that receive data.
        Receiver = "receiver",
        /// It has the queues and links between them.
        Router = "router",
    }
}

words! {
    /// A group of settings of a machine that a run may change.
    enum Group {
        /// The state of test interfaces.
        Up = "up",
        /// The MTU of test interfaces.
        Mtu = "mtu",
        /// Offloads of test interfaces.
        Offloads = "offloads",
        /// Interrupt coalescing of test interfaces.
        Coalescing = "coalescing",
        /// Rings of test interfaces.
        Rings = "rings",
        /// Parameters of the modules of congestion controllers, which apply to the whole machine.
        Controllers = "controllers",
    }
}

record! {
    /// A machine of a testbed.
    struct Machine {
        /// Its name in the testbed file.
        name: String,
        /// Its role.
        role: Role,
        /// Its test interfaces, by the name of the machine at the other end.
        interfaces: BTreeMap<String, String>,
        /// The settings that may be changed.
        allow: Vec<Group>,
    }
}

record! {
    /// The part of a testbed that an agent has.
    struct Part {
        /// The name of the machine of this agent.
        machine: String,
        /// All machines of the testbed.
        machines: Vec<Machine>,
        /// A number of the run, which is contained in its MAC addresses; 24 bits.
        run: u32,
        /// The links are used as they are, without queues, delays and losses of the case.
        as_is: bool,
        /// The place of this agent among those that share its kernel; absent if there is no other one.
        place: Option<u32>,
    }
}

record! {
    /// The path of data from a machine to another one.
    struct ProbedPath {
        /// The machine of the sender.
        sender: String,
        /// The machine of the receiver.
        receiver: String,
        /// The size of the probes in bytes: the MTU of the case.
        size: u64,
        /// The round-trip time of the case in nanoseconds, without queues.
        asked: u64,
        /// The shortest measured round-trip time in nanoseconds; absent if no probe came back.
        measured: Option<u64>,
        /// The case loses so many packets that all probes may be lost.
        lossy: bool,
    }
}

record! {
    /// A feature of a machine.
    struct Finding {
        /// The feature.
        what: String,
        /// True if the feature is present. Without it runs fail.
        ok: bool,
        /// The state that was found.
        found: String,
        /// The MTU of a test interface.
        mtu: Option<u64>,
        /// The rate of a test interface in bit/s, if its driver reports one.
        rate: Option<u64>,
    }
}

record! {
    /// A problem of a case, with the fields of the native module's errors.
    struct CaseProblem {
        /// The setting.
        path: String,
        /// The setting that it contradicts.
        other: Option<String>,
        /// Its value.
        value: Option<String>,
        /// The problem.
        why: String,
    }
}

impl Part {
    /// Returns true if a group of settings of this machine may be changed.
    pub fn allows(&self, group: Group) -> bool {
        let own = self.machines.iter().find(|machine| machine.name == self.machine);
        own.is_some_and(|machine| machine.allow.contains(&group))
    }

    /// The test interface of machine `at` to machine `peer`.
    ///
    /// # Errors
    /// The testbed has no such link.
    pub fn interface(&self, at: usize, peer: usize) -> Result<&str, String> {
        let (at, peer) = (&self.machines[at], &self.machines[peer]);
        let found = at.interfaces.get(&peer.name).map(String::as_str);
        found.ok_or_else(|| format!("the testbed has no link between `{}` and `{}`", at.name, peer.name))
    }

    /// The MAC address of a device of the topology: locally administered, with the number of the run.
    pub fn mac(&self, device: usize) -> String {
        let [_, a, b, c] = self.run.to_be_bytes();
        let [high, low] = u16::try_from(device).unwrap_or(u16::MAX).to_be_bytes();
        format!("02:{a:02x}:{b:02x}:{c:02x}:{high:02x}:{low:02x}")
    }
}

/// The declarations of this crate as JSON: `constants`, `words`, `records`, `unions`.
pub fn declarations() -> serde_json::Value {
    json!({
        "constants": {
            "PROTOCOL": [PROTOCOL, "The version of the messages."],
            "HEADER": [frames::HEADER, "The length of the header of a frame in bytes."],
            "LONGEST": [frames::LONGEST, "The longest content of a JSON frame in bytes."],
            "CHUNK": [frames::CHUNK, "The longest content of a frame with bytes of a file."],
            "JSON": [frames::JSON, "The kind of a frame with a message."],
            "BYTES": [frames::BYTES, "The kind of a frame with bytes of a file."],
            "SILENCE_MS": [SILENCE, "The agent ends when its controller has sent nothing for this time."],
            "LARGEST": [LARGEST, "The largest size of all files of a host in bytes."],
        },
        "files": FILES,
        "words": [Role::declaration(), Group::declaration()],
        "sent": [Collect::declaration(), RemoteCase::declaration(), Machine::declaration(), Part::declaration()],
        "received": [Finding::declaration(), CaseProblem::declaration(), ProbedPath::declaration()],
        "from_controller": FromController::declaration(),
        "from_agent": FromAgent::declaration(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_has_the_names_types_and_documentation_of_the_fields() {
        let probed = ProbedPath::declaration();
        assert_eq!(probed.doc, "The path of data from a machine to another one.");
        let measured = &probed.fields[4];
        assert_eq!((measured.name, measured.kind.as_str()), ("measured", "Option<u64>"));
        let checked = &FromAgent::declaration().messages[4];
        assert_eq!(checked.name, "Checked");
        assert_eq!(checked.fields[0].kind, "BTreeMap<String,String>");
        assert_eq!(Role::declaration().words, ["sender", "receiver", "router"]);
    }

    #[test]
    fn a_message_is_an_object_with_its_kind_and_exactly_its_fields() {
        let text = r#"{"kind":"idle","at":5,"idle":true}"#;
        let idle = FromAgent::Idle { at: 5, idle: true };
        assert_eq!(serde_json::to_string(&idle).unwrap(), text);
        assert_eq!(serde_json::from_str::<FromAgent>(text).unwrap(), idle);
        for wrong in [
            r#"{"kind":"idle","at":5}"#,
            r#"{"kind":"idle","at":5,"idle":true,"more":1}"#,
            r#"{"kind":"idle","at":"5","idle":true}"#,
            r#"{"kind":"rest","at":5,"idle":true}"#,
        ] {
            assert!(serde_json::from_str::<FromAgent>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_the_groups_in_the_list_may_be_changed() {
        let machine = |name: &str, allow: &[Group]| Machine {
            name: name.to_owned(),
            role: Role::Sender,
            interfaces: BTreeMap::from([("beta".to_owned(), "eth1".to_owned())]),
            allow: allow.to_vec(),
        };
        let machines = vec![machine("alpha", &[Group::Mtu]), machine("beta", &[Group::Up])];
        let part =
            Part { machine: "alpha".to_owned(), machines, run: 0x00a1_b2c3, as_is: false, place: None };
        assert_eq!((part.allows(Group::Mtu), part.allows(Group::Up)), (true, false));
        assert_eq!(part.mac(0x0102), "02:a1:b2:c3:01:02");
        assert_eq!(part.interface(0, 1), Ok("eth1"));
        assert!(part.interface(1, 0).is_err());
    }
}
