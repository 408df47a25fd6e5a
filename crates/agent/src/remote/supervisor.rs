//! The supervisor: a process that changes the settings of test interfaces, and restores them whatever ends the agent.
//!
//! Before it changes a setting it writes the old value to a journal. It restores all settings when the agent asks for it, and when the
//! agent has ended for any reason: then its end of the socket is closed. If the supervisor itself is killed, the journal
//! remains; the next agent restores what is in it, and so does `tcpassay-agent restore`.

use crate::remote::settings::{self, Attribute};
use crate::system::Failure;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use tcpassay_linux::sys;

/// The folder of the journal. It outlives a reboot.
const FOLDER: &str = "/var/lib/tcpassay";
const JOURNAL: &str = "/var/lib/tcpassay/journal";

/// A setting that was changed.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct ChangedSetting {
    interface: String,
    attribute: Attribute,
    before: u64,
    written: u64,
}

/// A request to the supervisor, one line of JSON. The answer is a line with a list of problems.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    Change { interface: String, attribute: Attribute, value: u64 },
    Restore,
}

/// The agent's end of the connection to its supervisor.
pub struct Supervisor {
    stream: BufReader<UnixStream>,
}

impl Supervisor {
    /// Starts a supervisor, which first restores what the journal of an earlier one contains. Returns it with what came of that.
    ///
    /// # Errors
    /// The process cannot be created.
    pub fn start() -> Result<(Supervisor, Vec<String>), Failure> {
        let wrong = |e: io::Error| format!("the supervisor: {e}");
        let (ours, theirs) = UnixStream::pair().map_err(wrong)?;
        if sys::fork().map_err(wrong)? == 0 {
            drop(ours);
            // A signal to the session of the connection does not concern it.
            let ended = sys::detach().and_then(|()| serve(&theirs));
            std::process::exit(i32::from(ended.is_err()));
        }
        drop(theirs);
        let mut supervisor = Supervisor { stream: BufReader::new(ours) };
        let restored = supervisor.restore()?;
        Ok((supervisor, restored))
    }

    /// Changes a setting; it is restored by [`Supervisor::restore`].
    ///
    /// # Errors
    /// An interface that does not take the value.
    pub fn change(&mut self, interface: &str, attribute: Attribute, value: u64) -> Result<(), Failure> {
        let order = Order::Change { interface: interface.to_owned(), attribute, value };
        match self.ask(&order)?.first() {
            None => Ok(()),
            Some(problem) => Err(problem.clone()),
        }
    }

    /// Restores all settings. Returns what could not be restored.
    ///
    /// # Errors
    /// The supervisor has ended.
    pub fn restore(&mut self) -> Result<Vec<String>, Failure> {
        self.ask(&Order::Restore)
    }

    fn ask(&mut self, order: &Order) -> Result<Vec<String>, Failure> {
        let gone = |e: io::Error| format!("the supervisor has ended: {e}");
        let mut line = serde_json::to_string(order).map_err(|e| e.to_string())?;
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes()).map_err(gone)?;
        let mut answer = String::new();
        self.stream.read_line(&mut answer).map_err(gone)?;
        serde_json::from_str(&answer).map_err(|_| "the supervisor has ended".to_owned())
    }
}

/// Serves the agent until its end, and then restores all settings.
fn serve(stream: &UnixStream) -> io::Result<()> {
    let mut out = stream;
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { break };
        let problems = match serde_json::from_str(&line)? {
            Order::Change { interface, attribute, value } => {
                change(&interface, attribute, value).err().into_iter().collect()
            }
            Order::Restore => restore_journal(),
        };
        let mut answer = serde_json::to_string(&problems)?;
        answer.push('\n');
        if out.write_all(answer.as_bytes()).is_err() {
            break;
        }
    }
    restore_journal();
    Ok(())
}

/// Changes a setting after its old value was written to the journal.
fn change(interface: &str, attribute: Attribute, value: u64) -> Result<(), Failure> {
    let before = settings::read(interface, attribute)?;
    // An interface may carry packets of a larger size than a case needs.
    if before == value || (attribute == Attribute::Mtu && before > value) {
        return Ok(());
    }
    let mut all = journal()?;
    let same = |one: &&ChangedSetting| one.interface == interface && one.attribute == attribute;
    if let Some(one) = all.iter().find(same) {
        return Err(format!(
            "`{}` of `{interface}` must be {} for one host of the case and {value} for another one",
            attribute.name(),
            one.written
        ));
    }
    all.push(ChangedSetting { interface: interface.to_owned(), attribute, before, written: value });
    write_journal(&all)?;
    settings::write(interface, attribute, value)
}

/// The changes in the journal, in the order in which they were made.
fn journal() -> Result<Vec<ChangedSetting>, Failure> {
    match fs::read_to_string(JOURNAL) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| format!("{JOURNAL}: {e}")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(format!("{JOURNAL}: {e}")),
    }
}

/// Replaces the journal. It is on the disk when the function returns.
fn write_journal(all: &[ChangedSetting]) -> Result<(), Failure> {
    let wrong = |e: io::Error| format!("{JOURNAL}: {e}");
    if all.is_empty() {
        return match fs::remove_file(JOURNAL) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(wrong(e)),
            Err(_) => Ok(()),
            Ok(()) => {
                // The folder remains if it has other files.
                let _ = fs::remove_dir(FOLDER);
                Ok(())
            }
        };
    }
    fs::create_dir_all(FOLDER).map_err(wrong)?;
    let beside = format!("{JOURNAL}.new");
    let text = serde_json::to_string(all).map_err(|e| e.to_string())?;
    let mut file = fs::File::create(&beside).map_err(wrong)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(wrong)?;
    fs::rename(&beside, JOURNAL).map_err(wrong)
}

/// Restores the settings of the journal, the last change first. Returns what could not be restored; the journal keeps it.
pub fn restore_journal() -> Vec<String> {
    let all = match journal() {
        Ok(all) => all,
        Err(why) => return vec![why],
    };
    let (mut left, mut problems) = (Vec::new(), Vec::new());
    for one in all.into_iter().rev() {
        if let Err(why) = restore(&one) {
            problems.push(why);
            left.insert(0, one);
        }
    }
    problems.extend(write_journal(&left).err());
    problems
}

fn restore(one: &ChangedSetting) -> Result<(), Failure> {
    let ChangedSetting { interface, attribute, before, written } = one;
    // An interface that was removed has no settings.
    if !Path::new(&format!("/sys/class/net/{interface}")).exists() {
        return Ok(());
    }
    match settings::read(interface, *attribute)? {
        now if now == *before => Ok(()),
        now if now == *written => settings::write(interface, *attribute, *before),
        now => Err(format!(
            "`{}` of `{interface}` was {before}, the agent made it {written}, and now it is {now}: it is left so; \
             remove {JOURNAL} when it is right",
            attribute.name()
        )),
    }
}

/// Locks this machine for one controller, or returns `None` if another one uses it. A run on the substrate `host` has the same lock.
///
/// # Errors
/// The file cannot be created.
pub fn lock(path: &str) -> Result<Option<fs::File>, Failure> {
    let wrong = |e: io::Error| format!("{path}: {e}");
    let lock = fs::File::create(path).map_err(wrong)?;
    Ok(sys::try_lock(lock.as_fd()).map_err(wrong)?.then_some(lock))
}
