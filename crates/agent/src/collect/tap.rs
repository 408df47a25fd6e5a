//! Taps: the headers of every packet that leaves a host or arrives at one, with the time at which the packet passed the device.
//!
//! A tap is a packet socket with a ring that the kernel fills (`TPACKET_V2`). The kernel copies the headers into the ring and forwards the
//! packet unchanged, without a system call of this process. A tap for leaving packets sees them after segmentation. A NIC that
//! merges packets on receipt shows merged packets; then the tap is at the neighbour, for what the neighbour sends. A tap for
//! leaving packets costs twice as much as one for arriving packets, because the kernel clones each packet for it
//! (`dev_queue_xmit_nit`).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use tcpassay_linux::ring::{Ring, packet_ring};
use tcpassay_linux::sys;
use tcpassay_wire::codec::{DecodedPacket, decode};

/// Bytes of a frame of the ring: one packet.
const FRAME: u32 = 256;
/// Bytes of a block of the ring.
const BLOCK: u32 = 65_536;
/// Bytes kept of each packet, beginning with its IP header.
const SNAP: u32 = 128;
/// Frames that are returned to the kernel of a guest at a time, of at least 8192.
const RETURNED: usize = 512;

/// The direction of the packets of a device that a tap captures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapDirection {
    /// Packets that the device sends.
    Out,
    /// Packets that the device receives.
    In,
    /// Both in one ring, which keeps their order. The number of the tap is that of what leaves; what arrives has the next one.
    Both,
}

/// A packet at a tap.
pub struct CapturedPacket {
    /// When the packet passed, by the kernel's clock in nanoseconds.
    pub at: u64,
    /// The number of the tap.
    pub tap: usize,
    /// The length in bytes from the IP header on.
    pub len: u32,
    /// The headers.
    pub packet: DecodedPacket,
}

struct Tap {
    number: usize,
    direction: TapDirection,
    ring: Ring,
    frames: usize,
    next: usize,
    /// Offsets of the frames that were read and are not yet returned to the kernel.
    read: Vec<usize>,
}

/// All taps of a run.
#[derive(Default)]
pub struct Taps {
    all: Vec<Tap>,
    /// Frames are returned to the kernel many at a time, by a read from this file (/dev/zero).
    zero: Option<File>,
    seen: Vec<CapturedPacket>,
    sum: u64,
}

impl Taps {
    /// The taps of a guest. A frame is returned to its kernel with others by a system call, because a write of the process is a page fault the
    /// first time.
    pub fn of_guest() -> io::Result<Taps> {
        Ok(Taps { zero: Some(File::open("/dev/zero")?), ..Taps::default() })
    }

    /// Opens a tap on an interface of the namespace that the process is in. The ring has room for `packets` packets, but at least for
    /// 8192 and at most for 65536. A larger ring than needed is slow in a guest, which takes long to touch a page for the first time.
    ///
    /// `number` is the tap of [`CapturedPacket::tap`].
    pub fn open(
        &mut self,
        number: usize,
        interface: &str,
        direction: TapDirection,
        packets: u64,
    ) -> io::Result<()> {
        let directions = if direction == TapDirection::Both { 2 } else { 1 };
        let blocks = blocks(packets, directions);
        let socket = sys::socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0)?;
        match direction {
            // Takes the first bytes of leaving packets and drops all others (SKF_AD_OFF + SKF_AD_PKTTYPE, linux/filter.h).
            TapDirection::Out => sys::attach_filter(
                socket.as_fd(),
                &[
                    (0x20, 0, 0, 0xffff_f000 + 4),
                    (0x15, 0, 1, u32::from(libc::PACKET_OUTGOING)),
                    (0x06, 0, 0, SNAP),
                    (0x06, 0, 0, 0),
                ],
            )?,
            TapDirection::In => {
                sys::ignore_outgoing(socket.as_fd())?;
                sys::attach_filter(socket.as_fd(), &[(0x06, 0, 0, SNAP)])?;
            }
            TapDirection::Both => sys::attach_filter(socket.as_fd(), &[(0x06, 0, 0, SNAP)])?,
        }
        let ring = packet_ring(socket, BLOCK, blocks, FRAME)?;
        let socket = ring.socket().as_fd();
        sys::bind_packet(socket, sys::interface_index_by(socket, interface)?)?;
        let frames = (BLOCK / FRAME * blocks) as usize;
        self.all.push(Tap { number, direction, ring, frames, next: 0, read: Vec::new() });
        Ok(())
    }

    /// Calls `each` with the packets that have passed since the last call and before `until`, in the order of time, then of pairs of taps.
    /// Those of one ring keep their order, and those of rings of one pair that of their opening. In real time the ring of the receiver may
    /// be read after a packet has arrived and the ring of its sender before it left; `until` must therefore be a little in the past.
    pub fn drain(&mut self, until: u64, mut each: impl FnMut(&CapturedPacket)) {
        let mut seen = std::mem::take(&mut self.seen);
        for tap in &mut self.all {
            let sum = tap.drain(&mut seen);
            self.sum = self.sum.wrapping_add(sum);
            tap.give_back(self.zero.as_ref());
        }
        seen.sort_by_key(|s| (s.at, s.tap / 2));
        let whole = seen.partition_point(|s| s.at < until);
        seen.drain(..whole).for_each(|s| each(&s));
        self.seen = seen;
    }

    /// A digest of the time, the tap, the length and the headers of all packets. It does not depend on when the rings were read.
    pub fn digest(&self) -> u64 {
        self.sum
    }

    /// The number of packets for which a ring had no room.
    pub fn lost(&self) -> io::Result<u64> {
        let mut lost = 0;
        for tap in &self.all {
            // struct tpacket_stats: packets, drops.
            let mut stats = [0; 8];
            let option = libc::PACKET_STATISTICS;
            sys::get_bytes(tap.ring.socket().as_fd(), libc::SOL_PACKET, option, &mut stats)?;
            lost += u64::from(u32::from_ne_bytes(stats[4..].try_into().expect("4 bytes")));
        }
        Ok(lost)
    }
}

