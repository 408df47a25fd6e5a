//! Whether the step of the bottleneck marks: as many senders at once as it takes to fill its queue beyond the threshold.
//!
//! One sender is not enough where its own link is no faster than the bottleneck (a star): no queue stands before that, however
//! long it sends. What cannot be brought above the threshold (one sender behind a NIC of the bottleneck's rate, a queue that holds less)
//! is not judged, because nothing of the case's own traffic would be marked either.

use super::prober::{DISCARD, HEADERS, MeasuredPath, Prober, float, row, wrong};
use crate::netns::build::NetnsSet;
use crate::netns::topology::NetnsTopology;
use crate::system::Failure;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};
use tcpassay_case::params::grammar::Limit;
use tcpassay_case::topology::Port;
use tcpassay_case::{Case, Mark, QueueSettings};
use tcpassay_linux::sys;
use tcpassay_measure::pcapng::host_address;
use tcpassay_units::{Bytes, Rate};

/// More packets than this are not sent: some 8000 have room in the ring of a tap.
const MOST: u64 = 6000;

/// A sender and a receiver whose packets pass the bottleneck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ProbeSender {
    sender: usize,
    receiver: usize,
    /// How fast packets reach the bottleneck; `None`: as fast as they are made.
    rate: Option<Rate>,
}

/// What is sent to see marks.
#[derive(PartialEq, Debug)]
struct ProbeTrain {
    feeders: usize,
    /// Full packets of each.
    packets: u64,
    /// What the queue holds at its fullest, in bytes, at least.
    backlog: u64,
}

/// Every sender of the case that reaches the bottleneck, once.
fn feeders(case: &Case, link: usize) -> Vec<ProbeSender> {
    let mut all: Vec<ProbeSender> = Vec::new();
    for &(sender, receiver) in &case.net.flows {
        let Some(path) = case.routes.path(&case.net, sender, receiver) else { continue };
        let Some(at) = path.iter().position(|port| *port == Port { link, forward: true }) else { continue };
        if all.iter().any(|f| f.sender == sender) {
            continue;
        }
        let before = path[..at].iter().map(|port| case.link_rate(port.link));
        let rate = before.chain(case.hosts[sender].nic.rate).min();
        all.push(ProbeSender { sender, receiver, rate });
    }
    all
}

/// The shortest train that brings the queue to `aim` bytes.
fn train(feeders: &[ProbeSender], served: Rate, mtu: u64, aim: u64, most: u64) -> Option<ProbeTrain> {
    let served = u128::from(served.bits_per_sec());
    let mut sum = Some(0_u128);
    for (n, feeder) in (1..).zip(feeders) {
        sum = sum.zip(feeder.rate).map(|(sum, rate)| sum + u128::from(rate.bits_per_sec()));
        // All that comes, less what is served while it comes.
        let packets = match sum {
            None => aim.div_ceil(mtu),
            // A surplus of a tenth, so that the train ends some time.
            Some(sum) if 10 * sum >= 11 * served => {
                u64::try_from((u128::from(aim) * sum).div_ceil((sum - served) * u128::from(mtu)))
                    .unwrap_or(u64::MAX)
            }
            Some(_) => continue,
        };
        if packets <= most {
            let each = packets.div_ceil(n as u64);
            return Some(ProbeTrain { feeders: n, packets: each, backlog: aim });
        }
    }
    None
}

/// What a queue holds, in bytes.
fn holds(queue: &QueueSettings, mtu: u64) -> u64 {
    match queue.limit {
        Some(Limit::Bytes(bytes)) => bytes.get(),
        Some(Limit::Packets(n)) => u64::from(n) * mtu,
        None => 1000 * mtu,
    }
}

