//! The receiver: the incoming stream from segments to the application's reads, and its acknowledgements.
//!
//! Sans I/O. The connection passes segments that passed the acceptability test, converted to stream
//! positions. The receiver decides about acknowledgments, window, SACK and the echo of marks. It does not
//! depend on headers, states or the outgoing stream.
//!
//! | file | rule | source |
//! | --- | --- | --- |
//! | `assembly` | out-of-order data, SACK blocks, DSACK | RFC 2018, RFC 2883 |
//! | `window` | receive window and buffer | RFC 9293 section 3.8.6, RFC 7323 |
//! | `memory` | Linux's account of receive memory | `tcp_input.c`, `tcp_output.c` |
//! | `admission` | whether a packet is kept, by the account of memory | `tcp_data_queue` |
//! | `data` | data in order, out of order, repeated | RFC 9293 section 3.10.7.4, RFC 5681 section 4.2 |
//! | `read` | reads of the application, window updates | RFC 9293 section 3.8.6; Linux |
//! | `answer` | the content of an ACK | RFC 9293, RFC 2018 |
//! | `ack_policy` | when to acknowledge | RFC 1122, RFC 5681; Linux |
//! | `ce_echo` | echo of marks | RFC 3168, RFC 8257, RFC 9768 |
//! | `observed` | windows of a real stack, whose packets are followed | - |
//! | `marking` | which marks are acknowledged at once | RFC 8257; Linux |

mod ack_policy;
mod admission;
mod answer;
mod assembly;
mod ce_echo;
mod data;
mod info;
mod marking;
mod memory;
mod observed;
mod read;
#[cfg(test)]
mod tests;
mod window;

use crate::Config;
use crate::flavor::RecvRules;
use crate::log::AckReason;
use crate::messages::Span;
use ack_policy::AckPolicy;
use arrayvec::ArrayVec;
use assembly::Assembly;
pub(crate) use ce_echo::{ByteCounts, Echo, ace_of};
use memory::Memory;
use tcpassay_units::{Dur, Time};
use tcpassay_wire::{Ecn, Flags};
use window::{Offer, Window};

/// A segment with data or FIN, acceptable, in stream positions.
#[expect(clippy::struct_excessive_bools, reason = "independent flags of a header, and one of the connection")]
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Arrival {
    /// Positions of its payload; may begin below what was received and end beyond the window.
    pub span: Span,
    /// True if a FIN follows at `span.end`.
    pub fin: bool,
    /// PSH.
    pub push: bool,
    /// CWR, in the modes where it means "window reduced".
    pub cwr: bool,
    /// ECN field.
    pub ecn: Ecn,
    /// now - TSecr in our clock, when timestamps are in force.
    pub rtt: Option<Dur>,
    /// The sender's retransmission timeout.
    pub rto: Dur,
    /// Bytes of the TCP header.
    pub header: u32,
    /// We have sent a FIN, so that the peer's is acknowledged at once.
    pub closing: bool,
}

/// An ACK with the state before the segment that is processed: of the data before a change of CE (RFC 8257 section 3.2), or for
/// compressed duplicate ACKs (`tcp_sack_compress_send_ack`).
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct OldAck {
    /// Position acknowledged.
    pub nxt: u64,
    /// ECE or ACE.
    pub echo: Flags,
    /// SACK blocks.
    pub sacks: ArrayVec<Span, 4>,
    /// The window field; `None`: the window when it is sent.
    pub window: Option<u16>,
}

/// The window that an ACK would announce before the segment that is processed counts.
#[derive(Clone, Copy, Debug)]
struct WindowBefore {
    offer: Offer,
    /// Less than half of the memory is free.
    tight: bool,
}

/// Event counts since the connection began.
#[derive(Clone, Copy, Default, Debug)]
struct Stats {
    ce_segments: u64,
    ce_bytes: u64,
    data_segments: u64,
    duplicate_bytes: u64,
    out_of_order: u64,
    delayed: u64,
    delay_timeouts: u64,
    forgotten: u64,
}

