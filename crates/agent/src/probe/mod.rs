//! Measures the path before the traffic: round-trip time, rate, loss and the largest packet between the first pair of hosts, and the
//! [`marks`] of the bottleneck.
//!
//! Datagrams to the discard port, monitored at the taps: single ones for the round-trip time, back-to-back ones for the
//! rate and the marks, spaced ones for the loss. If a measured value differs from the case, the case does not run.

mod marks;
mod prober;

pub use prober::{MeasuredPath, ProbeTiming};

use prober::{DISCARD, HEADERS, ProbePacket, Prober, float, row, wrong};

use crate::collect::tap::Taps;
use crate::netns::build::NetnsSet;
use crate::netns::topology::NetnsTopology;
use crate::system::Failure;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};
use tcpassay_case::params::grammar::{LinkRate, LossModel};
use tcpassay_case::params::linux::LinkDirection;
use tcpassay_case::{Case, LinkSettings, Mark, QueueKind};
use tcpassay_linux::sys;
use tcpassay_measure::pcapng::host_address;
use tcpassay_units::{Bytes, Dur, Rate};

/// Measures the path of the first pair of hosts.
pub fn measure(
    case: &Case,
    topology: &NetnsTopology,
    namespaces: &mut NetnsSet,
    taps: &mut Taps,
    pace: &ProbeTiming,
) -> Result<MeasuredPath, Failure> {
    let (s, r) = case.net.flows[0];
    let mut prober = open(namespaces, taps, pace, (s, r))?;
    if pace.trains > 1 {
        prober.segment = case.path_mtu(s, r).get() - HEADERS;
        // Without TSO the kernel segments the data, which still takes one system call instead of many.
        prober.largest = case.hosts[s].stack.tso.unwrap_or(prober.largest).min(prober.largest);
    }
    let mut path = MeasuredPath::default();
    let longest = |l: &LinkSettings| l.delay.max(l.delay_of(LinkDirection::Backward)) + l.jitter.size;
    let delay: Dur = case.links.iter().map(longest).fold(Dur::ZERO, |a, b| a + b);
    // After this time all packets have arrived.
    let waits = topology.interrupt_delay(case, s) + topology.interrupt_delay(case, r);
    let rest = pace.rest + 4 * (delay + waits).as_nanos();
    let mut at = pace.from;
    prober.until(at)?;
    prober.seen();
    round_trip(case, topology, (s, r), &mut prober, &mut path, &mut at)?;
    let train = back_to_back(case, topology, (s, r), &mut prober, &mut path, &mut at, rest)?;
    losses(case, (s, r), &mut prober, &mut path, &mut at, rest)?;
    marks::measure(case, topology, namespaces, &mut prober, &mut path, &mut at, rest)?;
    largest(case, (s, r), &prober, train, &mut path);
    prober.until(at + rest)?;
    prober.seen();
    Ok(path)
}

fn open<'a>(
    namespaces: &mut NetnsSet,
    taps: &'a mut Taps,
    pace: &'a ProbeTiming,
    (s, r): (usize, usize),
) -> Result<Prober<'a>, Failure> {
    let wrong = |e: std::io::Error| format!("a probe: {e}");
    let address =
        |host: usize| SocketAddrV4::new(host_address(u32::try_from(host).expect("few hosts")), DISCARD);
    let mut one = |host: usize, peer: usize| -> Result<OwnedFd, Failure> {
        namespaces.enter(host)?;
        let fd = sys::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0).map_err(wrong)?;
        sys::bind(fd.as_fd(), address(host)).map_err(wrong)?;
        // Only with a connected socket does the kernel increment the IP identification of packets with DF.
        sys::connect(fd.as_fd(), address(peer)).map_err(wrong)?;
        sys::set(fd.as_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO).map_err(wrong)?;
        // ECT(0): where a step marks, it marks the probes.
        sys::set(fd.as_fd(), libc::IPPROTO_IP, libc::IP_TOS, 2).map_err(wrong)?;
        sys::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 64_000_000).map_err(wrong)?;
        // Probes are read at the taps.
        sys::attach_filter(fd.as_fd(), &sys::DROP_ALL).map_err(wrong)?;
        Ok(fd)
    };
    let sockets = [one(s, r)?, one(r, s)?];
    let timer = sys::timer().map_err(wrong)?;
    Ok(Prober {
        pace,
        segment: 0,
        largest: Bytes::new(60_000),
        taps,
        sockets,
        to: [address(r), address(s)],
        timer,
    })
}

