//! A stack in a process of its own: the other end of [`protocol`](crate::protocol).
//!
//! The process has one socket as its standard input and output, and its own process group, which is killed with everything that it
//! started when the run ends. Its standard error is read; the last of it is part of the reason when the process fails.

use crate::fork::{self, Running};
use crate::one_cpu::OneCpu;
use crate::protocol::{self, Answer, FIELDS, LARGEST, NEVER, Request, VERSION};
use crate::{Description, Drained, Next, Settings, SocketId, Stack, StackError, StackErrorKind};
use rustix::net::{RecvFlags, recv};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, kill_process_group, setrlimit};
use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, PipeReader, Read, Write, pipe};
use std::net::SocketAddrV4;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tcpassay_units::{Dur, Time};

/// Files that are used instead of words of a command, by the position of the word.
pub type Copies = BTreeMap<usize, PathBuf>;
/// The copies of each command that may be started.
pub type Commands = BTreeMap<String, Copies>;

/// Limits of a process, and what is asked of it besides its work.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Wall time of an answer. It decides only whether a stack hangs, never what a run measures.
    pub answer: Duration,
    /// Address space in bytes.
    pub memory: u64,
    /// Whether it is asked to show the state of its connections.
    pub state: bool,
}

impl Default for Limits {
    /// 30 seconds, 8 GiB (Go and Python reserve much more than they use).
    fn default() -> Limits {
        Limits { answer: Duration::from_secs(30), memory: 8 << 30, state: false }
    }
}

/// Bytes of the end of standard error that are kept.
const KEPT: usize = 4096;
/// Lines of it that a reason shows.
const SHOWN: usize = 5;

/// A stack in a process.
pub struct Process {
    name: String,
    child: Running,
    stream: UnixStream,
    said: Arc<Mutex<VecDeque<u8>>>,
    reader: Option<JoinHandle<()>>,
    frame: Vec<u8>,
    read: Vec<u8>,
    deadline: u64,
    drained: Drained,
    /// It performs batches.
    batches: bool,
    /// A call that it has performed already: its socket, and where its answer is in `read`.
    done: Option<(Request, SocketId, Range<usize>)>,
    /// Of its program.
    identity: u64,
    _cpu: OneCpu,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Process {
    /// Starts `command`, a program and its arguments separated by spaces, and tells it the settings. The words at the positions
    /// in `copies` are replaced by these files; the program still sees its own word as its name.
    ///
    /// # Errors
    /// A program that cannot be started, or that does not answer as docs/stacks.md says.
    pub fn begin(
        command: &str,
        copies: &Copies,
        settings: &Settings,
        limits: Limits,
    ) -> Result<(Process, Description), StackError> {
        let mut words = command.split_whitespace();
        let program = words.next().ok_or_else(|| StackError::broken("the command is empty"))?;
        let failed = |why: std::io::Error| StackError::broken(why.to_string());
        let (stream, theirs) = UnixStream::pair().map_err(failed)?;
        let (errors, their_errors) = pipe().map_err(failed)?;
        let (theirs, their_errors) = (OwnedFd::from(theirs), OwnedFd::from(their_errors));
        let file =
            |place: usize, word: &str| copies.get(&place).cloned().unwrap_or_else(|| PathBuf::from(word));
        let start = || {
            let mut builder = Command::new(file(0, program));
            let words = command.split_whitespace().enumerate().skip(1);
            builder.arg0(program).args(words.map(|(place, word)| file(place, word))).process_group(0);
            bounded(&mut builder, limits.memory);
            builder
        };
        let cpu = OneCpu::hold();
        let files = command.split_whitespace().enumerate().map(|(place, word)| file(place, word));
        let identity = fork::identity(command, files);
        let forked = fork::fork(identity, (&theirs, &their_errors), limits.answer, start);
        let child = if let Some(pid) = forked {
            // It is the only one that may hold them: their end is that of the process.
            drop((theirs, their_errors));
            Running::Forked(pid)
        } else {
            let output = theirs.try_clone().map_err(failed)?;
            let mut builder = start();
            builder.stdin(Stdio::from(theirs)).stdout(Stdio::from(output)).stderr(Stdio::from(their_errors));
            // The builder holds the child's ends until it is dropped here.
            let begun = builder.spawn();
            Running::Started(
                begun.map_err(|why| StackError::broken(format!("`{program}` cannot be started: {why}")))?,
            )
        };
        let said = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&said);
        let reader = Some(std::thread::spawn(move || keep_last(errors, &kept)));
        let timeout = stream.set_read_timeout(Some(limits.answer));
        let timeout = timeout.and_then(|()| stream.set_write_timeout(Some(limits.answer)));
        let mut made = Process {
            name: command.to_owned(),
            child,
            stream,
            said,
            reader,
            frame: Vec::new(),
            read: vec![0; 1 << 16],
            deadline: NEVER,
            drained: Drained::default(),
            batches: false,
            done: None,
            identity,
            _cpu: cpu,
        };
        timeout.map_err(|why| made.failed(StackErrorKind::Broken, &why.to_string()))?;
        let about = made.tell(settings, limits.state)?;
        Ok((made, about))
    }