/// Sends the train and looks for marks.
pub(super) fn measure(
    case: &Case,
    topology: &NetnsTopology,
    namespaces: &mut NetnsSet,
    prober: &mut Prober,
    path: &mut MeasuredPath,
    at: &mut u64,
    rest: u64,
) -> Result<(), Failure> {
    let link = case.net.links.iter().position(|l| l.main).expect("a topology has a bottleneck");
    let (queue, monitored) = (&case.links[link].queue, &topology.monitored[topology.bottleneck]);
    if queue.mark != Mark::Data {
        return Ok(());
    }
    let mtu = case.hosts.iter().map(|h| h.mtu.get()).max().expect("hosts");
    // RED's mean of two packets is twice the threshold at the latest when the backlog is.
    let aim = 2 * queue.threshold.get() + 16 * mtu;
    let bucket = if monitored.kind == "tbf" {
        monitored.rate.bytes_in(tcpassay_units::Dur::from_millis(1)).get().max(10 * mtu)
    } else {
        0
    };
    let aim = aim + queue.burst.map_or(bucket, Bytes::get);
    let policed =
        case.links[link].policer.is_some_and(|(rate, burst)| rate <= monitored.rate && burst.get() < aim);
    let all = feeders(case, link);
    let train = train(&all, monitored.rate, mtu, aim, MOST).filter(|_| aim <= holds(queue, mtu) && !policed);
    let Some(train) = train else {
        path.rows.push(row(&monitored.name, "marks", "share", None, None));
        return Ok(());
    };
    let told = |e: std::io::Error| format!("a probe of {mtu} bytes: {e}");
    let address =
        |host: usize| SocketAddrV4::new(host_address(u32::try_from(host).expect("few hosts")), DISCARD);
    let mut sockets: Vec<(OwnedFd, SocketAddrV4, u64)> = Vec::new();
    for feeder in &all[..train.feeders] {
        namespaces.enter(feeder.sender)?;
        let fd = sys::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0).map_err(told)?;
        sys::set(fd.as_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO).map_err(told)?;
        sys::set(fd.as_fd(), libc::IPPROTO_IP, libc::IP_TOS, 2).map_err(told)?;
        sys::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 64_000_000).map_err(told)?;
        sockets.push((fd, address(feeder.receiver), case.hosts[feeder.sender].mtu.get()));
    }
    // In turn, so that whoever has no NIC to wait for does not come first with everything.
    for _ in 0..train.packets {
        for (fd, to, mtu) in &sockets {
            let payload = vec![0; usize::try_from(mtu - HEADERS).expect("a packet")];
            sys::send_to(fd.as_fd(), &payload, *to).map_err(told)?;
        }
    }
    let bytes = train.packets * train.feeders as u64 * mtu;
    *at = (*at).max(sys::now()) + rest + monitored.rate.time_for(Bytes::new(3 * bytes)).as_nanos();
    prober.until(*at)?;
    let arrived = |tap: usize| all.iter().any(|f| tap == 2 * f.receiver + 1);
    let seen: Vec<bool> = prober.seen().iter().filter(|p| arrived(p.tap)).map(|p| p.ce).collect();
    let marked = seen.iter().filter(|ce| **ce).count();
    let share = (!seen.is_empty()).then(|| float(marked as u64) / float(seen.len() as u64));
    path.rows.push(row(&monitored.name, "marks", "share", None, share));
    // Where packets are lost on their way, a queue stays below what was aimed at.
    let received = seen.len() as u64 * mtu;
    if marked == 0 && received >= bytes * 9 / 10 {
        let (n, step, from) = (seen.len(), queue.threshold, train.feeders);
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
        assert_eq!(one(None), Some(ProbeTrain { feeders: 1, packets: 60, backlog: 90_000 }));
        assert_eq!(
            one(Some(Rate::from_gbit(10))),
            Some(ProbeTrain { feeders: 1, packets: 67, backlog: 90_000 })
        );
    }

    #[test]
    fn in_a_star_two_senders_fill_the_queue_and_one_cannot() {
        let gigabit = Rate::from_gbit(1);
        let of = |n| train(&star(n, Some(gigabit)), gigabit, 1500, 90_000, MOST);
        // Of 120 packets from both half have left.
        assert_eq!(of(2), Some(ProbeTrain { feeders: 2, packets: 60, backlog: 90_000 }));
        assert_eq!(of(8), of(2));
        assert_eq!(of(1), None);
    }

    #[test]
    fn senders_behind_slow_nics_are_joined_until_they_suffice() {
        let of = |n| train(&star(n, Some(Rate::from_mbit(300))), Rate::from_gbit(1), 1500, 90_000, MOST);
        assert_eq!(of(3), None);
        // 1.2 Gbit/s: 360 packets, of which five in six have left.
        assert_eq!(of(4), Some(ProbeTrain { feeders: 4, packets: 90, backlog: 90_000 }));
    }
}
