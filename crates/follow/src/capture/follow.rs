//! The follower of an end of a capture: hypotheses process its packets until the last one contradicts them.

use super::end::CapturedEnd;
use super::explain::{Found, Told};
use super::foresight::{after_growth, moved, moves, next_sent, unread};
use super::hypothesis::{Due, Held, Hypothesis, Way};
use super::outcome::{CaptureOutcome, Stop, empty};
use super::packet::CapturedPacket;
use super::profile::with_syn;
use super::sender::Bounds;
use super::settings;
use crate::compare::compare;
use crate::difference::shown;
use crate::kind::{Kind, Role, seconds};
use tcpassay_cc::Params;
use tcpassay_tcp::{Config, Connection, WindowMove};
use tcpassay_units::{Bytes, Dur, SeqNum, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

/// The largest number of hypotheses after an arrival, and after a segment that left and that all of them explain: while the usual
/// possibilities explain the packets, then with all of them, and where these are too few.
const MOST: [[usize; 2]; 3] = [[4, 4], [48, 16], [256, 128]];
/// Packets between two places to which the follower returns if the possibilities that it tries do not explain a packet, and packets behind
/// it up to which it then tries more of them.
const SAVED: usize = 32;
const BEYOND: usize = 64;
/// A timer may fire earlier or later by this: a tick of 250 Hz, the time since the tick before, and the tick by which an estimate in ticks is off.
const TIMER: Dur = Dur::from_millis(9);
/// An arrival has an ACK sent at once if its timer is to fire within a quarter of its time (`tcp_send_delayed_ack`).
const CHECK: Dur = Dur::from_millis(10);
/// The fields of a segment that the receiver of the end determines.
const JUDGED: [&str; 5] = ["acknowledgment number", "ECE", "timestamps", "TSecr", "SACK blocks"];
/// The controller, which decides nothing here.
const CONTROLLER: &str = "cubic";

/// Follows an end with the settings of a profile, and a Linux that differs with each of those that a capture does not tell.
pub fn follow(end: &CapturedEnd, profile: &Config) -> CaptureOutcome {
    let outcome = follow_with(end, profile, end.acts_within);
    if outcome.first.is_none() || !profile.flavor.is_linux() {
        return outcome;
    }
    settings::followed(outcome, |setting| {
        let (mut config, mut within) = (profile.clone(), end.acts_within);
        setting.apply(&mut config, &mut within);
        follow_with(end, &config, within)
    })
}

fn follow_with(end: &CapturedEnd, profile: &Config, within: Dur) -> CaptureOutcome {
    if let Some(why) = &end.refused {
        let stop = Stop { frame: None, why: why.clone() };
        return CaptureOutcome { stop: Some(stop), ..empty(end) };
    }
    let mut run = match Run::new(end, profile, within, false) {
        Ok(run) => run,
        Err(why) => return CaptureOutcome { stop: Some(Stop { frame: None, why }), ..empty(end) },
    };
    run.run();
    if run.last.is_some() {
        // All possibilities from the begin on; the log of the model is slow, so that only this pass keeps it.
        run = Run::new(end, profile, within, true).unwrap_or(run);
        (run.least, run.level) = (1, 1);
        run.run();
        let why = if let Some(frame) = end.queued {
            Some(format!(
                "what the end sends waits in a queue of its own host: the ACK field of frame {frame} is older than one before"
            ))
        } else {
            let lacks = "the capture lacks packets: bytes are acknowledged that it does not have";
            end.is_incomplete.then(|| lacks.to_owned())
        };
        if let (Some(why), Some((found, _))) = (why, &run.last) {
            let row = found.row.min(end.packets.len() - 1);
            run.outcome.stop = Some(Stop { frame: Some(end.packets[row].frame), why });
        } else if let Some((found, hypothesis)) = run.last.take() {
            run.outcome.first = Some(run.told().explained(found, *hypothesis));
        }
    }
    run.outcome
}

/// A place to which the follower returns.
struct Place {
    row: usize,
    all: Vec<Hypothesis>,
    outcome: CaptureOutcome,
    bounds: Bounds,
}

pub(super) struct Run<'a> {
    pub(super) end: &'a CapturedEnd,
    /// Within this time the end does what it should do at once.
    pub(super) within: Dur,
    pub(super) all: Vec<Hypothesis>,
    /// How many possibilities are tried now, a place in [`MOST`], and how many from the begin on.
    pub(super) level: usize,
    least: usize,
    pub(super) outcome: CaptureOutcome,
    /// Initial sequence numbers of the end and its peer.
    initial: (SeqNum, SeqNum),
    /// For arrivals, how the window of the next segment that leaves compares with that of the last one.
    pub(super) moves: Vec<WindowMove>,
    /// For arrivals, whether the window has just grown.
    pub(super) after_growth: Vec<bool>,
    /// For each packet, whether the windows around it show that data are unread.
    pub(super) unread: Vec<bool>,
    /// For each packet, the next one that leaves.
    next_sent: Vec<Option<usize>>,
    /// The largest window that was announced so far, which the buffer holds at least.
    pub(super) largest: u64,
    /// The window of the SYN of the end.
    pub(super) first_window: u64,
    /// The window that each packet announces, in bytes.
    windows: Vec<u64>,
    /// The profile is one of Linux, whose functions a reason names.
    is_linux: bool,
    last: Option<(Found, Box<Hypothesis>)>,
    why_stop: Option<String>,
    bounds: Bounds,
}

