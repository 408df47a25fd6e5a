//! The path between the machines of a testbed, measured before the traffic of each run.
//!
//! Each host of the case answers datagrams, as the echo service (RFC 862); the answer is marked, so that two hosts do not answer the answers of each other. A host that sends data sends full-sized datagrams, which must not
//! be fragmented, to each host that it sends data to. The shortest round trip counts.

use crate::netns::build::NetnsSet;
use crate::netns::topology::NetnsTopology;
use crate::system::Failure;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tcpassay_case::Case;
use tcpassay_case::params::grammar::LossModel;
use tcpassay_linux::sys;
use tcpassay_measure::pcapng::host_address;
use tcpassay_messages::ProbedPath;
use tcpassay_units::Bytes;

const ECHO: u16 = 7;
/// IP and UDP headers.
const HEADERS: u64 = 28;
/// The index of the byte that distinguishes a probe from its answer, and its values.
const KIND: usize = 8;
const REQUEST: u8 = 0;
const ANSWER: u8 = 1;
/// After this number of probes without an answer, no answer is expected on a path.
const PROBES: u64 = 8;
/// The number of answers that suffice.
const ANSWERS: usize = 4;
/// A path whose answers took this time together is not probed further, in nanoseconds.
const ENOUGH: u64 = 50_000_000;
/// The longest time to wait for an answer in addition to four round trips, in milliseconds. A busy machine answers late.
const PATIENCE: u64 = 500;

/// A pair of hosts whose sender is on this machine.
struct Pair {
    from: usize,
    to: usize,
    /// The size of a packet with its headers.
    size: u64,
    /// The round-trip time of the case in nanoseconds, 0 if it is not defined.
    rtt: u64,
    /// The case has losses, so that all probes may remain unanswered.
    lossy: bool,
}

/// The sockets of this machine for probes and their answers.
pub struct PathProber {
    /// For each host of this machine.
    sockets: Vec<(usize, OwnedFd)>,
    pairs: Vec<Pair>,
    poll: OwnedFd,
}

impl PathProber {
    /// Opens a socket for each host of this machine. `watched` is a descriptor that [`PathProber::wait`] waits for, too.
    pub fn open(
        case: &Case,
        topology: &NetnsTopology,
        namespaces: &mut NetnsSet,
        watched: BorrowedFd,
    ) -> Result<PathProber, Failure> {
        let wrong = |e: io::Error| format!("a probe of the path: {e}");
        let poll = sys::epoll().map_err(wrong)?;
        sys::watch(poll.as_fd(), watched, libc::EPOLLIN, 0).map_err(wrong)?;
        let mut sockets = Vec::new();
        for host in (0..case.hosts.len()).filter(|host| topology.has_host(*host)) {
            namespaces.enter(host)?;
            let socket =
                sys::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0).map_err(wrong)?;
            sys::bind(socket.as_fd(), address(host)).map_err(wrong)?;
            sys::set(socket.as_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
                .map_err(wrong)?;
            sys::watch(poll.as_fd(), socket.as_fd(), libc::EPOLLIN, 1).map_err(wrong)?;
            sockets.push((host, socket));
        }
        let lossy = case.links.iter().any(|link| link.loss_model != LossModel::Bernoulli || link.loss >= 0.5);
        let mut pairs: Vec<Pair> = Vec::new();
        for &(from, to) in case.net.flows.iter().filter(|(from, _)| topology.has_host(*from)) {
            if pairs.iter().any(|pair| (pair.from, pair.to) == (from, to)) {
                continue;
            }
            let size = case.hosts[from].mtu.min(case.hosts[to].mtu).get();
            let ways =
                [(from, to), (to, from)].map(|(a, b)| case.base_rtt(a, b, Bytes::new(size)).as_nanos());
            pairs.push(Pair { from, to, size, rtt: u64::midpoint(ways[0], ways[1]), lossy });
        }
        Ok(PathProber { sockets, pairs, poll })
    }

    /// Waits until the watched descriptor or a datagram can be read, and answers datagrams. Returns false after `milliseconds`.
    pub fn wait(&self, watched: BorrowedFd, milliseconds: i32) -> io::Result<bool> {
        loop {
            if !sys::wait_readable(self.poll.as_fd(), milliseconds)? {
                return Ok(false);
            }
            if sys::wait_readable(watched, 0)? {
                return Ok(true);
            }
            self.answer();
        }
    }

    /// Sends each datagram back to where it came from.
    fn answer(&self) {
        let mut buffer = vec![0; 65_536];
        for (_, socket) in &self.sockets {
            while let Ok((len, from)) = sys::receive_from(socket.as_fd(), &mut buffer) {
                send_back(socket, &mut buffer[..len], from);
            }
        }
    }

    /// Measures the paths of the hosts of this machine that send data. `names`: the machine of each host.
    pub fn measure(&self, names: &[String]) -> Result<Vec<ProbedPath>, Failure> {
        self.pairs.iter().map(|pair| self.probe(pair, names)).collect()
    }

