//! The syntax tree of a script.

use crate::code::Statement;
use crate::position::{Position, SyntaxError};
use tcpassay_units::Dur;
use tcpassay_wire::Flags;

/// A parsed script.
#[derive(Clone, PartialEq, Debug)]
pub struct Script {
    /// `--name=value` lines.
    pub options: Vec<OptionLine>,
    /// The command before the first event.
    pub init: Option<ShellCommand>,
    /// The events in the order of the text.
    pub events: Vec<ScriptEvent>,
    /// The command after the last event.
    pub cleanup: Option<ShellCommand>,
}

impl Script {
    /// Returns true if the script can fail: it has an expected packet, a call, an assertion, or code that cannot be parsed.
    pub fn tests_something(&self) -> bool {
        self.events.iter().any(|event| match &event.action {
            Action::Packet(packet) => packet.direction == PacketDirection::Out,
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
    /// The name without the dashes.
    pub name: String,
    /// The value; empty if there is none.
    pub value: String,
    /// The position of the line.
    pub position: Position,
}

/// Commands for a shell, between backquotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShellCommand {
    /// The commands.
    pub text: String,
    /// The position of the beginning.
    pub position: Position,
}

/// An event of the script with its time.
#[derive(Clone, PartialEq, Debug)]
pub struct ScriptEvent {
    /// The position of the beginning.
    pub position: Position,
    /// The time.
    pub when: EventTime,
    /// The action.
    pub action: Action,
}

/// The time of an event: since the start of the script, or since the previous event.
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

/// The action of an event.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// A packet to inject or to expect.
    Packet(ScriptPacket),
    /// A system call.
    Call(Syscall),
    /// Shell commands.
    Shell(ShellCommand),
    /// `%{ ... }%`
    Code(CodeBlock),
}

/// A code block, `%{ ... }%`.
#[derive(Clone, PartialEq, Debug)]
pub struct CodeBlock {
    /// The text between the braces.
    pub text: String,
    /// The statements, or the syntax error.
    pub body: Result<Vec<Statement>, SyntaxError>,
}

/// The direction of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketDirection {
    /// `<`: the script injects the packet.
    In,
    /// `>`: the stack must send the packet.
    Out,
}

/// A packet to inject or to expect.
#[derive(Clone, PartialEq, Debug)]
pub struct ScriptPacket {
    /// The direction.
    pub direction: PacketDirection,
    /// The TOS byte, as in `[ect0]` or `[tos 0x2]`.
    pub ip: IpField,
    /// The hop limit of `[ttl 64]` or `[hlim 64]`; `None` if it is not written.
    pub hops: Option<u8>,
    /// The content of the packet.
    pub body: PacketBody,
}

/// The TOS byte (IPv6: traffic class) in the script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpField {
    /// Not written. An inbound packet is Not-ECT; an outbound packet is not checked.
    Unsaid,
    /// These two ECN bits.
    Ecn(u8),
    /// `ect01`: ECT(0) or ECT(1).
    EitherEct,
    /// The whole byte.
    Tos(u8),
}

/// The content of a packet.
#[derive(Clone, PartialEq, Debug)]
pub enum PacketBody {
    /// A TCP segment.
    Tcp(TcpPacket),
    /// An ICMP message about a TCP segment.
    Icmp(IcmpMessage),
}

/// A TCP segment.
#[derive(Clone, PartialEq, Debug)]
pub struct TcpPacket {
    /// The flags.
    pub flags: Flags,
    /// The first sequence number.
    pub seq: u32,
    /// The script has `...`: the sequence number is not compared.
    pub any_seq: bool,
    /// The length of the payload in bytes.
    pub len: u32,
    /// The acknowledgment number; `None` if it is not written.
    pub ack: Option<u32>,
    /// The window field without scaling; `None` if it is not written.
    pub window: Option<u16>,
    /// The urgent pointer; `None` if it is not written.
    pub urgent: Option<u16>,
    /// The options; `None` for `<...>`, which accepts any options.
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
    /// `FO cookie`, or `FO` for a request; `FOEXP` for the experimental option.
    FastOpen {
        /// Option kind 254 instead of 34.
        experimental: bool,
        /// The cookie as hexadecimal digits or a name; empty for a request.
        cookie: String,
    },
    /// `md5 valid`, `md5 invalid`, or a digest in hexadecimal digits (RFC 2385).
    Md5(String),
    /// `ECN e1b 1 ceb 0 e0b 1`: the counters of the accurate ECN option as text.
    AccurateEcn(String),
}

/// An ICMP message about a segment that the stack has sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IcmpMessage {
    /// The type: `unreachable`, `time_exceeded`, ...
    pub kind: String,
    /// The code: `host_unreachable`, `frag_needed`, ...; empty if there is none.
    pub code: String,
    /// The MTU of the message, if it has one.
    pub mtu: Option<u32>,
    /// The first sequence number of the echoed header; `None` if it is not written.
    pub seq: Option<u32>,
}

/// A system call.
#[derive(Clone, PartialEq, Debug)]
pub struct Syscall {
    /// The name.
    pub name: String,
    /// The arguments.
    pub args: Vec<Expr>,
    /// The expected result.
    pub result: ExpectedResult,
    /// Time at which a blocking call must return, relative to the same time as the event.
    pub end: Option<Dur>,
}

/// The expected result of a call.
#[derive(Clone, PartialEq, Debug)]
pub struct ExpectedResult {
    /// The value; `None` for `...`.
    pub value: Option<i64>,
    /// The error, such as `EINPROGRESS`.
    pub errno: Option<String>,
}

/// An argument of a system call.
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
    /// `{a, name=b, name(n)=c}`. The name of an unnamed member is empty.
    Group(Vec<(String, Expr)>),
    /// `htons(8080)`
    Made(String, Vec<Expr>),
}