/// The receiver half of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// RCV.NXT; past the FIN once that arrived in order.
    nxt: u64,
    /// First position that the application has not read.
    read: u64,
    /// RCV.NXT when the last segment left that acknowledged all that had arrived, SACK blocks and duplicates included.
    acked: u64,
    /// Last.ACK.sent of RFC 7323, the ACK field of the last segment (Linux `rcv_wup`). Data without room for SACK blocks have one, too.
    last_ack_sent: u64,
    /// Right edge announced.
    edge: u64,
    /// Position of the FIN, once seen; otherwise [`u64::MAX`].
    fin: u64,
    assembly: Assembly,
    dsack: Option<Span>,
    /// Packets that the segment which is processed consists of.
    packets: u64,
    report_duplicates: bool,
    window: Window,
    memory: Option<Box<Memory>>,
    /// The window that was announced last, with the positions `read` and `nxt` for which it was computed. It is valid while
    /// both stay the same. Positions are never zero, so that zeros mean that there is no stored window.
    announced: (u64, u64, u16),
    /// The window that an ACK would announce, stored in the same way. The buffer and the threshold that limits it change only
    /// when one of those positions does, the right edge only when it is announced.
    offer: (u64, u64, Offer),
    acks: AckPolicy,
    echo: Echo,
    /// An ECT mark was seen: from then on a Not-ECT segment is a retransmission.
    ect_seen: bool,
    /// RCV.NXT at the last mark, for DCTCP's old ACK (`prior_rcv_nxt`).
    nxt_at_mark: u64,
    old_ack: Option<OldAck>,
    /// End of urgent data (RFC 9293 section 3.8.5).
    urgent: u64,
    /// True if data out of order are discarded after the next ACK has reported them.
    forgets_after_ack: bool,
    rules: &'static RecvRules,
    stats: Stats,
}

impl Receiver {
    pub(crate) fn new(cfg: &Config) -> Receiver {
        let rules = &cfg.flavor.rules().recv;
        let mut window = Window::new(cfg.recv_buffer, cfg.mss.get(), cfg.recv_tuning);
        if !rules.first_window_below_64k {
            window.open_wide(cfg.recv_buffer);
        }
        Receiver {
            nxt: 1,
            read: 1,
            acked: 1,
            last_ack_sent: 1,
            // The SYN or SYN-ACK offers it: data may overtake the ACK that ends the handshake.
            edge: 1 + window.opening(),
            fin: u64::MAX,
            assembly: Assembly::new(rules.sack_blocks_grow_by_arrivals),
            dsack: None,
            packets: 1,
            report_duplicates: false,
            memory: None,
            window,
            announced: (0, 0, 0),
            offer: (0, 0, Offer { field: 0, edge: 0 }),
            acks: AckPolicy::new(cfg),
            echo: Echo::Off,
            ect_seen: false,
            nxt_at_mark: 1,
            old_ack: None,
            urgent: 0,
            forgets_after_ack: false,
            rules,
            stats: Stats::default(),
        }
    }

    /// The window of a SYN, which is never scaled, and the scale to offer.
    pub(crate) fn first_window(&self) -> (u16, u8) {
        (self.window.first(), self.window.wanted_shift())
    }

    /// Sets the number of bytes of options of every segment, before the SYN-ACK of this end is sent.
    pub(crate) fn reserve_options(&mut self, options: u64) {
        self.window.reserve(options);
        self.edge = 1 + self.window.opening();
    }

    /// The handshake agreed: our window scale, the payload of the peer's full segments, DSACK, and ECN.
    pub(crate) fn agreed(&mut self, shift: u8, mss: u64, dsack: bool, echo: Echo) {
        self.window.set_shift(shift);
        self.window.set_mss(mss);
        self.acks.set_mss(mss);
        self.report_duplicates = dsack;
        self.echo = echo;
        self.announced = (0, 0, 0);
    }

    /// The right edge below which a segment must begin: at least RCV.NXT, and with Linux's accounting of memory at least the largest
    /// edge that was ever announced.
    #[inline]
    pub(crate) fn limit(&self) -> u64 {
        self.memory.as_deref().map_or(self.edge, Memory::limit).max(self.edge).max(self.nxt)
    }

    /// The buffer becomes a whole number of segments, and all that is free is announced.
    pub(crate) fn announce_all(&mut self, mss: u64) {
        self.window.announce_all(mss);
    }

    #[inline]
    pub(crate) fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Last.ACK.sent of RFC 7323.
    #[inline]
    pub(crate) fn last_ack_sent(&self) -> u64 {
        self.last_ack_sent
    }

