//! The state of the handshake.

use super::ecn_negotiation;
use super::fastopen::FastOpenState;
use super::syn_timer::SynTimer;
use crate::config::Config;
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::{Flags, Timestamps};

/// State of the handshake.
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Clone, Debug)]
pub(super) struct Opening {
    /// The retransmission of SYN or SYN-ACK.
    syn: SynTimer,
    /// A passive open, which a reset brings back to LISTEN (RFC 9293 section 3.10.7.4).
    passive: bool,
    /// The options that the peer's SYN offered; `None` before it arrived.
    peer: Option<Offer>,
    /// The window of the third segment of the handshake, if the sender's first window is taken from that segment.
    third_window: Option<u16>,
    /// The ECN flags of our SYN or SYN-ACK.
    ecn_flags: Flags,
    /// Accurate ECN: the ACE field of the client's first ACK, which reports the ECN field of the SYN-ACK.
    handshake_ace: Option<Flags>,
    /// Accurate ECN: the client may not have agreed, so that nothing is sent ECN-capable (RFC 9768 section 3.1.5).
    no_ect: bool,
    /// Accurate ECN: the mark of a SYN-ACK counts.
    mark_counts: bool,
    /// Accurate ECN: the client has not agreed, so that its ACE field is ignored (RFC 9768 table 4).
    ignores_ace: bool,
    /// The application closed before the handshake finished: a FIN follows.
    finish: bool,
    /// Fast Open, if the host uses it.
    fast: Option<Box<FastOpenState>>,
    /// The third segment of the handshake waits, because data are about to be written (Linux `sk_write_pending`).
    hold_ack: bool,
    /// A challenge ACK is to go out before the handshake is done.
    challenge: bool,
    /// Data and FIN are sent before the handshake is done, because the application closed after crossing SYNs.
    closed: bool,
    /// Bytes of data of a crossing SYN, which FreeBSD keeps until the handshake is done.
    early: u32,
}

/// The options that a SYN or SYN-ACK offers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub mss: u16,
    pub shift: Option<u8>,
    pub sack: bool,
    pub timestamps: Option<Timestamps>,
    pub window: u16,
}

impl Opening {
    pub(super) fn new(cfg: &Config) -> Opening {
        Opening {
            syn: SynTimer::new(cfg.rto.initial, cfg.timer_ticks),
            passive: false,
            peer: None,
            third_window: None,
            ecn_flags: ecn_negotiation::offer(cfg.ecn),
            handshake_ace: None,
            no_ect: false,
            mark_counts: true,
            ignores_ace: false,
            finish: false,
            fast: None,
            hold_ack: false,
            challenge: false,
            closed: false,
            early: 0,
        }
    }

    /// The handshake begins anew; Fast Open keeps its state.
    pub(super) fn restart(&mut self, cfg: &Config) {
        *self = Opening { fast: self.fast.take(), ..Opening::new(cfg) };
    }

    /// The transmissions of SYN or SYN-ACK so far.
    #[inline]
    pub(super) fn syn(&self) -> &SynTimer {
        &self.syn
    }

    /// The first SYN or SYN-ACK is due.
    pub(super) fn begin(&mut self, now: Time) {
        self.syn.begin(now);
    }

    /// A SYN-ACK is due instead of the SYN that was sent.
    pub(super) fn send_syn(&mut self) {
        self.syn.send();
    }

    /// SYN or SYN-ACK is to be sent again.
    pub(super) fn repeat_syn(&mut self) {
        self.syn.repeat();
    }

    /// The timer fires at `at` if it would fire later.
    pub(super) fn hasten_syn(&mut self, at: Time) {
        self.syn.hasten(at);
    }

    /// SYN or SYN-ACK leaves now.
    pub(super) fn on_syn_sent(&mut self, now: Time) {
        self.syn.on_sent(now);
    }

    /// The timer fired.
    pub(super) fn on_syn_timer(&mut self) {
        self.syn.on_timer();
    }

    /// See [`SynTimer::back_off`].
    pub(super) fn back_off_syn(&mut self, linear: u32, max: Dur) {
        self.syn.back_off(linear, max);
    }

    /// See [`SynTimer::start`].
    pub(super) fn start_syn_timer(&mut self, now: Time, slop: Dur, max: Dur, limit: Option<Dur>) -> Time {
        self.syn.start(now, slop, max, limit)
    }

    /// The state of Fast Open, if the host uses it.
    #[inline]
    pub(super) fn fast(&self) -> Option<&FastOpenState> {
        self.fast.as_deref()
    }

    /// See [`fast`](Opening::fast).
    pub(super) fn fast_mut(&mut self) -> Option<&mut FastOpenState> {
        self.fast.as_deref_mut()
    }

    /// The host uses Fast Open from now on.
    pub(super) fn use_fast(&mut self) -> &mut FastOpenState {
        self.fast.get_or_insert_default()
    }

    /// Bytes of data that the SYN of Fast Open carried, of either end.
    pub(super) fn carried(&self) -> u64 {
        self.fast.as_deref().map_or(0, |fast| fast.carried)
    }

