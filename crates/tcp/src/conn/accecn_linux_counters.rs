//! The counters of accurate ECN in Linux's form, and which segments have an option.
//!
//! Sources: `tcp_ecn.h`, `tcp_options_fit_accecn`, `tcp_accecn_process_option`, `__tcp_accecn_process` of Linux 7.0.

use super::accecn_counters::{Newly, SPACE, Stretch};
use crate::AccurateInfo;
use crate::config::AccurateUse;
use crate::recv::ByteCounts;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::{AccEcn, Ecn, Options};

/// Bytes of a full option beside data.
const ROOM: u32 = 12;
/// `TCP_ACCECN_CEP_ACE_MASK`
const ACE: u64 = 7;
/// `TCP_ACCECN_ACE_MAX_DELTA`: this many packets with CE that no ACK reported are acknowledged at once.
const UNREPORTED: u64 = 6;
/// If the first option arrives after more bytes than this were sent, it is not used, because its counters may have wrapped.
const TOO_LATE: u64 = (1 << 23) - 1;

/// The state of the peer's options (`saw_accecn_opt`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Seen {
    Nothing,
    Empty,
    Counters,
    /// The option was zeroed by the network, or arrived too late.
    Bad,
}

/// The place of a field in [`AccEcn::counts`].
fn place(field: Ecn) -> Option<usize> {
    match field {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(0),
        Ecn::Ce => Some(1),
        Ecn::Ect1 => Some(2),
    }
}

/// State of one connection.
#[derive(Clone, Debug)]
pub(super) struct LinuxEcn {
    /// Payload bytes that arrived, as in [`AccEcn::counts`] but from 0 on (`received_ecn_bytes`).
    bytes_in: [u32; 3],
    /// Field of the packet before (`prev_ecnfield`).
    last: Ecn,
    /// Fields that the next option must have (`accecn_minlen`).
    least: u8,
    /// ACKs that must have an option (`accecn_opt_demand`).
    demand: u8,
    /// Time of the last segment with an option.
    option_at: Time,
    /// The first position of the duplicate that the segment which leaves reports, and of the one that the last segment with an
    /// option reported.
    again: Option<u64>,
    reported_again: Option<u64>,
    /// The next data are acknowledged at once (`ICSK_ACK_NOW` while nothing waits to be acknowledged).
    prompt: bool,
    seen: Seen,
    /// `TCP_ACCECN_OPT_FAIL_RECV`, `TCP_ACCECN_OPT_FAIL_SEND`.
    peer_option_fails: bool,
    own_option_fails: bool,
    /// Packets with CE that the peer reported, and its bytes (`delivered_ce`, `delivered_ecn_bytes`).
    ce_out: u64,
    bytes_out: [u32; 3],
    /// The only counter that changed recently (`est_ecnfield`).
    moves: Option<usize>,
    stretch: Stretch,
    /// Bytes that every segment of the sender leaves for the option.
    room: u32,
}

/// An ACK whose counters are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountersIn {
    pub option: Option<AccEcn>,
    /// The ACE field.
    pub ace: u64,
    pub newly: Newly,
    /// Payload of a segment.
    pub mss: u64,
    /// Bytes sent since the connection began.
    pub sent: u64,
    /// Packets with CE that arrived and that no ACK has reported.
    pub unreported: u64,
    /// The state of congestion control and SACK allow to infer packets from bytes.
    pub guess: bool,
}

impl LinuxEcn {
    /// `last`: the field of the peer's SYN, at a server.
    pub(super) fn new(last: Ecn) -> LinuxEcn {
        LinuxEcn {
            bytes_in: [0; 3],
            last,
            least: 0,
            demand: 0,
            option_at: Time::ZERO,
            again: None,
            reported_again: None,
            prompt: false,
            seen: Seen::Nothing,
            peer_option_fails: false,
            own_option_fails: false,
            ce_out: 0,
            bytes_out: [0; 3],
            moves: None,
            stretch: Stretch::default(),
            room: 0,
        }
    }

    /// A client's SYN-ACK arrived with this option.
    pub(super) fn on_syn_ack(&mut self, option: Option<&AccEcn>) {
        if let Some(option) = option {
            self.see(option);
            self.demand = 2;
        }
    }

