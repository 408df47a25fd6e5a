//! Verifies that the bottleneck marks packets above its threshold, with as many concurrent senders as are needed to fill the queue.
//!
//! One sender is not enough if its own link is not faster than the bottleneck (in a star): the queue stays empty, however long the sender
//! sends. If the backlog cannot exceed the threshold (one sender behind a NIC of the bottleneck's rate, or a queue that is too
//! small), nothing is verified, because the traffic of the case would not be marked either.

use super::prober::{DISCARD, HEADERS, MeasuredPath, Prober, float, row, wrong};
use crate::netns::build::NetnsSet;
use crate::netns::topology::NetnsTopology;
use crate::system::Failure;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};
use tcpassay_case::params::grammar::{Buffers, QueueLimitValue};
use tcpassay_case::topology::DirectedLink;
use tcpassay_case::{Case, Mark, QueueKind, QueueSettings};
use tcpassay_linux::sys;
use tcpassay_measure::pcapng::host_address;
use tcpassay_units::{Bytes, Dur, Rate};

/// The maximum number of packets. The ring of a tap has room for about 8000.
const MOST: u64 = 6000;

/// A sender whose packets to a receiver pass the bottleneck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ProbeSender {
    sender: usize,
    receiver: usize,
    /// The rate at which packets reach the bottleneck; `None` if only the speed of the machine limits it.
    rate: Option<Rate>,
}

/// The packets that are sent to observe marks.
#[derive(PartialEq, Debug)]
struct ProbeTrain {
    senders: usize,
    /// Full-sized packets of each sender.
    packets: u64,
    /// The minimum of the largest backlog in bytes.
    backlog: u64,
}

/// The senders of the case whose packets pass the bottleneck, each once.
fn senders(case: &Case, link: usize) -> Vec<ProbeSender> {
    let mut all: Vec<ProbeSender> = Vec::new();
    for &(sender, receiver) in &case.net.flows {
        let Some(path) = case.routes.path(&case.net, sender, receiver) else { continue };
        let Some(at) = path.iter().position(|port| *port == DirectedLink { link, forward: true }) else {
            continue;
        };
        if all.iter().any(|f| f.sender == sender) {
            continue;
        }
        let before = path[..at].iter().map(|port| case.link_rate(port.link));
        let rate = before.chain(case.hosts[sender].nic.rate).min();
        all.push(ProbeSender { sender, receiver, rate });
    }
    all
}

/// The shortest train that brings the queue to `aim` bytes, with at most `most` packets.
fn train(senders: &[ProbeSender], served: Rate, mtu: u64, aim: u64, most: u64) -> Option<ProbeTrain> {
    let served = u128::from(served.bits_per_sec());
    let mut sum = Some(0_u128);
    for (n, sender) in (1..).zip(senders) {
        sum = sum.zip(sender.rate).map(|(sum, rate)| sum + u128::from(rate.bits_per_sec()));
        // The backlog is what arrives minus what is served in the same time.
        let packets = match sum {
            None => aim.div_ceil(mtu),
            // At least 10 % more than the service rate; with less the train would be too long.
            Some(sum) if 10 * sum >= 11 * served => {
                u64::try_from((u128::from(aim) * sum).div_ceil((sum - served) * u128::from(mtu)))
                    .unwrap_or(u64::MAX)
            }
            Some(_) => continue,
        };
        if packets <= most {
            let each = packets.div_ceil(n as u64);
            return Some(ProbeTrain { senders: n, packets: each, backlog: aim });
        }
    }
    None
}

/// The capacity of a queue in bytes.
fn holds(queue: &QueueSettings, mtu: u64) -> u64 {
    match queue.limit {
        Some(QueueLimitValue::Bytes(bytes)) => bytes.get(),
        Some(QueueLimitValue::Packets(n)) => u64::from(n) * mtu,
        None => 1000 * mtu,
    }
}

