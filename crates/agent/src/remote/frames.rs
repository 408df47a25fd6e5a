//! The messages between a controller and an agent, over standard input and output.
//!
//! A message is a frame: its length without this header (4 bytes, little-endian), its kind (1 byte), its content. Frames of the kind 0 are
//! JSON objects with the field `kind`; frames of the kind 1 are the bytes of files. Frames are read exactly, byte by byte as they
//! arrive, so that several processes can read from one connection after each other.

use crate::placement::Part;
use crate::request::{CaseProblem, CheckResult, Request};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use tcpassay_measure::reason::RunEnd;

/// The version of the messages. An agent and a controller with different versions do not work together.
pub const PROTOCOL: u32 = 2;
/// The agent ends when its controller has sent nothing for this time, in milliseconds: the network may be lost.
pub const SILENCE: i32 = 30_000;
/// The longest content of a JSON frame in bytes.
pub const LONGEST: usize = 16 << 20;
/// The longest content of a frame with bytes of a file.
const CHUNK: usize = 1 << 20;
const JSON: u8 = 0;
const BYTES: u8 = 1;

/// A message of the controller.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FromController {
    /// The first message: the version of the messages.
    Hello {
        /// [`PROTOCOL`]
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
        case: Request,
        /// The part of this machine.
        part: Part,
    },
    /// Requests the time of the clock of this machine.
    Clock {},
    /// Prepares the part of this machine.
    Run {
        /// The case.
        case: Request,
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

/// A message of the agent.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FromAgent {
    /// The answer to `Hello`.
    Hello {
        /// [`PROTOCOL`]
        protocol: u32,
        /// The version of tcpassay.
        version: &'static str,
        /// The agent has root rights.
        root: bool,
        /// The release of the kernel.
        release: String,
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
    /// The answer to `Check`.
    Checked {
        /// The settings of the case, or its problems.
        result: CheckResult,
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
    /// Whether all applications of this machine have finished.
    Idle {
        /// In nanoseconds after the start.
        at: u64,
        /// True if all applications have finished.
        idle: bool,
    },
    /// A file of the recording; its bytes follow in frames of the kind 1.
    File {
        /// The name.
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

/// The path of data from a machine to another one.
#[derive(Serialize)]
pub struct ProbedPath {
    /// The machine of the sender.
    pub from: String,
    /// The machine of the receiver.
    pub to: String,
    /// The size of the probes in bytes: the MTU of the case.
    pub size: u64,
    /// The round-trip time of the case in nanoseconds, without queues.
    pub asked: u64,
    /// The shortest measured round-trip time in nanoseconds; `None` if no probe came back.
    pub measured: Option<u64>,
    /// The case loses so many packets that all probes may be lost.
    pub lossy: bool,
}

/// A feature of a machine.
#[derive(Serialize)]
pub struct Finding {
    /// The feature.
    pub what: String,
    /// True if the feature is present. Without it runs fail.
    pub ok: bool,
    /// The state that was found.
    pub found: String,
    /// The MTU of a test interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u64>,
}

/// Reads a message. `None` is the end of the connection.
///
/// # Errors
/// A frame that is too long or is no message.
pub fn receive(from: &mut impl Read) -> io::Result<Option<FromController>> {
    let Some(content) = read_frame(from)? else { return Ok(None) };
    let wrong = |e: serde_json::Error| io::Error::new(io::ErrorKind::InvalidData, format!("a message: {e}"));
    serde_json::from_slice(&content).map(Some).map_err(wrong)
}

/// The content of a frame of JSON; `None` at the end of the connection.
fn read_frame(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; 5];
    match from.read_exact(&mut header) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let [a, b, c, d, kind] = header;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if kind != JSON || length > LONGEST {
        let why = format!("a frame of the kind {kind} with {length} bytes; allowed are {LONGEST} of JSON");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    // The length is not trusted with memory before the bytes are there.
    let mut content = Vec::new();
    from.take(length as u64).read_to_end(&mut content)?;
    Ok((content.len() == length).then_some(content))
}

/// Sends a message.
///
/// # Errors
/// The connection ended.
pub fn send(to: &mut impl Write, message: &FromAgent) -> io::Result<()> {
    let content = serde_json::to_vec(message)?;
    write_frame(to, JSON, &content)?;
    to.flush()
}

/// Sends the bytes of a file.
///
/// # Errors
/// The connection ended.
pub fn send_bytes(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    bytes.chunks(CHUNK).try_for_each(|chunk| write_frame(to, BYTES, chunk))?;
    to.flush()
}

fn write_frame(to: &mut impl Write, kind: u8, content: &[u8]) -> io::Result<()> {
    let length = u32::try_from(content.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a message above 4 GiB"))?;
    let [a, b, c, d] = length.to_le_bytes();
    to.write_all(&[a, b, c, d, kind])?;
    to.write_all(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, kind, content).unwrap();
        bytes
    }

    #[test]
    fn frames_are_read_exactly_one_after_the_other() {
        let mut bytes = frame(JSON, br#"{"kind":"clock"}"#);
        bytes.extend(frame(JSON, br#"{"kind":"start","at":7}"#));
        let mut from = &bytes[..];
        assert!(matches!(receive(&mut from).unwrap(), Some(FromController::Clock {})));
        assert!(matches!(receive(&mut from).unwrap(), Some(FromController::Start { at: 7 })));
        assert!(receive(&mut from).unwrap().is_none());
    }

    #[test]
    fn a_frame_that_ends_early_is_the_end_of_the_connection() {
        let bytes = frame(JSON, br#"{"kind":"clock"}"#);
        for end in 0..bytes.len() {
            assert!(receive(&mut &bytes[..end]).unwrap().is_none(), "{end}");
        }
    }

    #[test]
    fn lengths_kinds_and_contents_that_are_no_message_are_errors() {
        for bytes in [
            vec![0xff, 0xff, 0xff, 0xff, JSON],
            frame(BYTES, b"{}"),
            frame(7, b"{}"),
            frame(JSON, b"nonsense"),
            frame(JSON, br#"{"kind":"format_disk"}"#),
            frame(JSON, br#"{"kind":"start","at":-1}"#),
            frame(JSON, br#"{"kind":"start","at":1,"more":2}"#),
        ] {
            assert!(receive(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_file_is_sent_in_frames_of_a_mebibyte() {
        let mut bytes = Vec::new();
        send_bytes(&mut bytes, &vec![1; CHUNK + 3]).unwrap();
        assert_eq!(bytes.len(), CHUNK + 3 + 2 * 5);
        assert_eq!(bytes[..5], [0, 0, 16, 0, BYTES]);
    }
}
