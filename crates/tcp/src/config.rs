//! The configuration of the stack, and the named profiles.

mod ecn;
mod loss;
mod receive;

pub use ecn::{AccurateUse, ControlEcn, DctcpReceiver, EcnForm, EcnMode};
pub use loss::{LossDetection, PrrBound, Recovery, RecoveryExitRule, RtoBounds, Tlp, Undo};
pub use receive::{
    AckCheck, AckCompression, DelayedAck, MemoryRules, PacketPages, RecvBuffer, RecvMemory, RecvTuning,
};

use crate::tick::TimerTicks;
use std::sync::Arc;
use tcpassay_cc::{Arithmetic, ByteCounting, HystartMode};
use tcpassay_units::{Bytes, Dur};
use tcpassay_wire::Layout;

/// The window of a sender after an idle time longer than the RTO (`stack.slow_start_after_idle`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AfterIdle {
    /// Keep the window.
    Keep,
    /// Restart from min(initial window, cwnd) (RFC 5681 section 4.1).
    #[default]
    Restart,
    /// Halve once an RTO of idle time, not below the restart window (RFC 2861, Linux).
    Decay,
}

/// Pacing by the sender when the controller sets no rate (`stack.pacing`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pacing {
    /// Send as the window opens.
    #[default]
    Off,
    /// `percent` of cwnd / srtt, in slow start and after it (Linux: 200 and 120).
    Percent {
        /// While cwnd < ssthresh / 2.
        slow_start: u32,
        /// In all other states.
        avoidance: u32,
    },
}

/// The length of a super-segment, below the limits of the NIC and the windows (`stack.tso_autosize`; Linux
/// `tcp_tso_autosize`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TsoAutosize {
    /// No limit; with pacing, the bytes that the pacing rate sends in a millisecond.
    #[default]
    Off,
    /// Linux 3.12 to 5.17: the bytes that the pacing rate sends in 1/1024 s, at least two segments. Linux
    /// computes the pacing rate also without pacing.
    Rate,
    /// Linux since 5.18: the same, plus the limit of the NIC, halved for each 512 us of the minimum round-trip time.
    RateAndRtt,
}

/// Packetization layer path MTU discovery (RFC 4821) as implemented by Linux. Sizes are those of segments
/// without options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MtuProbing {
    /// True: probing begins with the connection (`tcp_mtu_probing` = 2). False: only after timeouts that
    /// indicate a black hole (1).
    pub always: bool,
    /// The size that the search starts from (`tcp_base_mss`).
    pub base: Bytes,
    /// The smallest size (`tcp_mtu_probe_floor`).
    pub floor: Bytes,
    /// The search ends if the bounds differ by less (`tcp_probe_threshold`).
    pub threshold: Bytes,
    /// The search begins again after this time (`tcp_probe_interval`).
    pub interval: Dur,
    /// The IP and TCP headers.
    pub headers: Bytes,
}

/// Linux's send queue (`tcp_sendmsg_locked`). A write fills buffers of one super-segment each. A
/// transmission contains data of one buffer only, and a buffer uses more memory than its bytes. A write sets
/// PSH after each half window, and data are sent during the write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Skbs {
    /// Memory of a buffer in addition to its bytes (`SKB_TRUESIZE` of an empty one).
    pub overhead: Bytes,
    /// Bytes for headers in each buffer, when the send buffer is sized (`MAX_TCP_HEADER`, which depends on the kernel's
    /// configuration).
    pub headers: Bytes,
    /// The send buffer to start with, where the application sets none (`tcp_wmem[1]`).
    pub initial: Bytes,
}

impl Skbs {
    /// `SKB_TRUESIZE` of an empty buffer in 6.1: 512 B for headers and `skb_shared_info`, and `struct sk_buff`.
    pub const EMPTY: Bytes = Bytes::new(768);
    /// The same since 6.3: a head of 512 B takes 64 B more (`SKB_SMALL_HEAD_CACHE_SIZE`).
    pub const EMPTY_SINCE_6_3: Bytes = Bytes::new(832);
}

/// The stack whose rules apply where no other switch decides (`stack.flavor`): how resets, SYNs and segments in LISTEN and
/// TIME-WAIT are answered, and details of the sender. `flavor/` lists the differences.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StackFlavor {
    /// RFC 9293 with RFC 5961.
    #[default]
    Rfc,
    /// Linux, as far as 6.1 and later releases agree.
    Linux,
    /// Linux 7.3.
    Linux73,
    /// FreeBSD.
    FreeBsd,
}

impl StackFlavor {
    /// Any Linux.
    pub const fn is_linux(self) -> bool {
        matches!(self, StackFlavor::Linux | StackFlavor::Linux73)
    }

