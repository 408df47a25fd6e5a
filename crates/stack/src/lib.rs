//! TCP implementations as systems under test, in virtual time.
//!
//! * [`Stack`] - the interface: one host whose TCP is not the model. Whole IPv4 packets go in and come out, sockets are
//!   used by calls, and time is an argument.
//! * [`smoltcp`] - smoltcp, in this process.
//! * [`process`] - any other stack, in a process of its own, by a documented [`protocol`].
//! * [`content`] - the bytes of a stream: a function of (flow, position), so that they are verified on arrival.
//!
//! A stack does nothing between two calls. After a call it is quiet: everything that it does at this time has been done, and
//! [`Stack::drain`] returns it. It reads no clock and no source of random numbers except its seed, so that a run is a function
//! of its calls.
//!
//! This crate depends on `units` and `wire` only: it knows no cases, no applications and no network.

pub mod content;
mod fork;
mod one_cpu;
pub mod process;
pub mod protocol;
pub mod smoltcp;

use std::fmt::Debug;
use std::net::{Ipv4Addr, SocketAddrV4};
use tcpassay_units::{Dur, Time};

/// What a stack is told before the first call. `None` leaves the default of the stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Its address. All other hosts are reached directly.
    pub address: Ipv4Addr,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// The source of all its random numbers: initial sequence numbers, for example.
    pub seed: u64,
    /// Congestion controller: `none`, `reno`, `cubic`, ...
    pub cc: String,
    /// Send buffer of a socket in bytes.
    pub send_buffer: Option<usize>,
    /// Receive buffer of a socket in bytes.
    pub receive_buffer: Option<usize>,
    /// Nagle's algorithm (RFC 896).
    pub nagle: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: Option<bool>,
    /// Whether and how long ACKs are delayed; zero: never.
    pub ack_delay: Option<Dur>,
    /// Idle time before a keepalive probe (RFC 9293 section 3.8.4).
    pub keepalive: Option<Dur>,
    /// Time without an acknowledgment of outstanding data after which a connection is aborted (RFC 5482).
    pub user_timeout: Option<Dur>,
    /// Initial sequence number of the first connection (RFC 9293 section 3.4.1).
    pub isn: Option<u32>,
}

/// What a stack says about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// Name of the implementation.
    pub name: String,
    /// Version, with the features that it was built with.
    pub version: String,
    /// Resolution of its clock.
    pub granularity: Dur,
    /// The fields of [`Shown`] that it shows, by the names of docs/stacks.md.
    pub shows: Vec<String>,
}

/// A socket of a stack. Numbers are not used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(pub u32);

/// The state of a socket as its application sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a socket")]
pub struct SocketStatus {
    /// The handshake has been completed.
    pub established: bool,
    /// Bytes that can be read.
    pub readable: usize,
    /// Bytes that a write would accept.
    pub writable: usize,
    /// The peer has closed its direction, and everything before that has been read.
    pub end_of_stream: bool,
    /// The connection has ended. With `failed` it did so by a reset or a timeout.
    pub closed: bool,
    /// It ended by a reset, a refusal or a timeout.
    pub failed: bool,
}

/// The variables of a connection as its stack shows them (RFC 9293 section 3.3.1, RFC 5681, RFC 6298). All are optional.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shown {
    /// SND.UNA.
    pub snd_una: Option<u32>,
    /// SND.NXT.
    pub snd_nxt: Option<u32>,
    /// SND.WND in bytes.
    pub snd_wnd: Option<u32>,
    /// RCV.NXT.
    pub rcv_nxt: Option<u32>,
    /// RCV.WND in bytes.
    pub rcv_wnd: Option<u32>,
    /// Congestion window in bytes.
    pub cwnd: Option<u32>,
    /// Slow-start threshold in bytes; absent before it was set.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time; absent before the first sample.
    pub srtt: Option<Dur>,
    /// Retransmission timeout.
    pub rto: Option<Dur>,
    /// The retransmission timer.
    pub timer: Option<ShownTimer>,
}

/// The retransmission timer of a connection as its stack shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShownTimer {
    /// Neither it nor another timer that takes its place runs.
    Stopped,
    /// Another timer takes its place: the persist timer, or that of a tail loss probe or of RACK.
    Replaced,
    /// It runs. The time at which it fires is not known.
    Runs,
    /// It runs until this time.
    Until(Time),
}