    /// The segment that ends the handshake at a server arrived; `marked`: it reports CE on our SYN-ACK.
    pub(super) fn on_third_ack(&mut self, marked: bool, option: Option<&AccEcn>) {
        self.ce_out = u64::from(marked);
        if let Some(option) = option {
            self.see(option);
        }
        self.demand = 1;
    }

    /// An option on a SYN-ACK that was repeated.
    pub(super) fn on_late_option(&mut self, option: &AccEcn) {
        if self.seen < Seen::Counters {
            self.see(option);
            self.demand = self.demand.max(1);
        }
    }

    /// A segment that begins at `start` arrived again. If the last ACK with an option reported it as a duplicate, that ACK was lost as
    /// well, so the path may drop segments with the option.
    pub(super) fn on_duplicate(&mut self, start: u64) {
        self.own_option_fails |= self.reported_again == Some(start);
    }

    /// Returns whether the marks so far must be acknowledged at once, and clears the request. `allowed`: the segment has data, or an ACK
    /// is scheduled.
    pub(super) fn take_prompt(&mut self, allowed: bool) -> bool {
        let prompt = self.prompt && allowed;
        self.prompt &= !prompt;
        prompt
    }

    /// Bytes newly reported as CE by an ACK that shows progress.
    pub(super) fn on_ack(&mut self, ack: &CountersIn) -> u64 {
        let mss = ack.mss + u64::from(self.room);
        let before = self.bytes_out[1];
        let reliable = self.read_option(ack.option, ack.newly.bytes, ack.sent);
        self.prompt |= ack.unreported >= UNREPORTED;
        let more = u64::from(self.bytes_out[1].wrapping_sub(before) & 0xff_ffff);
        let marked = reliable.then_some(more);
        let packets = self.read_ace(ack.ace, ack.newly, marked, mss, ack.guess);
        if packets == 0 { 0 } else { marked.filter(|&n| n > 0).unwrap_or(packets * mss) }
    }

    /// The option may be sent: the peer's options were seen, and the path does not seem to drop ours.
    fn may_send(&self, persist: bool) -> bool {
        self.seen != Seen::Nothing && (persist || !self.own_option_fails)
    }

    /// Computes what every segment leaves for the option; `wanted`: every segment should have it. Returns the bytes if they
    /// changed; [`LinuxEcn::set_room`] puts them in force.
    pub(super) fn changed_room(&self, wanted: bool, persist: bool) -> Option<u32> {
        let room = if wanted && self.may_send(persist) { ROOM } else { 0 };
        (room != self.room).then_some(room)
    }

    pub(super) fn set_room(&mut self, room: u32) {
        self.room = room;
    }

    /// Whether a segment that is sent now has an option.
    pub(super) fn sends_option(&self, now: Time, rule: AccurateUse, srtt: Dur) -> bool {
        let beacon = || rule.beacon > 0 && now.since(self.option_at) * u64::from(rule.beacon) >= srtt;
        self.may_send(rule.persist) && (!rule.on_demand || self.demand > 0 || beacon())
    }

    /// Bytes by which a segment with an option is shorter than other segments.
    pub(super) fn extra_room(&self, sends_option: bool) -> u32 {
        if self.room == 0 && sends_option { ROOM } else { 0 }
    }

    /// The blocks of the segment that leaves begin with this position, if they report a duplicate.
    pub(super) fn set_reported(&mut self, again: Option<u64>) {
        self.again = again;
    }

    /// Puts the option on a segment that leaves now, if [`LinuxEcn::sends_option`] returned true and there is room.
    pub(super) fn put(&mut self, now: Time, sends_option: bool, options: &mut Options) {
        // The ACK acknowledges all marks that waited.
        self.prompt = false;
        let again = self.again.take();
        self.reported_again = None;
        let Some((blocks, fields)) = self.fit(options).filter(|_| sends_option) else { return };
        let counts = std::array::from_fn(|at| self.bytes_in[at].wrapping_add(ByteCounts::START[at]));
        options.sack = options.sack.iter().take(blocks).copied().collect();
        options.set_accecn(&AccEcn::of(true, fields, counts));
        self.reported_again = again;
        self.option_at = now;
        self.least = 0;
        self.demand = self.demand.saturating_sub(1);
    }