/// The smallest one-way time of the probes from host `from` to host `to`.
fn one_way(seen: &[ProbePacket], from: usize, to: usize) -> Option<u64> {
    let ways = seen.iter().filter(|p| p.tap == 2 * to + 1).filter_map(|end| {
        let start = seen.iter().find(|p| p.tap == 2 * from && p.id == end.id && p.len == end.len)?;
        Some(end.at - start.at)
    });
    ways.min()
}

fn round_trip(
    case: &Case,
    topology: &NetnsTopology,
    (s, r): (usize, usize),
    prober: &mut Prober,
    path: &mut MeasuredPath,
    at: &mut u64,
) -> Result<(), Failure> {
    let size = 60;
    // A packet waits for its slot, and slots are as far apart as the case says.
    let slots: u64 = case.links.iter().filter_map(|l| l.slot).map(|(_, longest, _)| longest.as_nanos()).sum();
    let waits = topology.interrupt_delay(case, s) + topology.interrupt_delay(case, r);
    let rest =
        4 * (case.base_rtt(s, r, Bytes::new(1500)) + waits).as_nanos() + 4 * slots + prober.pace.rest / 10;
    let mut ways = [None; 2];
    // Several probes, because one may be lost.
    for _ in 0..8 {
        for (end, (from, to)) in [(s, r), (r, s)].into_iter().enumerate() {
            prober.send(end, size).map_err(|e| format!("a probe: {e}"))?;
            *at += rest;
            prober.until(*at)?;
            let way = one_way(&prober.seen(), from, to);
            ways[end] = match (ways[end], way) {
                (Some(a), Some(b)) => Some(u64::min(a, b)),
                (a, b) => a.or(b),
            };
        }
    }
    let measured = ways[0].zip(ways[1]).map(|(a, b)| a + b);
    // The base round trip comes back as an ACK of 52 bytes; a probe is as long on its way back.
    let longer = case.base_rtt(r, s, Bytes::new(size)) - case.base_rtt(r, s, Bytes::new(52));
    let asked = case.base_rtt(s, r, Bytes::new(size)) + longer + waits;
    path.rows.push(row("path", "rtt", "ns", Some(float(asked.as_nanos())), measured.map(float)));
    let jitter: u64 = case.links.iter().map(|l| l.jitter.size.as_nanos()).sum();
    // Links without a wire are token buckets.
    let slack = 4 * jitter + 2 * slots + prober.pace.round_trip + asked.as_nanos() / 50;
    match measured {
        Some(ns) if ns.abs_diff(asked.as_nanos()) <= slack => {}
        Some(ns) => wrong(path, format!("the round-trip time is {} instead of {asked}", Dur::from_nanos(ns))),
        None if case.links.iter().any(|l| l.loss_model != LossModel::Bernoulli || l.loss >= 0.5) => {}
        None => wrong(path, "no probe arrived"),
    }
    Ok(())
}