    /// The open is passive.
    pub(super) fn set_passive(&mut self) {
        self.passive = true;
    }

    /// See [`set_passive`](Opening::set_passive).
    #[inline]
    pub(super) fn is_passive(&self) -> bool {
        self.passive
    }

    /// The peer's SYN arrived.
    pub(super) fn set_peer(&mut self, offer: Offer) {
        self.peer = Some(offer);
    }

    /// What the peer's SYN offered.
    pub(super) fn peer(&self) -> Option<Offer> {
        self.peer
    }

    /// The sender's first window is that of the third segment of the handshake.
    pub(super) fn set_third_window(&mut self, field: u16) {
        self.third_window = Some(field);
    }

    /// See [`set_third_window`](Opening::set_third_window).
    pub(super) fn third_window(&self) -> Option<u16> {
        self.third_window
    }

    /// The ECN flags of the next SYN or SYN-ACK.
    pub(super) fn set_ecn_flags(&mut self, flags: Flags) {
        self.ecn_flags = flags;
    }

    /// See [`set_ecn_flags`](Opening::set_ecn_flags).
    pub(super) fn ecn_flags(&self) -> Flags {
        self.ecn_flags
    }

    /// The next segment has this ACE field.
    pub(super) fn set_handshake_ace(&mut self, ace: Flags) {
        self.handshake_ace = Some(ace);
    }

    /// The ACE field of the segment that leaves now, if it is not the counter.
    #[inline]
    pub(super) fn take_handshake_ace(&mut self) -> Option<Flags> {
        self.handshake_ace.take()
    }

    /// Nothing is sent ECN-capable if `forbidden`, for the rest of the connection.
    pub(super) fn forbid_ect(&mut self, forbidden: bool) {
        self.no_ect |= forbidden;
    }

    /// Nothing is sent ECN-capable.
    pub(super) fn forbids_ect(&self) -> bool {
        self.no_ect
    }

    /// Whether the mark of the SYN-ACK counts.
    pub(super) fn set_mark_counts(&mut self, counts: bool) {
        self.mark_counts = counts;
    }

    /// See [`set_mark_counts`](Opening::set_mark_counts).
    pub(super) fn mark_counts(&self) -> bool {
        self.mark_counts
    }

    /// Whether the peer's ACE field is ignored.
    pub(super) fn ignore_ace(&mut self, ignore: bool) {
        self.ignores_ace = ignore;
    }

    /// See [`ignore_ace`](Opening::ignore_ace).
    pub(super) fn ignores_ace(&self) -> bool {
        self.ignores_ace
    }

    /// The application closed: a FIN follows the handshake.
    pub(super) fn finish_later(&mut self) {
        self.finish = true;
    }

    /// See [`finish_later`](Opening::finish_later).
    pub(super) fn finishes(&self) -> bool {
        self.finish
    }

    /// The handshake is done: whether a FIN follows.
    pub(super) fn take_finish(&mut self) -> bool {
        std::mem::take(&mut self.finish)
    }

    /// Whether the third segment of the handshake waits for data.
    pub(super) fn set_hold_ack(&mut self, hold: bool) {
        self.hold_ack = hold;
    }

    /// See [`set_hold_ack`](Opening::set_hold_ack).
    pub(super) fn holds_ack(&self) -> bool {
        self.hold_ack
    }

    /// Whether a challenge ACK is to go out before the handshake is done.
    pub(super) fn set_challenge(&mut self, due: bool) {
        self.challenge = due;
    }

    /// See [`set_challenge`](Opening::set_challenge).
    #[inline]
    pub(super) fn owes_challenge(&self) -> bool {
        self.challenge
    }

    /// The challenge ACK leaves now, if one is due.
    pub(super) fn take_challenge(&mut self) -> bool {
        std::mem::take(&mut self.challenge)
    }

    /// The application closed after crossing SYNs.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Data are sent before the handshake is done: by a Fast Open server, or because the application closed after crossing SYNs.
    pub(super) fn sends_early(&self) -> bool {
        self.closed || self.fast.as_deref().is_some_and(|fast| fast.taken)
    }

    /// A crossing SYN has `bytes` of data, which are kept.
    pub(super) fn set_early(&mut self, bytes: u32) {
        self.early = bytes;
    }

    /// The kept data of a crossing SYN are processed now.
    pub(super) fn take_early(&mut self) -> u32 {
        std::mem::take(&mut self.early)
    }

    /// The MSS that the peer announced.
    pub(super) fn peer_mss(&self) -> Option<Bytes> {
        self.peer.map(|p| Bytes::new(u64::from(p.mss)))
    }

    /// Whether the peer offered a window scale.
    pub(super) fn peer_scales(&self) -> bool {
        self.peer.is_some_and(|p| p.shift.is_some())
    }

    /// The handshake is over.
    pub(super) fn stop(&mut self) {
        self.challenge = false;
        self.syn.stop();
    }
}
