//! The process of a run: one part of a case, with everything that it creates in its own namespaces.

use crate::collect::machine_load::LoadSince;
use crate::environment::Environment;
use crate::netns::build::NetnsSet;
use crate::netns::topology::{NETNS_FOLDER, NetnsTopology};
use crate::placement;
use crate::remote::path::PathProber;
use crate::remote::supervisor::Supervisor;
use crate::remote::{machine, settings};
use crate::request::Request;
use crate::run::{self, Conductor, Others};
use crate::system::Failure;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;
use tcpassay_case::Case;
use tcpassay_linux::sys::{self, Processors};
use tcpassay_measure::reason::RunEnd;
use tcpassay_messages::{CaseProblem, FromAgent, FromController, Part, SILENCE, frames};
use tcpassay_units::Time;

/// The file with the data that only the parts of a recording need.
pub const PART_FILE: &str = "part.json";

/// The time between the message with the start and the start in which a run empties its rings and reads counters, in nanoseconds.
const LAST_STEPS: u64 = 2_000_000;

/// The data that are needed to join the recordings of all machines.
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

/// Reads a message from the controller. Several processes read from the connection one after the other; therefore the function does not
/// read beyond the message.
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
struct Controller<'a> {
    stdin: io::Stdin,
    supervisor: &'a RefCell<&'a mut Supervisor>,
    part: &'a Part,
    /// The probes of the path, and the machine of each host.
    path: Option<(PathProber, Vec<String>)>,
    /// The processors on which this process may run, while it stays on one of them.
    processors: Option<Processors>,
}

impl Controller<'_> {
    fn next(&mut self) -> Result<FromController, Failure> {
        let wrong = |e: io::Error| format!("the connection to the controller: {e}");
        let waited = match &self.path {
            Some((path, _)) => path.wait(self.stdin.as_fd(), SILENCE),
            None => sys::wait_readable(self.stdin.as_fd(), SILENCE),
        };
        if !waited.map_err(wrong)? {
            return Err("the controller has sent nothing for 30 s".to_owned());
        }
        receive().map_err(wrong)?.ok_or_else(|| "the controller has ended".to_owned())
    }
}

fn tell(message: &FromAgent) -> Result<(), Failure> {
    send(message).map_err(|e| format!("the connection to the controller: {e}"))
}

impl Conductor for Controller<'_> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.stdin.as_fd()
    }

    fn wait(&mut self, time: Duration) -> Result<(), Failure> {
        let until = sys::monotonic() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2);
        loop {
            let left = until.saturating_sub(sys::monotonic()).div_ceil(1_000_000);
            if left == 0 {
                return Ok(());
            }
            let wrong = |e: io::Error| format!("the connection to the controller: {e}");
            let left = i32::try_from(left).unwrap_or(i32::MAX);
            if sys::wait_readable(self.stdin.as_fd(), left).map_err(wrong)? {
                match self.next()? {
                    FromController::Alive {} => {}
                    _ => {
                        return Err(
                            "the controller sent a message that no run in preparation expects".to_owned()
                        );
                    }
                }
            }
        }
    }

    fn open_path(
        &mut self,
        case: &Case,
        topology: &NetnsTopology,
        namespaces: &mut NetnsSet,
    ) -> Result<(), Failure> {
        let placement = placement::place(self.part, case)?;
        let names = placement.hosts.iter().map(|at| self.part.machines[*at].name.clone()).collect();
        self.path = Some((PathProber::open(case, topology, namespaces, self.stdin.as_fd())?, names));
        Ok(())
    }

    fn start(&mut self) -> Result<u64, Failure> {
        // No connection exists yet.
        self.supervisor.borrow_mut().hold(std::process::id())?;
        if let Some(place) = self.part.place {
            self.processors = stay_on_one(place).ok();
        }
        // Other processes delay neither the answers about the clock nor the start. Some kernels do not permit it, even to root.
        let _ = sys::schedule_first(1);
        tell(&FromAgent::Prepared {})?;
        loop {
            match self.next()? {
                FromController::Start { at } if at > sys::now() + LAST_STEPS => {
                    self.path = None;
                    return Ok(at);
                }
                FromController::Start { .. } => {
                    tell(&FromAgent::Late {})?;
                    return Err("the message with the start of the traffic arrived too late".to_owned());
                }
                FromController::Clock {} => tell(&FromAgent::Time { now: sys::now() })?,
                FromController::Probe {} => {
                    let paths = self.path.as_ref().map(|(path, names)| path.measure(names));
                    tell(&FromAgent::Probed { paths: paths.transpose()?.unwrap_or_default() })?;
                }
                FromController::Alive {} => {}
                _ => return Err("the controller sent a message that no prepared run expects".to_owned()),
            }
        }
    }

    fn go_first(&mut self) {
        // As for the first priority.
        let _ = sys::schedule_first(2);
    }

    fn started(&mut self) -> Result<(), Failure> {
        sys::schedule_first(0).map_err(|e| format!("the priority: {e}"))?;
        let all = self.processors.take().map_or(Ok(()), |all| all.apply());
        all.map_err(|e| format!("the processors: {e}"))
    }

    fn report_idle(&mut self, at: Time, idle: bool) -> Result<(), Failure> {
        tell(&FromAgent::Idle { at: at.as_nanos(), idle })
    }

    fn read(&mut self) -> Result<Option<Time>, Failure> {
        match self.next()? {
            FromController::Stop { end } => Ok(Some(Time::from_nanos(end))),
            FromController::Clock {} => tell(&FromAgent::Time { now: sys::now() }).map(|()| None),
            FromController::Alive {} => Ok(None),
            _ => Err("the controller sent a message that no run expects".to_owned()),
        }
    }
}