    /// Right edge of the window.
    #[inline]
    pub(crate) fn edge(&self) -> u64 {
        self.edge
    }

    /// The window as the last ACK announced it (`rcv_wnd`), of which later data have used a part.
    #[inline]
    fn announced_window(&self) -> u64 {
        self.edge.saturating_sub(self.acked)
    }

    /// Free bytes of the buffer from `nxt` on, announced or not; at least the announced window.
    pub(crate) fn free(&self) -> u64 {
        self.window.free_edge(self.read, self.nxt).max(self.edge).saturating_sub(self.nxt)
    }

    /// CWR arrived without data: marks are not echoed any more. `answered`: an ACK is sent.
    pub(crate) fn heard_cwr(&mut self, answered: bool) {
        self.echo.cwr();
        if answered {
            self.answer(0..0);
        }
    }

    /// A mark arrived without data: it is echoed like one with data.
    pub(crate) fn latch_mark(&mut self) {
        self.echo.latch();
    }

    /// The first window was offered, relative to the data that have arrived.
    pub(crate) fn offer_first(&mut self) {
        self.edge = self.edge.max(self.nxt + u64::from(self.window.first()));
        self.announced = (0, 0, 0);
    }

    /// An ACK is delayed for no longer than this.
    pub(crate) fn set_longest_delay(&mut self, delay: Dur) {
        self.acks.set_longest_delay(delay);
    }

    /// The ACK that is due waits for data that are about to be written (Linux, `tcp_rcv_synsent_state_process`).
    pub(crate) fn hold_ack(&mut self, now: Time) {
        self.acks.hold(now);
    }

    /// Whether header prediction may be tried: no data are out of order, and the window is open.
    #[inline]
    pub(crate) fn predictable(&self) -> bool {
        self.assembly.is_empty()
            && self.edge > self.nxt
            && self.fin == u64::MAX
            && self.memory.as_deref().is_none_or(Memory::is_plain)
    }

    /// A segment was not acceptable, or repeats what is known: it is answered (RFC 9293 section 3.10.7.4).
    pub(crate) fn answer(&mut self, span: Span) {
        if !span.is_empty() && span.start < self.nxt {
            self.duplicate(span.start..span.end.min(self.nxt));
            self.acks.quick_mode(self.announced_window());
        }
        self.acks.demand(AckReason::Answer);
    }

    /// A segment without data arrived that header prediction does not let through.
    pub(crate) fn check_scheduled(&mut self) {
        self.acks.check_scheduled();
    }

    /// Data left, not a FIN alone.
    #[inline]
    pub(crate) fn replied(&mut self, now: Time) {
        self.acks.replied(now);
    }

    /// The delayed-ACK deadline, or [`Time::MAX`].
    #[inline]
    pub(crate) fn timer(&self) -> Time {
        self.acks.deadline()
    }

    /// Whether the timer of compressed ACKs is due, and no other timer of ACKs.
    pub(crate) fn only_compressed_is_due(&self, now: Time) -> bool {
        self.acks.only_compressed_is_due(now)
    }

    /// Makes a timer of ACKs due that may fire now, within its slack. Returns whether there is one.
    pub(crate) fn hasten(&mut self, now: Time) -> bool {
        self.acks.hasten(now)
    }

    /// A timer of ACKs is due.
    pub(crate) fn on_timer(&mut self, now: Time, rto: Dur) {
        if !self.acks.compressed_due(now) && self.acks.fire(rto) {
            self.stats.delay_timeouts += 1;
        }
    }

    /// Without SACK every duplicate ACK counts.
    pub(crate) fn compress_nothing(&mut self) {
        self.acks.compress_nothing();
    }

    /// The FIN arrived in order.
    #[inline]
    pub(crate) fn finished(&self) -> bool {
        self.fin < self.nxt
    }

    /// Whether the receiver uses [`Arrival::rtt`].
    #[inline]
    pub(crate) fn wants_rtt(&self) -> bool {
        self.window.tunes()
    }

    /// Whether a segment of this length is a full one (`tcp_rcv_rtt_measure_ts`).
    #[inline]
    pub(crate) fn is_full(&self, len: u64) -> bool {
        len >= self.acks.rcv_mss()
    }

    pub(crate) fn set_quickack(&mut self, on: bool) {
        self.acks.set_quick(on);
    }
}