/// What a stack did since the last [`Stack::drain`].
#[derive(Clone, Debug, Default)]
pub struct Drained {
    /// Packets that it sent, in order.
    pub packets: Vec<Vec<u8>>,
    /// Connections of listening ports that have been established: socket, local port, remote address.
    pub accepted: Vec<(SocketId, u16, SocketAddrV4)>,
    /// Sockets whose status has changed.
    pub changed: Vec<(SocketId, SocketStatus)>,
    /// The state that sockets show now, if it has changed.
    pub shown: Vec<(SocketId, Shown)>,
}

/// What the application of a socket does as soon as its status says that it can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next<'a> {
    /// It reads at most this many bytes.
    Read(usize),
    /// It writes these bytes, and further ones if there is room for more, unless there is something to read.
    Write(&'a [u8]),
}

/// The stack cannot be used any more.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text}")]
pub struct StackError {
    /// What happened.
    pub kind: StackErrorKind,
    /// The reason.
    pub text: String,
}

/// What happened to a stack that cannot be used any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StackErrorKind {
    /// It broke the rules of its interface: it sent what is not a packet of its own, for example.
    Broken,
    /// Its process ended.
    Died,
    /// It did not answer in time.
    Hung,
}

impl StackErrorKind {
    /// The outcome of the run.
    pub fn outcome(self) -> &'static str {
        match self {
            StackErrorKind::Broken => "stack",
            StackErrorKind::Died => "crashed",
            StackErrorKind::Hung => "hung",
        }
    }
}

impl StackError {
    /// The stack broke the rules of its interface.
    pub fn broken(text: impl Into<String>) -> StackError {
        StackError { kind: StackErrorKind::Broken, text: text.into() }
    }
}

/// One host with a TCP implementation. See the [crate](self) for the rules of its calls.
///
/// `now` never decreases. Every call may fail with a [`StackError`]; the stack is not called again then.
#[expect(clippy::missing_errors_doc, reason = "the description of the trait says it for all calls")]
pub trait Stack: Debug {
    /// A packet arrives.
    fn input(&mut self, now: Time, packet: &[u8]) -> Result<(), StackError>;
    /// A packet arrives, and `next` is what the application of a socket will do about it: a stack may do it in the same step.
    fn input_then(
        &mut self,
        now: Time,
        packet: &[u8],
        _socket: SocketId,
        _next: Next<'_>,
    ) -> Result<(), StackError> {
        self.input(now, packet)
    }
    /// Time has passed: timers that are due fire.
    fn advance(&mut self, now: Time) -> Result<(), StackError>;
    /// The time at which [`Stack::advance`] must be called if nothing else happens before.
    fn deadline(&mut self, now: Time) -> Option<Time>;
    /// Accepts connections at a port.
    fn listen(&mut self, now: Time, port: u16) -> Result<(), StackError>;
    /// Opens a connection from a port of this host.
    fn connect(&mut self, now: Time, port: u16, to: SocketAddrV4) -> Result<SocketId, StackError>;
    /// Writes data; returns the number of bytes that were accepted.
    fn write(&mut self, now: Time, socket: SocketId, bytes: &[u8]) -> Result<usize, StackError>;
    /// Reads data that arrived in order; returns their number.
    fn read(&mut self, now: Time, socket: SocketId, into: &mut [u8]) -> Result<usize, StackError>;
    /// Closes the sending direction after the written data.
    fn shutdown(&mut self, now: Time, socket: SocketId) -> Result<(), StackError>;
    /// Closes the socket after the written data. The application does not use it any more.
    fn close(&mut self, now: Time, socket: SocketId) -> Result<(), StackError>;
    /// Resets the connection (RFC 9293 section 3.10.5). The application does not use it any more.
    fn abort(&mut self, now: Time, socket: SocketId) -> Result<(), StackError>;
    /// Moves what the stack did since the last call to the end of the lists of `into`.
    fn drain(&mut self, into: &mut Drained);
    /// Takes back the memory of a packet that [`Stack::drain`] returned.
    fn recycle(&mut self, _packet: Vec<u8>) {}
}
