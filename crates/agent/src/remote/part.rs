//! The process of a run: one part of a case, with everything that it creates in its own namespaces.

use crate::environment::Environment;
use crate::netns::topology::{NETNS_FOLDER, NetnsTopology};
use crate::remote::frames::{self, FromAgent, FromController, SILENCE};
use crate::remote::settings;
use crate::remote::supervisor::Supervisor;
use crate::request::{CaseProblem, Request};
use crate::run::{self, Conductor};
use crate::system::Failure;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use tcpassay_case::Case;
use tcpassay_linux::sys;
use tcpassay_measure::reason::RunEnd;
use tcpassay_units::Time;

/// The file with what only the parts of a recording have.
pub const PART_FILE: &str = "part.json";

/// What is needed to join the recordings of all machines.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub struct PartFile {
    /// The hosts of the case on this machine.
    pub hosts: Vec<u32>,
    /// The connections of the workload, in the order of the flows: part, client, server, number.
    pub connections: Vec<(u16, u32, u32, u32)>,
    /// The digest of the packets.
    pub digest: u64,
}

/// Reads a message from the controller. Several processes read from the connection after each other, so that nothing is read ahead.
pub fn receive() -> io::Result<Option<FromController>> {
    frames::receive(&mut Descriptor(io::stdin().as_fd()))
}

/// Sends a message to the controller.
pub fn send(message: &FromAgent) -> io::Result<()> {
    frames::send(&mut io::stdout().lock(), message)
}

/// Reads from a descriptor without a buffer.
struct Descriptor<'a>(BorrowedFd<'a>);

impl io::Read for Descriptor<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        sys::read(self.0, into)
    }
}

/// The controller at the other end of standard input and output.
struct Controller {
    stdin: io::Stdin,
}

impl Controller {
    fn next(&mut self) -> Result<FromController, Failure> {
        let wrong = |e: io::Error| format!("the connection to the controller: {e}");
        if !sys::wait_readable(self.stdin.as_fd(), SILENCE).map_err(wrong)? {
            return Err("the controller has sent nothing for 30 s".to_owned());
        }
        receive().map_err(wrong)?.ok_or_else(|| "the controller has ended".to_owned())
    }
}

fn tell(message: &FromAgent) -> Result<(), Failure> {
    send(message).map_err(|e| format!("the connection to the controller: {e}"))
}

impl Conductor for Controller {
    fn fd(&self) -> BorrowedFd<'_> {
        self.stdin.as_fd()
    }

    fn start(&mut self) -> Result<u64, Failure> {
        tell(&FromAgent::Prepared {})?;
        loop {
            match self.next()? {
                FromController::Start { at } if at > sys::now() => return Ok(at),
                FromController::Start { .. } => {
                    return Err("the start of the traffic has passed before it was told".to_owned());
                }
                FromController::Clock {} => tell(&FromAgent::Time { now: sys::now() })?,
                FromController::Alive {} => {}
                _ => return Err("the controller sent a message that no prepared run expects".to_owned()),
            }
        }
    }

    fn report_idle(&mut self, at: Time, idle: bool) -> Result<(), Failure> {
        tell(&FromAgent::Idle { at: at.as_nanos(), idle })
    }

    fn read(&mut self) -> Result<Option<Time>, Failure> {
        match self.next()? {
            FromController::Stop { end } => Ok(Some(Time::from_nanos(end))),
            FromController::Alive {} => Ok(None),
            _ => Err("the controller sent a message that no run expects".to_owned()),
        }
    }
}

/// Runs a part, and sends its recording. The error of a run is its answer.
///
/// # Errors
/// The connection to the controller has ended.
pub fn run(request: &Request, environment: &Environment, supervisor: &mut Supervisor) -> io::Result<()> {
    let (ended, message, errors) = match ran(request, environment, supervisor) {
        Ok((ended, errors)) => (ended, String::new(), errors),
        Err(why) => (RunEnd::Failed, why, Vec::new()),
    };
    send(&FromAgent::Ended { ended, message, errors })
}

fn ran(
    request: &Request,
    environment: &Environment,
    supervisor: &mut Supervisor,
) -> Result<(RunEnd, Vec<CaseProblem>), Failure> {
    let context = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
    if sys::end_with_parent().map_err(context("prctl"))? == 1 {
        return Err("the agent has ended".to_owned());
    }
    sys::unshare_mounts().map_err(context("a mount namespace"))?;
    fs::create_dir_all(NETNS_FOLDER).map_err(context(NETNS_FOLDER))?;
    sys::mount("tcpassay", NETNS_FOLDER, "tmpfs", 0).map_err(context(NETNS_FOLDER))?;
    sys::raise_priority().map_err(context("priority"))?;
    sys::unshare_net().map_err(context("a network namespace"))?;
    let case = match request.case(environment) {
        Ok(case) => case,
        Err(errors) => return Ok((RunEnd::Refused, errors)),
    };
    let (collect, _) = request.collect.read().map_err(|e| e.to_string())?;
    if collect.deliveries {
        return Err("collect.deliveries needs one-way delays, which a testbed does not measure".to_owned());
    }
    let mut adjust = |case: &Case, topology: &NetnsTopology| {
        for wanted in settings::wanted(case, topology, &settings::is_virtual) {
            supervisor.change(&wanted.interface, wanted.attribute, wanted.value)?;
        }
        Ok(())
    };
    let mut controller = Controller { stdin: io::stdin() };
    let ran = run::record(request, &case, environment, collect, (&mut adjust, Some(&mut controller)))?;
    // The folder is in memory and ends with this process.
    let folder = Path::new(NETNS_FOLDER).join(".recording");
    ran.recording.0.write(&folder).map_err(|e| e.to_string())?;
    let part = environment.part.as_ref().expect("a part of a testbed").place(&case)?;
    let hosts = (0u32..).zip(&part.hosts).filter(|(_, machine)| **machine == part.own);
    let connections = ran.connections.iter().map(|key| (key.part, key.client.0, key.server.0, key.index));
    let about = PartFile {
        hosts: hosts.map(|(host, _)| host).collect(),
        connections: connections.collect(),
        digest: ran.recording.1,
    };
    let text = serde_json::to_vec(&about).map_err(|e| e.to_string())?;
    fs::write(folder.join(PART_FILE), text).map_err(context(PART_FILE))?;
    send_folder(&folder).map_err(context("the recording"))?;
    let finished = ran.recording.0.counters.get("run").and_then(|run| run.get("finished")) == Some(&1);
    Ok((if finished { RunEnd::Finished } else { RunEnd::Duration }, Vec::new()))
}

/// Sends the files of a folder, in the order of their names.
fn send_folder(folder: &Path) -> io::Result<()> {
    let mut paths: Vec<_> =
        fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.sort();
    let mut out = io::stdout().lock();
    for path in paths {
        let bytes = fs::read(&path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        frames::send(&mut out, &FromAgent::File { name, size: bytes.len() as u64 })?;
        frames::send_bytes(&mut out, &bytes)?;
    }
    out.flush()
}
