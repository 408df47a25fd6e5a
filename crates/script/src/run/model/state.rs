//! The state of the model as a stack under test: its sockets, its connections and its host.

use super::args::int;
use super::connections::ConnectionTable;
use super::fast_open::Cache;
use super::socket::{File, Role, Socket};
use crate::ast::Expr;
use crate::host::{ScriptHost, ShellExecutor};
use crate::run::target::{ScriptError, SyscallResult};
use crate::settings::ScriptSettings;
use std::collections::BTreeMap;
use tcpassay_tcp::{ConnError, Profile, State};
use tcpassay_units::Time;

/// The socket that the packets of the script refer to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketUnderTest {
    /// No socket yet.
    None,
    /// A listening socket. The next inbound packet creates a connection.
    Listener(i64),
    /// The connection of this number.
    Connection(usize),
}

/// The TCP model with one profile, its sockets and its host.
#[derive(Clone, Debug)]
pub struct Model {
    pub(super) profile: Profile,
    pub(super) settings: ScriptSettings,
    pub(super) host: ScriptHost,
    pub(super) table: ConnectionTable,
    pub(super) files: BTreeMap<i64, File>,
    pub(super) socket_under_test: SocketUnderTest,
    /// Time at which the current call began; then the bytes that it has written.
    pub(super) call_began: Time,
    pub(super) written: u64,
    /// The current call waits for space in the send buffer.
    pub(super) waits: bool,
    /// The current call has opened a connection with Fast Open.
    pub(super) fast_call: bool,
    /// The Fast Open cookie cache.
    pub(super) fast_open: Cache,
    /// Time at which the timeout of the blocked call ends.
    pub(super) wake: Option<Time>,
    /// Executes commands that the host settings do not know, with `--allow-shell`.
    pub(super) executor: Option<ShellExecutor>,
    /// The file that the last call created, until it has a descriptor.
    pub(super) new_file: Option<File>,
    /// The value that the last `getsockopt` or `ioctl` delivered.
    pub(super) output_value: i64,
}

impl Model {
    /// A model without sockets.
    pub fn new(profile: Profile) -> Model {
        Model {
            profile,
            settings: ScriptSettings::default(),
            host: ScriptHost::default(),
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

    /// Sets the executor of unknown commands. It is used only with `--allow-shell`.
    #[must_use]
    pub fn with_shell_executor(self, executor: ShellExecutor) -> Model {
        Model { executor: Some(executor), ..self }
    }

    pub(super) fn is_bsd(&self) -> bool {
        matches!(self.profile, Profile::FreeBsd | Profile::FreeBsdRack)
    }

    /// Sets the socket for the next packets. By default it follows from the order of the calls.
    pub fn set_socket_under_test(&mut self, socket_under_test: SocketUnderTest) {
        self.socket_under_test = socket_under_test;
    }

    /// The number of connections. The next connection has this number.
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

    /// Returns true if a connection is in state CLOSED.
    pub fn is_closed(&self, conn: usize) -> bool {
        self.table.connections[conn].conn.state() == State::Closed
    }

    /// The value that the last `getsockopt` or `ioctl` delivered.
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

    /// The error that ended the connection. It is returned once.
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
        ConnError::BrokenPipe => "EPIPE",
        ConnError::TimedOut => "ETIMEDOUT",
        ConnError::Refused => "ECONNREFUSED",
    }
}
