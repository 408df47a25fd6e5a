//! Marks on returning ACKs (`queue.ecn_mark = ack`) in a guest: while the backlog of the queue is above the threshold, ACKs that arrive at
//! the device of the queue get the ECE flag, by the rule of the model's element (`crates/sim/src/element/ack_marking.rs`).
//!
//! Linux has no queue discipline for this, and a guest no compiler for BPF programs. A thread takes the packets that arrive at the device, as
//! a [`relay`](crate::netns::relay) does, reads the backlog of the queue by netlink, and sends them to the sender. No virtual time passes
//! meanwhile, so that the backlog is that at the arrival of the ACK.

use crate::netns::build::NetnsSet;
use crate::netns::relay::{self, LINK, LONGEST, SendRing, VNET};
use crate::netns::topology::{AckMarking, NetnsTopology};
use crate::system::Failure;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Builder;
use tcpassay_case::Case;
use tcpassay_linux::netlink::Netlink;
use tcpassay_linux::sys;

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the checksum of TCP is completed later, and contains that of the pseudo header only.
const NEEDS_CSUM: u8 = 1;
const TCP: u8 = 6;
const SYN_RST: u8 = 6;
const ACK: u8 = 16;
const ECE: u8 = 64;

/// The number of ACKs that were marked for the queue of a device.
pub struct AckMarks {
    /// Index into [`NetnsTopology::devices`].
    pub dev: usize,
    marks: Arc<AtomicU64>,
}

impl AckMarks {
    /// The number of marks.
    pub fn marks(&self) -> u64 {
        self.marks.load(Ordering::Relaxed)
    }
}

/// A queue whose backlog decides about marks.
struct Backlog {
    netlink: Netlink,
    interface: i32,
    handle: u16,
    threshold: u64,
}

impl Backlog {
    fn is_above(&self) -> io::Result<bool> {
        let all = self.netlink.qdiscs(|_| &[])?;
        let queue = all.iter().find(|q| q.interface == self.interface && q.handle == self.handle);
        let queue = queue.ok_or_else(|| io::Error::other("the queue is gone"))?;
        Ok(queue.backlog > self.threshold)
    }
}

/// Starts a thread for each queue of a topology that marks returning ACKs.
pub fn start(
    case: &Case,
    topology: &NetnsTopology,
    namespaces: &mut NetnsSet,
) -> Result<Vec<AckMarks>, Failure> {
    let mut all = Vec::new();
    let mtu = case.hosts.iter().map(|h| h.mtu.get()).max().expect("hosts");
    for AckMarking { dev, to, threshold } in &topology.ack_marking {
        let [from, to] = [&topology.devices[*dev], &topology.devices[*to]];
        let handle = topology.monitored.iter().find(|monitored| monitored.dev == *dev);
        let handle = handle.expect("a queue that marks is monitored").handles[0];
        namespaces.enter(from.netns)?;
        let wrong = |e: io::Error| format!("marks on ACKs from {} to {}: {e}", from.name, to.name);
        let (input, output) = relay::ends(&from.name, &to.name, mtu).map_err(wrong)?;
        let netlink = Netlink::open().map_err(wrong)?;
        let interface = sys::interface_index(&from.name).map_err(wrong)?;
        let backlog = Backlog { netlink, interface, handle, threshold: threshold.get() };
        let marks = Arc::new(AtomicU64::new(0));
        all.push(AckMarks { dev: *dev, marks: Arc::clone(&marks) });
        let carrying = move || {
            if let Err(e) = carry(&input, output, &backlog, &marks) {
                eprintln!("the marking of ACKs ended: {e}");
            }
        };
        Builder::new().stack_size(relay::STACK).spawn(carrying).map_err(wrong)?;
    }
    Ok(all)
}

