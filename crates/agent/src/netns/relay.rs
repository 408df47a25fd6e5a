//! Relays the packets of one direction of a link through a namespace, and applies the [`impairments`](crate::netns::impairments) of the link.
//!
//! A packet socket receives a copy of each packet that arrives at one device; a filter (`matchall` on `clsact`) then drops the packet.
//! A thread applies the impairments and sends the remaining packets from the other device by a second packet socket. No virtual time
//! passes meanwhile. Frames have the header of `PACKET_VNET_HDR`, so that the kernel can still complete their checksums.
//!
//! Frames are sent from a ring, with only their headers in the linear part of the packet (`tpacket_fill_skb`). Such a packet uses as much
//! memory at its receiver as a packet that TCP sent, and can be merged with others. A packet that send(2) makes is linear: it uses up
//! to twice as much memory, and is never merged.
//!
//! The probes of the path are also impaired, with a separate seed. The run begins with new impairments.

use crate::netns::build::{self, NetnsSet};
use crate::netns::impairments::{Corruptible, ImpairmentCounts, Impairments, PacketSummary};
use crate::netns::middlebox::Middlebox;
use crate::netns::topology::{NetnsTopology, RelayedDirection};
use crate::system::Failure;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use tcpassay_case::Case;
use tcpassay_linux::ring::{Ring, packet_send_ring};
use tcpassay_linux::sys;
use tcpassay_units::Seed;

/// `PACKET_VNET_HDR` (`include/uapi/linux/if_packet.h`).
const VNET_HDR: i32 = 15;
/// Bytes of `struct virtio_net_hdr`.
pub const VNET: usize = 10;
/// Bytes of an Ethernet header.
pub const LINK: usize = 14;
/// Bytes of a frame of the largest MTU with its headers.
pub const LONGEST: usize = 66_000;
/// Slots of a ring. A slot is free again when its packet has reached the next namespace.
const SLOTS: u32 = 256;
/// Bytes of a page.
const PAGE: u32 = 4096;
/// Offset of the status in a slot (`struct tpacket2_hdr`).
const STATUS: usize = 0;
/// Offset of the length in a slot.
const LENGTH: usize = 4;
/// Offset of the frame in a slot.
const BYTES: usize = 32;
/// `TP_STATUS_AVAILABLE`
const AVAILABLE: u32 = 0;
/// `TP_STATUS_SEND_REQUEST`
const SEND: u32 = 1;
/// The bits of the status that say that the slot is used or that its frame was refused.
const USED: u32 = 7;
/// The stack of a thread in bytes.
pub const STACK: usize = 64 << 10;
/// The send and receive buffers of a packet socket in bytes.
const BUFFER: i32 = 256 << 20;

/// Changes the seed for the probes, so that the losses of the run do not begin as those of the probes.
const PROBES: u64 = 0x7072_6f62_6573;

/// A frame with its `struct virtio_net_hdr`.
#[derive(Clone)]
struct Frame(Vec<u8>);

impl Corruptible for Frame {
    /// Flips a bit of the last byte, and clears the flags of `struct virtio_net_hdr`: the receiver then verifies the checksum, and finds
    /// it wrong.
    fn damage(&mut self) {
        self.0[0] = 0;
        if let Some(last) = self.0.last_mut() {
            *last ^= 1;
        }
    }
}

/// Sends frames from the ring of a packet socket.
pub struct SendRing {
    ring: Ring,
    /// Bytes of a slot.
    slot: usize,
    next: usize,
}

impl SendRing {
    /// A ring for packets of up to `mtu` bytes.
    fn new(socket: OwnedFd, mtu: u64) -> io::Result<SendRing> {
        let longest = BYTES + VNET + LINK + usize::try_from(mtu).expect("the MTU of a device");
        let slot = u32::try_from(longest).expect("the MTU of a device").next_multiple_of(PAGE);
        let ring = packet_send_ring(socket, slot, SLOTS, slot)?;
        Ok(SendRing { ring, slot: slot as usize, next: 0 })
    }

