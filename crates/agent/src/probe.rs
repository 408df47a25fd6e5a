//! What the path is, measured before traffic: round-trip time, rate, loss, marks and the largest packet, of the first pair of hosts.
//!
//! Datagrams to the discard port, watched at the taps: alone for the round trip, back to back for the rate and the marks,
//! spaced out for the loss. A number that is not what the case asked for stops the case.

use crate::lab::Lab;
use crate::setup::{Failure, Spaces};
use crate::sys;
use crate::tap::Taps;
use std::fmt::Display;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};
use tcpassay_measure::Environment;
use tcpassay_measure::pcapng::host_address;
use tcpassay_sim::case::{Case, Mark};
use tcpassay_sim::params::grammar::LossModel;
use tcpassay_units::{Bytes, Dur};
use tcpassay_wire::Ecn;
use tcpassay_wire::codec::Content;

const DISCARD: u16 = 9;
/// IP and UDP headers.
const HEADERS: u64 = 28;
const SECOND: u64 = 1_000_000_000;

/// What was measured.
pub struct Path {
    /// Rows of the recording.
    pub rows: Vec<Environment>,
    /// In what it is not the path that was asked for.
    pub wrong: Option<String>,
}

/// A datagram at a tap.
struct Probe {
    at: u64,
    tap: usize,
    id: u16,
    len: u64,
    ce: bool,
}

struct Prober<'a> {
    taps: &'a mut Taps,
    sockets: [OwnedFd; 2],
    to: [SocketAddrV4; 2],
    poll: OwnedFd,
    timer: OwnedFd,
}

impl Prober<'_> {
    /// Sleeps until an instant of the kernel's clock.
    fn until(&mut self, at: u64) -> Result<(), Failure> {
        let wrong = |e: std::io::Error| format!("a timer: {e}");
        sys::set_timer(self.timer.as_fd(), at).map_err(wrong)?;
        let mut events = Vec::new();
        while sys::now() < at {
            sys::wait(self.poll.as_fd(), &mut events).map_err(wrong)?;
        }
        Ok(())
    }

    /// Sends a datagram of `len` bytes of IP from one end: 0 is the sender.
    fn send(&self, end: usize, len: u64) -> std::io::Result<usize> {
        let payload = vec![0; usize::try_from(len - HEADERS).expect("a packet")];
        sys::send_to(self.sockets[end].as_fd(), &payload, self.to[end])
    }

    /// What has passed the taps.
    fn seen(&mut self) -> Vec<Probe> {
        let mut all = Vec::new();
        self.taps.drain(|seen| {
            if matches!(seen.packet.content, Content::Udp { .. }) && seen.packet.envelope.to.port() == DISCARD
            {
                let e = &seen.packet.envelope;
                let len = u64::from(seen.len);
                all.push(Probe { at: seen.at, tap: seen.tap, id: e.id, len, ce: e.ecn == Ecn::Ce });
            }
        });
        // What the other end was sent is of no use to anybody.
        let mut waste = [0; 16_384];
        for socket in &self.sockets {
            while sys::receive(socket.as_fd(), &mut waste).is_ok() {}
        }
        all
    }
}