    /// The order of the options of a SYN, which RFC 9293 leaves open.
    pub fn layout(self) -> Option<Layout> {
        match self {
            StackFlavor::Rfc => None,
            StackFlavor::Linux | StackFlavor::Linux73 => Some(Layout::Linux),
            StackFlavor::FreeBsd => Some(Layout::FreeBsd),
        }
    }
}

/// The configuration of one stack. `Config::profile` returns the named profiles. Most fields are set by a
/// parameter of the table; the documentation of the field names it.
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// MSS to announce, and largest segment to send without options: MTU minus 40 (IPv4).
    pub mss: Bytes,
    /// `stack.sack` (RFC 2018).
    pub sack: bool,
    /// `stack.dsack` (RFC 2883): report duplicates.
    pub dsack: bool,
    /// `stack.timestamps` (RFC 7323), with PAWS.
    pub timestamps: bool,
    /// `stack.window_scale` (RFC 7323).
    pub window_scale: bool,
    /// `stack.initial_window` in segments (RFC 6928: 10).
    pub initial_window: u32,
    /// RTO bounds.
    pub rto: RtoBounds,
    /// `stack.ecn`.
    pub ecn: EcnMode,
    /// `stack.ecn_option`: accurate ECN with its TCP option.
    pub ecn_option: bool,
    /// The packets without new data that are sent ECN-capable. With DCTCP all packets are.
    pub control_ecn: ControlEcn,
    /// `stack.ecn_form`.
    pub ecn_form: EcnForm,
    /// Sysctls of accurate ECN in Linux's form.
    pub accurate: AccurateUse,
    /// `stack.dctcp_receiver`.
    pub dctcp_receiver: DctcpReceiver,
    /// `stack.ack_check`.
    pub ack_check: AckCheck,
    /// Compression of duplicate ACKs (Linux since 4.18); `None`: each packet out of order is acknowledged.
    pub ack_compression: Option<AckCompression>,
    /// `stack.delayed_ack`.
    pub delayed_ack: DelayedAck,
    /// `stack.loss_detection`.
    pub loss_detection: LossDetection,
    /// `stack.recovery`.
    pub recovery: Recovery,
    /// `stack.prr_bound`, where PRR is used.
    pub prr_bound: PrrBound,
    /// `stack.recovery_exit`.
    pub recovery_exit: RecoveryExitRule,
    /// Reduce on ECE gradually by PRR in a CWR state, as Linux; otherwise cwnd = ssthresh at once (RFC 3168).
    pub cwr_by_prr: bool,
    /// `stack.undo`.
    pub undo: Undo,
    /// Added to the computed timeouts of probes and of reordering (Linux `TCP_TIMEOUT_MIN`: two ticks).
    pub timer_floor: Dur,
    /// `stack.tlp`.
    pub tlp: Tlp,
    /// `stack.frto` (RFC 5682).
    pub frto: bool,
    /// `stack.limited_transmit` (RFC 3042).
    pub limited_transmit: bool,
    /// `stack.early_retransmit` (RFC 5827).
    pub early_retransmit: bool,
    /// `stack.hystart`: the rule that ends the first slow start before a loss.
    pub hystart: HystartMode,
    /// `stack.cc_arithmetic`: the variant of the controllers' arithmetic.
    pub cc_arithmetic: Arithmetic,
    /// `stack.abc` (RFC 3465).
    pub byte_counting: ByteCounting,
    /// `stack.slow_start_after_idle`.
    pub after_idle: AfterIdle,
    /// `stack.pacing`.
    pub pacing: Pacing,
    /// Largest super-segment handed to the NIC (`nic.gso_max`), or `None` for one MSS a segment (TSO off). A
    /// super-segment also holds at most half the congestion window (Linux `tcp_cwnd_test`).
    pub tso: Option<Bytes>,
    /// Smallest number of segments of a super-segment whose size follows the rate (Linux
    /// `tcp_min_tso_segs`).
    pub min_tso_segs: u32,
    /// Divisor: deferral ends when a super-segment of `window / tso_win_divisor` can be sent (Linux
    /// `tcp_tso_win_divisor`).
    pub tso_win_divisor: u32,
    /// A super-segment that could be longer waits for more window (Linux `tcp_tso_should_defer`).
    pub tso_defer: bool,
    /// `tso_defer` as since Linux 4.20: only within a millisecond of the last transmission, and if the next ACK is expected
    /// within a millisecond. Before 4.20: from half a round trip after the oldest unacknowledged transmission on.
    pub tso_defer_recent: bool,
    /// `stack.tso_autosize`.
    pub tso_autosize: TsoAutosize,
    /// Send buffer (`app.sndbuf`): limit of the bytes that are written and not acknowledged. `None`: the
    /// buffer grows with cwnd, up to `max_send_buffer`.
    pub send_buffer: Option<Bytes>,
    /// `stack.max_sndbuf`: the largest size of a send buffer that grows with cwnd.
    pub max_send_buffer: Bytes,
    /// The largest segment without options that the path carries: the MTU less 40 (IPv4); `None`: as large as [`Config::mss`].
    pub path_mss: Option<Bytes>,
    /// The search for the longest segment that the path carries (PLPMTUD). `None`: no search; the MTU of the
    /// route is used.
    pub mtu_probing: Option<MtuProbing>,
    /// With TSO: the send queue consists of buffers, as in Linux; `None`: it is a stream, and only its bytes count.
    pub skbs: Option<Skbs>,
    /// Whether timers count ticks.
    pub timer_ticks: TimerTicks,
    /// Receive buffer (`app.rcvbuf`): fixed, or autotuned between the two (`stack.rcv_autotune`, `stack.max_rwnd`).
    pub recv_buffer: RecvBuffer,
    /// Linux's accounting of receive memory, which then determines the window; `None`: only bytes of the stream count.
    pub recv_memory: Option<RecvMemory>,
    /// How the receive buffer is sized.
    pub recv_tuning: RecvTuning,
    /// PSH on every super-segment (Linux since 5.4), not only at the end of the send queue.
    pub push_super: bool,
    /// A reduction is computed from cwnd (Linux, `tcp_reno_ssthresh`), not from the flight size (RFC 5681 equation 4).
    pub reduce_from_cwnd: bool,
    /// Closing with unread data resets the connection (RFC 2525 section 2.17; not FreeBSD).
    pub reset_unread: bool,
    /// The next segment carries CWR, also if it is a retransmission (FreeBSD), not only the next new data (RFC 3168 section
    /// 6.1.2).
    pub cwr_on_retransmission: bool,
    /// A mark that arrives while the window is one segment stops the sender for a retransmission timeout
    /// (RFC 3168 section 6.1.2; neither Linux, which keeps two segments, nor FreeBSD).
    pub mark_stops_one_segment: bool,
    /// A reset that answers a segment echoes its timestamp (RFC 7323 section 5.2 recommends it; neither Linux nor FreeBSD).
    pub stamp_resets: bool,
    /// Segments without timestamps are accepted although both ends agreed on timestamps (Linux); otherwise they are dropped (RFC 7323
    /// section 3.2).
    pub tolerate_missing_timestamps: bool,
    /// Every second segment of any size is acknowledged, not every second full one, and at once one above the MSS or after a window of zero
    /// (FreeBSD's `DELAY_ACK`).
    pub count_small_segments: bool,
    /// A partial ACK in recovery is answered by an ACK if nothing can be sent (FreeBSD, `tcp_sack_partialack`).
    pub ack_partial: bool,
    /// While our FIN is unacknowledged every ACK carries it again (FreeBSD, `tcp_outflags`).
    pub fin_on_acks: bool,
    /// FreeBSD's window: the buffer is a multiple of the MSS (`tcp_mss`), and every ACK announces all free space
    /// (`tcp_output`), also if it grew by less than a segment.
    pub bsd_window: bool,
    /// `stack.nagle`: the condition for which a segment smaller than the MSS waits.
    pub nagle: Nagle,
    /// `app.nodelay`: Nagle's algorithm off (RFC 1122 section 4.2.3.4).
    pub nodelay: bool,
    /// `app.cork`: hold partial segments, at most 200 ms (Linux `TCP_CORK`).
    pub cork: bool,
    /// `app.quickack`: no delayed ACKs at all.
    pub quickack: bool,
    /// `app.notsent_lowat`: writable only while less than this is unsent.
    pub notsent_lowat: Option<Bytes>,
    /// `app.keepalive` (RFC 9293 section 3.8.4).
    pub keepalive: Option<Keepalive>,
    /// `app.user_timeout` (RFC 5482): abort when data stay unacknowledged for this time; `None`: only the retries limit it.
    pub user_timeout: Option<Dur>,
    /// Retransmissions of a SYN before giving up.
    pub syn_retries: u32,
    /// Retransmissions of a SYN at a constant interval before the interval doubles (Linux `tcp_syn_linear_timeouts`), in addition to
    /// `syn_retries`.
    pub syn_linear: u32,
    /// Retransmissions of a SYN-ACK before giving up.
    pub synack_retries: u32,
    /// SYNs that offer ECN before one does not, because a middlebox may drop those that do (RFC 3168 section 6.1.1.1).
    pub ecn_syns: u32,
    /// The fourth SYN and those after it offer nothing but the MSS (FreeBSD `net.inet.tcp.rexmit_drop_options`).
    pub plain_syns: bool,
    /// Retransmissions of a SYN-ACK at a constant interval before the interval doubles (FreeBSD before 13, `tcp_syn_backoff`).
    pub synack_linear: u32,
    /// Segments with SYN and FIN are not answered (FreeBSD `net.inet.tcp.drop_synfin`).
    pub drop_synfin: bool,
    /// An ACK of data that were never sent is answered (RFC 5961 section 5; Linux since 7.1 and in stable series since then);
    /// otherwise it is dropped silently. Only for Linux.
    pub challenge_unsent: bool,
    /// A reset at the position of a FIN that has arrived, or at the end of the highest SACK block, is accepted, too (Linux since 4.11 and 4.8,
    /// `tcp_reset_check`, `tcp_validate_incoming`).
    pub reset_by_reports: bool,
    /// An ACK that acknowledges nothing new may close the window (Linux since 6.6, `tcp_may_update_window`).
    /// Only for Linux.
    pub shut_by_duplicate: bool,
    /// Longest duration of an active open (FreeBSD `net.inet.tcp.keepinit`), independently of the retries.
    pub connect_timeout: Option<Dur>,
    /// The stack whose rules apply where no other switch decides.
    pub flavor: StackFlavor,
    /// A reset anywhere in the window ends the connection (RFC 793; FreeBSD `insecure_rst`), not only one at its left edge.
    pub weak_resets: bool,
    /// A SYN in the window resets the connection (RFC 793; FreeBSD `insecure_syn`).
    pub weak_syns: bool,
    /// Time between two challenge ACKs, or answers to unacceptable segments without data (Linux `tcp_invalid_ratelimit`); `None`: the
    /// stack's rule.
    pub invalid_ratelimit: Option<Dur>,
    /// FreeBSD's probes of a closed window; `None`: probes without data after the retransmission timeout.
    pub persist: Option<Persist>,
    /// Retransmissions of data before giving up (Linux `tcp_retries2`).
    pub retries: u32,
    /// TIME-WAIT (2 MSL; Linux 60 s).
    pub time_wait: Dur,
    /// FIN-WAIT-2 of an orphaned socket.
    pub fin_wait2: Dur,
}

