//! Carries the packets of one direction through a namespace in which [`faults`](crate::netns::impairments) happen to them.
//!
//! What arrives at one device is dropped by the kernel (`matchall` on `clsact`) after a packet socket has taken a copy, and what the
//! faults let go on is sent by another packet socket from the other device. A thread does this, for which no virtual time
//! passes; nothing else of the path is touched. Frames travel with the header of `PACKET_VNET_HDR`, which keeps checksums that are
//! yet to be computed as they are.
//!
//! Probes of the path meet the faults that they expect, which draw from a seed of their own; the run begins with new ones.

use crate::netns::build::{self, NetnsSet};
use crate::netns::impairments::{Corruptible, ImpairmentCounts, Impairments, PacketSummary};
use crate::netns::topology::{NetnsTopology, RelayedDirection};
use crate::system::Failure;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use tcpassay_case::Case;
use tcpassay_linux::sys;
use tcpassay_units::Seed;

/// `PACKET_VNET_HDR` (`include/uapi/linux/if_packet.h`), and the length of `struct virtio_net_hdr`.
const VNET_HDR: i32 = 15;
const VNET: usize = 10;
/// An Ethernet header.
const LINK: usize = 14;
/// A frame of the largest MTU with its headers.
const LONGEST: usize = 66_000;
const STACK: usize = 64 << 10;
const BUFFER: i32 = 256 << 20;

/// Mixed into the seed for the probes, so that they meet losses other than the run's first.
const PROBES: u64 = 0x7072_6f62_6573;

/// A frame with its `struct virtio_net_hdr`.
#[derive(Clone)]
struct Frame(Vec<u8>);

impl Corruptible for Frame {
    /// Flips a bit of the last byte. Without flags the receiver neither completes nor trusts the checksum, and finds it wrong.
    fn damage(&mut self) {
        self.0[0] = 0;
        if let Some(last) = self.0.last_mut() {
            *last ^= 1;
        }
    }
}

/// A direction of a link that is relayed.
struct Relay {
    link: usize,
    forward: bool,
    faults: Arc<Mutex<Impairments<Frame>>>,
}

/// Directions that are relayed.
#[derive(Default)]
pub struct RelaySet(Vec<Relay>);

impl RelaySet {
    /// Starts those of a topology, with the faults that probes meet.
    pub fn start(
        case: &Case,
        topology: &NetnsTopology,
        namespaces: &mut NetnsSet,
        seed: Seed,
    ) -> Result<RelaySet, Failure> {
        let mut all = RelaySet::default();
        for RelayedDirection { link, from, to, forward } in &topology.relayed {
            let Some(faults) = faults(case, *link, *forward, Seed(seed.0 ^ PROBES), true) else { continue };
            let [from, to] = [&topology.devices[*from], &topology.devices[*to]];
            namespaces.enter(from.netns)?;
            let wrong = |e: io::Error| format!("a relay from {} to {}: {e}", from.name, to.name);
            let input = socket().and_then(|s| listen(&s, &from.name).map(|()| s)).map_err(wrong)?;
            let output = socket().and_then(|s| speak(&s, &to.name).map(|()| s)).map_err(wrong)?;
            let lines = [
                format!("qdisc add dev {} clsact", from.name),
                format!("filter add dev {} ingress matchall action drop", from.name),
            ];
            build::batch("tc", &lines)?;
            let faults = Arc::new(Mutex::new(faults));
            all.0.push(Relay { link: *link, forward: *forward, faults: Arc::clone(&faults) });
            let carrying = move || {
                if let Err(e) = carry(&input, &output, &faults) {
                    eprintln!("a relay ended: {e}");
                }
            };
            Builder::new().stack_size(STACK).spawn(carrying).map_err(wrong)?;
        }
        Ok(all)
    }

    /// The path has been probed, and nothing is on its way: the faults of the run begin.
    pub fn begin(&self, case: &Case, seed: Seed) {
        for relay in &self.0 {
            let new =
                faults(case, relay.link, relay.forward, seed, false).expect("there were some for probes");
            *relay.faults.lock().expect("nobody panics with it") = new;
        }
    }

    /// What all of them did; `None` when there are none.
    pub fn done(&self) -> Option<ImpairmentCounts> {
        let all = self.0.iter().map(|relay| relay.faults.lock().expect("nobody panics with it").done());
        all.reduce(|a, b| ImpairmentCounts {
            lost: a.lost + b.lost,
            damaged: a.damaged + b.damaged,
            duplicated: a.duplicated + b.duplicated,
            thinned: a.thinned + b.thinned,
            held: a.held + b.held,
        })
    }
}

fn faults(case: &Case, link: usize, forward: bool, seed: Seed, probing: bool) -> Option<Impairments<Frame>> {
    let (settings, name) = (&case.links[link], &case.net.links[link].name);
    if !forward {
        return Impairments::backward(settings, name, seed, probing);
    }
    let mtu = case.hosts.iter().map(|h| h.mtu).max().expect("hosts");
    Impairments::forward(settings, name, (case.link_rate(link), mtu), seed, probing)
}

fn socket() -> io::Result<OwnedFd> {
    let socket = sys::socket(libc::AF_PACKET, libc::SOCK_RAW, 0)?;
    sys::set(socket.as_fd(), libc::SOL_PACKET, VNET_HDR, 1)?;
    Ok(socket)
}

fn listen(socket: &OwnedFd, device: &str) -> io::Result<()> {
    sys::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER)?;
    sys::ignore_outgoing(socket.as_fd())?;
    sys::bind_packet(socket.as_fd(), sys::interface_index(device)?)
}

fn speak(socket: &OwnedFd, device: &str) -> io::Result<()> {
    sys::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER)?;
    sys::bind_packet_to_send(socket.as_fd(), sys::interface_index(device)?)
}

/// Carries packets until a socket fails.
fn carry(input: &OwnedFd, output: &OwnedFd, faults: &Mutex<Impairments<Frame>>) -> io::Result<()> {
    let (poll, timer) = (sys::poll()?, sys::timer()?);
    sys::watch(poll.as_fd(), input.as_fd(), libc::EPOLLIN, 0)?;
    sys::watch(poll.as_fd(), timer.as_fd(), libc::EPOLLIN | libc::EPOLLET, 1)?;
    let (mut events, mut out, mut armed) = (Vec::new(), Vec::new(), None);
    let mut buffer = vec![0; LONGEST];
    loop {
        sys::wait(poll.as_fd(), &mut events)?;
        let mut faults = faults.lock().expect("nobody panics with it");
        let now = if faults.holds() { sys::now() } else { 0 };
        // What is due goes before what has just come, as in the model, where its event is the older one.
        faults.release(now, &mut out);
        if events.iter().any(|(token, _)| *token == 0) {
            let n = sys::receive(input.as_fd(), &mut buffer)?;
            let frame = &buffer[..n];
            let sort = PacketSummary::of(frame.get(VNET + LINK..).unwrap_or_default());
            faults.take(now, sort, Frame(frame.to_vec()), &mut out);
        }
        for frame in out.drain(..) {
            sys::send(output.as_fd(), &frame.0)?;
        }
        if faults.due() != armed {
            armed = faults.due();
            // A timer at 0 is none.
            sys::set_timer(timer.as_fd(), armed.unwrap_or(0))?;
        }
    }
}