    fn probe(&self, pair: &Pair, names: &[String]) -> Result<ProbedPath, Failure> {
        let wrong = |e: io::Error| format!("a probe of the path to `{}`: {e}", names[pair.to]);
        let (_, socket) =
            self.sockets.iter().find(|(host, _)| *host == pair.from).expect("a host of this machine");
        let mut payload = vec![0; usize::try_from(pair.size - HEADERS).expect("a packet")];
        let (mut sent, mut times) = (Vec::new(), Vec::new());
        let mut buffer = vec![0; 65_536];
        let begun = sys::monotonic();
        for number in 0..PROBES {
            payload[..8].copy_from_slice(&number.to_le_bytes());
            sent.push(sys::monotonic());
            match sys::send_to(socket.as_fd(), &payload, address(pair.to)) {
                Ok(_) => {}
                // The path takes smaller packets only.
                Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => break,
                Err(e) => return Err(wrong(e)),
            }
            let patience = i32::try_from(4 * pair.rtt / 1_000_000 + PATIENCE).unwrap_or(i32::MAX);
            if !sys::wait_readable(socket.as_fd(), patience).map_err(wrong)? {
                continue;
            }
            while let Ok((len, from)) = sys::receive_from(socket.as_fd(), &mut buffer) {
                let now = sys::monotonic();
                // Only answers count; a probe of another host is answered.
                if send_back(socket, &mut buffer[..len], from) {
                    continue;
                }
                if len == payload.len() && from == address(pair.to) {
                    times.extend(round_trip(&buffer[..len], &sent, now));
                }
            }
            if times.len() >= ANSWERS || (!times.is_empty() && sys::monotonic() - begun > ENOUGH) {
                break;
            }
        }
        Ok(ProbedPath {
            sender: names[pair.from].clone(),
            receiver: names[pair.to].clone(),
            size: pair.size,
            asked: pair.rtt,
            measured: times.into_iter().min(),
            lossy: pair.lossy,
        })
    }
}

/// The round-trip time of the probe that an answer repeats; `None` if no such probe was sent. `sent` has the times of the probes.
fn round_trip(answer: &[u8], sent: &[u64], now: u64) -> Option<u64> {
    let number = u64::from_le_bytes(answer.get(..8)?.try_into().expect("8 bytes"));
    sent.get(usize::try_from(number).ok()?).map(|at| now - at)
}

/// Sends a probe back to where it came from. Returns false for an answer.
fn send_back(socket: &OwnedFd, datagram: &mut [u8], from: SocketAddrV4) -> bool {
    match datagram.get_mut(KIND) {
        Some(kind) if *kind == REQUEST => *kind = ANSWER,
        _ => return false,
    }
    // A lost answer is repeated by the next probe.
    let _ = sys::send_to(socket.as_fd(), datagram, from);
    true
}

/// The address at which a host answers.
fn address(host: usize) -> SocketAddrV4 {
    SocketAddrV4::new(host_address(u32::try_from(host).expect("few hosts")), ECHO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn udp() -> OwnedFd {
        let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
        sys::bind(socket.as_fd(), SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket
    }

    #[test]
    fn a_probe_is_answered_once_with_its_content_and_an_answer_is_not() {
        let (here, there) = (udp(), udp());
        let [from, to] = [&here, &there].map(|socket| sys::local_address(socket.as_fd()).unwrap());
        let mut probe = [7, 0, 0, 0, 0, 0, 0, 0, REQUEST, 1, 2];
        assert!(send_back(&here, &mut probe, to));
        let mut buffer = [0; 100];
        assert!(sys::wait_readable(there.as_fd(), 600_000).unwrap());
        assert_eq!(sys::receive_from(there.as_fd(), &mut buffer).unwrap(), (11, from));
        assert_eq!(buffer[..11], [7, 0, 0, 0, 0, 0, 0, 0, ANSWER, 1, 2]);
        assert!(!send_back(&there, &mut buffer[..11], from));
        assert!(!send_back(&there, &mut buffer[..8], from), "shorter than the byte that marks a probe");
        assert!(!sys::wait_readable(here.as_fd(), 0).unwrap());
    }

    #[test]
    fn an_answer_is_matched_to_its_probe_by_number() {
        let sent = [1000, 2000];
        assert_eq!(round_trip(&[1, 0, 0, 0, 0, 0, 0, 0, ANSWER], &sent, 2750), Some(750));
        assert_eq!(round_trip(&[2, 0, 0, 0, 0, 0, 0, 0, ANSWER], &sent, 2750), None);
        assert_eq!(round_trip(&[0xff; 9], &sent, 2750), None);
        assert_eq!(round_trip(&[0; 7], &sent, 2750), None);
    }

    #[test]
    fn hosts_answer_at_the_echo_port_of_their_address() {
        assert_eq!(address(0).port(), 7);
        assert_ne!(address(0).ip(), address(1).ip());
    }
}
