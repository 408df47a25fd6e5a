//! Network interfaces: the settings of a NIC, and the parameters that set them.

use super::kind::ValueKind;
use super::linux::{GRO, HardwareSetting, Knob};
use super::row::{Row, put};
use super::spec::Substrates;
use super::words::Words;
use tcpassay_units::{Bytes, Dur, Rate};

type P = Row<NicSettings>;
const MKH: Substrates = Substrates::MKH;
const M: Substrates = Substrates::M;
const MKR: Substrates = Substrates::MKR;
const MK: Substrates = Substrates::MK;
const MR: Substrates = Substrates::MR;
/// Range of the sizes of super-segments.
const SUPER: ValueKind = ValueKind::Bytes { min: Bytes::new(536), max: Bytes::new(1_000_000) };
/// Range of the delays of interrupts.
const COALESCE: ValueKind = ValueKind::Dur { min: Dur::ZERO, max: Dur::from_millis(100) };

/// The settings of a network interface.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NicSettings {
    /// `nic.tso`.
    pub tso: bool,
    /// `nic.gso_max`.
    pub gso_max: Bytes,
    /// `nic.gro`.
    pub gro: bool,
    /// `nic.gro_max`.
    pub gro_max: Bytes,
    /// `nic.gro_timeout`.
    pub gro_timeout: Dur,
    /// `nic.lro_order` is `stale-hash`.
    pub stale_hash: bool,
    /// `nic.rx_usecs`.
    pub rx_delay: Dur,
    /// `nic.rx_frames`; 0: none.
    pub rx_frames: u32,
    /// `nic.rx_cost`.
    pub rx_cost: Dur,
    /// `nic.tx_usecs`.
    pub tx_delay: Dur,
    /// `nic.adaptive`.
    pub adaptive: Adaptive,
    /// `nic.hidden_short`.
    pub hidden_short: Dur,
    /// `nic.hidden_long`.
    pub hidden_long: Dur,
    /// `nic.hidden_idle`.
    pub hidden_idle: Dur,
    /// `nic.hidden_frames`; 0: none.
    pub hidden_frames: u32,
    /// `nic.rate`; `None` follows the link.
    pub rate: Option<Rate>,
    /// `nic.queue` in packets; `None` is unlimited.
    pub queue: Option<u32>,
    /// `nic.ecn_threshold`.
    pub mark_above: Option<Bytes>,
    /// `nic.ring` in packets; `None` is unlimited.
    pub ring: Option<u32>,
    /// `nic.rx_buffer`; `None`: as of a virtual device of Linux.
    pub rx_buffer: Option<Bytes>,
}

/// `nic.adaptive`: interrupt coalescing that follows the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Adaptive {
    /// Coalescing has the fixed settings `nic.rx_usecs` and `nic.rx_frames`.
    Off,
    /// Coalescing follows the load.
    On,
    /// The firmware ignores the settings and coalesces by the rule of `nic.hidden_*`.
    Hidden,
}

impl NicSettings {
    /// Returns true if receive interrupts follow more than a fixed delay, or packets are passed up in another order.
    pub fn has_own_receive_rule(&self) -> bool {
        self.rx_frames > 0 || self.adaptive != Adaptive::Off || self.stale_hash
    }

    /// A NIC without offloads that follows its link.
    pub(crate) fn plain() -> NicSettings {
        NicSettings {
            tso: false,
            gso_max: Bytes::new(65_536),
            gro: false,
            gro_max: Bytes::new(65_536),
            gro_timeout: Dur::ZERO,
            stale_hash: false,
            rx_delay: Dur::ZERO,
            rx_frames: 0,
            rx_cost: Dur::ZERO,
            tx_delay: Dur::ZERO,
            adaptive: Adaptive::Off,
            hidden_short: Dur::from_micros(20),
            hidden_long: Dur::from_micros(1160),
            hidden_idle: Dur::from_micros(10),
            hidden_frames: 4,
            rate: None,
            queue: None,
            mark_above: None,
            ring: None,
            rx_buffer: None,
        }
    }
}

/// The size, limited to the largest one of Linux devices without IPv6 jumbograms.
fn device_size(bytes: Bytes) -> String {
    bytes.get().min(65_536).to_string()
}