impl<'a> Run<'a> {
    fn new(end: &'a CapturedEnd, profile: &Config, within: Dur, logs: bool) -> Result<Run<'a>, String> {
        let syn = |sent: bool| {
            let found = end.packets.iter().find(|p| p.sent == sent && p.segment.flags.has(Flags::SYN));
            found.ok_or_else(|| "the capture has no whole handshake of the connection".to_owned())
        };
        let (own, peer) = (syn(true)?, syn(false)?);
        for one in [own, peer] {
            if one.segment.flags.has(Flags::AE) {
                return Err("accurate ECN is not followed on captures".to_owned());
            }
            if one.segment.len > 0 {
                return Err("data of a SYN (Fast Open) are not followed on captures".to_owned());
            }
        }
        let mut config = profile.clone();
        with_syn(&mut config, &own.segment, own.ecn);
        let bounds = Bounds::new(&config, own.segment.seq);
        let scale = own.segment.options.window_scale;
        let scaled = scale.is_some() && peer.segment.options.window_scale.is_some();
        let shift = if scaled { scale.unwrap_or(0).min(14) } else { 0 };
        let offset = own.segment.options.timestamps.map_or(0, |stamps| {
            let ms = own.at.as_nanos() / 1_000_000;
            stamps.val.wrapping_sub(u32::try_from(ms & u64::from(u32::MAX)).expect("it is masked"))
        });
        let cc = tcpassay_cc::build(CONTROLLER, &Params::default()).map_err(|error| error.to_string())?;
        let started = end.packets[0].at;
        let active = !own.segment.flags.has(Flags::ACK);
        let mut conn = if active {
            Connection::connect(config, cc, own.segment.seq, offset, started)
        } else {
            Connection::listen(config, cc, own.segment.seq, offset)
        };
        conn.observe_windows(scale);
        conn.set_log(logs);
        let mut first = Hypothesis::new(conn, started, logs);
        first.acknowledge(started, Dur::ZERO);
        let windows: Vec<u64> = end
            .packets
            .iter()
            .map(|p| u64::from(p.segment.window) << if p.segment.flags.has(Flags::SYN) { 0 } else { shift })
            .collect();
        let next_sent = next_sent(&end.packets);
        Ok(Run {
            end,
            within,
            all: vec![first],
            level: 0,
            least: 0,
            outcome: empty(end),
            initial: (own.segment.seq, peer.segment.seq),
            moves: moves(&end.packets, &windows, &next_sent),
            after_growth: after_growth(&end.packets, &windows),
            unread: unread(&end.packets, &windows, &next_sent),
            next_sent,
            largest: 0,
            first_window: u64::from(own.segment.window),
            windows,
            is_linux: profile.flavor.is_linux(),
            last: None,
            why_stop: None,
            bounds,
        })
    }

    fn run(&mut self) {
        let (mut row, mut more_until) = (0, 0);
        let mut saved: Option<Place> = None;
        while row < self.end.packets.len() {
            if row >= more_until {
                self.level = self.least;
            }
            if self.level == self.least && row.is_multiple_of(SAVED) {
                let (all, outcome, bounds) = (self.all.clone(), self.outcome.clone(), self.bounds.clone());
                saved = Some(Place { row, all, outcome, bounds });
            }
            if self.processes_packet(row) {
                return;
            }
            if !self.all.is_empty() {
                self.last = None;
                self.count(row);
                self.foresees(row);
                let packet = &self.end.packets[row];
                self.merge(MOST[self.level][usize::from(packet.sent)]);
                row += 1;
            } else if let Some(place) = saved.as_ref().filter(|_| self.level + 1 < MOST.len()) {
                self.level += 1;
                more_until = row + BEYOND;
                row = place.row;
                (self.all, self.outcome, self.bounds) =
                    (place.all.clone(), place.outcome.clone(), place.bounds.clone());
            } else {
                if let Some(why) = self.why_stop.take() {
                    self.outcome.stop = Some(Stop { frame: Some(self.end.packets[row].frame), why });
                    self.last = None;
                }
                return;
            }
        }
        self.finish();
    }

    /// The hypotheses process a packet. Returns whether following ends here, whatever is left of them.
    fn processes_packet(&mut self, row: usize) -> bool {
        let packet = self.end.packets[row];
        if let Some(why) = self.ends_before(row) {
            self.outcome.stop = Some(Stop { frame: Some(packet.frame), why: why.to_owned() });
            return true;
        }
        let conn = &self.all[0].conn;
        if let Some(fault) = self.bounds.passes(&packet, conn, TIMER) {
            self.outcome.first = Some((packet.frame, self.told().forbidden(row, fault)));
            return true;
        }
        (self.last, self.why_stop) = (None, None);
        for hypothesis in std::mem::take(&mut self.all) {
            for hypothesis in self.passes(row, hypothesis, packet.at) {
                if packet.sent { self.leaves(row, hypothesis) } else { self.arrives(row, hypothesis) }
            }
        }
        false
    }

    fn told(&self) -> Told<'a> {
        Told { packets: &self.end.packets, initial: self.initial, is_linux: self.is_linux }
    }

