//! Programs that start slowly: one process of them forks a process for each run (docs/stacks.md).
//!
//! The forked process is a child of this one, like every other, so that its end and its CPU time are known here: the process that forks
//! it lets it be orphaned, and this process is the next subreaper until that has happened. It is none at other times, because it waits for no
//! other orphans, such as daemons that somebody else starts: they would remain as zombies.

use crate::protocol::{self, Request};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{
    Pid, Signal, WaitOptions, child_subreaper, getpid, kill_process_group, set_child_subreaper, waitpgid,
    waitpid,
};
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io::{Error, ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

thread_local! {
    /// By identity: the programs that can fork, and the processes that do.
    static PROGRAMS: RefCell<BTreeMap<u64, Option<Server>>> = const { RefCell::new(BTreeMap::new()) };
}

/// A process of a run.
#[derive(Debug)]
pub(crate) enum Running {
    Started(Child),
    Forked(Pid),
}

impl Running {
    /// Its process group, which has its number.
    pub fn group(&self) -> Option<Pid> {
        match self {
            Running::Started(child) => i32::try_from(child.id()).ok().and_then(Pid::from_raw),
            Running::Forked(pid) => Some(*pid),
        }
    }

    /// How it ended, if it has.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        match self {
            Running::Started(child) => child.try_wait().ok().flatten(),
            Running::Forked(pid) => ended(*pid, WaitOptions::NOHANG),
        }
    }

    /// Waits for its end, which has been caused.
    pub fn wait(&mut self) -> Option<ExitStatus> {
        match self {
            Running::Started(child) => child.wait().ok(),
            Running::Forked(pid) => ended(*pid, WaitOptions::empty()),
        }
    }

    /// After its group was killed: what it left behind may have become a child of this process.
    pub fn reap(&self) {
        if let Running::Forked(pid) = self {
            while let Ok(Some(_)) = waitpgid(*pid, WaitOptions::NOHANG) {}
        }
    }
}

fn ended(pid: Pid, options: WaitOptions) -> Option<ExitStatus> {
    waitpid(Some(pid), options).ok().flatten().map(|(_, status)| ExitStatus::from_raw(status.as_raw()))
}

/// What the words of a command name: a program with other files is another one.
pub(crate) fn identity(command: &str, files: impl Iterator<Item = PathBuf>) -> u64 {
    let mut hasher = DefaultHasher::new();
    command.hash(&mut hasher);
    files.for_each(|file| std::fs::read(file).ok().hash(&mut hasher));
    hasher.finish()
}

/// Notes that a program can fork.
pub(crate) fn note(identity: u64) {
    PROGRAMS.with_borrow_mut(|all| {
        all.entry(identity).or_insert(None);
    });
}

/// A process of a program that can fork, with these files as its standard streams; `None` if the program cannot, or does not any more.
/// `start`: the command that starts it. `limit`: of wall time.
pub(crate) fn fork(
    identity: u64,
    (stream, errors): (&OwnedFd, &OwnedFd),
    limit: Duration,
    start: impl FnOnce() -> Command,
) -> Option<Pid> {
    PROGRAMS.with_borrow_mut(|all| {
        let server = all.get_mut(&identity)?;
        let forked = match server {
            Some(server) => server.fork(stream, errors),
            None => Server::start(start(), limit).and_then(|made| server.insert(made).fork(stream, errors)),
        };
        if forked.is_err() {
            // It is not tried again.
            all.remove(&identity);
        }
        forked.ok()
    })
}

/// A process that forks others.
#[derive(Debug)]
struct Server {
    child: Child,
    control: UnixStream,
}

impl Server {
    fn start(mut builder: Command, limit: Duration) -> Result<Server, Error> {
        let (control, theirs) = UnixStream::pair()?;
        let input = OwnedFd::from(theirs);
        let output = input.try_clone()?;
        let child =
            builder.stdin(Stdio::from(input)).stdout(Stdio::from(output)).stderr(Stdio::null()).spawn()?;
        drop(builder);
        let mut made = Server { child, control };
        made.control.set_read_timeout(Some(limit))?;
        made.control.set_write_timeout(Some(limit))?;
        let mut frame = Vec::new();
        protocol::begin(&mut frame, Request::Fork, 0);
        protocol::finish(&mut frame);
        made.control.write_all(&frame)?;
        let mut answer = [1; 4];
        made.control.read_exact(&mut answer)?;
        if answer == [0; 4] { Ok(made) } else { Err(ErrorKind::InvalidData.into()) }
    }

    /// Has it fork. Its answer comes when the process is orphaned.
    fn fork(&mut self, stream: &OwnedFd, errors: &OwnedFd) -> Result<Pid, Error> {
        let before = child_subreaper()?;
        set_child_subreaper(Some(getpid()))?;
        let made = self.ask(stream, errors);
        set_child_subreaper(before)?;
        made
    }

    /// Sends it the files; its answer is the number of the process.
    fn ask(&mut self, stream: &OwnedFd, errors: &OwnedFd) -> Result<Pid, Error> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut files = SendAncillaryBuffer::new(&mut space);
        let both = [stream.as_fd(), errors.as_fd()];
        files.push(SendAncillaryMessage::ScmRights(&both));
        sendmsg(&self.control, &[IoSlice::new(b"f")], &mut files, SendFlags::NOSIGNAL)?;
        let mut answer = [0; 4];
        self.control.read_exact(&mut answer)?;
        let pid =
            i32::try_from(u32::from_le_bytes(answer)).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw);
        let pid = pid.ok_or(ErrorKind::InvalidData)?;
        // It is a child of this process, or it is none that may be killed.
        if !matches!(waitpid(Some(pid), WaitOptions::NOHANG), Ok(None)) {
            return Err(ErrorKind::NotFound.into());
        }
        // The run may have another CPU than the process that forked.
        if let Ok(cpus) = sched_getaffinity(None) {
            let _ = sched_setaffinity(Some(pid), &cpus);
        }
        Ok(pid)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.control.shutdown(std::net::Shutdown::Both);
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