    /// The first request.
    fn tell(&mut self, settings: &Settings, state: bool) -> Result<Description, StackError> {
        protocol::begin(&mut self.frame, Request::Begin, 0);
        self.frame.extend_from_slice(lines(settings).as_bytes());
        if state {
            self.frame.extend_from_slice(b"state=1\n");
        }
        let (from, to) = self.exchange()?;
        let text = String::from_utf8_lossy(&self.read[from..to]).into_owned();
        let said: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once('=')).collect();
        if let Some(why) = said.get("error") {
            return Err(self.failed(StackErrorKind::Broken, &format!("it refuses the settings: {why}")));
        }
        let (Some(name), Some(version)) = (said.get("name"), said.get("version")) else {
            let why = "its answer to the first request has no lines `name=` and `version=`";
            return Err(self.failed(StackErrorKind::Broken, why));
        };
        let granularity = said.get("granularity_ns").map_or(Ok(1), |text| text.parse::<u64>());
        let granularity = granularity.ok().filter(|ns| (1..=1_000_000_000).contains(ns));
        let Some(granularity) = granularity else {
            return Err(
                self.failed(StackErrorKind::Broken, "`granularity_ns` is not a number from 1 to 10^9")
            );
        };
        let known: Vec<&str> = said.get("options").map_or_else(Vec::new, |text| text.split(',').collect());
        // `reno` is the default of the parameter: a stack without a choice of controllers has its own.
        let needed = |(option, value): &(&str, String)| !(*option == "cc" && value == "reno");
        let lacking = |(option, _): &(&'static str, String)| !known.contains(option);
        if let Some((option, value)) = asked(settings).into_iter().filter(needed).find(lacking) {
            let why = format!("it has no option `{option}`, which the case sets to `{value}`");
            return Err(self.failed(StackErrorKind::Broken, &why));
        }
        self.batches = said.get("batch") == Some(&"1");
        if said.get("fork") == Some(&"1") {
            fork::note(self.identity);
        }
        let shows: Vec<String> = said
            .get("shows")
            .filter(|text| state && !text.is_empty())
            .map_or_else(Vec::new, |text| text.split(',').map(str::to_owned).collect());
        if let Some(unknown) = shows.iter().find(|name| !FIELDS.contains(&name.as_str())) {
            let why = format!(
                "it shows `{unknown}`, which is no field of a state; there are {}",
                FIELDS.join(", ")
            );
            return Err(self.failed(StackErrorKind::Broken, &why));
        }
        Ok(Description {
            shows,
            name: (*name).to_owned(),
            version: (*version).to_owned(),
            granularity: Dur::from_nanos(granularity),
        })
    }