/// Measures the rate by trains of full-sized packets that are longer than the burst and the threshold of the queue. Returns true if any
/// packet arrived.
fn back_to_back(
    case: &Case,
    topology: &NetnsTopology,
    (s, r): (usize, usize),
    prober: &mut Prober,
    path: &mut MeasuredPath,
    at: &mut u64,
    rest: u64,
) -> Result<bool, Failure> {
    // A longer probe would be reported by ICMP, and the host would know the path MTU before the run.
    let mtu = case.path_mtu(s, r).get();
    let monitored = &topology.monitored[topology.bottleneck];
    let link = monitored.link;
    let queue = &case.links[link].queue;
    let bucket =
        if monitored.kind == QueueKind::Tbf { monitored.rate.bytes_in(Dur::from_millis(1)).get() } else { 0 };
    let narrowest = narrowest(case, monitored.rate, (s, r));
    let jitter = case.links[link].jitter.size.as_nanos() > 0;
    let offers = (jitter && prober.segment == 0).then(|| offered(narrowest));
    let fastest = offers.map_or_else(|| case.links[link].rate.clone(), LinkRate::Fixed);
    let burst = refilled(queue.burst.map_or(bucket, Bytes::get), monitored.rate, &fastest);
    let step = if queue.mark == Mark::Data { queue.threshold.get() } else { 0 };
    // Jitter delays the first and the last packet by different times, which must be short in comparison with the train.
    let shaken = case.links[link].jitter.size * 10;
    let train = offers.unwrap_or(monitored.rate).bytes_in(prober.pace.train.max(shaken)).get();
    let n = ((burst + 2 * step + train) / mtu + 64).min(if prober.segment == 0 { 900 } else { 20_000 });
    let asked = float(narrowest.bits_per_sec());
    // If a train is longer than the burst of a policer, packets arrive at a rate between that of the policer and that of the path.
    let least =
        float(policed(case, (s, r), n * mtu).map_or(narrowest, |rate| rate.min(narrowest)).bits_per_sec());
    // The rate cannot be computed from the times of packets that are released in slots or by an interrupt.
    let slots = case.links[link].slot.is_some() || !topology.interrupt_delay(case, r).is_zero();
    let slack = if jitter { 0.3 } else { prober.pace.rate };
    let (mut measured, mut offered, mut marked, mut all) = (None::<f64>, 0.0_f64, 0, 0);
    for _ in 0..prober.pace.trains {
        match offers {
            Some(rate) => send_spread(prober, n, mtu, rate)?,
            None => send_train(prober, n, mtu, narrowest)?,
        }
        *at = (*at).max(sys::now()) + rest + narrowest.time_for(Bytes::new(2 * n * mtu)).as_nanos();
        prober.until(*at)?;
        let (sent, arrived): (Vec<ProbePacket>, Vec<ProbePacket>) = prober
            .seen_of_train()
            .into_iter()
            .filter(|p| p.tap == 2 * s || p.tap == 2 * r + 1)
            .partition(|p| p.tap == 2 * s);
        offered = offered.max(train_rate(&sent, 0, mtu, true).unwrap_or(0.0));
        all += arrived.len();
        marked += arrived.iter().filter(|p| p.ce).count();
        let off = |rate: &f64| deviation(*rate, least, asked);
        let rate = train_rate(&arrived, burst, mtu, jitter || prober.pace.trains > 1);
        measured = [measured, rate].into_iter().flatten().min_by(|a, b| off(a).total_cmp(&off(b)));
        if measured.is_none_or(|rate| off(&rate) <= slack) {
            break;
        }
    }
    path.rows.push(row(&monitored.name, "rate", "bit/s", Some(asked), measured));
    if let Some(rate) = measured.filter(|rate| !slots && deviation(*rate, least, asked) > slack) {
        let slow = prober.pace.trains > 1 && offered < asked * (1.0 + slack);
        wrong(
            path,
            if slow {
                format!(
                    "this machine sends at most {:.0} Mbit/s, but the case requires {:.0} Mbit/s",
                    offered / 1e6,
                    asked / 1e6
                )
            } else {
                format!("the rate is {:.3} Mbit/s instead of {:.3}", rate / 1e6, asked / 1e6)
            },
        );
    }
    if queue.mark != Mark::Data && !queue.ecn && marked > 0 {
        wrong(path, format!("{marked} probes were marked although no queue of the case marks"));
    }
    Ok(all > 0)
}

/// The bytes that a token bucket passes at the rate of the link until it is empty: it is refilled meanwhile.
fn refilled(bucket: u64, shaper: Rate, link: &LinkRate) -> u64 {
    let LinkRate::Fixed(link) = link else { return bucket };
    let (shaper, link) = (u128::from(shaper.bits_per_sec()), u128::from(link.bits_per_sec()));
    if link <= shaper {
        return bucket;
    }
    u64::try_from(u128::from(bucket) * link / (link - shaper)).unwrap_or(u64::MAX)
}

