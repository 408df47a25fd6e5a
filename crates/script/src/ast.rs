//! A script as it was read.

use crate::code::Statement;
use crate::position::{Position, SyntaxError};
use tcpassay_units::Dur;
use tcpassay_wire::Flags;

/// A whole script.
#[derive(Clone, PartialEq, Debug)]
pub struct Script {
    /// `--name=value` lines.
    pub options: Vec<OptionLine>,
    /// The command before the first event.
    pub init: Option<ShellCommand>,
    /// In the order of the text.
    pub events: Vec<ScriptEvent>,
    /// The command after the last event.
    pub cleanup: Option<ShellCommand>,
}

impl Script {
    /// Whether anything in it can fail: a packet that is expected, a call, an assertion, code that cannot be read.
    pub fn tests_something(&self) -> bool {
        self.events.iter().any(|event| match &event.action {
            Action::Packet(packet) => packet.direction == Direction::Out,
            Action::Call(_) => true,
            Action::Shell(_) => false,
            Action::Code(code) => code.body.as_ref().is_ok_and(|body| asserts(body)) || code.body.is_err(),
        })
    }
}

fn asserts(body: &[Statement]) -> bool {
    body.iter().any(|stmt| match stmt {
        Statement::Assert(_) => true,
        Statement::If(branches, otherwise) => {
            branches.iter().any(|(_, body)| asserts(body)) || asserts(otherwise)
        }
        Statement::Print(_) | Statement::Let(..) | Statement::Eval(_) => false,
    })
}

/// A line `--name=value`, or `--name`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionLine {
    /// Without the dashes.
    pub name: String,
    /// Empty when there is none.
    pub value: String,
    /// Where it stands.
    pub position: Position,
}

/// Commands for a shell, between backquotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShellCommand {
    /// The text.
    pub text: String,
    /// Where it begins.
    pub position: Position,
}

/// Something that happens, or is expected, at a time.
#[derive(Clone, PartialEq, Debug)]
pub struct ScriptEvent {
    /// Where it begins.
    pub position: Position,
    /// When.
    pub when: EventTime,
    /// What.
    pub action: Action,
}

/// The time of an event: since the start of the script, or since the event before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventTime {
    /// `0.5`
    Absolute(Dur),
    /// `+0.5`
    Relative(Dur),
    /// `0.5~0.6`
    AbsoluteRange(Dur, Dur),
    /// `+0.5~+0.6`
    RelativeRange(Dur, Dur),
    /// `*`
    Any,
}

/// What an event is.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// A packet.
    Packet(ScriptPacket),
    /// A system call.
    Call(Syscall),
    /// Commands.
    Shell(ShellCommand),
    /// `%{ ... }%`
    Code(CodeBlock),
}

/// A block of code.
#[derive(Clone, PartialEq, Debug)]
pub struct CodeBlock {
    /// The text between the braces.
    pub text: String,
    /// Its statements; or why it is more than the evaluator knows.
    pub body: Result<Vec<Statement>, SyntaxError>,
}

/// Which way a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// `<`: from the script to the stack.
    In,
    /// `>`: from the stack.
    Out,
}

/// A packet, to be injected or expected.
#[derive(Clone, PartialEq, Debug)]
pub struct ScriptPacket {
    /// Which way.
    pub direction: Direction,
    /// `[ect0]`, `[tos 0x2]` and the like.
    pub ip: IpField,
    /// `[ttl 64]`, `[hlim 64]`: the hop limit, when written.
    pub hops: Option<u8>,
    /// What it carries.
    pub body: PacketBody,
}

/// What is said about the TOS byte (IPv6: traffic class).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpField {
    /// Nothing: Not-ECT inbound, not looked at outbound.
    Unsaid,
    /// These two ECN bits.
    Ecn(u8),
    /// `ect01`: ECT(0) or ECT(1).
    EitherEct,
    /// The whole byte.
    Tos(u8),
}

/// What a packet carries.
#[derive(Clone, PartialEq, Debug)]
pub enum PacketBody {
    /// A TCP segment.
    Tcp(TcpPacket),
    /// An ICMP message about one.
    Icmp(IcmpMessage),
}

/// A TCP segment.
#[derive(Clone, PartialEq, Debug)]
pub struct TcpPacket {
    /// Its flags.
    pub flags: Flags,
    /// First sequence number.
    pub seq: u32,
    /// The sequence number is not looked at: written `...`.
    pub any_seq: bool,
    /// Payload bytes.
    pub len: u32,
    /// The acknowledgement field, when written.
    pub ack: Option<u32>,
    /// The window field, unscaled, when written.
    pub window: Option<u16>,
    /// The urgent pointer, when written.
    pub urgent: Option<u16>,
    /// Options; `None` for `<...>`: whatever they are.
    pub options: Option<Vec<TcpOption>>,
}

/// A TCP option, in the order of the header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TcpOption {
    /// `mss 1460`
    Mss(u16),
    /// `wscale 7`
    WindowScale(u8),
    /// `sackOK`
    SackPermitted,
    /// `sack 1:1001 2001:3001`
    Sack(Vec<(u32, u32)>),
    /// `TS val 100 ecr 0`; `None` for `...`.
    Timestamps(Option<u32>, Option<u32>),
    /// `nop`
    Nop,
    /// `eol`
    Eol,
    /// `FO cookie`, or the request without one; `FOEXP` for the experimental kind.
    FastOpen {
        /// Kind 254 instead of 34.
        experimental: bool,
        /// The cookie, in hexadecimal digits or as a name; empty for a request.
        cookie: String,
    },
    /// `md5 valid`, `md5 invalid`, or a digest in hexadecimal digits (RFC 2385).
    Md5(String),
    /// `ECN e1b 1 ceb 0 e0b 1`: counters of accurate ECN, as written.
    AccurateEcn(String),
}

/// An ICMP message about a segment that the stack had sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IcmpMessage {
    /// `unreachable`, `time_exceeded`, ...
    pub kind: String,
    /// `host_unreachable`, `frag_needed`, ...; empty when there is none.
    pub code: String,
    /// `mtu`, where it has one.
    pub mtu: Option<u32>,
    /// First sequence number of the echoed header, when written.
    pub seq: Option<u32>,
}

/// A system call.
#[derive(Clone, PartialEq, Debug)]
pub struct Syscall {
    /// Its name.
    pub name: String,
    /// Arguments.
    pub args: Vec<Expr>,
    /// What it must give.
    pub result: ExpectedResult,
    /// For a call that blocks: when it returns, counted as the event's own time.
    pub end: Option<Dur>,
}

/// What a call must give.
#[derive(Clone, PartialEq, Debug)]
pub struct ExpectedResult {
    /// `None` for `...`.
    pub value: Option<i64>,
    /// `EINPROGRESS`
    pub errno: Option<String>,
}

/// An argument.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// `...`
    Any,
    /// A number.
    Int(i64),
    /// A name, or several joined by `|`.
    Names(Vec<String>),
    /// `"text"`
    Text(String),
    /// `[a, b]`
    List(Vec<Expr>),
    /// `{a, name=b, name(n)=c}`: the names of unnamed members are empty.
    Group(Vec<(String, Expr)>),
    /// `htons(8080)`
    Made(String, Vec<Expr>),
}