static LRO_ORDER: Words<bool, 2> = Words::new([("arrival", false), ("stale-hash", true)]);
static ADAPTIVE: Words<Adaptive, 3> =
    Words::new([("off", Adaptive::Off), ("on", Adaptive::On), ("hidden", Adaptive::Hidden)]);

pub(super) const ROWS: &[P] = &[
    P::new("nic.tso", ValueKind::Bool, "off", &["off", "on"], MKH, "TCP segmentation offload",
        |n, v| put(&mut n.tso, v.switch()),
)
    .linux(&[Knob::Device("gso_max_segs", |_, n| Ok((!n.tso).then(|| "1".to_owned())))])
        .needs("with it, nic.gso_max > MSS"),
    P::new("nic.gso_max", SUPER, "65536B", &["65536B", "16KB"], MKH, "Largest super-segment handed to the NIC",
        |n, v| put(&mut n.gso_max, v.bytes()),
)
    .linux(&[Knob::Device("gso_max_size", |_, n| Ok(n.tso.then(|| device_size(n.gso_max))))])
        .needs("nic.gso_max > MSS when nic.tso is on"),
    P::new("nic.gro", ValueKind::Bool, "off", &["off", "on"], MKH, "Generic receive offload: merges segments in order",
        |n, v| put(&mut n.gro, v.switch()),
)
    .linux(&[Knob::Offload(GRO, |_, n| Ok(Some(n.gro)))])
        .needs("packets with different ECN marks or flags never merge"),
    P::new("nic.gro_max", SUPER, "65536B", &["65536B", "16KB"], MKH, "Largest merged segment",
        |n, v| put(&mut n.gro_max, v.bytes()),
)
    .linux(&[Knob::Device("gro_max_size", |_, n| Ok(Some(device_size(n.gro_max))))]),
    P::new(
        "nic.gro_timeout",
        COALESCE,
        "0s",
        &["0s", "20us"],
        MKH,
        "How long a merged segment may wait for its next segment (gro_flush_timeout); 0s: it is delivered with its interrupt",
        |n, v| put(&mut n.gro_timeout, v.dur()),
)
    .linux(&[Knob::DeviceFile("gro_flush_timeout", |_, n| {
            Ok((n.gro && !n.gro_timeout.is_zero()).then(|| n.gro_timeout.as_nanos().to_string()))
        })]),
    P::new(
        "nic.lro_order",
        ValueKind::Choice(LRO_ORDER.names()),
        "arrival",
        &["arrival", "stale-hash"],
        MK,
        "Order in which a batch reaches the stack; stale-hash: sorted by an RSS hash the hardware no longer computes",
        |n, v| n.stale_hash = LRO_ORDER.of(v),
)
    .needs("stale-hash needs nic.gro = on"),
    P::new("nic.rx_usecs", COALESCE, "0s", &["0s", "20us"], MKR,
        "Receive interrupt delay (ethtool rx-usecs; in a guest a slot of netem before the device)",
        |n, v| put(&mut n.rx_delay, v.dur()),
)
    .linux(&[Knob::Hardware(HardwareSetting::RxUsecs, |_, n| {
            if n.rx_delay.as_nanos() % 1000 != 0 {
                return Err("ethtool counts whole microseconds");
            }
            Ok(Some(n.rx_delay.as_nanos() / 1000))
        })]),
    P::new(
        "nic.rx_frames",
        ValueKind::Int { min: 0, max: 4096 },
        "0",
        &["0", "32"],
        MKR,
        "Number of packets that raises the receive interrupt at once (ethtool rx-frames); 0: only the delay does",
        |n, v| put(&mut n.rx_frames, v.int()),
)
    .linux(&[Knob::Hardware(HardwareSetting::RxFrames, |_, n| Ok(Some(u64::from(n.rx_frames))))]),
    P::new(
        "nic.rx_cost",
        COALESCE,
        "0s",
        &["0s", "1us"],
        M,
        "Processing time of the host for each received packet, so that batches grow with the load; 0s: processing takes no time",
        |n, v| put(&mut n.rx_cost, v.dur()),
),
    P::new("nic.tx_usecs", COALESCE, "0s", &["0s", "20us"], MK, "Transmit completion delay (ethtool tx-usecs): what has left counts for TCP small queues (`stack.small_queues`) until this interrupt",
        |n, v| put(&mut n.tx_delay, v.dur()),
),
    P::new(
        "nic.adaptive",
        ValueKind::Choice(ADAPTIVE.names()),
        "off",
        &["off", "on", "hidden"],
        MKR,
        "Adaptive coalescing, which depends on the load; hidden: a firmware that ignores nic.rx_usecs and uses nic.hidden_*",
        |n, v| n.adaptive = ADAPTIVE.of(v),
)
    .linux(&[Knob::Hardware(HardwareSetting::AdaptiveRx, |_, n| match n.adaptive {
            Adaptive::Off => Ok(Some(0)),
            Adaptive::On => Ok(Some(1)),
            Adaptive::Hidden => Err("no setting of the hardware has such a rule; the model and a guest have it"),
        })]),
    P::new(
        "nic.hidden_short",
        COALESCE,
        "20us",
        &["20us", "5us"],
        MK,
        "Interrupt delay of a hidden firmware while packets arrive steadily",
        |n, v| put(&mut n.hidden_short, v.dur()),
)
    .needs("nic.adaptive = hidden"),
    P::new(
        "nic.hidden_long",
        COALESCE,
        "1160us",
        &["1160us", "200us"],
        MK,
        "Interrupt delay of a hidden firmware for a packet after a pause",
        |n, v| put(&mut n.hidden_long, v.dur()),
)
    .needs("nic.adaptive = hidden"),
    P::new(
        "nic.hidden_idle",
        COALESCE,
        "10us",
        &["10us", "200us"],
        MK,
        "Time without a packet after which a hidden firmware takes the long delay",
        |n, v| put(&mut n.hidden_idle, v.dur()),
)
    .needs("nic.adaptive = hidden"),
    P::new(
        "nic.hidden_frames",
        ValueKind::Int { min: 0, max: 4096 },
        "4",
        &["4", "0", "16"],
        MK,
        "Number of packets at which a hidden firmware raises the interrupt at once; 0: only its delays apply",
        |n, v| put(&mut n.hidden_frames, v.int()),
)
    .needs("nic.adaptive = hidden"),
    P::new(
        "nic.rx_buffer",
        ValueKind::Or(&["auto"], &ValueKind::Bytes { min: Bytes::new(512), max: Bytes::new(65_536) }),
        "auto",
        &["auto", "2KB", "4KB"],
        M,
        "Memory that each arriving packet occupies in the receive buffer besides its bytes (`truesize`): drivers give it a part of a page or a whole one, \
         so that small packets fill the buffer; auto: the 768 bytes of a virtual device (linux-7.3: 832)",
        |n, v| n.rx_buffer = v.bytes(),
)
    .needs("stack.profile = linux"),
    P::new(
        "nic.rate",
        ValueKind::Or(&["auto"], &ValueKind::Rate),
        "auto",
        &["auto", "10Gbit", "25Gbit"],
        MKH,
        "Line rate; auto: the link's (in a dumbbell ten times the bottleneck's)",
        |n, v| n.rate = v.rate(),
),
    P::new(
        "nic.queue",
        ValueKind::Or(&["unlimited"], &ValueKind::Int { min: 1, max: 1_000_000 }),
        "unlimited",
        &["unlimited", "1000"],
        MKH,
        "Limit in packets of the queue of the host above the NIC (txqueuelen)",
        |n, v| n.queue = v.int(),
),
    P::new(
        "nic.ecn_threshold",
        ValueKind::Or(&["off"], &ValueKind::Bytes { min: Bytes::new(1), max: Bytes::new(1_000_000_000_000) }),
        "off",
        &["off", "30KB"],
        M,
        "Backlog of the host's own queue above which ECN-capable packets are marked CE, as switches do",
        |n, v| n.mark_above = v.bytes(),
),
    P::new(
        "nic.ring",
        ValueKind::Or(&["unlimited"], &ValueKind::Int { min: 1, max: 65_536 }),
        "unlimited",
        &["unlimited", "512"],
        MR,
        "Descriptors of the receive ring: further packets of one interrupt are dropped; unlimited on remote: the ring stays as it is",
        |n, v| n.ring = v.int(),
)
    .linux(&[Knob::Hardware(HardwareSetting::RxRing, |_, n| Ok(n.ring.map(u64::from)))]),
];
