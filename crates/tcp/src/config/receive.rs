//! Switches of the receiver: acknowledgements and the receive buffer.

use tcpassay_units::{Bytes, Dur};

/// For which arriving segments the stack checks whether an ACK is due (`stack.ack_check`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AckCheck {
    /// After every segment with data.
    #[default]
    Always,
    /// As Linux: always for a segment that passes header prediction. For one that does not (CWR, ECE, URG or FIN set,
    /// out of order, window changed) only if an ACK is still scheduled; clearing the delayed ACK clears the schedule.
    IfScheduledOnSlowPath,
}

/// Delayed acknowledgements (`stack.delayed_ack`; RFC 1122 section 4.2.3.2, RFC 5681 section 4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayedAck {
    /// Acknowledge at once when this many full-sized segments wait; 1 turns delaying off.
    pub every: u32,
    /// Longest delay.
    pub timeout: Dur,
    /// Linux's adaptive timeout (`ato`, 40 ms to `timeout`, from the inter-arrival time) instead of a fixed one.
    pub adaptive: bool,
    /// Segments acknowledged at once at the start and after idle (Linux's quick-ack mode, at most 16); 0 for none.
    pub quick_ack: u32,
}

/// Receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecvBuffer {
    /// The window never exceeds this.
    Fixed(Bytes),
    /// Dynamic right-sizing: starts at `initial`, doubles what the application read in a round trip, up to `max`.
    Auto {
        /// Window at the start.
        initial: Bytes,
        /// Largest window.
        max: Bytes,
    },
}

/// How a receive buffer is sized at the start and later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RecvTuning {
    /// The window is the whole buffer. It grows to twice the bytes read in a round trip, and more if that number grows.
    #[default]
    Plain,
    /// Linux before 4.16: the same growth, from four times the first window. The window is limited by a threshold that rises with
    /// arriving data (`tcp_fixup_rcvbuf`, `tcp_rcv_space_adjust`, `tcp_grow_window`).
    Linux46,
    /// Linux since 4.20: from the first window, in proportion to the growth of the bytes read; with the threshold.
    Linux,
}

/// ACK compression of Linux with SACK: after three duplicate ACKs for a position, one delayed ACK replaces
/// several (`__tcp_ack_snd_check`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckCompression {
    /// Largest number of ACKs that one ACK replaces (`tcp_comp_sack_nr`).
    pub most: u32,
    /// Largest delay of the ACK (`tcp_comp_sack_delay_ns`).
    pub delay: Dur,
    /// Its delay in percent of the round-trip time: a twentieth, and 33 % since 6.19 (`tcp_comp_sack_rtt_percent`).
    pub percent: u64,
    /// The timer fires later by this slack, as in an otherwise idle kernel (`tcp_comp_sack_slack_ns`).
    pub slack: Dur,
}

/// Rules of Linux's receive buffer that changed between releases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryRules {
    /// Until 6.5: the window is half of the buffer (`tcp_adv_win_scale` = 1).
    Half,
    /// As of 7.0: the window is the share of the buffer that payload has in arriving packets
    /// (`scaling_ratio`).
    Measured,
}

/// The pages in which the payload of an arriving packet is, of which each part is a fragment of the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PacketPages {
    /// The areas of 32 KiB of the sender's stack (`sk_page_frag`), which no device on the path has copied.
    #[default]
    Sender,
    /// A ring of a packet socket, from which a program sent the packet: each frame begins at a page (`tpacket_fill_skb`).
    Ring,
}

/// Linux's receive buffer, overhead included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvMemory {
    /// Initial size (`SO_RCVBUF` doubled, or `tcp_rmem[1]`).
    pub size: Bytes,
    /// Largest size that autotuning reaches (`tcp_rmem[2]`).
    pub max: Bytes,
    /// True if the application has set the size: the buffer does not grow.
    pub locked: bool,
    /// The right edge may move left (`tcp_shrink_window`).
    pub shrink: bool,
    /// True for the socket of a server: the buffer does not grow before `accept`.
    pub passive: bool,
    /// Bytes of the IP header.
    pub ip: Bytes,
    /// The segment length that a packet reports (`gso_size`).
    pub gso: Option<Bytes>,
    /// The release.
    pub rules: MemoryRules,
    /// Memory of a packet in addition to its bytes if packets arrive from a network interface
    /// (`SKB_TRUESIZE` of an empty buffer, 768 B to 1280 B). `None`: packets arrive through `tun`, whose
    /// buffers are copied into pages.
    pub buffer: Option<Bytes>,
    /// The pages of packets from a network interface.
    pub pages: PacketPages,
}