/// The relative distance of a rate from a range of rates; 0 inside of it.
fn deviation(rate: f64, least: f64, most: f64) -> f64 {
    (1.0 - rate / least).max(rate / most - 1.0).max(0.0)
}

/// The lowest rate in the direction of the data: of the bottleneck, another link, or the sender's NIC.
fn narrowest(case: &Case, bottleneck: Rate, (s, r): (usize, usize)) -> Rate {
    let links = case.routes.path(&case.net, s, r).unwrap_or_default();
    let rates = links.iter().map(|port| case.link_rate(port.link));
    rates.chain(case.hosts[s].nic.rate).fold(bottleneck, Rate::min)
}

/// The lowest rate of the policers in the direction of the data whose burst is smaller than a train of `train` bytes.
fn policed(case: &Case, (s, r): (usize, usize), train: u64) -> Option<Rate> {
    let links = case.routes.path(&case.net, s, r).unwrap_or_default();
    links
        .iter()
        .filter_map(|port| case.links[port.link].policer)
        .filter(|(_, burst)| burst.get() < train)
        .map(|(rate, _)| rate)
        .min()
}

/// The rate at which a train is sent that is longer than the queue may be. It is above the tolerance of the measured rate, so that the
/// bottleneck is never idle, and a path that is too fast is recognized.
fn offered(narrowest: Rate) -> Rate {
    Rate::from_bits_per_sec(narrowest.bits_per_sec() + narrowest.bits_per_sec() / 2)
}

/// Sends `n` packets of `mtu` bytes at a rate. A train that is sent at once is limited to the packets for which the queue has room; for a
/// short queue that is too short in comparison with jitter.
fn send_spread(prober: &mut Prober, n: u64, mtu: u64, rate: Rate) -> Result<(), Failure> {
    let portion = portion(mtu, rate);
    let begin = sys::now();
    let mut sent = 0;
    while sent < n {
        let now = portion.min(n - sent);
        send_single(prober, now, mtu)?;
        sent += now;
        prober.until(begin + rate.time_for(Bytes::new(sent * mtu)).as_nanos())?;
    }
    Ok(())
}

/// The packets that are sent at once in a train with a rate: two, or those of 20 us, because timers and calls take time.
fn portion(mtu: u64, rate: Rate) -> u64 {
    (rate.bytes_in(Dur::from_micros(20)).get() / mtu).max(2)
}

/// Sends `n` packets of `mtu` bytes, each as a datagram of its own.
fn send_single(prober: &Prober, n: u64, mtu: u64) -> Result<(), Failure> {
    match prober.send_many(n, mtu) {
        // The path MTU is smaller. The measurement then fails because no packets arrive.
        Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => Ok(()),
        sent => sent.map_err(|e| format!("a probe of {mtu} bytes: {e}")),
    }
}

/// Sends `n` packets of `mtu` bytes as fast as possible.
fn send_train(prober: &Prober, n: u64, mtu: u64, rate: Rate) -> Result<(), Failure> {
    let told = |e: std::io::Error| format!("a probe of {mtu} bytes: {e}");
    if prober.segment == 0 {
        return send_single(prober, n, mtu);
    }
    // UDP_SEGMENT (include/uapi/linux/udp.h): one call, many datagrams.
    let socket = prober.sockets[0].as_fd();
    let segment = i32::try_from(prober.segment).expect("a packet");
    sys::set(socket, libc::IPPROTO_UDP, libc::UDP_SEGMENT, segment).map_err(told)?;
    // A super-segment is at most as long as 0.5 ms of the rate, because a shaper passes it as a whole.
    let most = (rate.bytes_in(Dur::from_micros(500)).min(prober.largest).get() / prober.segment).max(1);
    let mut left = n;
    while left > 0 {
        let now = left.min(most);
        prober.send(0, now * prober.segment + HEADERS).map_err(told)?;
        left -= now;
    }
    sys::set(socket, libc::IPPROTO_UDP, libc::UDP_SEGMENT, 0).map_err(told)
}