    /// The values of the counters that `TCP_INFO` reports.
    pub(super) fn info(&self, received_ce: u64, no_ect: bool) -> AccurateInfo {
        AccurateInfo {
            delivered_ce: self.ce_out,
            delivered_bytes: self.bytes_out.map(u64::from),
            received_ce,
            received_bytes: self.bytes_in.map(u64::from),
            option_seen: self.seen as u8,
            fail_mode: u8::from(no_ect) << 1
                | u8::from(self.own_option_fails) << 2
                | u8::from(self.peer_option_fails) << 3,
        }
    }

    /// A packet with `len` bytes of payload arrived.
    pub(super) fn received(&mut self, field: Ecn, len: u32) {
        if let Some(at) = place(field)
            && len > 0
        {
            let before = self.bytes_in[at];
            self.bytes_in[at] = before.wrapping_add(len);
            // Fields count from the option's beginning: ECT(1), CE, ECT(0).
            self.least = self.least.max([3, 2, 1][at]);
            if (self.bytes_in[at] ^ before) >> 22 != 0 {
                self.demand = self.demand.max(1);
            }
        }
        let edge = std::mem::replace(&mut self.last, field) != field;
        if edge || field == Ecn::Ce {
            self.prompt |= edge;
            self.demand = 2;
        }
    }

    /// An option of the handshake, or the first of all.
    fn see(&mut self, option: &AccEcn) {
        if self.seen >= Seen::Counters {
            return;
        }
        let first = option.order().next();
        let last = option.order().nth(2);
        let zeroed = |at: Option<usize>| at.is_some_and(|at| option.counts[at] == 0);
        self.seen = match first {
            None => Seen::Empty,
            Some(_) if zeroed(first) || zeroed(last) => Seen::Bad,
            Some(_) => Seen::Counters,
        };
        self.peer_option_fails |= self.seen == Seen::Bad;
    }

    /// Reads the peer's counters. Returns whether the counter of CE is reliable.
    fn read_option(&mut self, option: Option<AccEcn>, delivered: u64, sent: u64) -> bool {
        if self.peer_option_fails {
            return false;
        }
        let Some(option) = option else {
            if self.seen == Seen::Nothing {
                if sent >= TOO_LATE {
                    self.seen = Seen::Bad;
                    self.peer_option_fails = true;
                }
                return false;
            }
            if let Some(at) = self.moves {
                let delivered = u32::try_from(delivered & u64::from(u32::MAX)).expect("32 bits");
                self.bytes_out[at] = self.bytes_out[at].wrapping_add(delivered);
            }
            return self.moves.is_some();
        };
        self.see(&option);
        let before = self.moves;
        let mut reliable = before.is_some();
        let mut ambiguous = false;
        let mut moved = false;
        for at in option.order() {
            let now = option.counts[at].wrapping_sub(ByteCounts::START[at]);
            // 24 bits, with their sign.
            let more = (now.wrapping_sub(self.bytes_out[at]) << 8).cast_signed() >> 8;
            self.bytes_out[at] = self.bytes_out[at].wrapping_add_signed(more);
            ambiguous |= more < 0;
            if more != 0 && before != Some(at) {
                ambiguous |= moved;
                moved = true;
                self.moves = Some(at);
            }
        }
        if ambiguous {
            self.moves = None;
            reliable = false;
        }
        reliable
    }

    /// Packets with CE that an ACK newly reports. `ace` is its counter; `guess`: the state of congestion control and SACK allow to
    /// infer packets from bytes.
    fn read_ace(&mut self, ace: u64, newly: Newly, marked: Option<u64>, mss: u64, guess: bool) -> u64 {
        let Newly { bytes, packets } = newly;
        self.stretch.acked(packets);
        self.stretch = self.stretch.min(Stretch::MOST);
        let least = ace.wrapping_sub(5).wrapping_sub(self.ce_out) & ACE;
        let news = if packets <= ACE {
            least
        } else {
            let most = packets - (packets.wrapping_sub(least) & ACE);
            match marked {
                None if self.stretch.is_long() => least,
                Some(0) => least,
                Some(marked) if packets >= 2 * (ACE + 1) && guess => {
                    if bytes <= marked {
                        most
                    } else {
                        most.min(least + ((marked * packets).div_ceil(bytes) & !ACE))
                    }
                }
                Some(marked) if marked > least * mss => most,
                Some(marked) if marked < (most * mss) >> 1 => least,
                None | Some(_) => most,
            }
        };
        self.ce_out += news;
        news
    }

