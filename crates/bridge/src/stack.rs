//! The model behind the interface: one lock, virtual time, and a call that blocks on a thread of packetdrill.
//!
//! Virtual time passes only when packetdrill sleeps or waits for a packet. A call that blocks waits for that in real time; when
//! time has passed and it can return, whoever lets time pass waits (in real time) until its thread has asked for
//! the time, so that it is told the instant at which the call returned.

use crate::numbers;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;
use tcpassay_script::ScriptSettings;
use tcpassay_script::ast::{ExpectedResult, Expr, Syscall};
use tcpassay_script::code::CodeValue;
use tcpassay_script::run::target::Step;
use tcpassay_script::run::{Model, ScriptError, SocketUnderTest, SyscallResult, Target};
use tcpassay_tcp::Profile;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::codec::{Content, Envelope, decode, encode};
use tcpassay_wire::{Ecn, Flags};

/// What the clock says when virtual time begins: any instant that no `timeval` finds odd.
const EPOCH: u64 = 1_000_000_000_000_000;
/// Who asks for the time so often without doing anything else spins for it to pass.
const SPINS: u32 = 16;
/// Nothing in TCP waits longer.
const FOREVER: Dur = Dur::from_secs(100_000);
/// The first port that is chosen for a socket without one.
const FIRST_PORT: u16 = 32_768;
/// How long, in real time, the thread of a call that returned is waited for.
const HANDOVER: Duration = Duration::from_millis(200);

/// What a call gives: a number, or an `errno`.
pub type Given = Result<i64, i32>;

struct Waiting {
    call: Syscall,
    answer: Option<Result<SyscallResult, ScriptError>>,
    thread: ThreadId,
}

struct State {
    model: Model,
    waiting: Option<Waiting>,
    /// The thread of a call that has returned, until it asks for the time.
    returning: Option<ThreadId>,
    spins: u32,
    /// By number of connection: our end, the peer's.
    ends: BTreeMap<usize, (SocketAddr, SocketAddr)>,
    /// Where sockets are bound, by descriptor.
    bound: BTreeMap<i64, SocketAddr>,
    listening: BTreeMap<SocketAddr, i64>,
    next_port: u16,
    id: u16,
}

/// One stack, as packetdrill drives it.
pub struct Bridge {
    state: Mutex<State>,
    bell: Condvar,
}

fn call(name: &str, args: Vec<Expr>) -> Syscall {
    Syscall { name: name.to_owned(), args, result: ExpectedResult { value: None, errno: None }, end: None }
}

