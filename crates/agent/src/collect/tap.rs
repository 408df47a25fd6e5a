//! Taps: every packet that leaves a host, and every packet that arrives at one, at the instant of the wire.
//!
//! A tap is a packet socket with a ring that the kernel fills (`TPACKET_V2`), so that a packet costs no system call and none is
//! held: a copy of its headers is taken and the packet goes on untouched. What leaves a host is seen as it leaves its device (after
//! segmentation). What arrives at one is seen there, too, unless its NIC merges what it receives: then it is what the neighbour sends.
//! Of what leaves a device the kernel makes every tap a packet of its own (`dev_queue_xmit_nit`); to look at what arrives costs half.

use std::io;
use std::os::fd::AsFd;
use tcpassay_linux::ring::{Ring, packet_ring};
use tcpassay_linux::sys;
use tcpassay_wire::codec::{Packet, decode};

const FRAME: u32 = 256;
const BLOCK: u32 = 65_536;
/// Bytes kept of each packet, from its IP header.
const SNAP: u32 = 128;

/// Which packets of a device a tap sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TapDirection {
    /// Those that leave.
    Out,
    /// Those that arrive.
    In,
}

/// A packet at a tap.
pub struct CapturedPacket {
    /// When, by the clock of the kernel.
    pub at: u64,
    /// Which tap.
    pub tap: usize,
    /// Its length from the IP header on.
    pub len: u32,
    /// Its headers.
    pub packet: Packet,
}

struct Tap {
    ring: Ring,
    frames: usize,
    next: usize,
}

/// All taps of a run.
#[derive(Default)]
pub struct Taps {
    all: Vec<Tap>,
    seen: Vec<CapturedPacket>,
    sum: u64,
}

impl Taps {
    /// Opens a tap on one way through `interface` of the namespace that the process is in, with room for so many packets (at least
    /// 8192) between two looks. What a ring has too much costs: a guest is slow at touching a page for the first time.
    pub fn open(&mut self, interface: &str, way: TapDirection, packets: u64) -> io::Result<()> {
        let blocks =
            u32::try_from(packets.div_ceil(u64::from(BLOCK / FRAME)).clamp(32, 256)).expect("at most 256");
        let socket = sys::socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0)?;
        match way {
            // Of what leaves the first bytes, of the rest nothing (SKF_AD_OFF + SKF_AD_PKTTYPE, linux/filter.h).
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
        }
        let ring = packet_ring(socket, BLOCK, blocks, FRAME)?;
        sys::bind_packet(ring.socket().as_fd(), sys::interface_index(interface)?)?;
        let frames = (BLOCK / FRAME * blocks) as usize;
        self.all.push(Tap { ring, frames, next: 0 });
        Ok(())
    }

    /// Hands over what has passed since the last call and before `until`, in order of time; at one instant in the order of
    /// the taps. In real time a packet may be seen at the far end before the near one has been looked at, so that the last
    /// moments have to wait.
    pub fn drain(&mut self, until: u64, mut each: impl FnMut(&CapturedPacket)) {
        let mut seen = std::mem::take(&mut self.seen);
        for (place, tap) in self.all.iter_mut().enumerate() {
            let sum = tap.drain(place, &mut seen);
            self.sum = self.sum.wrapping_add(sum);
        }
        seen.sort_by_key(|s| (s.at, s.tap));
        let whole = seen.partition_point(|s| s.at < until);
        seen.drain(..whole).for_each(|s| each(&s));
        self.seen = seen;
    }

    /// A sum over everything that has passed: when, where, how long, and its headers. In whatever portions packets are handed
    /// over, it is the same for the same packets.
    pub fn trace(&self) -> u64 {
        self.sum
    }

    /// Packets that a ring had no room for.
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

impl Tap {
    /// Frames lie one behind the other; each begins with `struct tpacket2_hdr` (`linux/if_packet.h`): status, length, kept, offsets of
    /// the link's and the network's header (16 bits each), seconds, nanoseconds.
    fn drain(&mut self, place: usize, into: &mut Vec<CapturedPacket>) -> u64 {
        let mut sum = 0_u64;
        loop {
            let frame = self.next * FRAME as usize;
            if self.ring.read(frame) & libc::TP_STATUS_USER == 0 {
                return sum;
            }
            let word = |n: usize| self.ring.read(frame + 4 * n);
            let (len, kept, network) = (word(1), word(2), word(3) >> 16);
            let at = u64::from(word(4)) * 1_000_000_000 + u64::from(word(5));
            let bytes = self.ring.bytes(frame + network as usize, kept as usize);
            sum = sum.wrapping_add(digest([at, place as u64, u64::from(len)], bytes));
            if let Ok(packet) = decode(bytes) {
                into.push(CapturedPacket { at, tap: place, len, packet });
            }
            self.ring.write(frame, 0);
            self.next = (self.next + 1) % self.frames;
        }
    }
}

/// FNV-1a over words instead of bytes: it tells packets apart, and nobody makes them collide on purpose.
fn digest(about: [u64; 3], bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    about.into_iter().chain(words).fold(0xcbf2_9ce4_8422_2325, mix)
}