    /// Sends the request in `frame`. Returns where the content of the answer is in `read`.
    fn exchange(&mut self) -> Result<(usize, usize), StackError> {
        protocol::finish(&mut self.frame);
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        if recv(&self.stream, &mut [0_u8][..], flags).is_ok_and(|(_, bytes)| bytes > 0) {
            return Err(self.failed(StackErrorKind::Broken, "it sent a frame without a request"));
        }
        if let Err(why) = self.stream.write_all(&self.frame) {
            return Err(self.io(&why));
        }
        let (mut have, mut need) = (0, 4);
        while have < need {
            if need > self.read.len() {
                self.read.resize(need, 0);
            }
            match self.stream.read(&mut self.read[have..]) {
                Ok(0) => return Err(self.failed(StackErrorKind::Died, "it ended")),
                Ok(n) => have += n,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(self.io(&why)),
            }
            if need == 4 && have >= 4 {
                let head: [u8; 4] = self.read[..4].try_into().expect("four bytes");
                let len = u32::from_le_bytes(head) as usize;
                if len > LARGEST {
                    let why = format!("it sent a frame of {len} bytes; at most {LARGEST} are allowed");
                    return Err(self.failed(StackErrorKind::Broken, &why));
                }
                need += len;
            }
        }
        if have > need {
            let why = format!("it sent {} bytes after its answer, without a request", have - need);
            return Err(self.failed(StackErrorKind::Broken, &why));
        }
        Ok((4, need))
    }

    /// Sends the request in `frame` at `now`, and reads its answer.
    fn ask(&mut self, now: Time) -> Result<Answer, StackError> {
        let (from, to) = self.exchange()?;
        self.answer(now, from..to)
    }

    /// Reads the answer to a request at `now` that is at a place in `read`.
    fn answer(&mut self, now: Time, place: Range<usize>) -> Result<Answer, StackError> {
        let read = protocol::read_answer(&self.read[place], &mut self.drained);
        let answer =
            read.map_err(|why| self.failed(StackErrorKind::Broken, &format!("its answer is wrong: {why}")))?;
        if let Some(why) = &answer.error {
            return Err(self.failed(StackErrorKind::Broken, why));
        }
        // A deadline that has passed means now.
        self.deadline = answer.deadline.max(now.as_nanos());
        Ok(answer)
    }

    fn start(&mut self, request: Request, now: Time) {
        assert!(self.done.is_none(), "the application did another call than the one that was expected");
        protocol::begin(&mut self.frame, request, now.as_nanos());
    }

    /// The answer to a call of the application that the process has performed already, or performs now.
    fn called(
        &mut self,
        request: Request,
        now: Time,
        socket: SocketId,
        fields: &[u8],
    ) -> Result<Answer, StackError> {
        let expected = |done: &mut (Request, SocketId, Range<usize>)| (done.0, done.1) == (request, socket);
        if let Some((_, _, place)) = self.done.take_if(expected) {
            return self.answer(now, place);
        }
        self.start(request, now);
        self.frame.extend_from_slice(&socket.0.to_le_bytes());
        self.frame.extend_from_slice(fields);
        self.ask(now)
    }

    /// A request about a socket without further fields.
    fn of_socket(&mut self, request: Request, now: Time, socket: SocketId) -> Result<(), StackError> {
        self.start(request, now);
        self.frame.extend_from_slice(&socket.0.to_le_bytes());
        self.ask(now).map(drop)
    }

