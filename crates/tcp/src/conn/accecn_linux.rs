//! Accurate ECN as Linux has it (`stack.ecn_form = linux`): every packet is counted and every packet is ECN-capable; the option
//! begins with the counter of ECT(1) and goes wherever it fits, or on demand; the packet counter is read beside the bytes.
//!
//! It must not know how packets are acknowledged, only which of them ask for it.
//!
//! Sources: RFC 9768; `tcp_ecn.h`, `tcp_options_fit_accecn`, `tcp_accecn_process_option`, `__tcp_accecn_process`,
//! `tcp_rcv_spurious_retrans` and `tcp_ecn_openreq_child` of Linux 7.0.
//!
//! Known differences: beside four SACK blocks an option of one field is left out; a controller cannot ask for accurate ECN or for
//! ECT(1); of a super-segment the packets that were sent count, not those that the ACK ends in.

use super::Connection;
use super::accecn::{SPACE, Stretch};
use crate::AccurateInfo;
use crate::config::{AccurateUse, EcnMode};
use crate::recv::{ByteCounts, Echo, ace_of};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::{AccEcn, Ecn, Options, Segment};

/// Bytes of a full option beside data.
const ROOM: u32 = 12;
/// `TCP_ACCECN_CEP_ACE_MASK`
const ACE: u64 = 7;
/// `TCP_ACCECN_ACE_MAX_DELTA`: so many packets with CE untold are told at once.
const UNTOLD: u64 = 6;
/// Data in flight after which an option is too new to be believed: its counters may have turned.
const TOO_LATE: u64 = (1 << 23) - 1;

/// What the peer's options were like (`saw_accecn_opt`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Seen {
    Nothing,
    Empty,
    Counters,
    /// Zeroed on the way, or too late.
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
    /// When the last option left.
    told_at: Time,
    /// What comes first in the duplicates that the segment which leaves reports, and that the last with an option did.
    again: Option<u64>,
    told_again: Option<u64>,
    /// The next data are acknowledged at once (`ICSK_ACK_NOW` while nothing waits to be acknowledged).
    pub prompt: bool,
    seen: Seen,
    /// `TCP_ACCECN_OPT_FAIL_RECV`, `TCP_ACCECN_OPT_FAIL_SEND`.
    deaf: bool,
    mute: bool,
    /// Packets with CE that the peer reported, and its bytes (`delivered_ce`, `delivered_ecn_bytes`).
    ce_out: u64,
    bytes_out: [u32; 3],
    /// The one counter that lately moved (`est_ecnfield`).
    moves: Option<usize>,
    stretch: Stretch,
    /// Bytes that every segment of the sender leaves for the option.
    room: u32,
}

/// What an ACK newly acknowledges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Newly {
    pub bytes: u64,
    pub packets: u64,
}

impl LinuxEcn {
    /// `last`: the field of the peer's SYN, at a server.
    pub(super) fn new(last: Ecn) -> LinuxEcn {
        LinuxEcn {
            bytes_in: [0; 3],
            last,
            least: 0,
            demand: 0,
            told_at: Time::ZERO,
            again: None,
            told_again: None,
            prompt: false,
            seen: Seen::Nothing,
            deaf: false,
            mute: false,
            ce_out: 0,
            bytes_out: [0; 3],
            moves: None,
            stretch: Stretch::default(),
            room: 0,
        }
    }

    /// A packet with `len` bytes of payload arrived.
    fn received(&mut self, field: Ecn, len: u32) {
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
        self.deaf |= self.seen == Seen::Bad;
    }