/// The condition for which a segment smaller than the MSS waits (`stack.nagle`; without effect with
/// `app.nodelay`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Nagle {
    /// Everything sent before is acknowledged (RFC 896, RFC 1122 section 4.2.3.4).
    #[default]
    All,
    /// Everything was acknowledged when the present burst began (BSD): the last, partial segment of a write into an idle
    /// connection is sent with the rest.
    Idle,
    /// The last segment smaller than the MSS is acknowledged (draft-minshall-nagle; Linux): the partial segment at the end of a
    /// large write does not wait for an ACK that the receiver delays.
    Small,
}

/// Returns an owned copy of the configuration.
impl From<&Config> for Arc<Config> {
    fn from(config: &Config) -> Arc<Config> {
        Arc::new(config.clone())
    }
}

/// The interval of FreeBSD's probes of a closed window, which have one byte of data each
/// (`net.inet.tcp.persmin`, `persmax`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Persist {
    /// Smallest interval.
    pub min: Dur,
    /// Largest interval.
    pub max: Dur,
}

/// Keepalive probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keepalive {
    /// Idle time before the first probe.
    pub idle: Dur,
    /// Time between probes.
    pub interval: Dur,
    /// Unanswered probes before the connection is aborted.
    pub count: u32,
}

/// Named configurations (`stack.profile`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// The RFCs, in their simplest form where they allow several.
    Rfc,
    /// Linux 6.1 with the rules of later releases that [`Profile::Linux61`] takes away.
    Linux,
    /// Linux 6.1.
    Linux61,
    /// Linux 7.3.
    Linux73,
    /// Linux 4.6, with the DCTCP receiver of the paper.
    Linux46,
    /// FreeBSD 14, base stack.
    FreeBsd,
    /// FreeBSD 14, RACK stack.
    FreeBsdRack,
}

impl Profile {
    /// The largest receive buffer that autotuning reaches (`tcp_rmem[2]`): 32 MiB since 6.17, in all recent profiles of Linux.
    pub const fn largest_receive_buffer(self) -> Bytes {
        Bytes::new(if matches!(self, Profile::Linux73) { 32 << 20 } else { 6 << 20 })
    }

    /// Linux since 4.18, with its accounting of memory.
    pub const fn is_recent_linux(self) -> bool {
        matches!(self, Profile::Linux | Profile::Linux61 | Profile::Linux73)
    }

    /// Any Linux.
    pub const fn is_linux(self) -> bool {
        self.is_recent_linux() || matches!(self, Profile::Linux46)
    }
}