    fn count(&mut self, row: usize) {
        let packet = &self.end.packets[row];
        self.outcome.followed += 1;
        let segment = &packet.segment;
        if !packet.sent {
            self.outcome.arrivals += usize::from(segment.len > 0);
        } else if !segment.flags.has(Flags::SYN) {
            self.largest = self.largest.max(self.windows[row]);
            if segment.len > 0 || segment.flags.has(Flags::FIN) {
                self.outcome.carriers += 1;
            } else {
                self.outcome.acks += 1;
            }
        }
    }

    /// Why following ends before a packet although nothing differs.
    fn ends_before(&self, row: usize) -> Option<&'static str> {
        let packet = &self.end.packets[row];
        let segment = &packet.segment;
        if row > 0 && packet.at < self.end.packets[row - 1].at {
            return Some("the clock of the capture goes back");
        }
        if packet.cut {
            return Some(
                "the captured bytes end inside of the options of the packet, or the options are malformed",
            );
        }
        if segment.flags.has(Flags::RST) {
            return Some("the connection is reset");
        }
        let syn = segment.flags.has(Flags::SYN);
        if packet.sent && !syn && !self.all.iter().any(|one| one.conn.was_established()) {
            return Some("a segment leaves before the handshake is done");
        }
        if packet.sent || syn || !segment.flags.has(Flags::ACK) {
            return None;
        }
        let sent = self.all.first().map(|one| one.conn.next_numbers().0)?;
        (segment.ack.distance(sent) > 0).then_some("the peer acknowledges data that the capture lacks")
    }

    /// What leaves next contradicts a hypothesis that waits for another ACK: it is left out now, unless that holds for all.
    fn foresees(&mut self, row: usize) {
        let Some(next) = self.next_sent[row].map(|next| &self.end.packets[next]) else { return };
        let bare = next.segment.len == 0 && !next.segment.flags.any(Flags::FIN | Flags::SYN | Flags::RST);
        let fits = |one: &Hypothesis| {
            let Some(due) = one.due.front() else { return true };
            if due.until < next.at {
                return false;
            }
            let probe = next.segment.seq.distance(one.conn.next_numbers().0) < 0;
            !bare || probe || differing((&next.segment, next.ecn), due).is_empty()
        };
        if self.all.iter().any(fits) {
            self.all.retain(fits);
        }
    }

    /// Hypotheses that cannot be told apart by what they do next are one; those with the fewest unusual choices come first.
    fn merge(&mut self, most: usize) {
        self.all.sort_by_key(|one| (one.unusual, one.odd));
        let mut kept: Vec<Hypothesis> = Vec::with_capacity(self.all.len());
        for one in std::mem::take(&mut self.all) {
            if let Some(like) = kept.iter_mut().find(|other| other.is_like(&one)) {
                like.odd = like.odd.min(one.odd);
            } else if kept.len() < most {
                kept.push(one);
            }
        }
        self.all = kept;
    }

    fn dies(&mut self, hypothesis: Hypothesis, found: Found) {
        if self.last.is_none() {
            self.last = Some((found, Box::new(hypothesis)));
        }
    }

    /// Time passes until `at`: the hypotheses that are left of one. A timer that is due about now may have fired or not.
    fn passes(&mut self, row: usize, mut one: Hypothesis, at: Time) -> Vec<Hypothesis> {
        let within = self.within;
        let mut left = Vec::new();
        loop {
            if let Some(held) = one.held.filter(|held| held.until < at) {
                one.held = None;
                let held = Held { moved: moved(&self.end.packets, &self.windows, row), ..held };
                if self.level > 0 && held.segment.len > 0 {
                    let mut unread = one.clone();
                    unread.arrives(held.until, &held, Way { reads: false, waits: false }, within);
                    unread.unusual += u32::from(one.unread == 0);
                    left.extend(self.passes(row, unread, at));
                }
                one.arrives(held.until, &held, Way::USUAL, within);
            }
            if let Some(due) = one.due.front().copied().filter(|due| due.until < at) {
                let sent = self.end.packets.get(row).map_or_else(
                    || "nothing up to the end of the capture".to_owned(),
                    |next| format!("not this; next {} at {}", self.in_words(next), seconds(next.at)),
                );
                let kind = Kind::OnlyModel(Role::of(&due.segment, due.segment.seq));
                self.dies(one, Found { row, at: due.at, kind, sent, due: Some(due) });
                return left;
            }
            let timer = one.next();
            if timer > at.saturating_add(TIMER) {
                break;
            }
            let last = timer.saturating_add(TIMER);
            if last >= at {
                let mut fired = one.clone();
                fired.fires(timer, timer.min(at), last.saturating_add(within));
                fired.unusual += 1;
                left.push(fired);
                break;
            }
            one.fires(timer, timer, last.saturating_add(within));
        }
        left.push(one);
        left
    }

    fn in_words(&self, packet: &CapturedPacket) -> String {
        let (ours, theirs) = self.initial;
        if packet.sent {
            format!("leaves {}", shown((ours, theirs), &packet.segment, packet.ecn))
        } else {
            format!("arrives {}", shown((theirs, ours), &packet.segment, packet.ecn))
        }
    }

    /// A segment leaves.
    fn leaves(&mut self, row: usize, one: Hypothesis) {
        let (packet, within) = (self.end.packets[row], self.within);
        let segment = &packet.segment;
        if segment.flags.has(Flags::SYN) {
            self.all.push(one);
            return;
        }
        let carries = segment.len > 0 || segment.flags.has(Flags::FIN);
        if let Some(held) = one.held {
            let mut done = one.clone();
            done.held = None;
            done.arrives(packet.at, &held, Way { reads: true, waits: carries }, within);
            if carries { self.carries(row, done) } else { self.acknowledges(row, done) }
        }
        if carries { self.carries(row, one) } else { self.acknowledges(row, one) }
    }

    /// A segment with payload or FIN leaves.
    fn carries(&mut self, row: usize, mut one: Hypothesis) {
        let packet = self.end.packets[row];
        if one.owes_read {
            one.reads(packet.at, self.within);
        }
        let now = packet.at.max(one.now);
        let Some(expected) = one.conn.observe_sent(now, &packet.segment) else {
            self.why_stop = Some("the capture lacks data that the end sent".to_owned());
            return;
        };
        let due = Due { at: packet.at, until: packet.at, segment: expected, ecn: packet.ecn };
        let role = Role::of(&packet.segment, packet.segment.seq);
        self.compared(row, one, due, role);
    }

    /// A segment without payload leaves.
    fn acknowledges(&mut self, row: usize, mut one: Hypothesis) {
        let (packet, within) = (self.end.packets[row], self.within);
        let now = packet.at.max(one.now);
        if packet.segment.seq.distance(one.conn.next_numbers().0) < 0 && one.due.is_empty() {
            // A probe of the window or of the peer.
            let segment = one.conn.observe_ack(now, &packet.segment);
            let due = Due { at: now, until: now, segment, ecn: packet.ecn };
            self.compared(row, one, due, Role::Ack);
            return;
        }
        if one.owes_read && !one.due.is_empty() {
            let kind = Kind::OnlySent(Role::Ack);
            let sent = shown(self.initial, &packet.segment, packet.ecn);
            self.dies(one, Found { row, at: packet.at, kind, sent, due: None });
            return;
        }
        let slack = if packet.at.since(one.now) <= within { TIMER + CHECK } else { TIMER };
        if one.due.is_empty() && !one.owes_read && one.next() <= packet.at.saturating_add(slack) {
            let timer = one.next();
            one.fires(timer, packet.at, packet.at.saturating_add(within));
        }
        if one.due.is_empty() && !one.owes_read && one.conn.hasten_timer(now) {
            one.fires(now, now, packet.at.saturating_add(within));
        }
        if one.due.is_empty() {
            one.reads(now, within);
        }
        if let Some(due) = one.due.pop_front() {
            self.compared(row, one, due, Role::Ack);
        } else if one.conn.is_update(&packet.segment, Bytes::new(self.largest.max(self.windows[row]))) {
            let segment = one.conn.observe_ack(now, &packet.segment);
            let due = Due { at: now, until: now, segment, ecn: packet.ecn };
            self.compared(row, one, due, Role::Ack);
        } else if !self.lacks_arrivals(row, &one) {
            let sent = shown(self.initial, &packet.segment, packet.ecn);
            let kind = Kind::OnlySent(Role::Ack);
            self.dies(one, Found { row, at: packet.at, kind, sent, due: None });
        }
    }

    /// Whether the segment that left acknowledges more than what has arrived, which ends following.
    fn lacks_arrivals(&mut self, row: usize, one: &Hypothesis) -> bool {
        let arrived = one.conn.next_numbers().1;
        let lacks = self.end.packets[row].segment.ack.distance(arrived) > 0 && one.held.is_none();
        if lacks {
            self.why_stop = Some("the end acknowledges data that the capture lacks".to_owned());
        }
        lacks
    }

    /// The segment that left is compared with the one that the model would have sent.
    fn compared(&mut self, row: usize, mut one: Hypothesis, due: Due, role: Role) {
        let packet = &self.end.packets[row];
        let mut fields = differing((&packet.segment, packet.ecn), &due);
        if let Some(held) = one.held.filter(|_| self.is_linux && fields == ["TSecr"]) {
            // What `tcp_ack` sends leaves after the echo of the arrival was stored, and before its data are taken.
            let echo = packet.segment.options.timestamps.map(|stamps| stamps.ecr);
            if echo == held.segment.options.timestamps.map(|stamps| stamps.val) {
                fields.clear();
            }
        }
        if fields.is_empty() {
            one.conn.observe_window(&packet.segment);
            one.settles(packet.at);
            self.all.push(one);
            return;
        }
        if self.lacks_arrivals(row, &one) {
            return;
        }
        let sent = shown(self.initial, &packet.segment, packet.ecn);
        let kind = Kind::Fields(role, fields);
        self.dies(one, Found { row, at: packet.at, kind, sent, due: Some(due) });
    }

    /// After the last packet: nothing may be missing.
    fn finish(&mut self) {
        let row = self.end.packets.len();
        for one in std::mem::take(&mut self.all) {
            let left = self.passes(row, one, self.end.until);
            self.all.extend(left);
        }
        if !self.all.is_empty() {
            self.last = None;
        }
    }
}

/// The judged fields in which a segment that left differs from the one that the model would have sent.
fn differing(sent: (&Segment, Ecn), due: &Due) -> Vec<&'static str> {
    let mut fields = compare(sent, (&due.segment, due.ecn));
    fields.retain(|field| JUDGED.contains(field));
    fields
}