/// The rate of a train after its first `burst` bytes in bits/s: from the median gap, which is robust against loss, or (`whole`) from the
/// total time, which is robust against jitter. `None` if too few packets arrived.
fn train_rate(arrived: &[ProbePacket], burst: u64, mtu: u64, whole: bool) -> Option<f64> {
    let mut bytes = 0;
    let from = arrived.iter().position(|p| {
        bytes += p.len;
        bytes > burst + 8 * mtu
    })?;
    let late = &arrived[from..];
    if whole {
        let (first, last) = (late.first()?, late.last()?);
        // A shaper delays the packet after the one that it passed, so that the size of the last packet does not count.
        let sum: u64 = late[..late.len() - 1].iter().map(|p| p.len).sum();
        return (last.at > first.at).then(|| float(sum) * 8e9 / float(last.at - first.at));
    }
    let mut gaps: Vec<u64> = late.windows(2).map(|two| two[1].at - two[0].at).collect();
    gaps.sort_unstable();
    (gaps.len() >= 8).then(|| float(mtu) * 8e9 / float(gaps[gaps.len() / 2]).max(1.0))
}

fn losses(
    case: &Case,
    (s, r): (usize, usize),
    prober: &mut Prober,
    path: &mut MeasuredPath,
    at: &mut u64,
    rest: u64,
) -> Result<(), Failure> {
    let Some(link) = case.links.iter().position(|l| l.loss > 0.0 || l.loss_model != LossModel::Bernoulli)
    else {
        return Ok(());
    };
    let settings = &case.links[link];
    let plain = settings.loss_model == LossModel::Bernoulli;
    let p = settings.loss;
    let n: u32 = if plain && p < 0.02 { 5000 } else { 1000 };
    let rate = case.bottleneck_rate(s, r).expect("checked: a path");
    let gap = (2 * rate.time_for(Bytes::new(100)).as_nanos()).max(1000);
    for _ in 0..n {
        prober.send(0, 60).map_err(|e| format!("a probe: {e}"))?;
        *at += gap;
        prober.until(*at)?;
    }
    *at += rest;
    prober.until(*at)?;
    let mut ids: Vec<u16> = prober.seen().iter().filter(|p| p.tap == 2 * r + 1).map(|p| p.id).collect();
    ids.sort_unstable();
    ids.dedup();
    let lost = f64::from(n) - float(ids.len() as u64);
    let name = format!("link.{}", case.net.links[link].name);
    path.rows.push(row(&name, "loss", "share", plain.then_some(p), Some(lost / f64::from(n))));
    // Damaged packets pass the taps. A deviation of five standard deviations happens once in two million runs.
    let expected = p * f64::from(n);
    let slack = 5.0 * (expected * (1.0 - p)).sqrt() + 1.0;
    if plain && settings.loss_correlation == 0.0 && (lost - expected).abs() > slack {
        wrong(path, format!("{lost} of {n} probes were lost instead of {expected:.1}"));
    }
    Ok(())
}