/// Lets this process run on one processor only: agents with subsequent places are on different ones. Each would otherwise wait on the processor on
/// which it ran last, and most of them may be on the same. Returns the processors on which the process could run before.
fn stay_on_one(place: u32) -> io::Result<Processors> {
    let all = Processors::allowed()?;
    all.one(place as usize).apply()?;
    Ok(all)
}

/// Runs a part, and sends its recording. The error of a run is its answer.
///
/// # Errors
/// The connection to the controller has ended.
pub fn run(
    request: &Request,
    environment: &Environment,
    supervisor: &mut Supervisor,
    since: LoadSince,
) -> io::Result<()> {
    let (ended, message, errors) = match ran(request, environment, supervisor, since) {
        Ok((ended, errors)) => (ended, String::new(), errors),
        Err(why) => (RunEnd::Failed, why, Vec::new()),
    };
    send(&FromAgent::Ended { ended, message, errors })
}

fn ran(
    request: &Request,
    environment: &Environment,
    supervisor: &mut Supervisor,
    since: LoadSince,
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
    let supervisor = RefCell::new(supervisor);
    let part = environment.part.as_ref().expect("a part of a testbed");
    let mut hardware = Vec::new();
    let mut adjust = |case: &Case, topology: &NetnsTopology| {
        let all = settings::wanted(case, topology, &settings::is_virtual);
        for wanted in &all {
            supervisor.borrow_mut().apply(wanted, part.allows(wanted.attribute.group()))?;
        }
        for file in machine::wanted(case, topology).iter().filter(|file| file.required) {
            supervisor.borrow_mut().write(&file.file, &file.value)?;
        }
        hardware = in_origin(environment, || {
            settings::wait_for_carriers(&all).map(|()| settings::hardware_rows(&all))
        })??;
        Ok(())
    };
    let mut controller =
        Controller { stdin: io::stdin(), supervisor: &supervisor, part, path: None, processors: None };
    let others = Others { adjust: &mut adjust, conductor: Some(&mut controller), since: Some(since) };
    let mut ran = run::record(request, &case, environment, collect, others)?;
    ran.rings.close_at_exit();
    ran.recording.0.environment.extend(hardware);
    // The folder is in memory and ends with this process.
    let folder = Path::new(NETNS_FOLDER).join(".recording");
    ran.recording.0.write(&folder).map_err(|e| e.to_string())?;
    let placement = placement::place(part, &case)?;
    let hosts = (0u32..).zip(&placement.hosts).filter(|(_, machine)| **machine == placement.own);
    let connections = ran.connections.iter().map(|key| (key.part, key.client.0, key.server.0, key.index));
    let about = PartFile {
        hosts: hosts.map(|(host, _)| host).collect(),
        connections: connections.collect(),
        digest: ran.recording.1,
    };
    let text = serde_json::to_vec(&about).map_err(|e| e.to_string())?;
    fs::write(folder.join(PART_FILE), text).map_err(context(PART_FILE))?;
    send_folder(&mut io::stdout().lock(), &folder).map_err(context("the recording"))?;
    let finished = ran.recording.0.counters.get("run").and_then(|run| run.get("finished")) == Some(&1);
    Ok((if finished { RunEnd::Finished } else { RunEnd::Duration }, Vec::new()))
}

/// Calls a function in the network namespace of the test interfaces.
fn in_origin<T>(environment: &Environment, act: impl FnOnce() -> T) -> Result<T, Failure> {
    let wrong = |e: io::Error| format!("the namespace of the test interfaces: {e}");
    let current = fs::File::open("/proc/self/ns/net").map_err(wrong)?;
    let origin = environment.origin.as_ref().ok_or("the namespace of the test interfaces is unknown")?;
    sys::enter(origin.as_fd()).map_err(wrong)?;
    let result = act();
    sys::enter(current.as_fd()).map_err(wrong)?;
    Ok(result)
}

/// Sends the files of a folder, in the order of their names.
fn send_folder(out: &mut impl Write, folder: &Path) -> io::Result<()> {
    let mut paths: Vec<_> =
        fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        let bytes = fs::read(&path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        frames::send(out, &FromAgent::File { name, size: bytes.len() as u64 })?;
        frames::send_bytes(out, &bytes)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_recording_are_sent_in_the_order_of_their_names_each_after_its_length() {
        let folder = std::env::temp_dir().join(format!("tcpassay-part-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("part.json"), "{}").unwrap();
        fs::write(folder.join("events.parquet"), "PAR1").unwrap();
        let mut sent = Vec::new();
        send_folder(&mut sent, &folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let frame = |kind: u8, content: &[u8]| {
            let length = u8::try_from(content.len()).unwrap();
            [&[length, 0, 0, 0, kind], content].concat()
        };
        let expected = [
            frame(0, br#"{"kind":"file","name":"events.parquet","size":4}"#),
            frame(1, b"PAR1"),
            frame(0, br#"{"kind":"file","name":"part.json","size":2}"#),
            frame(1, b"{}"),
        ];
        assert_eq!(sent, expected.concat());
    }

    #[test]
    fn the_data_about_a_part_are_read_as_they_were_written_and_without_further_fields() {
        let about = PartFile { hosts: vec![0, 2], connections: vec![(0, 0, 1, 7)], digest: u64::MAX };
        let text = serde_json::to_string(&about).unwrap();
        assert_eq!(text, r#"{"hosts":[0,2],"connections":[[0,0,1,7]],"digest":18446744073709551615}"#);
        assert_eq!(serde_json::from_str::<PartFile>(&text).unwrap(), about);
        assert!(serde_json::from_str::<PartFile>(&text.replace('}', r#","more":1}"#)).is_err());
    }
}