/// The blocks of a ring for so many packets in each of its directions.
fn blocks(packets: u64, directions: u64) -> u32 {
    let blocks = (packets * directions).div_ceil(u64::from(BLOCK / FRAME));
    u32::try_from(blocks.clamp(32, 256 * directions)).expect("at most 512")
}

impl Tap {
    /// Moves the packets of the ring to `into`, and returns the sum of their digests. Each frame begins with `struct tpacket2_hdr`
    /// (`linux/if_packet.h`): status, length of the packet, bytes kept, offsets of the link-layer and network headers (16
    /// bits each), seconds, nanoseconds. `struct sockaddr_ll` follows, with the kind of the packet in its word of the hardware type.
    fn drain(&mut self, into: &mut Vec<CapturedPacket>) -> u64 {
        let mut sum = 0_u64;
        loop {
            let frame = self.next * FRAME as usize;
            if self.ring.read(frame) & libc::TP_STATUS_USER == 0 {
                return sum;
            }
            let word = |n: usize| self.ring.read(frame + 4 * n);
            let (len, kept, network) = (word(1), word(2), word(3) >> 16);
            let at = u64::from(word(4)) * 1_000_000_000 + u64::from(word(5));
            let arrives = self.direction == TapDirection::Both
                && word(10) >> 16 & 0xff != u32::from(libc::PACKET_OUTGOING);
            let place = self.number + usize::from(arrives);
            let bytes = self.ring.bytes(frame + network as usize, kept as usize);
            sum = sum.wrapping_add(digest([at, place as u64, u64::from(len)], bytes));
            if let Ok(packet) = decode(bytes) {
                into.push(CapturedPacket { at, tap: place, len, packet });
            }
            self.read.push(frame);
            self.next = (self.next + 1) % self.frames;
        }
    }
}

impl Tap {
    /// Returns the frames that were read to the kernel: with `zero` once there are many, which are still few of the ring.
    fn give_back(&mut self, zero: Option<&File>) {
        match zero {
            Some(_) if self.read.len() < RETURNED => return,
            Some(zero) => self
                .ring
                .clear(zero.as_fd(), &self.read)
                .expect("/dev/zero has zeros for each word of the ring"),
            None => self.read.iter().for_each(|frame| self.ring.write(*frame, 0)),
        }
        self.read.clear();
    }
}

/// FNV-1a over 64-bit words instead of bytes, which is enough to tell packets apart.
fn digest(about: [u64; 3], bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    about.into_iter().chain(words).fold(0xcbf2_9ce4_8422_2325, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_whole_blocks_of_256_packets_within_its_bounds() {
        let sizes = [0, 8192, 8193, 20_000, 1_000_000];
        assert_eq!(sizes.map(|packets| blocks(packets, 1)), [32, 32, 33, 79, 256]);
        assert_eq!(sizes.map(|packets| blocks(packets, 2)), [32, 64, 65, 157, 512]);
    }

    #[test]
    fn the_digest_depends_on_time_tap_length_and_each_byte() {
        let of = |about, bytes: &[u8]| digest(about, bytes);
        let base = of([1, 2, 3], &[9; 20]);
        assert_eq!(base, of([1, 2, 3], &[9; 20]));
        for other in [of([2, 2, 3], &[9; 20]), of([1, 3, 3], &[9; 20]), of([1, 2, 4], &[9; 20])] {
            assert_ne!(base, other);
        }
        let mut changed = [9; 20];
        changed[19] = 8;
        assert_ne!(base, of([1, 2, 3], &changed));
    }
}
