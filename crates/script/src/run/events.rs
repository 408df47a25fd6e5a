//! Packets, commands and code of the script.

use super::config::Open;
use super::packet::{Strictness, differences, ecn_of};
use super::socket::{File, Role};
use super::world::Live;
use super::{Difference, Go, Layout, Runner, Stop, Target, info};
use crate::ast::{Body, Code, Event, Opt, Packet, Shell, Tcp, When};
use crate::code::Failure;
use crate::place::Place;
use crate::report::Status;
use tcpassay_tcp::Profile;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::{Ecn, Flags};

/// How long after its time an expected packet is waited for, so that the error in time can be told.
const PATIENCE: Dur = Dur::from_secs(130);

impl Runner<'_> {
    pub(super) fn shell(&mut self, shell: &Shell) -> Go {
        self.host.run(&shell.text).map_err(|line| self.stop(Status::Unsupported, shell.place, line))?;
        self.world.cut = self.host.no_tso;
        Ok(())
    }

    pub(super) fn code(&mut self, code: &Code, place: Place) -> Go {
        let body = match &code.body {
            Ok(body) => body,
            Err(error) => {
                let why = format!("code: expected {}, found {}", error.expected, error.found);
                return Err(self.stop(Status::Unsupported, error.place, why));
            }
        };
        let peer = match self.target {
            Target::Peer(peer) => Some(&self.world.peers[peer]),
            _ => None,
        };
        let (now, profile) = (self.world.now, self.options.profile);
        let look = |name: &str| peer.and_then(|p| info::look(p, now, profile, name));
        self.env.run(body, &look).map_err(|failure| match failure {
            Failure::Assert(at, said) => self.stop(Status::Fail, at, format!("assertion failed: {said}")),
            Failure::Unknown(name) => {
                self.stop(Status::Unsupported, place, format!("the name `{name}` in code"))
            }
            Failure::Wrong(why) => self.stop(Status::Fail, place, format!("code: {why}")),
        })
    }

    fn layout(&self) -> Layout {
        match self.options.profile {
            Profile::FreeBsd | Profile::FreeBsdRack => Layout::FreeBsd,
            _ => Layout::Linux,
        }
    }

    /// A packet of the script arrives at the stack.
    pub(super) fn inject(&mut self, packet: &Packet, place: Place) -> Go {
        let tcp = match &packet.body {
            Body::Tcp(tcp) => tcp,
            Body::Icmp(icmp) => return self.inject_icmp(icmp, place),
        };
        let peer = match self.target {
            Target::Peer(peer) => peer,
            Target::Listener(fd) => self.new_child(fd, place)?,
            Target::None => {
                return Err(self.stop(Status::Fail, place, "no socket could receive this packet".to_owned()));
            }
        };
        let target = &mut self.world.peers[peer];
        let segment = match target.map.inject(tcp) {
            Ok(segment) => segment,
            Err(what) => return Err(self.stop(Status::Unsupported, place, what)),
        };
        target.conn.on_segment(self.world.now, &segment, ecn_of(packet.ip));
        self.world.steps += 1;
        self.world.flush(peer);
        self.poll_blocked()
    }

    fn new_child(&mut self, fd: i64, place: Place) -> Result<usize, Stop> {
        let Some(File::Socket(listener)) = self.files.get(&fd).cloned() else {
            return Err(self.stop(Status::Fail, place, "the listening socket is closed".to_owned()));
        };
        let peer = match self.make(&listener, Open::Passive) {
            Ok(peer) => peer,
            Err(super::Trouble::Unsupported(what)) => {
                return Err(self.stop(Status::Unsupported, place, what));
            }
            Err(other) => return Err(self.stop(Status::Fail, place, format!("{other:?}"))),
        };
        if let Some(File::Socket(listener)) = self.files.get_mut(&fd)
            && let Role::Listening(queue) = &mut listener.role
        {
            queue.push(peer);
        }
        self.target = Target::Peer(peer);
        Ok(peer)
    }

    /// The next packet of the stack must be this one.
    pub(super) fn expect(&mut self, want: &Packet, start: Time, end: Time, event: &Event) -> Go {
        let place = event.place;
        let Body::Tcp(tcp) = &want.body else {
            return Err(self.stop(Status::Unsupported, place, "an outbound ICMP message".to_owned()));
        };
        if let Some(opt) = tcp.options.iter().flatten().find(|o| is_foreign(o)) {
            return Err(self.stop(Status::Unsupported, place, format!("the TCP option {opt}")));
        }
        let Target::Peer(peer) = self.target else {
            return Err(self.stop(Status::Fail, place, "no connection could send this packet".to_owned()));
        };
        let mut live = self.next_sent(tcp, end, place)?;
        if live.peer != peer {
            let shown = self.show(&live);
            return Err(self.stop(Status::Fail, place, format!("a packet of another connection: {shown}")));
        }
        // An expected payload may be covered by several live segments, of one size but for the last.
        let whole = tcp.len;
        let first = live.out.segment.len;
        while !self.settings.strict_segments && live.out.segment.len < whole && live.out.segment.len > 0 {
            let follows = self.world.sent.front().is_some_and(|next| {
                let (a, b) = (&live.out.segment, &next.out.segment);
                next.peer == peer
                    && b.seq == a.end()
                    && b.len > 0
                    && (b.len == first || a.len + b.len >= whole)
            });
            if !follows {
                break;
            }
            let next = self.world.sent.pop_front().expect("seen above");
            let s = &mut live.out.segment;
            s.len += next.out.segment.len;
            s.flags = next.out.segment.flags | Flags::from_bits(s.flags.without(Flags::PSH).bits());
        }
        self.learn(peer, tcp, &live);
        let shown = self.show(&live);
        let ticks = self.settings.ts_tick;
        let stamps = (!ticks.is_zero()).then(|| {
            let within = self.settings.tolerance.as_nanos() / ticks.as_nanos();
            u32::try_from(within).unwrap_or(u32::MAX)
        });
        let how = Strictness { loose: self.options.loose, stamps: Some(stamps.unwrap_or(u32::MAX)) };
        let differ = differences(want, tcp, &shown, live.out.ecn, how);
        let details = side_by_side(want, tcp, &shown, (start, end), &live, &differ);
        if !differ.is_empty() {
            let fields: Vec<&str> = differ.iter().map(|d| d.field).collect();
            let mut stop =
                self.stop(Status::Fail, place, format!("outbound packet: {} differ", fields.join(", ")));
            stop.details.splice(0..0, details);
            return Err(stop);
        }
        if event.when != When::Any {
            let off = if live.at < start { start - live.at } else { live.at.since(end) };
            let what = format!("outbound packet at {}, expected at {}", live.at, range(start, end));
            self.note_drift(place, off, &what, details);
        }
        Ok(())
    }

    /// The next packet of the stack, waited for until some time after `end`.
    fn next_sent(&mut self, tcp: &Tcp, end: Time, place: Place) -> Result<Live, Stop> {
        let last = end.saturating_add(PATIENCE);
        loop {
            if let Some(live) = self.world.sent.pop_front() {
                return Ok(live);
            }
            match self.world.next_timer() {
                Some(at) if at <= last => self.fire(at, place)?,
                next => {
                    let then =
                        next.map_or("no timer runs".to_owned(), |at| format!("the next timer is at {at}"));
                    let what = format!("the stack sent nothing; expected {tcp} at {}; {then}", end_text(end));
                    return Err(self.stop(Status::Fail, place, what));
                }
            }
        }
    }

    /// What the script's packet tells about its numbers.
    fn learn(&mut self, peer: usize, tcp: &Tcp, live: &Live) {
        let map = &mut self.world.peers[peer].map;
        if tcp.flags.has(Flags::SYN) && live.out.segment.flags.has(Flags::SYN) {
            map.script_iss = tcp.seq;
        }
        let written = tcp.options.iter().flatten().find_map(|o| match o {
            Opt::Timestamps(Some(val), _) => Some(*val),
            _ => None,
        });
        if let (Some(script), Some(stamps)) = (written, live.out.segment.options.timestamps) {
            map.learn_stamp(stamps.val, script);
        }
    }

    fn show(&self, live: &Live) -> Tcp {
        self.world.peers[live.peer].map.show(&live.out.segment, self.layout())
    }

    /// The end of the run, with the stack's last words and state.
    pub(super) fn stop(&self, status: Status, place: Place, reason: String) -> Stop {
        let mut details = Vec::new();
        if let (Target::Peer(peer), Status::Fail | Status::Time) = (self.target, status) {
            let peer = &self.world.peers[peer];
            details.push(format!("state: {}", info::describe(&peer.conn.info())));
            details.push("the stack's last events:".to_owned());
            details.extend(peer.log.iter().map(|entry| format!("  {} {:?}", entry.at, entry.what)));
        }
        Stop { status, place, reason, details }
    }
}

