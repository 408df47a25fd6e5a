//! Accurate ECN as implemented by Linux (`stack.ecn_form = linux`): every packet is counted and every packet
//! is ECN-capable; the option begins with the counter of ECT(1) and is on every segment with room, or on
//! demand; the packet counter is compared with the bytes.
//!
//! It must not know how packets are acknowledged, only which of them require an ACK.
//!
//! Sources: RFC 9768; `tcp_ecn.h`, `tcp_options_fit_accecn`, `tcp_accecn_process_option`, `__tcp_accecn_process`,
//! `tcp_rcv_spurious_retrans` and `tcp_ecn_openreq_child` of Linux 7.0.
//!
//! Known differences: beside four SACK blocks an option of one field is omitted; a controller cannot request accurate ECN or
//! ECT(1); of a super-segment the packets that were sent count, not those that the ACK ends in.

use super::Connection;
use super::accecn_counters::Newly;
use super::accecn_linux_counters::{CountersIn, LinuxEcn};
use crate::AccurateInfo;
use crate::config::{AccurateUse, EcnMode};
use crate::recv::{Echo, ace_of};
use tcpassay_units::{Dur, Time};
use tcpassay_wire::{AccEcn, Ecn, Options, Segment};

impl Connection {
    /// Starts Linux's counters if the handshake agreed on accurate ECN. `last`: the ECN field of the peer's SYN, at a server.
    pub(super) fn start_linux_ecn(&mut self, last: Ecn) {
        if self.ecn == EcnMode::Accurate && self.cfg.ecn_form.is_linux() {
            self.linux_ecn = Some(Box::new(LinuxEcn::new(last)));
        }
    }

    /// Processes a client's SYN-ACK. Returns whether its CE mark counts.
    pub(super) fn linux_syn_ack(&mut self, segment: &Segment, ecn: Ecn) -> bool {
        let valid = ecn != Ecn::Ce || self.reflected(ace_of(segment.flags));
        if let Some(linux) = &mut self.linux_ecn {
            linux.on_syn_ack(segment.options.accecn().as_ref());
        }
        ecn == Ecn::Ce && valid
    }

    /// The segment that ends the handshake at a server (`tcp_accecn_third_ack`).
    pub(super) fn linux_third_ack(&mut self, segment: &Segment) {
        let ace = ace_of(segment.flags);
        self.open.forbid_ect(ace == 0);
        let pure = segment.seq_len() == 0 && segment.options.sack.is_empty();
        let marked = matches!(ace, 2..=4 | 6) && pure && self.reflected(ace) && ace == 6;
        if let Some(linux) = &mut self.linux_ecn {
            linux.on_third_ack(marked, segment.options.accecn().as_ref());
        }
    }

    /// Whether the handshake's encoding reports a possible ECN field of our SYN or SYN-ACK; otherwise nothing is sent ECN-capable
    /// (RFC 9768 section 3.2.2.3), unless `tcp_ecn_fallback` is off.
    fn reflected(&mut self, ace: u64) -> bool {
        let valid = !self.is_mangled(ace) || !self.cfg.accurate.fallback;
        self.open.forbid_ect(!valid);
        valid
    }

    /// A packet arrived that belongs to the connection.
    #[cold]
    pub(super) fn linux_received(&mut self, segment: &Segment, start: u64, ecn: Ecn) {
        let packets = self.recv.packets();
        let Some(linux) = &mut self.linux_ecn else { return };
        linux.received(ecn, segment.len);
        if ecn.is_capable() {
            self.recv.saw_capable();
        }
        if ecn == Ecn::Ce {
            self.recv.count_marked(packets);
        }
        let known = start + u64::from(segment.len) <= self.recv.nxt();
        if segment.len > 0 && known {
            linux.on_duplicate(start);
        }
        self.reserve_option();
    }

    /// Causes an immediate ACK of marks that were not yet reported, if the segment has data or an ACK is scheduled. `occupies`: the
    /// segment has data.
    pub(super) fn linux_prompt(&mut self, occupies: bool) {
        let allowed = occupies || self.recv.is_scheduled();
        if let Some(linux) = &mut self.linux_ecn
            && linux.take_prompt(allowed)
        {
            self.recv.report_marks();
        }
    }

    /// Bytes newly reported as CE by an ACK that shows progress.
    pub(super) fn read_linux(&mut self, segment: &Segment, newly: Newly) -> u64 {
        let input = CountersIn {
            option: segment.options.accecn(),
            ace: ace_of(segment.flags),
            newly,
            mss: u64::from(self.send.mss32()).max(1),
            sent: self.send.bytes_sent().get(),
            unreported: self.recv.marked().1,
            guess: self.sack || self.send.is_calm(),
        };
        let Some(linux) = &mut self.linux_ecn else { return 0 };
        let marked = linux.on_ack(&input);
        self.reserve_option();
        marked
    }

    /// Full segments leave room for an option that every segment has.
    pub(super) fn reserve_option(&mut self) {
        let AccurateUse { on_demand, persist, .. } = self.cfg.accurate;
        let wanted = self.cfg.ecn_option && !on_demand;
        let Some(linux) = &mut self.linux_ecn else { return };
        if let Some(room) = linux.changed_room(wanted, persist).filter(|_| self.streams) {
            linux.set_room(room);
            self.send.leave_room(u64::from(self.option_bytes() + room));
        }
    }

    /// Whether a segment that is sent now has an option.
    fn linux_sends_option(&self, now: Time) -> bool {
        let srtt = self.send.srtt().unwrap_or(Dur::ZERO);
        let linux = self.linux_ecn.as_ref();
        self.cfg.ecn_option && linux.is_some_and(|linux| linux.sends_option(now, self.cfg.accurate, srtt))
    }

    /// Bytes by which a segment with an option is shorter than other segments.
    pub(super) fn linux_room(&self, now: Time) -> u32 {
        let sends_option = self.linux_sends_option(now);
        self.linux_ecn.as_ref().map_or(0, |linux| linux.extra_room(sends_option))
    }

    /// An option on a SYN-ACK that was repeated.
    pub(super) fn linux_late_option(&mut self, option: &AccEcn) {
        if let Some(linux) = &mut self.linux_ecn {
            linux.on_late_option(option);
        }
    }

    /// The blocks of the segment that leaves begin with this position, if they report a duplicate.
    pub(super) fn linux_reports(&mut self, again: Option<u64>) {
        if let Some(linux) = &mut self.linux_ecn {
            linux.set_reported(again);
        }
    }

    /// Puts the option on a segment that leaves now.
    pub(super) fn put_linux_option(&mut self, now: Time, options: &mut Options) {
        let sends_option = self.linux_sends_option(now);
        if let Some(linux) = &mut self.linux_ecn {
            linux.put(now, sends_option, options);
        }
    }

    /// The values of the counters that `TCP_INFO` reports.
    pub(super) fn linux_info(&self) -> Option<AccurateInfo> {
        let linux = self.linux_ecn.as_ref()?;
        Some(linux.info(self.recv.marked().0, self.open.forbids_ect()))
    }

    /// The use of the option changed during the connection (`net.ipv4.tcp_ecn_option`).
    pub fn set_accurate_option(&mut self, on: bool, on_demand: bool, persist: bool) {
        let cfg = std::sync::Arc::make_mut(&mut self.cfg);
        cfg.ecn_option = on;
        (cfg.accurate.on_demand, cfg.accurate.persist) = (on_demand, persist);
        self.reserve_option();
    }

    /// The echo of the receiver in this variant.
    pub(super) fn linux_echo(marked: u64) -> Echo {
        Echo::Counted { packets: marked, reported: marked }
    }
}
