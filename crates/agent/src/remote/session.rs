//! The agent between runs: answers the controller, and starts a process for each run.

use crate::collect::machine_load::LoadSince;
use crate::environment::Environment;
use crate::host::LOCK;
use crate::netns::topology::NetnsTopology;
use crate::remote::settings::Wanted;
use crate::remote::supervisor::{self, Supervisor};
use crate::remote::{inspect, machine, part, settings};
use crate::request::{Request, problem};
use crate::system::{Failure, boot, release};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use tcpassay_case::params::Value;
use tcpassay_case::{Case, CaseError};
use tcpassay_linux::sys;
use tcpassay_messages::{FromAgent, FromController, Group, PROTOCOL, Part, SILENCE};

/// A run waits for the process of an earlier one if more than this number of them may not have ended.
const MOST_ENDING: usize = 1;

/// The state of the machine during a connection of a controller.
struct Claim {
    supervisor: Supervisor,
    /// The processes of runs that may not have ended yet.
    ending: VecDeque<i32>,
    /// The end of the last run.
    idle: Option<LoadSince>,
    _lock: File,
}

/// Settings of hardware that were tried.
struct Tried {
    all: Vec<Wanted>,
    /// What the device does not take: the parameter and the reason.
    refused: Vec<(&'static str, String)>,
}

/// An agent that serves one controller.
struct Session {
    claim: Option<Claim>,
    environment: Option<Environment>,
    tried: Vec<Tried>,
    /// The address of this machine at which the controller's connection arrived.
    ssh_address: String,
}

/// Serves the controller until the end of the connection.
pub fn main(connection: &str) -> io::Result<()> {
    let mut session = Session {
        claim: None,
        environment: None,
        tried: Vec::new(),
        ssh_address: inspect::ssh_address(connection),
    };
    loop {
        let stdin = io::stdin();
        if !sys::wait_readable(stdin.as_fd(), SILENCE)? {
            return Err(io::Error::other("the controller has sent nothing for 30 s"));
        }
        let Some(message) = part::receive()? else { return session.end() };
        let answers = session.answer(message).unwrap_or_else(|message| vec![FromAgent::Failed { message }]);
        for answer in answers {
            part::send(&answer)?;
        }
    }
}

impl Session {
    fn answer(&mut self, message: FromController) -> Result<Vec<FromAgent>, Failure> {
        let answer = match message {
            FromController::Hello { protocol } if protocol != PROTOCOL => {
                return Err(format!(
                    "the controller uses version {protocol} of the messages, and this agent version {PROTOCOL}"
                ));
            }
            FromController::Hello { .. } => FromAgent::Welcome {
                protocol: PROTOCOL,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                root: sys::is_root(),
                release: release(),
                boot: boot(),
            },
            FromController::Inspect { interfaces } => {
                let environment = self.environment()?;
                let mut found = inspect::machine(environment);
                found.extend(interfaces.iter().flat_map(|name| inspect::interface(name, &self.ssh_address)));
                FromAgent::Inspected { found }
            }
            FromController::Claim {} => self.claim()?,
            FromController::Check { case, part } => self.check(&case.into(), part)?,
            FromController::Clock {} => FromAgent::Time { now: sys::now() },
            FromController::Run { case, part } => return self.run(&case.into(), part),
            FromController::Alive {} => return Ok(Vec::new()),
            FromController::Probe {} | FromController::Start { .. } | FromController::Stop { .. } => {
                return Err("no run has been prepared".to_owned());
            }
        };
        Ok(vec![answer])
    }

    /// Waits for the processes of runs: when the connection has ended, so have the devices of all runs.
    fn end(self) -> io::Result<()> {
        for process in self.claim.into_iter().flat_map(|claim| claim.ending) {
            sys::wait_for_child(process)?;
        }
        Ok(())
    }

    /// The environment of this machine. The process is in its original network namespace before and after.
    fn environment(&mut self) -> Result<&mut Environment, Failure> {
        if self.environment.is_none() {
            let wrong = |e: io::Error| format!("a network namespace: {e}");
            let environment = Environment::host().map_err(wrong)?;
            if let Some(origin) = environment.origin.as_ref().filter(|_| sys::is_root()) {
                sys::enter(origin.as_fd()).map_err(wrong)?;
            }
            self.environment = Some(environment);
        }
        Ok(self.environment.as_mut().expect("set above"))
    }

