//! Packets, shell commands and code blocks of the script.

use super::compare::{FieldDifference, Strictness, differences};
use super::packet_text::ip_text;
use super::runner::{RunResult, Runner, Stop};
use super::target::{SentPacket, Target};
use crate::ast::PacketBody;
use crate::ast::{
    CodeBlock, EventTime, IpField, ScriptEvent, ScriptPacket, ShellCommand, TcpOption, TcpPacket,
};
use crate::code::CodeError;
use crate::position::Position;
use crate::report::Status;
use tcpassay_units::Time;
use tcpassay_wire::Flags;

impl<T: Target> Runner<'_, T> {
    pub(super) fn shell(&mut self, shell: &ShellCommand) -> RunResult {
        self.target.shell(&shell.text).map_err(|line| self.stop(Status::Unsupported, shell.position, line))
    }

    pub(super) fn code(&mut self, code: &CodeBlock, position: Position) -> RunResult {
        let body = match &code.body {
            Ok(body) => body,
            Err(error) => {
                let why = format!("code: expected {}, found {}", error.expected, error.found);
                return Err(self.stop(Status::Unsupported, error.position, why));
            }
        };
        let target = &*self.target;
        self.env.run(body, &|name: &str| target.value(name)).map_err(|failure| match failure {
            CodeError::AssertionFailed(at, text) => {
                self.stop(Status::Fail, at, format!("assertion failed: {text}"))
            }
            CodeError::UnknownName(name) => {
                self.stop(Status::Unsupported, position, format!("the name `{name}` in code"))
            }
            CodeError::Invalid(why) => self.stop(Status::Fail, position, format!("code: {why}")),
            CodeError::Unsupported(what) => self.stop(Status::Unsupported, position, format!("code: {what}")),
        })
    }

    /// Injects a packet of the script.
    pub(super) fn inject(&mut self, packet: &ScriptPacket, position: Position) -> RunResult {
        self.steps += 1;
        self.target.inject(packet).map_err(|error| self.stop_for(error, "", position))?;
        self.poll_blocked()
    }

    /// Compares the next packet of the target with `want`.
    pub(super) fn expect(
        &mut self,
        want: &ScriptPacket,
        start: Time,
        end: Time,
        event: &ScriptEvent,
    ) -> RunResult {
        let position = event.position;
        let PacketBody::Tcp(tcp) = &want.body else {
            return Err(self.stop(Status::Unsupported, position, "an outbound ICMP message".to_owned()));
        };
        self.take_all();
        let Some(conn) = self.target.connection_under_test() else {
            return Err(self.stop(Status::Fail, position, "no connection can send this packet".to_owned()));
        };
        let mut live = self.next_sent(conn, tcp, end, position)?;
        // Several segments may carry the expected payload. All but the last one have the same size.
        let whole = tcp.len;
        let first = live.segment.len;
        while !self.settings.strict_segments && live.segment.len < whole && live.segment.len > 0 {
            self.take_all();
            let follows = self.unchecked.front().is_some_and(|next| {
                let (a, b) = (&live.segment, &next.segment);
                next.conn == conn
                    && b.seq == a.end()
                    && b.len > 0
                    && (b.len == first || a.len + b.len >= whole)
            });
            if !follows {
                break;
            }
            let next = self.unchecked.pop_front().expect("seen above");
            let s = &mut live.segment;
            s.len += next.segment.len;
            s.flags = next.segment.flags | Flags::from_bits(s.flags.without(Flags::PSH).bits());
        }
        self.learn(conn, tcp, &live);
        let shown = self.show(&live);
        let ticks = self.settings.ts_tick;
        let stamps = (!ticks.is_zero()).then(|| {
            let within = self.settings.tolerance.as_nanos() / ticks.as_nanos();
            u32::try_from(within).unwrap_or(u32::MAX)
        });
        let how = Strictness { loose: self.options.loose, stamps: Some(stamps.unwrap_or(u32::MAX)) };
        let differ = differences(want, tcp, &shown, &live, how);
        let details = side_by_side(want, tcp, &shown, (start, end), &live, &differ);
        if !differ.is_empty() {
            let fields: Vec<&str> = differ.iter().map(|d| d.field).collect();
            let mut stop =
                self.stop(Status::Fail, position, format!("outbound packet: {} differ", fields.join(", ")));
            stop.details.splice(0..0, details);
            return Err(stop);
        }
        if event.when != EventTime::Any {
            let off = if live.at < start { start - live.at } else { live.at.since(end) };
            let what = format!("outbound packet at {}, expected at {}", live.at, range(start, end));
            self.note_drift(position, off, start.since(self.base), &what, details);
        }
        Ok(())
    }

    /// Reads all packets that the target has sent.
    fn take_all(&mut self) {
        while let Some(sent) = self.target.next_packet() {
            self.unchecked.push_back(sent);
        }
    }

    /// The next packet of the connection `conn`. The runner waits for it until `end` plus [`Target::packet_timeout`]. Packets of
    /// other connections are ignored, as in packetdrill.
    fn next_sent(
        &mut self,
        conn: usize,
        tcp: &TcpPacket,
        end: Time,
        position: Position,
    ) -> Result<SentPacket, Stop> {
        let last = end.saturating_add(self.target.packet_timeout());
        loop {
            self.take_all();
            while let Some(sent) = self.unchecked.pop_front() {
                if sent.conn == conn {
                    return Ok(sent);
                }
            }
            let next_action = self.target.next_action();
            if !self.step(last, position)? {
                let then = if next_action.is_empty() { next_action } else { format!("; {next_action}") };
                let what = format!("the stack sent nothing; expected {tcp} at {}{then}", end_text(end));
                return Err(self.stop(Status::Fail, position, what));
            }
        }
    }

    /// Records the numbers that the script uses for those of the target.
    fn learn(&mut self, conn: usize, tcp: &TcpPacket, live: &SentPacket) {
        let map = self.target.sequence_map(conn);
        if tcp.flags.has(Flags::SYN) && live.segment.flags.has(Flags::SYN) {
            map.script_iss = tcp.seq;
        }
        let written = tcp.options.iter().flatten().find_map(|o| match o {
            TcpOption::Timestamps(Some(val), _) => Some(*val),
            _ => None,
        });
        if let (Some(script), Some(stamps)) = (written, live.segment.options.timestamps) {
            map.learn_stamp(stamps.val, script);
        }
    }

    fn show(&mut self, live: &SentPacket) -> TcpPacket {
        self.target.sequence_map(live.conn).show(&live.segment, &live.options)
    }
}