    /// Sends a frame with its `struct virtio_net_hdr`, of which the length of the headers is set.
    pub fn send(&mut self, frame: &mut [u8]) -> io::Result<()> {
        let at = self.next * self.slot;
        if self.ring.read(at + STATUS) & USED != AVAILABLE {
            return Err(io::Error::other("no slot of the ring is free"));
        }
        let headers = header_bytes(&frame[VNET..]).to_ne_bytes();
        // `hdr_len` of `struct virtio_net_hdr`
        frame[2..4].copy_from_slice(&headers);
        self.ring.fill(at + BYTES, frame);
        self.ring.write(at + LENGTH, u32::try_from(frame.len()).expect("the length of a frame"));
        self.ring.write(at + STATUS, SEND);
        sys::send(self.ring.socket().as_fd(), &[])?;
        self.next = (self.next + 1) % SLOTS as usize;
        Ok(())
    }
}

/// Bytes of the headers of a frame, up to the payload of TCP or UDP.
fn header_bytes(frame: &[u8]) -> u16 {
    let ip = frame.get(LINK..).unwrap_or_default();
    let network = 4 * usize::from(ip.first().copied().unwrap_or_default() & 15);
    let transport = match ip.get(9) {
        Some(6) => 4 * usize::from(ip.get(network + 12).copied().unwrap_or_default() >> 4),
        Some(17) => 8,
        _ => 0,
    };
    u16::try_from((LINK + network + transport).min(frame.len())).expect("headers are short")
}

/// The relay of one direction of a link.
struct Relay {
    link: usize,
    forward: bool,
    faults: Arc<Mutex<Impairments<Frame>>>,
}

/// All relays of a topology.
#[derive(Default)]
pub struct RelaySet(Vec<Relay>);

impl RelaySet {
    /// Starts the relays of a topology, with the impairments for probes.
    pub fn start(
        case: &Case,
        topology: &NetnsTopology,
        namespaces: &mut NetnsSet,
        seed: Seed,
    ) -> Result<RelaySet, Failure> {
        let mut all = RelaySet::default();
        let mut middleboxes = BTreeMap::new();
        for RelayedDirection { link, from, to, forward } in &topology.relayed {
            let Some(faults) = faults(case, *link, *forward, Seed(seed.0 ^ PROBES), true) else { continue };
            let [from, to] = [&topology.devices[*from], &topology.devices[*to]];
            namespaces.enter(from.netns)?;
            let wrong = |e: io::Error| format!("a relay from {} to {}: {e}", from.name, to.name);
            let mtu = case.hosts.iter().map(|h| h.mtu.get()).max().expect("hosts");
            let (input, output) = ends(&from.name, &to.name, mtu).map_err(wrong)?;
            let middlebox = middlebox(case, *link, *forward, seed, &mut middleboxes);
            let faults = Arc::new(Mutex::new(faults));
            all.0.push(Relay { link: *link, forward: *forward, faults: Arc::clone(&faults) });
            let carrying = move || {
                if let Err(e) = carry(&input, output, &faults, middlebox.as_ref()) {
                    eprintln!("a relay ended: {e}");
                }
            };
            Builder::new().stack_size(STACK).spawn(carrying).map_err(wrong)?;
        }
        Ok(all)
    }

    /// Replaces the impairments of the probes by those of the run. No packet may be on its way.
    pub fn start_run(&self, case: &Case, seed: Seed) {
        for relay in &self.0 {
            let new =
                faults(case, relay.link, relay.forward, seed, false).expect("the probes had impairments");
            *relay.faults.lock().expect("no thread panics while it holds the lock") = new;
        }
    }

    /// Sets the beginning of the run, from which pauses are counted.
    pub fn begin(&self, start: u64) {
        for relay in &self.0 {
            relay.faults.lock().expect("no thread panics while it holds the lock").begin(start);
        }
    }