impl Bridge {
    /// A stack with the profile that `flags` name: `linux` when they are empty.
    ///
    /// # Errors
    /// Another name, with those that there are.
    pub fn new(flags: &str) -> Result<Bridge, String> {
        let name = if flags.is_empty() { "linux" } else { flags };
        let profile = Profile::by_name(name).ok_or_else(|| {
            let names: Vec<&str> = Profile::ALL.iter().map(|p| p.name()).collect();
            format!("--so_flags={name}: allowed are {}", names.join(", "))
        })?;
        let mut model = Model::new(profile);
        model.begin(&ScriptSettings::default()).map_err(|error| format!("{error:?}"))?;
        let state = State {
            model,
            waiting: None,
            returning: None,
            spins: 0,
            ends: BTreeMap::new(),
            bound: BTreeMap::new(),
            listening: BTreeMap::new(),
            next_port: FIRST_PORT,
            id: 0,
        };
        Ok(Bridge { state: Mutex::new(state), bell: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.spins = 0;
        state
    }

    /// Makes a call, on the thread that may block.
    fn make(&self, made: &Syscall) -> Given {
        let mut state = self.lock();
        let mut answer = state.model.call(made);
        if answer == Ok(SyscallResult::Blocks) {
            let thread = std::thread::current().id();
            state.waiting = Some(Waiting { call: made.clone(), answer: None, thread });
            answer = loop {
                if let Some(answer) = state.waiting.as_mut().and_then(|w| w.answer.take()) {
                    state.waiting = None;
                    break answer;
                }
                state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
            };
        }
        match answer {
            Ok(SyscallResult::Done(n)) => Ok(n),
            Ok(SyscallResult::Error(name)) => Err(numbers::error(&name)),
            Ok(SyscallResult::NewDescriptor) => Ok(state.model.name_descriptor(None)),
            Ok(SyscallResult::Blocks) => unreachable!("waited for above"),
            Err(ScriptError::Invalid(_)) => Err(libc::EBADF),
            Err(error) => {
                eprintln!("tcpassay: {}: {error:?}", made.name);
                Err(libc::EOPNOTSUPP)
            }
        }
    }

    /// A call of this name with these arguments.
    pub fn call(&self, name: &str, args: Vec<Expr>) -> Given {
        self.make(&call(name, args))
    }

    /// A call that leaves a value behind: what it gave, and the value.
    pub fn ask(&self, name: &str, args: Vec<Expr>) -> Result<i64, i32> {
        self.make(&call(name, args))?;
        Ok(self.lock().model.output_value())
    }

    /// bind(2)
    pub fn bind(&self, fd: i64, at: SocketAddr) -> Given {
        let given = self.call("bind", vec![Expr::Int(fd), Expr::Any, Expr::Any])?;
        let mut state = self.lock();
        let at = SocketAddr::new(at.ip(), if at.port() == 0 { state.port() } else { at.port() });
        state.bound.insert(fd, at);
        Ok(given)
    }

    /// listen(2)
    pub fn listen(&self, fd: i64, backlog: i32) -> Given {
        let given = self.call("listen", vec![Expr::Int(fd), Expr::Int(backlog.into())])?;
        let mut state = self.lock();
        let at = state.bound.get(&fd).copied().ok_or(libc::EINVAL)?;
        state.listening.insert(at, fd);
        Ok(given)
    }

    /// accept(2): the new descriptor and its peer.
    pub fn accept(&self, fd: i64) -> Result<(i64, Option<SocketAddr>), i32> {
        let made = self.call("accept", vec![Expr::Int(fd), Expr::Any, Expr::Any])?;
        Ok((made, self.ends(made).map(|(_, remote)| remote)))
    }

    /// connect(2)
    pub fn connect(&self, fd: i64, to: SocketAddr) -> Given {
        {
            let mut state = self.lock();
            let unspecified = if to.is_ipv4() { "192.168.0.1" } else { "fd3d:fa7b:d17d::1" };
            let port = state.port();
            let local = SocketAddr::new(unspecified.parse().expect("an address"), port);
            let local = state.bound.get(&fd).copied().unwrap_or(local);
            state.bound.insert(fd, local);
            // The number that a new connection will have; the packet of the call may be asked for before it returns.
            let next = state.model.connections();
            state.ends.insert(next, (local, to));
        }
        self.call("connect", vec![Expr::Int(fd), Expr::Any, Expr::Any])
    }

    /// close(2)
    pub fn close(&self, fd: i64) -> Given {
        let given = self.call("close", vec![Expr::Int(fd)])?;
        let mut state = self.lock();
        state.listening.retain(|_, listening| *listening != fd);
        state.bound.remove(&fd);
        Ok(given)
    }

    /// Both ends of a connected socket.
    pub fn ends(&self, fd: i64) -> Option<(SocketAddr, SocketAddr)> {
        let state = self.lock();
        state.ends.get(&state.model.connection_of(fd)?).copied()
    }

    /// A field of `TCP_INFO` of a socket.
    pub fn info(&self, fd: i64, name: &str) -> Option<i64> {
        let mut state = self.lock();
        let conn = state.model.connection_of(fd)?;
        state.model.set_socket_under_test(SocketUnderTest::Connection(conn));
        match state.model.value(name) {
            Some(CodeValue::Int(n)) => Some(n),
            _ => None,
        }
    }

    /// poll(2): what of `of` (descriptor, events) has happened, waited for at most `timeout_ms`, for ever when below zero.
    pub fn poll(&self, of: &[(i64, i16)], timeout_ms: i32) -> Result<Vec<i16>, i32> {
        let always = libc::POLLERR | libc::POLLHUP;
        let one = |&(fd, events): &(i64, i16)| {
            let member = |name: &str, value| (name.to_owned(), value);
            Expr::Group(vec![
                member("fd", Expr::Int(fd)),
                member("events", Expr::Int(events.into())),
                member("revents", Expr::Any),
            ])
        };
        let list = Expr::List(of.iter().map(one).collect());
        let count = i64::try_from(of.len()).expect("few descriptors");
        self.call("poll", vec![list, Expr::Int(count), Expr::Int(timeout_ms.into())])?;
        let mut state = self.lock();
        let ready = |state: &mut State, fd| state.model.ready(fd).map_err(|_| libc::EBADF);
        of.iter()
            .map(|&(fd, events)| {
                let now = i16::try_from(ready(&mut state, fd)? & 0x7fff).expect("15 bits");
                Ok(now & (events | always))
            })
            .collect()
    }

    /// A packet arrives.
    pub fn receive(&self, bytes: &[u8]) -> Result<(), i32> {
        let packet = decode(bytes).map_err(|_| libc::EINVAL)?;
        let Content::Tcp(segment) = packet.content else { return Err(libc::EINVAL) };
        let (remote, local) = (packet.envelope.from, packet.envelope.to);
        let mut state = self.lock();
        let known = state.ends.iter().rfind(|(_, ends)| **ends == (local, remote)).map(|(conn, _)| *conn);
        let target = match known {
            Some(conn) if !(segment.flags == Flags::SYN && state.model.is_closed(conn)) => {
                SocketUnderTest::Connection(conn)
            }
            _ => match state.listening.get(&local) {
                Some(fd) => SocketUnderTest::Listener(*fd),
                // Nobody is there, and the model has no host that would answer with a reset.
                None => return Ok(()),
            },
        };
        if let SocketUnderTest::Listener(_) = target {
            let next = state.model.connections();
            state.ends.insert(next, (local, remote));
        }
        state.model.set_socket_under_test(target);
        state.model.receive_segment(&segment, packet.envelope.ecn).map_err(|error| {
            eprintln!("tcpassay: {error:?}");
            libc::EINVAL
        })?;
        drop(self.settle(state));
        Ok(())
    }

    /// The next packet that leaves, and when, in microseconds; `None` when the stack will never send one.
    pub fn next_packet(&self, out: &mut Vec<u8>) -> Option<u64> {
        let mut state = self.lock();
        let last = state.model.now().saturating_add(FOREVER);
        loop {
            if let Some(sent) = state.model.next_packet() {
                let (from, to) = state.ends.get(&sent.conn).copied()?;
                state.id = state.id.wrapping_add(1);
                let envelope = Envelope { from, to, ecn: Ecn::from_bits(sent.tos), id: state.id, ttl: 64 };
                encode(&envelope, &Content::Tcp(sent.segment), usize::MAX, out).ok()?;
                return Some(micros(sent.at));
            }
            if state.model.step(last) == Step::Quiet {
                return None;
            }
            state = self.settle(state);
        }
    }

    /// The time, in microseconds.
    pub fn now(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.returning == Some(std::thread::current().id()) {
            state.returning = None;
            self.bell.notify_all();
        }
        state.spins += 1;
        if state.spins > SPINS {
            let spins = state.spins;
            let next = state.model.now().saturating_add(Dur::from_micros(1));
            state = self.advance(state, next);
            state.spins = spins;
        }
        micros(state.model.now())
    }

    /// Lets time pass.
    pub fn sleep(&self, time: Dur) {
        let state = self.lock();
        let until = state.model.now().saturating_add(time);
        drop(self.advance(state, until));
    }

    fn advance<'a>(&'a self, mut state: MutexGuard<'a, State>, until: Time) -> MutexGuard<'a, State> {
        while state.model.step(until) == Step::Acted {
            state = self.settle(state);
        }
        state.model.advance_to(until);
        state
    }

    /// Looks whether a call that blocks can return now, and lets it.
    fn settle<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(Waiting { call, answer: None, thread }) = &state.waiting else { return state };
        let (call, thread) = (call.clone(), *thread);
        let answer = state.model.retry(&call);
        if answer == Ok(SyscallResult::Blocks) {
            return state;
        }
        state.waiting = Some(Waiting { call, answer: Some(answer), thread });
        state.returning = Some(thread);
        self.bell.notify_all();
        let pending = |state: &mut State| state.returning.is_some();
        let (mut state, _) =
            self.bell.wait_timeout_while(state, HANDOVER, pending).unwrap_or_else(PoisonError::into_inner);
        state.returning = None;
        state
    }
}

impl State {
    fn port(&mut self) -> u16 {
        self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_PORT);
        self.next_port
    }
}

fn micros(at: Time) -> u64 {
    EPOCH + at.since(Time::ZERO).as_micros()
}