/// The expected and the actual packet, and the fields that differ, as lines of text.
fn side_by_side(
    want: &ScriptPacket,
    tcp: &TcpPacket,
    live: &TcpPacket,
    (start, end): (Time, Time),
    sent: &SentPacket,
    differ: &[FieldDifference],
) -> Vec<String> {
    let prefix = |ip: IpField| match ip {
        IpField::Unsaid => String::new(),
        ip => format!("[{}] ", ip_text(ip)),
    };
    let live_ip = match want.ip {
        IpField::Unsaid => IpField::Unsaid,
        IpField::Tos(_) => IpField::Tos(sent.tos),
        _ => IpField::Ecn(sent.tos & 3),
    };
    let (wanted_ip, live_ip) = (prefix(want.ip), prefix(live_ip));
    let mut lines = vec![
        format!("expected: {} {wanted_ip}{tcp}", range(start, end)),
        format!("live:     {} {live_ip}{live}", sent.at),
    ];
    for d in differ {
        lines.push(format!("  * {}: expected {}, live {}", d.field, d.expected, d.live));
    }
    lines
}

fn end_text(end: Time) -> String {
    if end == Time::MAX { "any time".to_owned() } else { end.to_string() }
}

fn range(start: Time, end: Time) -> String {
    if start == end { start.to_string() } else { format!("{start}~{}", end_text(end)) }
}
