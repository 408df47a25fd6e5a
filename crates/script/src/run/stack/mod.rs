//! Another TCP as a stack under test, in virtual time: whole packets, and the socket calls of [`tcpassay_stack::Stack`].
//!
//! | module | content |
//! | --- | --- |
//! | `options` | socket options and sysctls as settings of a stack |
//! | `calls` | system calls |
//! | `target` | packets, time, the interface of the runner |
//!
//! A stack has no descriptors, blocking calls or errors by name: these are of this module, as those of the kernel's socket
//! layer are. `ECONNREFUSED`, `ECONNRESET` and `ETIMEDOUT` are distinguished by whether a reset arrived, and when.
//!
//! The stack begins with the first `listen` or `connect`, or the first packet. Its settings cannot change afterwards.

mod calls;
mod options;
mod target;

use super::sequence_map::SequenceMap;
use super::target::{ScriptError, SentPacket};
use crate::host::ScriptHost;
use crate::settings::ScriptSettings;
use options::{LOCAL, SocketOptions};
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use tcpassay_stack::{Description, Drained, Settings, SocketId, SocketStatus, Stack, StackError};
use tcpassay_units::Time;

/// Starts a stack with these settings.
pub type Begin = fn(Option<&str>, Settings) -> Result<(Box<dyn Stack>, Description), StackError>;

/// The address of the peer whose packets the script has.
const REMOTE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The port of listening sockets and, at the peer, of connections that the stack opens.
const PORT: u16 = 8080;
/// The first port of connections that the stack opens.
const FIRST_LOCAL: u16 = 40_000;
const DEFAULT_MTU: u16 = 1500;

/// A connection of the script.
#[derive(Debug)]
struct Conn {
    local: SocketAddrV4,
    remote: SocketAddrV4,
    map: SequenceMap,
    /// The socket of the stack; `None` until a listening port has accepted the connection.
    socket: Option<SocketId>,
    /// A reset has arrived.
    reset: bool,
}

/// The role of a socket of the script.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Role {
    #[default]
    Fresh,
    /// With the connections that wait for `accept`.
    Listening(VecDeque<usize>),
    Connected(usize),
}

/// A socket of the script.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
struct Socket {
    role: Role,
    options: SocketOptions,
    nonblocking: bool,
    shut_write: bool,
    /// A `connect` has returned success.
    connect_reported: bool,
    error_reported: bool,
}

/// The socket that inbound packets refer to.
#[derive(Clone, Copy, Debug)]
enum Subject {
    None,
    Listener,
    Connection(usize),
}

/// The stack, after it has begun.
#[derive(Debug)]
struct Running {
    stack: Box<dyn Stack>,
    about: Description,
    /// The settings of sockets that it began with.
    options: SocketOptions,
}

/// Another TCP than the model, with its sockets and its host.
#[derive(Debug)]
pub struct StackTarget {
    begin: Begin,
    command: Option<String>,
    settings: ScriptSettings,
    host: ScriptHost,
    running: Option<Running>,
    failure: Option<String>,
    now: Time,
    files: BTreeMap<i64, Socket>,
    new_file: Option<Socket>,
    connections: Vec<Conn>,
    subject: Subject,
    /// Sockets of the stack as their applications see them.
    status: BTreeMap<SocketId, SocketStatus>,
    drained: Drained,
    sent: VecDeque<SentPacket>,
    /// Bytes that the current call has written.
    written: u64,
}

impl StackTarget {
    /// A stack that `begin` starts: the process of a command, or smoltcp without one.
    pub fn new(command: Option<String>, begin: Begin) -> StackTarget {
        StackTarget {
            begin,
            command,
            settings: ScriptSettings::default(),
            host: ScriptHost::default(),
            running: None,
            failure: None,
            now: Time::ZERO,
            files: BTreeMap::new(),
            new_file: None,
            connections: Vec::new(),
            subject: Subject::None,
            status: BTreeMap::new(),
            drained: Drained::default(),
            sent: VecDeque::new(),
            written: 0,
        }
    }

    /// The stack. It begins with the options of the first socket that needs it.
    fn running(&mut self, options: &SocketOptions) -> Result<&mut Running, ScriptError> {
        if let Some(why) = &self.failure {
            return Err(ScriptError::Ended(why.clone()));
        }
        if self.running.is_none() {
            let settings = options.settings(&self.host, self.settings.mtu.unwrap_or(DEFAULT_MTU));
            let (stack, about) = (self.begin)(self.command.as_deref(), settings)
                .map_err(|why| ScriptError::Unsupported(why.to_string()))?;
            self.running = Some(Running { stack, about, options: options.clone() });
        }
        let running = self.running.as_mut().expect("it has begun");
        if let Some(option) = running.options.difference(options) {
            return Err(ScriptError::Unsupported(format!(
                "{option} differs from that of the first socket; {} has one value for the host",
                running.about.name
            )));
        }
        Ok(running)
    }

    /// Ends the script because the stack cannot be used any more.
    fn lost(&mut self, why: &str) -> ScriptError {
        self.failure.get_or_insert_with(|| why.to_owned());
        ScriptError::Ended(why.to_owned())
    }

    /// A call of the stack, which has begun. What it did is processed.
    fn made<T>(
        &mut self,
        call: impl FnOnce(&mut dyn Stack, Time) -> Result<T, StackError>,
    ) -> Result<T, ScriptError> {
        let now = self.now;
        let running = self.running.as_mut().expect("it has begun");
        let done = call(&mut *running.stack, now).map_err(|why| self.lost(&why.to_string()))?;
        self.collect()?;
        Ok(done)
    }
}