    fn claim(&mut self) -> Result<FromAgent, Failure> {
        if !sys::is_root() {
            return Err("the agent needs root rights: log in as root, or set `sudo = true`".to_owned());
        }
        if self.claim.is_some() {
            return Ok(FromAgent::Claimed { restored: Vec::new() });
        }
        let Some(lock) = supervisor::lock(LOCK)? else { return Ok(FromAgent::Busy {}) };
        let (supervisor, restored) = Supervisor::start()?;
        self.claim = Some(Claim { supervisor, ending: VecDeque::new(), idle: None, _lock: lock });
        Ok(FromAgent::Claimed { restored })
    }

    /// Checks the part of a case, and whether the testbed allows what it changes.
    fn check(&mut self, request: &Request, part: Part) -> Result<FromAgent, Failure> {
        self.refuse_interfaces(&part)?;
        let environment = self.environment()?;
        environment.join(part);
        let case = match request.case(environment) {
            Ok(case) => case,
            Err(errors) => return Ok(FromAgent::Checked { settings: BTreeMap::new(), errors }),
        };
        let (mut errors, hardware) = not_allowed(&case, environment)?;
        if errors.is_empty() {
            errors = self.try_hardware(&case, hardware)?;
        }
        let errors: Vec<_> = errors.into_iter().map(problem).collect();
        let all = case.to_triples().into_iter().map(|(path, value)| (path, value.to_string()));
        let settings = if errors.is_empty() { all.collect() } else { BTreeMap::new() };
        Ok(FromAgent::Checked { settings, errors })
    }

    /// Tries settings of hardware, and restores them: a device that has a setting may not take a value, or round it. Each is tried once,
    /// and not while another controller uses this machine.
    fn try_hardware(&mut self, case: &Case, all: Vec<Wanted>) -> Result<Vec<CaseError>, Failure> {
        let part = self.environment()?.part.clone().expect("a part of a testbed");
        let known = self.tried.iter().position(|tried| tried.all == all);
        let at = if let Some(at) = known {
            at
        } else {
            let needed = all
                .iter()
                .any(|one| one.required && settings::read(&one.interface, one.attribute) != Ok(one.value));
            let try_all = |supervisor: &mut Supervisor| -> Result<_, Failure> {
                let mut refused = Vec::new();
                for one in &all {
                    if let Err(why) = supervisor.apply(one, part.allows(one.attribute.group())) {
                        refused.push((one.parameter, why));
                    }
                }
                let problems = supervisor.restore()?;
                if problems.is_empty() { Ok(refused) } else { Err(problems.join("; ")) }
            };
            let refused = match &mut self.claim {
                _ if !needed || !sys::is_root() => Vec::new(),
                Some(claim) => try_all(&mut claim.supervisor)?,
                None => match supervisor::lock(LOCK)? {
                    Some(_lock) => try_all(&mut Supervisor::start()?.0)?,
                    None => return Ok(Vec::new()),
                },
            };
            self.tried.push(Tried { all, refused });
            self.tried.len() - 1
        };
        let refused = self.tried[at].refused.iter();
        Ok(refused.map(|(parameter, why)| refusal_of(case, &part, parameter, why)).collect())
    }

    /// Fails if a test interface of the part carries the controller's connection, or is no Ethernet device.
    fn refuse_interfaces(&self, part: &Part) -> Result<(), Failure> {
        let own = part.machines.iter().filter(|machine| machine.name == part.machine);
        let interfaces: BTreeSet<&str> =
            own.flat_map(|machine| machine.interfaces.values().map(String::as_str)).collect();
        inspect::refuse_interfaces(&interfaces.into_iter().collect::<Vec<_>>(), &self.ssh_address)
    }