/// Both packets, one above the other, and the fields that differ.
fn side_by_side(
    want: &Packet,
    tcp: &Tcp,
    live: &Tcp,
    (start, end): (Time, Time),
    sent: &Live,
    differ: &[Difference],
) -> Vec<String> {
    let ip = |ecn: Ecn| format!("[{}] ", ["noecn", "ect1", "ect0", "ce"][usize::from(ecn.bits())]);
    let wanted_ip = if want.ip == crate::ast::IpField::Unsaid { String::new() } else { ip(ecn_of(want.ip)) };
    let live_ip = if want.ip == crate::ast::IpField::Unsaid { String::new() } else { ip(sent.out.ecn) };
    let mut lines = vec![
        format!("expected: {} {wanted_ip}{tcp}", range(start, end)),
        format!("live:     {} {live_ip}{live}", sent.at),
    ];
    for d in differ {
        lines.push(format!("  * {}: expected {}, live {}", d.field, d.expected, d.live));
    }
    lines
}

/// Options that the model never sends.
fn is_foreign(opt: &Opt) -> bool {
    matches!(opt, Opt::FastOpen { .. } | Opt::AccurateEcn(_))
}

fn end_text(end: Time) -> String {
    if end == Time::MAX { "any time".to_owned() } else { end.to_string() }
}

fn range(start: Time, end: Time) -> String {
    if start == end { start.to_string() } else { format!("{start}~{}", end_text(end)) }
}