    /// The sum of the counts of all relays; `None` without relays.
    pub fn counts(&self) -> Option<ImpairmentCounts> {
        let all = self
            .0
            .iter()
            .map(|relay| relay.faults.lock().expect("no thread panics while it holds the lock").counts());
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

/// The middlebox of a direction of a link; `others` has the directions that are not used yet.
fn middlebox(
    case: &Case,
    link: usize,
    forward: bool,
    seed: Seed,
    others: &mut BTreeMap<(usize, bool), Middlebox>,
) -> Option<Middlebox> {
    if let Some(made) = others.remove(&(link, forward)) {
        return Some(made);
    }
    let [there, back] = Middlebox::of(case, link, seed)?;
    let (own, other) = if forward { (there, back) } else { (back, there) };
    others.insert((link, !forward), other);
    Some(own)
}

/// A socket that receives what arrives at a device, which then goes nowhere else, and a ring that sends from another device of the
/// namespace of the thread.
pub fn ends(from: &str, to: &str, mtu: u64) -> io::Result<(OwnedFd, SendRing)> {
    let input = socket()?;
    listen(&input, from)?;
    let output = socket()?;
    speak(&output, to)?;
    let output = SendRing::new(output, mtu)?;
    let lines = [
        format!("qdisc add dev {from} clsact"),
        format!("filter add dev {from} ingress matchall action drop"),
    ];
    build::batch("tc", &lines).map_err(io::Error::other)?;
    Ok((input, output))
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

/// Relays packets until a socket fails.
fn carry(
    input: &OwnedFd,
    mut output: SendRing,
    faults: &Mutex<Impairments<Frame>>,
    middlebox: Option<&Middlebox>,
) -> io::Result<()> {
    let (poll, timer) = (sys::epoll()?, sys::timer()?);
    sys::watch(poll.as_fd(), input.as_fd(), libc::EPOLLIN, 0)?;
    sys::watch(poll.as_fd(), timer.as_fd(), libc::EPOLLIN | libc::EPOLLET, 1)?;
    let (mut events, mut out, mut armed) = (Vec::new(), Vec::new(), None);
    let mut buffer = vec![0; LONGEST];
    loop {
        sys::wait(poll.as_fd(), &mut events)?;
        let mut faults = faults.lock().expect("no thread panics while it holds the lock");
        let now = if faults.holds() || middlebox.is_some() { sys::now() } else { 0 };
        // Packets that are due leave before the packet that has just arrived, as in the model, where their event is older.
        faults.release(now, &mut out);
        if events.iter().any(|(token, _)| *token == 0) {
            let n = sys::receive(input.as_fd(), &mut buffer)?;
            let frame = &mut buffer[..n];
            let flags = frame.first().copied().unwrap_or_default();
            let packet = frame.get_mut(VNET + LINK..).unwrap_or_default();
            if middlebox.is_none_or(|middlebox| middlebox.pass(now, flags, packet)) {
                let summary = PacketSummary::of(packet);
                faults.take(now, summary, Frame(frame.to_vec()), &mut out);
            }
        }
        for mut frame in out.drain(..) {
            output.send(&mut frame.0)?;
        }
        if faults.due() != armed {
            armed = faults.due();
            // 0 disarms the timer.
            sys::set_timer(timer.as_fd(), armed.unwrap_or(0))?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_frame_differs_in_one_bit_of_its_payload_and_its_checksum_is_verified() {
        // struct virtio_net_hdr: flags (VIRTIO_NET_HDR_F_NEEDS_CSUM is 1), then eight bytes, then the frame.
        let mut frame = Frame([vec![1], vec![0; 9], vec![0xaa, 0xbb, 0xcc]].concat());
        frame.damage();
        assert_eq!(frame.0, [vec![0], vec![0; 9], vec![0xaa, 0xbb, 0xcd]].concat());
    }

    #[test]
    fn the_headers_of_a_frame_end_where_the_payload_of_tcp_or_udp_begins() {
        let frame = |protocol: u8, offset: u8, payload: usize| {
            let mut frame = vec![0; LINK + 20 + 32 + payload];
            (frame[LINK], frame[LINK + 9], frame[LINK + 20 + 12]) = (0x45, protocol, offset << 4);
            frame
        };
        assert_eq!(header_bytes(&frame(6, 8, 1448)), 14 + 20 + 32);
        assert_eq!(header_bytes(&frame(6, 5, 1460)), 14 + 20 + 20);
        assert_eq!(header_bytes(&frame(17, 0, 100)), 14 + 20 + 8);
        assert_eq!(header_bytes(&frame(6, 15, 0)), 14 + 20 + 32, "no more than the frame has");
        assert_eq!(header_bytes(&[0; 10]), 10);
    }
}