/// Sends the train and counts the marks.
pub(super) fn measure(
    case: &Case,
    topology: &NetnsTopology,
    namespaces: &mut NetnsSet,
    prober: &mut Prober,
    path: &mut MeasuredPath,
    at: &mut u64,
    rest: u64,
) -> Result<(), Failure> {
    let monitored = &topology.monitored[topology.bottleneck];
    let link = monitored.link;
    let queue = &case.links[link].queue;
    if queue.mark != Mark::Data {
        return Ok(());
    }
    let mtu = case.net.flows.iter().map(|(s, r)| case.path_mtu(*s, *r).get()).max().expect("flows");
    // The shortest average of RED in `tc` is over two packets; it exceeds the threshold when the backlog is twice the threshold.
    let aim = 2 * queue.threshold.get() + 16 * mtu;
    let bucket = if monitored.kind == QueueKind::Tbf {
        monitored.rate.bytes_in(Dur::from_millis(1)).get().max(10 * mtu)
    } else {
        0
    };
    let aim = aim + queue.burst.map_or(bucket, Bytes::get);
    // Senders of both halves of a switch fill two buffers.
    let aim = if matches!(case.network.buffers, Buffers::Dual(_)) { 2 * aim } else { aim };
    let policed =
        case.links[link].policer.is_some_and(|(rate, burst)| rate <= monitored.rate && burst.get() < aim);
    let all = senders(case, link);
    let train = train(&all, monitored.rate, mtu, aim, MOST).filter(|_| aim <= holds(queue, mtu) && !policed);
    let Some(train) = train else {
        path.rows.push(row(&monitored.name, "marks", "share", None, None));
        return Ok(());
    };
    let told = |e: std::io::Error| format!("a probe of {mtu} bytes: {e}");
    let address =
        |host: usize| SocketAddrV4::new(host_address(u32::try_from(host).expect("few hosts")), DISCARD);
    let mut sockets: Vec<(OwnedFd, SocketAddrV4, u64)> = Vec::new();
    for from in &all[..train.senders] {
        namespaces.enter(from.sender)?;
        let fd = sys::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0).map_err(told)?;
        sys::set(fd.as_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO).map_err(told)?;
        sys::set(fd.as_fd(), libc::IPPROTO_IP, libc::IP_TOS, 2).map_err(told)?;
        sys::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 64_000_000).map_err(told)?;
        sockets.push((fd, address(from.receiver), case.path_mtu(from.sender, from.receiver).get()));
    }
    let began = sys::now();
    // The senders take turns. Otherwise all packets of a sender without a NIC rate would arrive first.
    for _ in 0..train.packets {
        for (fd, to, mtu) in &sockets {
            let payload = vec![0; usize::try_from(mtu - HEADERS).expect("a packet")];
            sys::send_to(fd.as_fd(), &payload, *to).map_err(told)?;
        }
    }
    let bytes = train.packets * train.senders as u64 * mtu;
    // In real time the queue drains while packets are made: a slow machine may not fill it.
    let drained = monitored.rate.bytes_in(Dur::from_nanos(sys::now() - began)).get();
    let filled = bytes.saturating_sub(drained) > queue.threshold.get() + mtu;
    *at = (*at).max(sys::now()) + rest + monitored.rate.time_for(Bytes::new(3 * bytes)).as_nanos();
    prober.until(*at)?;
    let arrived = |tap: usize| all.iter().any(|f| tap == 2 * f.receiver + 1);
    let seen: Vec<bool> = prober.seen_of_train().iter().filter(|p| arrived(p.tap)).map(|p| p.ce).collect();
    let marked = seen.iter().filter(|ce| **ce).count();
    let share = (!seen.is_empty()).then(|| float(marked as u64) / float(seen.len() as u64));
    path.rows.push(row(&monitored.name, "marks", "share", None, share));
    // If packets were lost before the queue, the backlog may have stayed below the threshold.
    let received = seen.len() as u64 * mtu;
    if marked == 0 && received >= bytes * 9 / 10 && filled {
        let (n, step, from) = (seen.len(), queue.threshold, train.senders);
        wrong(
            path,
            format!(
                "nothing was marked of {n} packets from {from} senders that filled the queue beyond {step}"
            ),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn star(n: usize, rate: Option<Rate>) -> Vec<ProbeSender> {
        (1..=n).map(|sender| ProbeSender { sender, receiver: 0, rate }).collect()
    }

    #[test]
    fn one_sender_is_enough_where_it_is_faster_than_the_bottleneck() {
        let gigabit = Rate::from_gbit(1);
        // 60 packets of 1500 bytes, or 67 of which a tenth has left when the last comes.
        let one = |rate| train(&star(4, rate), gigabit, 1500, 90_000, MOST);
        assert_eq!(one(None), Some(ProbeTrain { senders: 1, packets: 60, backlog: 90_000 }));
        assert_eq!(
            one(Some(Rate::from_gbit(10))),
            Some(ProbeTrain { senders: 1, packets: 67, backlog: 90_000 })
        );
    }

    #[test]
    fn in_a_star_two_senders_fill_the_queue_and_one_cannot() {
        let gigabit = Rate::from_gbit(1);
        let of = |n| train(&star(n, Some(gigabit)), gigabit, 1500, 90_000, MOST);
        // Of 120 packets from both half have left.
        assert_eq!(of(2), Some(ProbeTrain { senders: 2, packets: 60, backlog: 90_000 }));
        assert_eq!(of(8), of(2));
        assert_eq!(of(1), None);
    }

    #[test]
    fn senders_behind_slow_nics_are_joined_until_they_suffice() {
        let of = |n| train(&star(n, Some(Rate::from_mbit(300))), Rate::from_gbit(1), 1500, 90_000, MOST);
        assert_eq!(of(3), None);
        // 1.2 Gbit/s: 360 packets, of which five in six have left.
        assert_eq!(of(4), Some(ProbeTrain { senders: 4, packets: 90, backlog: 90_000 }));
    }
}