    fn io(&mut self, why: &std::io::Error) -> StackError {
        match why.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                self.failed(StackErrorKind::Hung, "it did not answer within the limit of wall time")
            }
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                self.failed(StackErrorKind::Died, "it ended")
            }
            _ => self.failed(StackErrorKind::Broken, &why.to_string()),
        }
    }

    /// Ends the process. The error has the reason, how it ended, and the last lines of its standard error.
    fn failed(&mut self, kind: StackErrorKind, why: &str) -> StackError {
        let mut text = format!("{}: {why}", self.name);
        if kind == StackErrorKind::Died {
            // It closed its end of the socket; a process that is still there is killed.
            if let Some(status) = self.end() {
                text = format!("{text} ({status})");
            }
        } else {
            self.end();
        }
        // What it said last may still be in the pipe.
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let said = self.said.lock().map(|said| said.iter().copied().collect::<Vec<u8>>()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned();
        let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
        for line in &lines[lines.len().saturating_sub(SHOWN)..] {
            text.push_str("\n  ");
            text.push_str(line);
        }
        StackError { kind, text }
    }

    /// Ends the process and everything in its group: it is killed if it does not end by itself at once. Returns how it ended.
    #[expect(clippy::disallowed_methods, reason = "a process ends in wall time, after its run")]
    fn end(&mut self) -> Option<ExitStatus> {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let mut pause = Duration::from_micros(100);
        let mut status = None;
        // A process that finds the end of its input is about to end.
        while status.is_none() && pause < Duration::from_millis(100) {
            status = self.child.try_wait();
            if status.is_none() {
                std::thread::sleep(pause);
                pause *= 2;
            }
        }
        if let Some(group) = self.child.group() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let status = status.or_else(|| self.child.wait());
        self.child.reap();
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Limits the memory of the process, and lets the kernel end it with this process.
#[expect(
    unsafe_code,
    reason = "only a call between fork and exec sets what a process cannot be told otherwise"
)]
fn bounded(builder: &mut Command, memory: u64) {
    let limit = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        let hard = getrlimit(Resource::As).maximum;
        let most = hard.map_or(memory, |hard| hard.min(memory));
        setrlimit(Resource::As, Rlimit { current: Some(most), maximum: hard })?;
        Ok(())
    };
    // SAFETY: the closure makes three system calls; it neither allocates nor takes a lock.
    unsafe { builder.pre_exec(limit) };
}

/// Reads standard error until its end and keeps the last of it.
fn keep_last(mut errors: PipeReader, said: &Mutex<VecDeque<u8>>) {
    let mut part = [0; 1024];
    while let Ok(n @ 1..) = errors.read(&mut part) {
        let Ok(mut said) = said.lock() else { return };
        said.extend(&part[..n]);
        let over = said.len().saturating_sub(KEPT);
        said.drain(..over);
    }
}