    /// Returns the size and number of fields of an option that fits beside `options`. If the option must
    /// have more fields than fit, SACK blocks are removed.
    fn fit(&self, options: &Options) -> Option<(usize, u8)> {
        let mut without = *options;
        without.sack = options.sack.iter().copied().collect();
        let used = without.wire_len();
        let blocks = options.sack.len();
        let spare = if blocks > 0 { 2 } else { 0 };
        let fits = |room: u32| {
            (self.least..=3).rev().find(|&fields| {
                let len = 2 + 3 * u32::from(fields);
                room >= if len % 4 > spare { len.next_multiple_of(4) } else { len - len % 4 }
            })
        };
        for kept in (blocks.min(2)..=blocks).rev() {
            let dropped = u32::try_from(blocks - kept).expect("at most 4");
            if dropped > 0 && self.least == 0 {
                break;
            }
            if let Some(fields) = fits(SPACE.saturating_sub(used) + 8 * dropped) {
                return (kept <= 3).then_some((kept, fields));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: AccurateUse = AccurateUse { on_demand: true, persist: false, beacon: 3, fallback: true };

    fn at(ms: u64) -> Time {
        Time::ZERO + Dur::from_millis(ms)
    }

    fn option(counts: [u32; 3]) -> AccEcn {
        AccEcn::of(true, 3, counts)
    }

    /// Counters of a client whose peer sent a valid option with its SYN-ACK.
    fn client() -> LinuxEcn {
        let mut ecn = LinuxEcn::new(Ecn::NotEct);
        ecn.on_syn_ack(Some(&option([1, 0, 1])));
        ecn
    }

    fn ack(ace: u64, counts: [u32; 3]) -> CountersIn {
        CountersIn {
            option: Some(option(counts)),
            ace,
            newly: Newly { bytes: 2000, packets: 2 },
            mss: 1000,
            sent: 10_000,
            unreported: 0,
            guess: true,
        }
    }

    #[test]
    fn the_bytes_of_ce_are_those_of_the_option() {
        let mut ecn = client();
        assert_eq!(ecn.on_ack(&ack(5, [1, 0, 1])), 0);
        // One counter moves, CE: the second report of it is reliable.
        assert_eq!(ecn.on_ack(&ack(6, [1, 1000, 1])), 1000);
        assert_eq!(ecn.on_ack(&ack(0, [1, 3000, 1])), 2000);
        assert_eq!(ecn.info(0, false).delivered_ce, 3);
    }

    #[test]
    fn a_zeroed_option_is_ignored() {
        let mut ecn = LinuxEcn::new(Ecn::NotEct);
        ecn.on_syn_ack(Some(&option([0, 0, 0])));
        // The packet counter alone: one packet.
        assert_eq!(ecn.on_ack(&ack(6, [1, 5000, 1])), 1000);
        assert_eq!(ecn.info(0, true).fail_mode, 1 << 1 | 1 << 3);
    }

    #[test]
    fn an_option_on_demand_is_sent_three_times_a_round_trip_and_when_a_counter_of_ce_changes() {
        let mut ecn = client();
        let srtt = Dur::from_millis(90);
        for _ in 0..2 {
            assert!(ecn.sends_option(at(1000), RULE, srtt));
            ecn.put(at(1000), true, &mut Options::default());
        }
        assert!(!ecn.sends_option(at(1029), RULE, srtt));
        assert!(ecn.sends_option(at(1030), RULE, srtt));
        ecn.received(Ecn::Ce, 1000);
        assert!(ecn.sends_option(at(1001), RULE, srtt));
        assert!(ecn.take_prompt(true), "the first packet with CE");
        assert!(!ecn.take_prompt(true));
    }

    #[test]
    fn a_duplicate_that_was_reported_with_an_option_before_disables_the_option() {
        let mut ecn = client();
        assert_eq!(ecn.changed_room(true, false), Some(12));
        ecn.set_reported(Some(5001));
        ecn.put(at(0), true, &mut Options::default());
        ecn.on_duplicate(4001);
        assert_eq!(ecn.changed_room(true, false), Some(12));
        ecn.on_duplicate(5001);
        assert_eq!(ecn.changed_room(true, false), None);
        assert_eq!(ecn.changed_room(true, true), Some(12), "an option that persists");
    }
}
