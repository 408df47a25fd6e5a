//! Construction of a port's queueing discipline from `queue.*`.

use crate::element::{
    CoDelSpec, DisciplineSpec, DualPi2Spec, FifoSpec, FqCoDelSpec, FqSpec, HtbSpec, PieSpec, QueueLimit,
    QueueSpec, RedSpec, TbfSpec,
};
use tcpassay_case::params::grammar;
use tcpassay_case::{Mark, QueueKind, QueuePlace, QueueSettings};
use tcpassay_units::{Bytes, Dur, Rate};

/// `queue.limit`, or the default limit of the discipline for `auto`.
fn limit_or(queue: &QueueSettings, auto: QueueLimit) -> QueueLimit {
    match queue.limit {
        Some(grammar::Limit::Bytes(bytes)) => QueueLimit::bytes(bytes),
        Some(grammar::Limit::Packets(n)) => QueueLimit::packets(n),
        None if queue.place == QueuePlace::Undescribed => QueueLimit::NONE,
        None => auto,
    }
}

pub(super) fn limit(queue: &QueueSettings) -> QueueLimit {
    limit_or(queue, QueueLimit::packets(1000))
}

/// The limit of a discipline that counts packets in Linux; a limit in bytes is converted to packets of the MTU.
fn packets_or(queue: &QueueSettings, mtu: Bytes, auto: QueueLimit) -> QueueLimit {
    match queue.limit {
        Some(grammar::Limit::Bytes(bytes)) => {
            QueueLimit::packets(u32::try_from((bytes.get() / mtu.get()).max(1)).unwrap_or(u32::MAX))
        }
        _ => limit_or(queue, auto),
    }
}

/// The queueing discipline of a port that sends at `rate`.
pub(super) fn spec(queue: &QueueSettings, mtu: Bytes, rate: Rate) -> QueueSpec {
    let mark_above = (queue.mark == Mark::Data).then_some(queue.threshold);
    let fifo = DisciplineSpec::Fifo(FifoSpec { limit: limit(queue), mark_above });
    let shaped = || queue.rate.expect("checked: a shaper has a rate");
    match queue.kind {
        QueueKind::Htb => {
            // The default of tc: the bytes that pass in a tick of a nanosecond, and 1600 bytes.
            let burst = queue.burst.unwrap_or(mtu.max(Bytes::new(1600)));
            if queue.classes == 1 {
                QueueSpec::Htb(HtbSpec::single(shaped(), burst, fifo))
            } else {
                QueueSpec::Htb(HtbSpec::equal(shaped(), queue.classes, burst, fifo))
            }
        }
        QueueKind::Tbf => {
            let burst = queue.burst.unwrap_or_else(|| shaped().bytes_in(Dur::from_millis(1)).max(mtu * 10));
            QueueSpec::Tbf(TbfSpec { rate: shaped(), burst, inner: fifo })
        }
        _ => QueueSpec::Plain(plain(queue, mtu, rate, fifo)),
    }
}

/// A discipline that is not a shaper.
fn plain(queue: &QueueSettings, mtu: Bytes, rate: Rate, fifo: DisciplineSpec) -> DisciplineSpec {
    // Linux's size of a full frame: the MTU and an Ethernet header.
    let frame = mtu + Bytes::new(14);
    match queue.kind {
        QueueKind::Red => DisciplineSpec::Red(RedSpec {
            min: queue.red_min,
            max: queue.red_max,
            max_p: queue.red_probability,
            weight: 0.002,
            gentle: false,
            ecn: queue.ecn,
            harddrop: false,
            packet_time: rate.time_for(mtu),
            limit: limit(queue),
        }),
        QueueKind::CoDel => {
            DisciplineSpec::CoDel(codel(queue, frame, packets_or(queue, mtu, QueueLimit::packets(1000))))
        }
        QueueKind::FqCoDel => DisciplineSpec::FqCoDel(FqCoDelSpec {
            codel: codel(queue, frame, packets_or(queue, mtu, FqCoDelSpec::LINUX.codel.limit)),
            quantum: frame,
            ..FqCoDelSpec::LINUX
        }),
        QueueKind::Pie => DisciplineSpec::Pie(PieSpec {
            target: queue.target.unwrap_or(PieSpec::RFC.target),
            update: queue.interval.unwrap_or(PieSpec::RFC.update),
            ecn: queue.ecn,
            mtu: frame,
            limit: packets_or(queue, mtu, PieSpec::RFC.limit),
            ..PieSpec::RFC
        }),
        QueueKind::Fq => DisciplineSpec::Fq(FqSpec {
            quantum: frame * 2,
            initial_quantum: frame * 10,
            limit: packets_or(queue, mtu, FqSpec::LINUX.limit),
            ..FqSpec::LINUX
        }),
        QueueKind::DualPi2 => DisciplineSpec::DualPi2(DualPi2Spec {
            target: queue.target.unwrap_or(DualPi2Spec::LINUX.target),
            update: queue.interval.unwrap_or(DualPi2Spec::LINUX.update),
            mtu: frame,
            limit: limit_or(queue, DualPi2Spec::LINUX.limit),
            ..DualPi2Spec::LINUX
        }),
        QueueKind::Fifo | QueueKind::Htb | QueueKind::Tbf => fifo,
    }
}

fn codel(queue: &QueueSettings, frame: Bytes, limit: QueueLimit) -> CoDelSpec {
    CoDelSpec {
        target: queue.target.unwrap_or(CoDelSpec::INTERNET.target),
        interval: queue.interval.unwrap_or(CoDelSpec::INTERNET.interval),
        mtu: frame,
        ecn: queue.ecn,
        ce_threshold: None,
        limit,
    }
}