/// Carries packets until a socket fails.
fn carry(input: &OwnedFd, mut output: SendRing, backlog: &Backlog, marks: &AtomicU64) -> io::Result<()> {
    let poll = sys::epoll()?;
    sys::watch(poll.as_fd(), input.as_fd(), libc::EPOLLIN, 0)?;
    let (mut events, mut buffer) = (Vec::new(), vec![0; LONGEST]);
    loop {
        sys::wait(poll.as_fd(), &mut events)?;
        let n = sys::receive(input.as_fd(), &mut buffer)?;
        let frame = &mut buffer[..n];
        let flags = frame.first().copied().unwrap_or_default();
        let packet = frame.get_mut(VNET + LINK..).unwrap_or_default();
        if let Some(segment) = ack(packet)
            && backlog.is_above()?
        {
            mark(segment, flags);
            marks.fetch_add(1, Ordering::Relaxed);
        }
        output.send(frame)?;
    }
}

/// The TCP header of an IPv4 packet and what follows it, if ECE is an echo of congestion there: not in a SYN (RFC 3168 section 6.1.1) or RST.
fn ack(packet: &mut [u8]) -> Option<&mut [u8]> {
    let header = usize::from(packet.first()? & 15) * 4;
    if *packet.get(9)? != TCP || packet[6] & 0x1f != 0 || packet[7] != 0 {
        return None;
    }
    let segment = packet.get_mut(header..)?;
    let flags = *segment.get(13)?;
    (segment.len() >= 20 && flags & ACK != 0 && flags & SYN_RST == 0).then_some(segment)
}

/// Sets ECE, and corrects the checksum (RFC 1624) unless it is completed later. `flags` are those of `struct virtio_net_hdr`.
fn mark(segment: &mut [u8], flags: u8) {
    let word = |segment: &[u8]| u16::from_be_bytes([segment[12], segment[13]]);
    let before = word(segment);
    segment[13] |= ECE;
    if flags & NEEDS_CSUM == 0 {
        let old = u16::from_be_bytes([segment[16], segment[17]]);
        let sum = u32::from(!old) + u32::from(!before) + u32::from(word(segment));
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !u16::try_from(sum).expect("two carries were added");
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet with an ACK: acknowledgement number 5, window 501, checksum 0x1234.
    fn packet(flags: u8) -> Vec<u8> {
        let ip = [0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
        let tcp = [0x13, 0x89, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0x50, flags, 1, 0xf5, 0x12, 0x34, 0, 0];
        [ip, tcp].concat()
    }

    #[test]
    fn an_ack_gets_ece_and_a_checksum_that_is_right_if_it_was_right_before() {
        let mut marked = packet(ACK);
        mark(ack(&mut marked).unwrap(), 0);
        // RFC 1624 section 3: HC' = ~(~HC + ~m + m') with m = 0x5010 and m' = 0x5050.
        assert_eq!((marked[33], &marked[36..38]), (0x50, &[0x11, 0xf4][..]));
        mark(ack(&mut marked).unwrap(), 0);
        assert_eq!((marked[33], &marked[36..38]), (0x50, &[0x11, 0xf4][..]), "it had ECE already");
    }

    #[test]
    fn a_checksum_that_is_completed_later_stays_as_it_is() {
        let mut marked = packet(ACK);
        mark(ack(&mut marked).unwrap(), NEEDS_CSUM);
        assert_eq!((marked[33], &marked[36..38]), (0x50, &[0x12, 0x34][..]));
    }

    #[test]
    fn syns_resets_segments_without_ack_fragments_and_broken_packets_are_not_marked() {
        for flags in [ACK | 2, ACK | 4, 0] {
            assert!(ack(&mut packet(flags)).is_none(), "{flags}");
        }
        let mut fragment = packet(ACK);
        fragment[7] = 1;
        assert!(ack(&mut fragment).is_none());
        for cut in 0..40 {
            assert!(ack(&mut packet(ACK)[..cut]).is_none(), "{cut}");
        }
        let mut udp = packet(ACK);
        udp[9] = 17;
        assert!(ack(&mut udp).is_none());
    }
}