fn row(entity: &str, property: &str, unit: &str, asked: Option<f64>, measured: Option<f64>) -> Environment {
    let (entity, property, unit) = (entity.to_owned(), property.to_owned(), unit.to_owned());
    Environment { entity, property, unit, asked, measured }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds and bits a second below 2^53")]
fn float(n: u64) -> f64 {
    n as f64
}

/// Measures the path of the first flow group from the instant `at` on.
pub fn measure(
    case: &Case,
    lab: &Lab,
    spaces: &mut Spaces,
    taps: &mut Taps,
    at: u64,
) -> Result<Path, Failure> {
    let (s, r) = case.net.flows[0];
    let mut prober = open(spaces, taps, (s, r))?;
    let mut path = Path { rows: Vec::new(), wrong: None };
    let delay: Dur = case.links.iter().map(|l| l.delay + l.jitter.size).fold(Dur::ZERO, |a, b| a + b);
    // Long enough for everything to have arrived.
    let rest = SECOND + 4 * delay.as_nanos();
    let mut at = at;
    prober.until(at)?;
    prober.seen();
    round_trip(case, (s, r), &mut prober, &mut path, &mut at)?;
    let train = back_to_back(case, lab, (s, r), &mut prober, &mut path, &mut at, rest)?;
    losses(case, (s, r), &mut prober, &mut path, &mut at, rest)?;
    largest(case, s, &prober, train, &mut path);
    prober.until(at + rest)?;
    prober.seen();
    Ok(path)
}

fn open<'a>(spaces: &mut Spaces, taps: &'a mut Taps, (s, r): (usize, usize)) -> Result<Prober<'a>, Failure> {
    let wrong = |e: std::io::Error| format!("a probe: {e}");
    let address =
        |host: usize| SocketAddrV4::new(host_address(u32::try_from(host).expect("few hosts")), DISCARD);
    let mut one = |host: usize, peer: usize| -> Result<OwnedFd, Failure> {
        spaces.enter(host)?;
        let fd = sys::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0).map_err(wrong)?;
        sys::bind(fd.as_fd(), address(host)).map_err(wrong)?;
        // Only a connected socket counts up the IP identification of packets that must not be cut.
        sys::connect(fd.as_fd(), address(peer)).map_err(wrong)?;
        sys::set(fd.as_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO).map_err(wrong)?;
        // ECT(0): where a step marks, it marks the probes.
        sys::set(fd.as_fd(), libc::IPPROTO_IP, libc::IP_TOS, 2).map_err(wrong)?;
        sys::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 64_000_000).map_err(wrong)?;
        Ok(fd)
    };
    let sockets = [one(s, r)?, one(r, s)?];
    let (poll, timer) = (sys::poll().map_err(wrong)?, sys::timer().map_err(wrong)?);
    sys::watch(poll.as_fd(), timer.as_fd(), libc::EPOLLIN | libc::EPOLLET, 0).map_err(wrong)?;
    Ok(Prober { taps, sockets, to: [address(r), address(s)], poll, timer })
}

/// The way of a probe: when it left host `from` and reached `to`.
fn one_way(seen: &[Probe], from: usize, to: usize) -> Option<u64> {
    let ways = seen.iter().filter(|p| p.tap == 2 * to + 1).filter_map(|end| {
        let start = seen.iter().find(|p| p.tap == 2 * from && p.id == end.id && p.len == end.len)?;
        Some(end.at - start.at)
    });
    ways.min()
}

fn round_trip(
    case: &Case,
    (s, r): (usize, usize),
    prober: &mut Prober,
    path: &mut Path,
    at: &mut u64,
) -> Result<(), Failure> {
    let size = 60;
    let rest = 4 * case.base_rtt(s, r, Bytes::new(1500)).as_nanos() + 100_000_000;
    let mut ways = [None; 2];
    // More than one, should one be lost.
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
    let asked = case.base_rtt(s, r, Bytes::new(size));
    path.rows.push(row("path", "rtt", "ns", Some(float(asked.as_nanos())), measured.map(float)));
    let jitter: u64 = case.links.iter().map(|l| l.jitter.size.as_nanos()).sum();
    // Serialisation of an ACK is of 52 bytes, that of a probe of 60; links that only serialise are shapers.
    let slack = 4 * jitter + 2_000 + asked.as_nanos() / 50;
    match measured {
        Some(ns) if ns.abs_diff(asked.as_nanos()) <= slack => {}
        Some(ns) => wrong(path, format!("the round-trip time is {} instead of {asked}", Dur::from_nanos(ns))),
        None if case.links.iter().any(|l| l.loss_model != LossModel::Bernoulli || l.loss >= 0.5) => {}
        None => wrong(path, "no probe came through"),
    }
    Ok(())
}

fn wrong(path: &mut Path, why: impl Display) {
    path.wrong.get_or_insert_with(|| format!("the path is not what was asked: {why}"));
}

