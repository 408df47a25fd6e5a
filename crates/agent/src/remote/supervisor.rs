//! The supervisor: a process that changes the settings of test interfaces and of the whole machine, and restores them whatever ends the agent.
//!
//! Before it changes a setting it writes the old value to a journal. It restores all settings when the agent asks for it, and when the
//! agent has ended for any reason: then its end of the socket is closed. If the supervisor itself is killed, the journal
//! remains; the next agent restores what is in it, and so does `tcpassay-agent restore`.

use crate::netns::topology::NETNS_FOLDER;
use crate::remote::settings::{self, Attribute, Wanted};
use crate::system::{Failure, write_and_check};
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
/// How often a socket that its application has closed sends its data again. `SOCK_DESTROY` is not used instead of it: before Linux 6.12 a
/// closed socket that it aborts never ends.
const ORPHAN_RETRIES: &str = "/proc/sys/net/ipv4/tcp_orphan_retries";
/// The next journal while it is written.
const UNFINISHED: &str = "/var/lib/tcpassay/journal.new";

/// A setting of an interface that was changed.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct ChangedSetting {
    interface: String,
    attribute: Attribute,
    before: u64,
    written: u64,
}

/// A file of the kernel that was changed: a setting of the whole machine.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct ChangedFile {
    file: String,
    before: String,
    written: String,
}

/// An entry of the journal.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(untagged)]
pub enum Changed {
    /// A setting of an interface.
    Setting(ChangedSetting),
    /// A setting of the whole machine.
    File(ChangedFile),
}

/// A request to the supervisor, one line of JSON. The answer is a line with a list of problems.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    Change {
        interface: String,
        attribute: Attribute,
        value: u64,
    },
    Write {
        file: String,
        value: String,
    },
    /// The process of a run has made its network namespaces.
    Hold {
        process: u32,
    },
    Restore,
}

/// The agent's end of the connection to its supervisor.
pub struct Supervisor {
    stream: BufReader<UnixStream>,
}

