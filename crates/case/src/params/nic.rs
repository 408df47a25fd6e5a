//! Parameters of network interfaces.

use super::kind::Kind;
use super::spec::{ParamSpec, Substrates};
use tcpassay_units::{Bytes, Dur};

type P = ParamSpec;
const MKH: Substrates = Substrates::MKH;
const M: Substrates = Substrates::M;
const SUPER: Kind = Kind::Bytes { min: Bytes::new(536), max: Bytes::new(1_000_000) };
const COALESCE: Kind = Kind::Dur { min: Dur::ZERO, max: Dur::from_millis(100) };

pub(super) const ROWS: &[ParamSpec] = &[
    P::new("nic.tso", Kind::Bool, "off", &["off", "on"], MKH, "TCP segmentation offload")
        .needs("with it, nic.gso_max > MSS"),
    P::new("nic.gso_max", SUPER, "65536B", &["65536B", "16KB"], MKH, "Largest super-segment handed to the NIC")
        .needs("nic.gso_max > MSS when nic.tso is on"),
    P::new("nic.gro", Kind::Bool, "off", &["off", "on"], MKH, "Generic receive offload: merges segments in order")
        .needs("packets with different ECN marks or flags never merge"),
    P::new("nic.gro_max", SUPER, "65536B", &["65536B", "16KB"], MKH, "Largest merged segment"),
    P::new(
        "nic.gro_timeout",
        COALESCE,
        "0s",
        &["0s", "20us"],
        MKH,
        "How long a merge may wait for its next segment (gro_flush_timeout); 0s ends it with its interrupt",
    ),
    P::new(
        "nic.lro_order",
        Kind::Choice(&["arrival", "stale-hash"]),
        "arrival",
        &["arrival", "stale-hash"],
        M,
        "Order in which a batch reaches the stack; stale-hash: sorted by an RSS hash the hardware no longer computes",
    )
    .needs("stale-hash needs nic.gro = on"),
    P::new("nic.rx_usecs", COALESCE, "0s", &["0s", "20us"], M, "Receive interrupt delay (ethtool rx-usecs)"),
    P::new(
        "nic.rx_frames",
        Kind::Int { min: 0, max: 4096 },
        "0",
        &["0", "32"],
        M,
        "Packets that raise the receive interrupt at once (ethtool rx-frames); 0: only the delay does",
    ),
    P::new(
        "nic.rx_cost",
        COALESCE,
        "0s",
        &["0s", "1us"],
        M,
        "Time of the host's processor for each received packet: batches grow with load; 0s: as fast as you like",
    ),
    P::new("nic.tx_usecs", COALESCE, "0s", &["0s", "20us"], M, "Transmit completion delay (ethtool tx-usecs)"),
    P::new(
        "nic.adaptive",
        Kind::Choice(&["off", "on", "hidden"]),
        "off",
        &["off", "on", "hidden"],
        M,
        "Coalescing that follows the load; hidden: a firmware that ignores the setting (RTTs of 60 us or 1.2 ms)",
    ),
    P::new(
        "nic.rate",
        Kind::Or(&["auto"], &Kind::Rate),
        "auto",
        &["auto", "10Gbit", "25Gbit"],
        MKH,
        "Line rate; auto: the link's (in a dumbbell ten times the bottleneck's)",
    ),
    P::new(
        "nic.queue",
        Kind::Or(&["unlimited"], &Kind::Int { min: 1, max: 1_000_000 }),
        "unlimited",
        &["unlimited", "1000"],
        MKH,
        "Packets that the host queues above the NIC (txqueuelen)",
    ),
    P::new(
        "nic.ecn_threshold",
        Kind::Or(&["off"], &Kind::Bytes { min: Bytes::new(1), max: Bytes::new(1_000_000_000_000) }),
        "off",
        &["off", "30KB"],
        M,
        "Backlog of the host's own queue above which ECN-capable packets are marked CE, as switches do",
    ),
    P::new(
        "nic.ring",
        Kind::Or(&["unlimited"], &Kind::Int { min: 1, max: 65_536 }),
        "unlimited",
        &["unlimited", "512"],
        M,
        "Descriptors of the receive ring: packets of one interrupt beyond it are dropped",
    ),
];