/// The settings that not every stack has, with their values.
fn asked(settings: &Settings) -> Vec<(&'static str, String)> {
    let number = |ns: Dur| ns.as_nanos().to_string();
    let all = [
        ("cc", Some(settings.cc.clone())),
        ("send_buffer", settings.send_buffer.map(|size| size.to_string())),
        ("receive_buffer", settings.receive_buffer.map(|size| size.to_string())),
        ("nagle", (!settings.nagle).then(|| "0".to_owned())),
        ("timestamps", settings.timestamps.map(|on| u8::from(on).to_string())),
        ("ack_delay_ns", settings.ack_delay.map(number)),
        ("keepalive_ns", settings.keepalive.map(number)),
        ("user_timeout_ns", settings.user_timeout.map(number)),
        ("isn", settings.isn.map(|isn| isn.to_string())),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The first request: the settings that a stack must obey, then those that the case sets.
fn lines(settings: &Settings) -> String {
    let mut text = format!(
        "protocol={VERSION}\naddress={}\nmtu={}\nseed={}\n",
        settings.address, settings.mtu, settings.seed
    );
    for (name, value) in asked(settings) {
        text.extend([name, "=", &value, "\n"]);
    }
    text
}

impl Stack for Process {
    fn input(&mut self, now: Time, packet: &[u8]) -> Result<(), StackError> {
        self.start(Request::Input, now);
        self.frame.extend_from_slice(packet);
        self.ask(now).map(drop)
    }

    fn input_then(
        &mut self,
        now: Time,
        packet: &[u8],
        socket: SocketId,
        next: Next<'_>,
    ) -> Result<(), StackError> {
        if !self.batches {
            return self.input(now, packet);
        }
        self.start(Request::Batch, now);
        let at = now.as_nanos();
        protocol::entry(&mut self.frame, Request::Input, at, |frame| frame.extend_from_slice(packet));
        let size;
        let (request, fields) = match next {
            Next::Read(most) => {
                size = u32::try_from(most).unwrap_or(u32::MAX).to_le_bytes();
                (Request::Read, &size[..])
            }
            Next::Write(data) => (Request::Write, data),
        };
        protocol::entry(&mut self.frame, request, at, |frame| {
            frame.extend_from_slice(&socket.0.to_le_bytes());
            frame.extend_from_slice(fields);
        });
        let (from, to) = self.exchange()?;
        let lengths = match protocol::read_batch(&self.read[from..to], 2) {
            Ok(answers) => answers.iter().map(|answer| answer.len()).collect::<Vec<_>>(),
            Err(why) => {
                return Err(self.failed(StackErrorKind::Broken, &format!("its answer is wrong: {why}")));
            }
        };
        // Empty: the call was left out, because the status of the socket did not change.
        if let Some(len) = lengths.get(1).filter(|len| **len > 0) {
            self.done = Some((request, socket, to - len..to));
        }
        let first = from + 4..from + 4 + lengths[0];
        self.answer(now, first).map(drop)
    }

    fn advance(&mut self, now: Time) -> Result<(), StackError> {
        self.start(Request::Advance, now);
        self.ask(now).map(drop)
    }

    fn deadline(&mut self, _: Time) -> Option<Time> {
        (self.deadline != NEVER).then(|| Time::from_nanos(self.deadline))
    }

    fn listen(&mut self, now: Time, port: u16) -> Result<(), StackError> {
        self.start(Request::Listen, now);
        self.frame.extend_from_slice(&port.to_le_bytes());
        self.ask(now).map(drop)
    }

    fn connect(&mut self, now: Time, port: u16, to: SocketAddrV4) -> Result<SocketId, StackError> {
        self.start(Request::Connect, now);
        self.frame.extend_from_slice(&port.to_le_bytes());
        self.frame.extend_from_slice(&to.ip().octets());
        self.frame.extend_from_slice(&to.port().to_le_bytes());
        self.ask(now).map(|answer| SocketId(answer.result))
    }

    fn write(&mut self, now: Time, socket: SocketId, bytes: &[u8]) -> Result<usize, StackError> {
        let taken = self.called(Request::Write, now, socket, bytes)?.result as usize;
        if taken > bytes.len() {
            let why = format!("it accepted {taken} of {} bytes", bytes.len());
            return Err(self.failed(StackErrorKind::Broken, &why));
        }
        Ok(taken)
    }

    fn read(&mut self, now: Time, socket: SocketId, into: &mut [u8]) -> Result<usize, StackError> {
        let most = u32::try_from(into.len()).unwrap_or(u32::MAX);
        let data = self.called(Request::Read, now, socket, &most.to_le_bytes())?.data;
        let Some(place) = into.get_mut(..data.len()) else {
            let why = format!("it returned {} bytes; at most {most} were asked for", data.len());
            return Err(self.failed(StackErrorKind::Broken, &why));
        };
        place.copy_from_slice(&data);
        Ok(data.len())
    }

    fn shutdown(&mut self, now: Time, socket: SocketId) -> Result<(), StackError> {
        self.of_socket(Request::Shutdown, now, socket)
    }

    fn close(&mut self, now: Time, socket: SocketId) -> Result<(), StackError> {
        self.of_socket(Request::Close, now, socket)
    }

    fn abort(&mut self, now: Time, socket: SocketId) -> Result<(), StackError> {
        self.of_socket(Request::Abort, now, socket)
    }

    fn drain(&mut self, into: &mut Drained) {
        into.packets.append(&mut self.drained.packets);
        into.accepted.append(&mut self.drained.accepted);
        into.changed.append(&mut self.drained.changed);
        into.shown.append(&mut self.drained.shown);
    }
}