    /// Runs a part in a process of its own, and restores the test interfaces.
    ///
    /// The process writes a byte to a pipe when its recording has been sent. The kernel then needs a few hundred milliseconds to close
    /// the descriptors of the process; neither the answer nor the next run waits for that.
    fn run(&mut self, request: &Request, part: Part) -> Result<Vec<FromAgent>, Failure> {
        self.refuse_interfaces(&part)?;
        self.environment()?.join(part);
        let environment = self.environment.as_ref().expect("made above");
        let claim = self.claim.as_mut().ok_or("this machine was not claimed")?;
        let wrong = |e: io::Error| format!("the process of the run: {e}");
        while claim.ending.len() > MOST_ENDING {
            let first = claim.ending.pop_front().expect("not empty");
            sys::wait_for_child(first).map_err(wrong)?;
        }
        let since = LoadSince::of_run(claim.idle.take())?;
        let (mut sent, mut report) = io::pipe().map_err(wrong)?;
        let process = sys::fork().map_err(wrong)?;
        if process == 0 {
            drop(sent);
            let ended = part::run(request, environment, &mut claim.supervisor, since);
            std::process::exit(match ended.and_then(|()| report.write_all(&[1])) {
                Ok(()) => 0,
                Err(why) => {
                    eprintln!("tcpassay-agent: {why}");
                    1
                }
            });
        }
        drop(report);
        // Without the byte the pipe ends with the process.
        let complete = sent.read(&mut [0]).map_err(wrong)? == 1;
        let status = if complete {
            claim.ending.push_back(process);
            0
        } else {
            sys::wait_for_child(process).map_err(wrong)?
        };
        let problems = if let Ok(problems) = claim.supervisor.restore() {
            problems
        } else {
            // It was killed. The next one restores what its journal contains, and serves the next run.
            let (supervisor, problems) = Supervisor::start()?;
            claim.supervisor = supervisor;
            problems
        };
        if !complete {
            // The controller may have received a part of a message, after which nothing can be sent.
            eprintln!("tcpassay-agent: the process of the run ended with wait status {status:#x}");
            std::process::exit(1);
        }
        claim.idle = Some(LoadSince::before_a_process()?);
        Ok(vec![FromAgent::Restored { problems }])
    }
}

/// The reason why a setting cannot have its value: the device does not have it, or the testbed does not allow the change.
fn refusal(wanted: &Wanted, part: &Part) -> Result<Result<(), String>, Failure> {
    if let Err(why) = settings::check(wanted) {
        return Ok(Err(why));
    }
    let now = settings::read(&wanted.interface, wanted.attribute)?;
    let group = wanted.attribute.group();
    if !wanted.changes(now) || part.allows(group) {
        return Ok(Ok(()));
    }
    Ok(Err(format!(
        "`{}` of `{}` is {now} and would have to be {}; `allow` does not contain `{group}`",
        wanted.attribute.name(),
        wanted.interface,
        wanted.value,
        group = group.name(),
    )))
}

/// The error of a case that this machine refuses.
fn refusal_of(case: &Case, part: &Part, parameter: &str, why: &str) -> CaseError {
    CaseError {
        path: parameter.to_owned(),
        other: None,
        value: Some(Value::Text(case.setting(parameter).to_string())),
        why: format!("host `{}` of the testbed: {why}", part.machine),
    }
}

/// The settings of this machine that the case changes, and that it does not have or the testbed does not allow to be changed; and all settings of
/// its hardware.
fn not_allowed(case: &Case, environment: &Environment) -> Result<(Vec<CaseError>, Vec<Wanted>), Failure> {
    let Some(part) = &environment.part else { return Ok((Vec::new(), Vec::new())) };
    let mut topology = NetnsTopology::of(case, environment);
    topology.cut(case, part)?;
    let mut errors = Vec::new();
    for file in machine::wanted(case, &topology).iter().filter(|file| file.required) {
        if let Err(why) = machine::check(file, part.allows(Group::Controllers)) {
            errors.push(refusal_of(case, part, file.parameter, &why));
        }
    }
    let all = settings::wanted(case, &topology, &settings::is_virtual);
    for wanted in all.iter().filter(|wanted| wanted.required) {
        if let Err(why) = refusal(wanted, part)? {
            errors.push(refusal_of(case, part, wanted.parameter, &why));
        }
    }
    Ok((errors, all.into_iter().filter(|wanted| wanted.attribute.is_of_hardware()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session { claim: None, environment: None, tried: Vec::new(), ssh_address: String::new() }
    }

    #[test]
    fn a_controller_with_another_version_of_the_messages_is_refused_with_both_versions() {
        let message = session().answer(FromController::Hello { protocol: PROTOCOL + 1 }).err().unwrap();
        let expected = format!(
            "the controller uses version {} of the messages, and this agent version {PROTOCOL}",
            PROTOCOL + 1
        );
        assert_eq!(message, expected);
        let answers = session().answer(FromController::Hello { protocol: PROTOCOL }).unwrap();
        assert!(matches!(&answers[..], [FromAgent::Welcome { protocol: PROTOCOL, .. }]));
    }

    #[test]
    fn traffic_cannot_start_or_stop_before_a_run_was_prepared() {
        for message in [FromController::Start { at: 1 }, FromController::Stop { end: 1 }] {
            assert_eq!(session().answer(message).err().unwrap(), "no run has been prepared");
        }
    }

    #[test]
    fn a_sign_of_life_has_no_answer_and_a_request_for_the_clock_has_one() {
        assert!(session().answer(FromController::Alive {}).unwrap().is_empty());
        let answers = session().answer(FromController::Clock {}).unwrap();
        assert!(matches!(answers[..], [FromAgent::Time { now }] if now > 0));
    }
}