impl Supervisor {
    /// Starts a supervisor, which first restores what the journal of an earlier one contains. Returns it
    /// with the messages about the restoration.
    ///
    /// # Errors
    /// The process cannot be created.
    pub fn start() -> Result<(Supervisor, Vec<String>), Failure> {
        let wrong = |e: io::Error| format!("the supervisor: {e}");
        let (ours, theirs) = UnixStream::pair().map_err(wrong)?;
        if sys::fork().map_err(wrong)? == 0 {
            drop(ours);
            // A signal to the session of the ssh connection must not end the supervisor.
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
        self.ask(&order)?.first().map_or(Ok(()), |problem| Err(problem.clone()))
    }

    /// Changes a setting that a run needs, if this is `allowed`. A virtual device does not have every setting of hardware, and some devices have only
    /// one value: what a case does not ask for may stay as it is.
    ///
    /// # Errors
    /// A required value that the interface does not take.
    pub fn apply(&mut self, wanted: &Wanted, allowed: bool) -> Result<(), Failure> {
        if wanted.required {
            return self.change(&wanted.interface, wanted.attribute, wanted.value);
        }
        if allowed {
            // The recording contains the actual value.
            let _ = self.change(&wanted.interface, wanted.attribute, wanted.value);
        }
        Ok(())
    }

    /// Writes a file of the kernel that has a setting of the whole machine; it is restored by [`Supervisor::restore`].
    ///
    /// # Errors
    /// A value that the kernel does not take.
    pub fn write(&mut self, file: &str, value: &str) -> Result<(), Failure> {
        let order = Order::Write { file: file.to_owned(), value: value.to_owned() };
        self.ask(&order)?.first().map_or(Ok(()), |problem| Err(problem.clone()))
    }

    /// Keeps the network namespaces that a process has made until [`Supervisor::restore`]; then closed sockets with unsent data, which
    /// would keep them for minutes, are given up.
    ///
    /// If the supervisor was killed, the run goes on without it, and the kernel removes the namespaces later.
    ///
    /// # Errors
    /// The process has ended.
    pub fn hold(&mut self, process: u32) -> Result<(), Failure> {
        let problems = self.ask(&Order::Hold { process }).unwrap_or_default();
        problems.first().map_or(Ok(()), |problem| Err(problem.clone()))
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
    let mut held = HeldNamespaces::default();
    for line in BufReader::new(stream).lines() {
        let Ok(line) = line else { break };
        let problems = match serde_json::from_str(&line)? {
            Order::Change { interface, attribute, value } => {
                change(&interface, attribute, value).err().into_iter().collect()
            }
            Order::Write { file, value } => write(&file, &value).err().into_iter().collect(),
            Order::Hold { process } => held.hold(process).err().into_iter().collect(),
            Order::Restore => {
                held.release();
                restore_journal()
            }
        };
        let mut answer = serde_json::to_string(&problems)?;
        answer.push('\n');
        if out.write_all(answer.as_bytes()).is_err() {
            break;
        }
    }
    held.release();
    restore_journal();
    Ok(())
}

/// The network namespaces of a run. The supervisor outlives a run that is killed.
#[derive(Default)]
struct HeldNamespaces(Vec<fs::File>);

impl HeldNamespaces {
    fn hold(&mut self, process: u32) -> Result<(), Failure> {
        let folder = format!("/proc/{process}/root{NETNS_FOLDER}");
        let wrong = |e: io::Error| format!("{folder}: {e}");
        for entry in fs::read_dir(&folder).map_err(wrong)? {
            let path = entry.map_err(wrong)?.path();
            // The folder has hidden ones with other contents.
            if !path.file_name().unwrap_or_default().to_string_lossy().starts_with('.') {
                self.0.push(fs::File::open(path).map_err(wrong)?);
            }
        }
        Ok(())
    }

    /// Lets closed sockets of the namespaces end after their next timeout, and closes the namespaces. An error leaves them to the kernel.
    fn release(&mut self) {
        let Ok(origin) = fs::File::open("/proc/self/ns/net") else { return };
        for namespace in self.0.drain(..) {
            if sys::enter(namespace.as_fd()).is_ok() {
                let _ = fs::write(ORPHAN_RETRIES, "1");
            }
        }
        let _ = sys::enter(origin.as_fd());
    }
}

/// Changes a setting after its old value was written to the journal.
fn change(interface: &str, attribute: Attribute, value: u64) -> Result<(), Failure> {
    let before = settings::read(interface, attribute)?;
    // An interface may carry packets of a larger size than a case needs.
    if before == value || (attribute == Attribute::Mtu && before > value) {
        return Ok(());
    }
    let mut all = journal()?;
    let changed = ChangedSetting { interface: interface.to_owned(), attribute, before, written: value };
    add(&mut all, changed)?;
    write_journal(&all)?;
    settings::write(interface, attribute, value).inspect_err(|_| {
        // Without this the value that the device has instead would be taken for a change by somebody else.
        if let Ok(now) = settings::read(interface, attribute) {
            keep_actual(&mut all, now);
            let _ = write_journal(&all);
        }
    })
}

/// Corrects the last entry of a journal, whose device has another value than the written one: it has rounded the value, or refused it.
fn keep_actual(journal: &mut Vec<Changed>, now: u64) {
    let Some(Changed::Setting(last)) = journal.last_mut() else { return };
    last.written = now;
    if last.before == now {
        journal.pop();
    }
}

/// Writes a file after its old value was written to the journal.
fn write(file: &str, value: &str) -> Result<(), Failure> {
    let before = fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?.trim().to_owned();
    if before == value {
        return Ok(());
    }
    let mut all = journal()?;
    if let Some(one) = all.iter().find_map(|one| Some(one.file()?).filter(|one| one.file == file)) {
        return Err(format!(
            "{file} must be {} for one host of the case and {value} for another one",
            one.written
        ));
    }
    all.push(Changed::File(ChangedFile { file: file.to_owned(), before, written: value.to_owned() }));
    write_journal(&all)?;
    write_and_check(file, value)
}

/// Adds a change to the journal. Two hosts of a case cannot need different values of one setting.
fn add(journal: &mut Vec<Changed>, new: ChangedSetting) -> Result<(), Failure> {
    let same = |one: &&ChangedSetting| one.interface == new.interface && one.attribute == new.attribute;
    if let Some(one) = journal.iter().filter_map(Changed::setting).find(same) {
        return Err(format!(
            "`{}` of `{}` must be {} for one host of the case and {} for another one",
            new.attribute.name(),
            new.interface,
            one.written,
            new.written
        ));
    }
    journal.push(Changed::Setting(new));
    Ok(())
}

/// The changes in the journal, in the order in which they were made.
fn journal() -> Result<Vec<Changed>, Failure> {
    match fs::read_to_string(JOURNAL) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| format!("{JOURNAL}: {e}")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(format!("{JOURNAL}: {e}")),
    }
}

/// Replaces the journal. It is on the disk when the function returns.
fn write_journal(all: &[Changed]) -> Result<(), Failure> {
    let wrong = |e: io::Error| format!("{JOURNAL}: {e}");
    if all.is_empty() {
        // A supervisor that was killed while it wrote has left the second file.
        for path in [JOURNAL, UNFINISHED] {
            match fs::remove_file(path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(wrong(e)),
                _ => {}
            }
        }
        // The folder remains if it has other files.
        let _ = fs::remove_dir(FOLDER);
        return Ok(());
    }
    let is_new = !Path::new(FOLDER).exists();
    fs::create_dir_all(FOLDER).map_err(wrong)?;
    let text = serde_json::to_string(all).map_err(|e| e.to_string())?;
    let mut file = fs::File::create(UNFINISHED).map_err(wrong)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(wrong)?;
    fs::rename(UNFINISHED, JOURNAL).map_err(wrong)?;
    // A loss of power forgets new names in a folder that was not written.
    let sync = |folder: &Path| fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(wrong);
    sync(Path::new(FOLDER))?;
    Path::new(FOLDER).parent().filter(|_| is_new).map_or(Ok(()), sync)
}

/// Restores the settings of the journal, the last change first. Returns what could not be restored; the journal keeps it.
pub fn restore_journal() -> Vec<String> {
    let all = match journal() {
        Ok(all) => all,
        Err(why) => return vec![why],
    };
    let (mut left, mut problems) = (Vec::new(), Vec::new());
    for one in all.into_iter().rev() {
        let done = match &one {
            Changed::Setting(one) => restore(one),
            Changed::File(one) => restore_file(one),
        };
        if let Err(why) = done {
            problems.push(why);
            left.insert(0, one);
        }
    }
    problems.extend(write_journal(&left).err());
    problems
}

impl Changed {
    fn setting(&self) -> Option<&ChangedSetting> {
        match self {
            Changed::Setting(one) => Some(one),
            Changed::File(_) => None,
        }
    }