/// Verifies the MTU: a packet of this size passes, and one that is a byte larger than the host's MTU does not leave.
fn largest(case: &Case, (s, r): (usize, usize), prober: &Prober, passed: bool, path: &mut MeasuredPath) {
    let (mtu, own) = (case.path_mtu(s, r).get(), case.hosts[s].mtu.get());
    let more = prober.send(0, own + 1);
    let refused = more.is_err_and(|e| e.raw_os_error() == Some(libc::EMSGSIZE));
    let measured = (passed && refused).then_some(float(mtu));
    path.rows.push(row("path", "mtu", "B", Some(float(mtu)), measured));
    let clear = case.links.iter().all(|l| l.loss_model == LossModel::Bernoulli && l.loss < 0.5);
    if !refused {
        wrong(path, format!("a packet of {} bytes leaves, with an MTU of {own}", own + 1));
    } else if !passed && clear {
        wrong(path, format!("no packet of {mtu} bytes arrives"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::case;
    use tcpassay_case::params::Substrate;

    fn probes(at: &[u64], tap: usize) -> Vec<ProbePacket> {
        at.iter().zip(0..).map(|(&at, id)| ProbePacket { at, tap, id, len: 1500, ce: false }).collect()
    }

    #[test]
    fn the_one_way_time_is_the_smallest_of_the_probes_that_are_seen_at_both_ends() {
        // Host 0 sends at tap 0; what arrives at host 1 is at tap 3. The second probe was lost.
        let mut seen = probes(&[1000, 2000, 3000], 0);
        seen.extend(probes(&[1700, 0, 3500], 3).into_iter().filter(|p| p.at > 0));
        assert_eq!(one_way(&seen, 0, 1), Some(500));
        assert_eq!(one_way(&seen, 1, 0), None);
    }

    #[test]
    fn the_rate_of_a_train_is_that_of_its_median_gap_after_the_burst() {
        // 1500 bytes in 12 us are 1 Gbit/s. The first 10 packets arrive at once, and one gap is ten times as long.
        let mut at: Vec<u64> = vec![0; 10];
        at.extend((1..40).map(|n| if n < 30 { n * 12_000 } else { n * 12_000 + 108_000 }));
        let rate = train_rate(&probes(&at, 3), 0, 1500, false).unwrap();
        assert!((rate - 1e9).abs() < 1.0, "{rate}");
        assert_eq!(train_rate(&probes(&at[..12], 3), 0, 1500, false), None);
    }

    #[test]
    fn the_rate_of_a_whole_train_is_its_bytes_without_the_last_packet_over_its_time() {
        // After the first 8 packets, without a burst: 41 packets at intervals of 12 us on average, with jitter.
        let at: Vec<u64> = (0..50).map(|n| n * 12_000 + if n % 2 == 1 { 5_000 } else { 0 }).collect();
        let rate = train_rate(&probes(&at, 3), 0, 1500, true).unwrap();
        assert!((rate / 1e9 - 1.0).abs() < 0.02, "{rate}");
    }

    #[test]
    fn a_burst_is_refilled_while_it_is_emptied() {
        // 10 kB at 1 Gbit/s with 500 Mbit/s of tokens: 20 kB pass until the bucket is empty.
        let link = LinkRate::Fixed(Rate::from_gbit(1));
        assert_eq!(refilled(10_000, Rate::from_mbit(500), &link), 20_000);
        // A shaper that is not slower than the link never empties its bucket.
        assert_eq!(refilled(10_000, Rate::from_gbit(1), &link), 10_000);
    }

    #[test]
    fn a_rate_in_the_range_has_no_deviation_and_one_outside_a_relative_one() {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(deviation(75.0, 50.0, 100.0), 0.0));
        assert!(close(deviation(40.0, 50.0, 100.0), 0.2));
        assert!(close(deviation(110.0, 50.0, 100.0), 0.1));
    }

    #[test]
    fn a_train_on_a_path_with_jitter_is_offered_above_the_tolerance_in_portions_of_at_least_two_packets() {
        assert_eq!(offered(Rate::from_mbit(100)), Rate::from_mbit(150));
        assert_eq!(portion(1500, Rate::from_mbit(150)), 2);
        // 20 us at 15 Gbit/s are 37,500 bytes.
        assert_eq!(portion(1500, Rate::from_gbit(15)), 25);
    }

    #[test]
    fn the_slowest_of_links_nic_and_bottleneck_limits_a_train() {
        let case = case(Substrate::Kernel, &[("link.rate", "1Gbit"), ("nic.rate", "300Mbit")]);
        assert_eq!(narrowest(&case, Rate::from_gbit(1), (0, 1)), Rate::from_mbit(300));
        assert_eq!(narrowest(&case, Rate::from_mbit(100), (0, 1)), Rate::from_mbit(100));
    }

    #[test]
    fn a_policer_limits_trains_that_are_longer_than_its_burst() {
        let case = case(Substrate::Kernel, &[("link.policer", "500Mbit,100KB")]);
        assert_eq!(policed(&case, (0, 1), 100_001), Some(Rate::from_mbit(500)));
        assert_eq!(policed(&case, (0, 1), 100_000), None);
    }
}