    /// The peer's counters move. Gives whether what they say of CE can be relied on.
    fn read_option(&mut self, option: Option<AccEcn>, delivered: u64, sent: u64) -> bool {
        if self.deaf {
            return false;
        }
        let Some(option) = option else {
            if self.seen == Seen::Nothing {
                if sent >= TOO_LATE {
                    self.seen = Seen::Bad;
                    self.deaf = true;
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

    /// What an option may take beside `options`, whose blocks yield to it where it must have more fields than fit.
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

impl Connection {
    /// Accurate ECN was agreed on in a handshake with such a SYN, or the server's SYN-ACK was answered.
    pub(super) fn start_linux_ecn(&mut self, last: Ecn) {
        if self.ecn == EcnMode::Accurate && self.cfg.ecn_form.is_linux() {
            self.linux_ecn = Some(Box::new(LinuxEcn::new(last)));
        }
    }

    /// A client's SYN-ACK. Gives whether its mark counts.
    pub(super) fn linux_syn_ack(&mut self, segment: &Segment, ecn: Ecn) -> bool {
        let valid = ecn != Ecn::Ce || self.reflected(ace_of(segment.flags));
        if let (Some(linux), Some(option)) = (&mut self.linux_ecn, segment.options.accecn()) {
            linux.see(&option);
            linux.demand = 2;
        }
        ecn == Ecn::Ce && valid
    }

    /// The segment that ends the handshake at a server (`tcp_accecn_third_ack`).
    pub(super) fn linux_third_ack(&mut self, segment: &Segment) {
        let ace = ace_of(segment.flags);
        self.open.no_ect |= ace == 0;
        let pure = segment.seq_len() == 0 && segment.options.sack.is_empty();
        let marked = matches!(ace, 2..=4 | 6) && pure && self.reflected(ace) && ace == 6;
        let Some(linux) = &mut self.linux_ecn else { return };
        linux.ce_out = u64::from(marked);
        if let Some(option) = segment.options.accecn() {
            linux.see(&option);
        }
        linux.demand = 1;
    }

    /// Whether the handshake's encoding says that our SYN or SYN-ACK arrived as it may have; otherwise nothing is sent ECN-capable
    /// (RFC 9768 section 3.2.2.3), unless `tcp_ecn_fallback` is off.
    fn reflected(&mut self, ace: u64) -> bool {
        let valid = !self.is_mangled(ace) || !self.cfg.accurate.fallback;
        self.open.no_ect |= !valid;
        valid
    }

    /// A packet arrived that belongs to the connection.
    #[cold]
    pub(super) fn linux_received(&mut self, segment: &Segment, start: u64, ecn: Ecn) {
        let packets = self.recv.packets_of(u64::from(segment.len)).max(1);
        let Some(linux) = &mut self.linux_ecn else { return };
        linux.received(ecn, segment.len);
        if ecn.is_capable() {
            self.recv.saw_capable();
        }
        if ecn == Ecn::Ce {
            self.recv.count_marked(packets);
        }
        let known = start + u64::from(segment.len) <= self.recv.nxt();
        if segment.len > 0 && known && linux.told_again == Some(start) {
            // It did not hear of that from an ACK with an option, twice: perhaps somebody drops these.
            linux.mute = true;
        }
        self.reserve_option();
    }

    /// What waits for data to be acknowledged has met them.
    pub(super) fn linux_prompt(&mut self, occupies: bool) {
        if let Some(linux) = &mut self.linux_ecn
            && linux.prompt
            && (occupies || self.recv.is_scheduled())
        {
            linux.prompt = false;
            self.recv.tell_marks();
        }
    }

    /// Bytes newly reported as CE by an ACK that shows progress.
    pub(super) fn read_linux(&mut self, segment: &Segment, newly: Newly) -> u64 {
        let extra = self.linux_ecn.as_ref().map_or(0, |linux| u64::from(linux.room));
        let mss = u64::from(self.send.mss32()).max(1) + extra;
        let guess = self.sack || self.send.is_calm();
        let sent = self.send.bytes_sent().get();
        let (_, untold) = self.recv.marked();
        let Some(linux) = &mut self.linux_ecn else { return 0 };
        let before = linux.bytes_out[1];
        let reliable = linux.read_option(segment.options.accecn(), newly.bytes, sent);
        linux.prompt |= untold >= UNTOLD;
        let more = u64::from(linux.bytes_out[1].wrapping_sub(before) & 0xff_ffff);
        let marked = reliable.then_some(more);
        let packets = linux.read_ace(ace_of(segment.flags), newly, marked, mss, guess);
        self.reserve_option();
        if packets == 0 { 0 } else { marked.filter(|&n| n > 0).unwrap_or(packets * mss) }
    }

    /// Full segments leave room for an option that every segment has.
    pub(super) fn reserve_option(&mut self) {
        let AccurateUse { on_demand, persist, .. } = self.cfg.accurate;
        let wanted = self.cfg.ecn_option && !on_demand;
        let Some(linux) = &mut self.linux_ecn else { return };
        let always = wanted && linux.seen != Seen::Nothing && (persist || !linux.mute);
        let room = if always { ROOM } else { 0 };
        if room != linux.room && self.streams {
            linux.room = room;
            self.send.leave_room(u64::from(self.option_bytes() + room));
        }
    }

    /// Whether an option goes on a segment that leaves now.
    pub(super) fn linux_tells(&self, now: Time) -> bool {
        let AccurateUse { on_demand, persist, beacon, .. } = self.cfg.accurate;
        let Some(linux) = &self.linux_ecn else { return false };
        let beacon = || {
            let srtt = self.send.srtt().unwrap_or(Dur::ZERO);
            beacon > 0 && now.since(linux.told_at) * u64::from(beacon) >= srtt
        };
        self.cfg.ecn_option
            && linux.seen != Seen::Nothing
            && (persist || !linux.mute)
            && (!on_demand || linux.demand > 0 || beacon())
    }

    /// What a segment that has an option leaves for it beyond what every one does.
    pub(super) fn linux_room(&self, now: Time) -> u32 {
        let reserved = self.linux_ecn.as_ref().is_some_and(|linux| linux.room > 0);
        if !reserved && self.linux_tells(now) { ROOM } else { 0 }
    }

    /// An option on a SYN-ACK that came again.
    pub(super) fn linux_late_option(&mut self, option: &AccEcn) {
        if let Some(linux) = &mut self.linux_ecn
            && linux.seen < Seen::Counters
        {
            linux.see(option);
            linux.demand = linux.demand.max(1);
        }
    }

    /// What the blocks of the segment that leaves begin with, where they report a duplicate.
    pub(super) fn linux_reports(&mut self, again: Option<u64>) {
        if let Some(linux) = &mut self.linux_ecn {
            linux.again = again;
        }
    }

    /// Puts the option on a segment that leaves now.
    pub(super) fn put_linux_option(&mut self, now: Time, options: &mut Options) {
        let tells = self.linux_tells(now);
        let Some(linux) = &mut self.linux_ecn else { return };
        // An ACK leaves: nothing waits any more.
        linux.prompt = false;
        let again = linux.again.take();
        linux.told_again = None;
        let Some((blocks, fields)) = linux.fit(options).filter(|_| tells) else { return };
        let counts = std::array::from_fn(|at| linux.bytes_in[at].wrapping_add(ByteCounts::START[at]));
        options.sack = options.sack.iter().take(blocks).copied().collect();
        options.set_accecn(&AccEcn::of(true, fields, counts));
        linux.told_again = again;
        linux.told_at = now;
        linux.least = 0;
        linux.demand = linux.demand.saturating_sub(1);
    }

    /// What `TCP_INFO` tells of the counters.
    pub(super) fn linux_info(&self) -> Option<AccurateInfo> {
        let linux = self.linux_ecn.as_ref()?;
        Some(AccurateInfo {
            delivered_ce: linux.ce_out,
            delivered_bytes: linux.bytes_out.map(u64::from),
            received_ce: self.recv.marked().0,
            received_bytes: linux.bytes_in.map(u64::from),
            option_seen: linux.seen as u8,
            fail_mode: u8::from(self.open.no_ect) << 1
                | u8::from(linux.mute) << 2
                | u8::from(linux.deaf) << 3,
        })
    }

    /// The use of the option changed while the connection lives (`net.ipv4.tcp_ecn_option`).
    pub fn set_accurate_option(&mut self, on: bool, on_demand: bool, persist: bool) {
        let cfg = std::sync::Arc::make_mut(&mut self.cfg);
        cfg.ecn_option = on;
        (cfg.accurate.on_demand, cfg.accurate.persist) = (on_demand, persist);
        self.reserve_option();
    }

    /// What the receiver echoes in this form.
    pub(super) fn linux_echo(marked: u64) -> Echo {
        Echo::Counted { packets: marked, told: marked }
    }
}