    fn file(&self) -> Option<&ChangedFile> {
        match self {
            Changed::File(one) => Some(one),
            Changed::Setting(_) => None,
        }
    }
}

/// Restores a file of the kernel. Nothing is done if the file does not exist, because its module was unloaded, or if it already has its
/// old value, for example after a reboot.
fn restore_file(one: &ChangedFile) -> Result<(), Failure> {
    let ChangedFile { file, before, written } = one;
    let now = match fs::read_to_string(file) {
        Ok(text) => text.trim().to_owned(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(format!("{file}: {e}")),
    };
    if now == *before {
        Ok(())
    } else if now == *written {
        write_and_check(file, before)
    } else {
        Err(format!(
            "{file} was {before}, the agent made it {written}, and now it is {now}: it is not changed; remove {JOURNAL} when the value \
             is right"
        ))
    }
}

fn restore(one: &ChangedSetting) -> Result<(), Failure> {
    // An interface that was removed has no settings.
    if !Path::new(&format!("/sys/class/net/{}", one.interface)).exists() {
        return Ok(());
    }
    match restored(one, settings::read(&one.interface, one.attribute)?)? {
        Some(value) => settings::write(&one.interface, one.attribute, value),
        None => Ok(()),
    }
}

/// The value to write to restore a setting whose value is `now`; `None` if it is restored already.
fn restored(one: &ChangedSetting, now: u64) -> Result<Option<u64>, Failure> {
    let ChangedSetting { interface, attribute, before, written } = one;
    match now {
        now if now == *before => Ok(None),
        now if now == *written => Ok(Some(*before)),
        now => Err(format!(
            "`{}` of `{interface}` was {before}, the agent made it {written}, and now it is {now}: it is not changed; remove \
             {JOURNAL} when the value is right",
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

#[cfg(test)]
mod tests {
    use super::*;

    fn mtu(before: u64, written: u64) -> ChangedSetting {
        ChangedSetting { interface: "eth1".to_owned(), attribute: Attribute::Mtu, before, written }
    }

    #[test]
    fn a_setting_is_restored_only_if_it_still_has_the_value_that_the_agent_wrote() {
        assert_eq!(restored(&mtu(1500, 9000), 9000), Ok(Some(1500)));
        assert_eq!(restored(&mtu(1500, 9000), 1500), Ok(None));
        assert_eq!(
            restored(&mtu(1500, 9000), 4000).unwrap_err(),
            "`mtu` of `eth1` was 1500, the agent made it 9000, and now it is 4000: it is not changed; remove \
             /var/lib/tcpassay/journal when the value is right"
        );
    }

    #[test]
    fn two_hosts_that_need_different_values_of_one_setting_are_refused() {
        let mut journal = vec![Changed::Setting(mtu(1500, 9000))];
        assert_eq!(
            add(&mut journal, mtu(9000, 4000)).unwrap_err(),
            "`mtu` of `eth1` must be 9000 for one host of the case and 4000 for another one"
        );
        let other = ChangedSetting { interface: "eth2".to_owned(), ..mtu(1500, 4000) };
        assert_eq!(add(&mut journal, other), Ok(()));
        assert_eq!(journal.len(), 2);
    }

    #[test]
    fn the_journal_has_the_value_that_a_device_has_made_of_the_written_one() {
        let mut journal = vec![Changed::Setting(mtu(1500, 9000)), Changed::Setting(mtu(256, 100))];
        keep_actual(&mut journal, 104);
        assert_eq!(journal, [Changed::Setting(mtu(1500, 9000)), Changed::Setting(mtu(256, 104))]);
        // A device that has kept its old value needs no restoration.
        keep_actual(&mut journal, 256);
        assert_eq!(journal, [Changed::Setting(mtu(1500, 9000))]);
    }

    #[test]
    fn the_journal_contains_interface_setting_and_both_values() {
        let file = ChangedFile { file: "/f".to_owned(), before: "1".to_owned(), written: "0".to_owned() };
        let all = [Changed::Setting(mtu(1500, 9000)), Changed::File(file)];
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(
            text,
            r#"[{"interface":"eth1","attribute":"mtu","before":1500,"written":9000},{"file":"/f","before":"1","written":"0"}]"#
        );
        assert_eq!(serde_json::from_str::<Vec<Changed>>(&text).unwrap(), all);
    }

    #[test]
    fn a_file_is_restored_only_if_it_still_has_what_the_agent_wrote() {
        let path = std::env::temp_dir().join(format!("tcpassay-file-{}", std::process::id()));
        let file = path.to_str().unwrap().to_owned();
        let one = ChangedFile { file: file.clone(), before: "717".to_owned(), written: "819".to_owned() };
        for (now, after) in [("819\n", "717"), ("717\n", "717\n")] {
            fs::write(&path, now).unwrap();
            assert_eq!(restore_file(&one), Ok(()));
            assert_eq!(fs::read_to_string(&path).unwrap(), after);
        }
        fs::write(&path, "5").unwrap();
        let said = restore_file(&one).unwrap_err();
        assert!(
            said.starts_with(&format!("{file} was 717, the agent made it 819, and now it is 5: ")),
            "{said}"
        );
        fs::remove_file(&path).unwrap();
        assert_eq!(restore_file(&one), Ok(()));
    }

    #[test]
    fn a_machine_has_one_lock_at_a_time() {
        let path = std::env::temp_dir().join(format!("tcpassay-lock-{}", std::process::id()));
        let path = path.to_str().unwrap();
        let first = lock(path).unwrap();
        assert!(first.is_some() && lock(path).unwrap().is_none());
        drop(first);
        assert!(lock(path).unwrap().is_some());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_supervisor_that_has_ended_is_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut supervisor = Supervisor { stream: BufReader::new(ours) };
        drop(theirs);
        assert!(supervisor.restore().unwrap_err().starts_with("the supervisor has ended"));
        // A run goes on without a supervisor that would keep its namespaces.
        assert_eq!(supervisor.hold(std::process::id()), Ok(()));
    }
}
