//! The state of the model as a stack under test: its sockets, its connections and its host.

use super::args::int;
use super::connections::ConnectionTable;
use super::fast_open::Cache;
use super::socket::{File, Role, Socket};
use crate::ast::Expr;
use crate::host::{HostSettings, ShellExecutor};
use crate::run::target::{ScriptError, SyscallResult};
use crate::settings::ScriptSettings;
use std::collections::BTreeMap;
use tcpassay_tcp::{ConnError, Profile, State};
use tcpassay_units::Time;

/// What packets are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketUnderTest {
    /// Nothing yet.
    None,
    /// A listening socket: the next inbound packet makes a connection.
    Listener(i64),
    /// A connection.
    Connection(usize),
}

/// The model TCP with one profile, its sockets and its host.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) profile: Profile,
    pub(super) settings: ScriptSettings,
    pub(super) host: HostSettings,
    pub(super) table: ConnectionTable,
    pub(super) files: BTreeMap<i64, File>,
    pub(super) socket_under_test: SocketUnderTest,
    /// When the call in progress began, and how much of it is written.
    pub(super) call_began: Time,
    pub(super) written: u64,
    /// The call in progress waits for room to write.
    pub(super) waits: bool,
    /// The call in progress has opened a connection.
    pub(super) fast_call: bool,
    /// Fast Open's.
    pub(super) fast_open: Cache,
    /// The call that blocks, when it is one that gives up by itself: when it does.
    pub(super) wake: Option<Time>,
    /// What executes commands that are allowed.
    pub(super) executor: Option<ShellExecutor>,
    /// The descriptor that the last call made, until it has a name.
    pub(super) new_file: Option<File>,
    /// The number that the last call left behind, beside its result.
    pub(super) output_value: i64,
}

impl Model {
    /// A host without sockets.
    pub fn new(profile: Profile) -> Model {
        Model {
            profile,
            settings: ScriptSettings::default(),
            host: HostSettings::default(),
            table: ConnectionTable::default(),
            files: BTreeMap::new(),
            socket_under_test: SocketUnderTest::None,
            call_began: Time::ZERO,
            written: 0,
            waits: false,
            fast_call: false,
            fast_open: Cache::default(),
            wake: None,
            executor: None,
            new_file: None,
            output_value: 0,
        }
    }

    /// With what executes the commands that it does not know, where `--allow-shell` says that it may.
    #[must_use]
    pub fn with_shell_executor(self, executor: ShellExecutor) -> Model {
        Model { executor: Some(executor), ..self }
    }

    pub(super) fn is_bsd(&self) -> bool {
        matches!(self.profile, Profile::FreeBsd | Profile::FreeBsdRack)
    }

    /// What the packets that follow are about, for who knows better than the order of the calls.
    pub fn set_socket_under_test(&mut self, socket_under_test: SocketUnderTest) {
        self.socket_under_test = socket_under_test;
    }

    /// How many connections there are; the next has this number.
    pub fn connections(&self) -> usize {
        self.table.connections.len()
    }

    /// The connection of a descriptor.
    pub fn connection_of(&self, fd: i64) -> Option<usize> {
        match self.files.get(&fd)? {
            File::Socket(socket) => socket.connection(),
            File::Epoll(_) | File::Plain => None,
        }
    }

    /// Whether a connection is over.
    pub fn is_closed(&self, conn: usize) -> bool {
        self.table.connections[conn].conn.state() == State::Closed
    }

    /// The number that the last call left behind, beside its result (`getsockopt`, `ioctl`).
    pub fn output_value(&self) -> i64 {
        self.output_value
    }

    pub(super) fn file(&mut self, fd: i64) -> Result<&mut File, ScriptError> {
        self.files.get_mut(&fd).ok_or_else(|| ScriptError::Invalid(format!("descriptor {fd} is not open")))
    }

    pub(super) fn socket_at(&mut self, fd: i64) -> Result<&mut Socket, ScriptError> {
        match self.file(fd)? {
            File::Socket(socket) => Ok(socket),
            File::Epoll(_) | File::Plain => {
                Err(ScriptError::Invalid(format!("descriptor {fd} is not a socket")))
            }
        }
    }

    pub(super) fn socket_of(&mut self, args: &[Expr]) -> Result<&mut Socket, ScriptError> {
        let fd = int(args, 0)?;
        self.socket_at(fd)
    }

    /// The error that ended the connection, told once.
    pub(super) fn take_error(&mut self, fd: i64, index: usize) -> Result<Option<&'static str>, ScriptError> {
        let by_icmp = self.table.connections[index].icmp_error;
        let error = by_icmp.or_else(|| self.table.connections[index].conn.error().map(errno));
        let socket = self.socket_at(fd)?;
        if socket.error_reported {
            return Ok(None);
        }
        socket.error_reported = error.is_some();
        Ok(error)
    }

    /// The result of a call that created `file`.
    pub(super) fn new_descriptor(&mut self, file: File) -> SyscallResult {
        self.new_file = Some(file);
        SyscallResult::NewDescriptor
    }

    pub(super) fn listens(&self, fd: i64) -> bool {
        matches!(self.files.get(&fd), Some(File::Socket(s)) if matches!(s.role, Role::Listening(_)))
    }
}

fn errno(error: ConnError) -> &'static str {
    match error {
        ConnError::Reset => "ECONNRESET",
        ConnError::TimedOut => "ETIMEDOUT",
        ConnError::Refused => "ECONNREFUSED",
    }
}