/// A train of full packets, longer than a bucket and a threshold; returns whether any arrived.
fn back_to_back(
    case: &Case,
    lab: &Lab,
    (s, r): (usize, usize),
    prober: &mut Prober,
    path: &mut Path,
    at: &mut u64,
    rest: u64,
) -> Result<bool, Failure> {
    let mtu = case.hosts[s].mtu.get();
    let watched = &lab.watched[lab.bottleneck];
    let link = case.net.links.iter().position(|l| l.main).expect("a topology has a bottleneck");
    let queue = &case.links[link].queue;
    let bucket = if watched.kind == "tbf" { watched.rate.bytes_in(Dur::from_millis(1)).get() } else { 0 };
    let burst = queue.burst.map_or(bucket, Bytes::get);
    let step = if queue.mark == Mark::Data { queue.threshold.get() } else { 0 };
    let n = ((burst + 2 * step) / mtu + 64).min(900);
    for _ in 0..n {
        prober.send(0, mtu).map_err(|e| format!("a probe of {mtu} bytes: {e}"))?;
    }
    *at += rest + watched.rate.time_for(Bytes::new(2 * n * mtu)).as_nanos();
    prober.until(*at)?;
    let arrived: Vec<Probe> = prober.seen().into_iter().filter(|p| p.tap == 2 * r + 1).collect();
    let from = usize::try_from(burst / mtu + 8).expect("few probes");
    let late = arrived.get(from..).unwrap_or_default();
    let mut gaps: Vec<u64> = late.windows(2).map(|two| two[1].at - two[0].at).collect();
    gaps.sort_unstable();
    // The median does not see what was lost; the mean rides over jitter.
    let jitter = case.links[link].jitter.size.as_nanos() > 0;
    let gap = match (gaps.len(), jitter) {
        (0..8, _) => None,
        (n, false) => Some(float(gaps[n / 2])),
        (n, true) => Some(float(gaps.iter().sum()) / float(n as u64)),
    };
    let measured = gap.map(|ns| float(mtu) * 8e9 / ns.max(1.0));
    let asked = float(watched.rate.bits_per_sec());
    path.rows.push(row(&watched.name, "rate", "bit/s", Some(asked), measured));
    let slack = if jitter { 0.3 } else { 0.02 };
    if let Some(rate) = measured.filter(|rate| (rate / asked - 1.0).abs() > slack) {
        wrong(path, format!("the rate is {:.3} Mbit/s instead of {:.3}", rate / 1e6, asked / 1e6));
    }
    let ce = arrived.iter().filter(|p| p.ce).count() as u64;
    let share = (!arrived.is_empty()).then(|| float(ce) / float(arrived.len() as u64));
    path.rows.push(row(&watched.name, "marks", "share", None, share));
    let marks = queue.mark == Mark::Data;
    if marks && ce == 0 && arrived.len() as u64 * mtu > 2 * step {
        wrong(path, format!("nothing was marked, with {} above a threshold of {step} B", arrived.len()));
    } else if !marks && !queue.ecn && ce > 0 {
        wrong(path, format!("{ce} probes were marked where nothing marks"));
    }
    Ok(!arrived.is_empty())
}

fn losses(
    case: &Case,
    (s, r): (usize, usize),
    prober: &mut Prober,
    path: &mut Path,
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
    // Damaged packets pass the taps. Five standard deviations: once in two million runs.
    let expected = p * f64::from(n);
    let slack = 5.0 * (expected * (1.0 - p)).sqrt() + 1.0;
    if plain && settings.loss_correlation == 0.0 && (lost - expected).abs() > slack {
        wrong(path, format!("{lost} of {n} probes were lost instead of {expected:.1}"));
    }
    Ok(())
}

/// The largest packet: one of the MTU passes and a byte more does not.
fn largest(case: &Case, s: usize, prober: &Prober, passed: bool, path: &mut Path) {
    let mtu = case.hosts[s].mtu.get();
    let more = prober.send(0, mtu + 1);
    let refused = more.is_err_and(|e| e.raw_os_error() == Some(libc::EMSGSIZE));
    let measured = (passed && refused).then_some(float(mtu));
    path.rows.push(row("path", "mtu", "B", Some(float(mtu)), measured));
    if !refused {
        wrong(path, format!("a packet of {} bytes leaves, with an MTU of {mtu}", mtu + 1));
    }
}
