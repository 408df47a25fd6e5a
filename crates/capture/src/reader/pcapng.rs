//! pcapng files (draft-ietf-opsawg-pcapng): sections of both byte orders, interfaces with their resolution and offset of time,
//! enhanced, simple and obsolete packet blocks, and the packets that the capture lost, of statistics and packet blocks. Other blocks are
//! skipped.

use super::buffer::Buffer;
use super::model::{Found, Interface, LONGEST, LONGEST_NAME, LinkType, MOST_INTERFACES, ReadError};
use std::collections::BTreeMap;
use std::io::Read;

/// Block types.
pub(super) const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Type and length, before the body of a block.
const HEAD: usize = 8;
/// With the length that is repeated behind it.
const AROUND: usize = 12;

/// Options of an interface.
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;
/// Options of a statistics block: packets that the interface and the operating system dropped since the capture began.
const ISB_IFDROP: u16 = 5;
const ISB_OSDROP: u16 = 7;
/// Option of a packet: packets that were lost between it and the one before it on the interface.
const EPB_DROPCOUNT: u16 = 4;

/// The state of the current section.
#[derive(Debug, Default)]
pub(super) struct Section {
    big_endian: bool,
    /// The interfaces of the section, in the order of their descriptions.
    interfaces: Vec<Described>,
    /// The number of the section, from 1.
    number: u64,
    /// The interfaces of the file: index in the list of the reader, and the last section that described it.
    known: BTreeMap<Interface, (usize, u64)>,
}

/// Blocks that were not read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Skipped {
    /// Damaged blocks.
    pub damaged: u64,
    /// Descriptions of interfaces beyond the number that is read, and their packets are not read either.
    pub interfaces: u64,
    /// The interfaces of the current section beyond the number that is read.
    in_section: u64,
    /// Packets that the capture lost, as the statistics of interfaces say.
    lost_by_statistics: u64,
    /// The same as packet blocks say.
    lost_before_packets: u64,
}

impl Skipped {
    /// Packets that the capture lost. The statistics and the counts at packets are of the same losses.
    pub fn lost(&self) -> u64 {
        self.lost_by_statistics.max(self.lost_before_packets)
    }
}

#[derive(Clone, Copy, Debug)]
struct Described {
    /// Index in the list of the reader.
    place: usize,
    snap: u32,
    resolution: u8,
    offset_s: i64,
    /// Packets that its last statistics call lost.
    lost: u64,
}

impl Section {
    fn half(&self, bytes: &[u8], at: usize) -> u16 {
        let two = [bytes[at], bytes[at + 1]];
        if self.big_endian { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) }
    }

    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    }

    /// The number of an option; 0 if it does not have eight bytes.
    fn count(&self, value: &[u8]) -> u64 {
        let Ok(eight) = value.try_into() else { return 0 };
        if self.big_endian { u64::from_be_bytes(eight) } else { u64::from_le_bytes(eight) }
    }
}

/// The next packet.
pub(super) fn next<R: Read>(
    section: &mut Section,
    buffer: &mut Buffer<R>,
    interfaces: &mut Vec<Interface>,
    skipped: &mut Skipped,
) -> Result<Option<Found>, ReadError> {
    loop {
        let offset = buffer.offset();
        let have = buffer.fill(HEAD)?;
        if have == 0 {
            return Ok(None);
        }
        let truncated = ReadError::Truncated { offset, what: "block" };
        if have < HEAD {
            return Err(truncated);
        }
        let damaged = |why: String| ReadError::Damaged { offset, what: "block", why };
        // The type of a section header is the same in both byte orders.
        let kind = section.word(buffer.data(), 0);
        if kind == SECTION {
            if buffer.fill(HEAD + 4)? < HEAD + 4 {
                return Err(truncated);
            }
            let order: [u8; 4] = buffer.data()[HEAD..HEAD + 4].try_into().expect("four bytes");
            let big_endian = u32::from_be_bytes(order) == BYTE_ORDER;
            if !big_endian && u32::from_le_bytes(order) != BYTE_ORDER {
                return Err(damaged(format!("its byte-order magic is {:08x}", u32::from_be_bytes(order))));
            }
            section.big_endian = big_endian;
            section.interfaces.clear();
            section.number += 1;
            skipped.in_section = 0;
        }
        let len = section.word(buffer.data(), 4);
        let whole = len as usize;
        if whole < AROUND || !whole.is_multiple_of(4) {
            return Err(damaged(format!("its length is {len} bytes")));
        }
        let known = matches!(kind, INTERFACE | PACKET | SIMPLE_PACKET | STATISTICS | ENHANCED_PACKET);
        if !known {
            if !buffer.discard(u64::from(len))? {
                return Err(truncated);
            }
            continue;
        }
        if whole > LONGEST {
            return Err(damaged(format!("its length is {len} bytes, more than {LONGEST}")));
        }
        if buffer.fill(whole)? < whole {
            return Err(truncated);
        }
        let block = &buffer.data()[..whole];
        if section.word(block, whole - 4) != len {
            let again = section.word(block, whole - 4);
            return Err(damaged(format!("its length is {len} bytes before and {again} behind its body")));
        }
        let body = &block[HEAD..whole - 4];
        let found = match kind {
            INTERFACE => describe(section, body, interfaces, skipped).is_some().then_some(None),
            ENHANCED_PACKET => enhanced(section, body, skipped).map(Some),
            STATISTICS => statistics(section, body, skipped).map(|()| None),
            SIMPLE_PACKET => simple(section, body).map(Some),
            _ => obsolete(section, body).map(Some),
        };
        buffer.consume(whole);
        match found {
            Some(Some(found)) => return Ok(Some(Found { start: HEAD + found.start, ..found })),
            Some(None) => {}
            // Packets of an interface that is not read are not damaged.
            None if kind != INTERFACE && skipped.in_section > 0 => {}
            None => skipped.damaged += 1,
        }
    }
}

/// An interface description; an interface with a name that an earlier section has described is the same one.
fn describe(
    section: &mut Section,
    body: &[u8],
    interfaces: &mut Vec<Interface>,
    skipped: &mut Skipped,
) -> Option<()> {
    if body.len() < 8 {
        return None;
    }
    let link = LinkType(section.half(body, 0));
    let snap = section.word(body, 4);
    let (mut name, mut resolution, mut offset_s) = (None, 6, 0);
    for (code, value) in (Options { section, bytes: &body[8..] }) {
        match (code, value) {
            (IF_NAME, text) => {
                let kept = &text[..text.len().min(LONGEST_NAME)];
                name = Some(String::from_utf8_lossy(kept).trim_end_matches('\0').to_owned());
            }
            (IF_TSRESOL, &[n]) => resolution = n,
            (IF_TSOFFSET, eight) if eight.len() == 8 => {
                let eight = eight.try_into().expect("eight bytes");
                offset_s =
                    if section.big_endian { i64::from_be_bytes(eight) } else { i64::from_le_bytes(eight) };
            }
            _ => {}
        }
    }
    let name = name
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("interface {}", section.interfaces.len()));
    let interface = Interface { name, link };
    // Two interfaces of one section are two, whatever their names.
    let known = section.known.get_mut(&interface).filter(|(_, described)| *described < section.number);
    let place = match known {
        Some((place, described)) => {
            *described = section.number;
            *place
        }
        None if interfaces.len() == MOST_INTERFACES => {
            skipped.interfaces += 1;
            skipped.in_section += 1;
            return Some(());
        }
        None => {
            section.known.entry(interface.clone()).or_insert((interfaces.len(), section.number));
            interfaces.push(interface);
            interfaces.len() - 1
        }
    };
    section.interfaces.push(Described { place, snap, resolution, offset_s, lost: 0 });
    Some(())
}

fn enhanced(section: &Section, body: &[u8], skipped: &mut Skipped) -> Option<Found> {
    if body.len() < 20 {
        return None;
    }
    let interface = section.interfaces.get(section.word(body, 0) as usize)?;
    let found = packet(section, interface, body, 4)?;
    let bytes = body.get(found.start + found.len.next_multiple_of(4)..).unwrap_or_default();
    for (code, value) in (Options { section, bytes }) {
        if code == EPB_DROPCOUNT {
            skipped.lost_before_packets = skipped.lost_before_packets.saturating_add(section.count(value));
        }
    }
    Some(found)
}

/// The statistics of an interface, whose counts begin with the capture: later ones include earlier ones.
fn statistics(section: &mut Section, body: &[u8], skipped: &mut Skipped) -> Option<()> {
    if body.len() < 12 {
        return None;
    }
    let of = section.word(body, 0) as usize;
    let mut lost = 0_u64;
    for (code, value) in (Options { section, bytes: &body[12..] }) {
        if matches!(code, ISB_IFDROP | ISB_OSDROP) {
            lost = lost.saturating_add(section.count(value));
        }
    }
    let interface = section.interfaces.get_mut(of)?;
    skipped.lost_by_statistics =
        skipped.lost_by_statistics.saturating_add(lost.saturating_sub(interface.lost));
    interface.lost = interface.lost.max(lost);
    Some(())
}

fn obsolete(section: &Section, body: &[u8]) -> Option<Found> {
    if body.len() < 20 {
        return None;
    }
    let interface = section.interfaces.get(usize::from(section.half(body, 0)))?;
    packet(section, interface, body, 4)
}

/// The time and the lengths of a packet begin at `at`.
fn packet(section: &Section, interface: &Described, body: &[u8], at: usize) -> Option<Found> {
    let ticks = u64::from(section.word(body, at)) << 32 | u64::from(section.word(body, at + 4));
    let captured = section.word(body, at + 8);
    let start = at + 16;
    let len = captured as usize;
    if len > body.len() - start {
        return None;
    }
    Some(Found {
        at_ns: Some(time_ns(ticks, interface)),
        interface: interface.place,
        original_len: section.word(body, at + 12).max(captured),
        start,
        len,
    })
}

fn simple(section: &Section, body: &[u8]) -> Option<Found> {
    let interface = section.interfaces.first()?;
    if body.len() < 4 {
        return None;
    }
    let original_len = section.word(body, 0);
    let snap = if interface.snap == 0 { u32::MAX } else { interface.snap };
    let len = (original_len.min(snap) as usize).min(body.len() - 4);
    Some(Found { at_ns: None, interface: interface.place, original_len, start: 4, len })
}

/// Nanoseconds since 1970. A time before 1970 is 0, one after the year 2554 the last that can be represented.
fn time_ns(ticks: u64, interface: &Described) -> u64 {
    let (binary, power) = (interface.resolution & 0x80 != 0, u32::from(interface.resolution & 0x7f));
    let ticks = u128::from(ticks);
    let ns = if binary {
        // Fewer than 94 bits.
        (ticks * 1_000_000_000).checked_shr(power).unwrap_or(0)
    } else if power <= 9 {
        ticks * 10_u128.pow(9 - power)
    } else {
        10_u128.checked_pow(power - 9).map_or(0, |unit| ticks / unit)
    };
    let ns = i128::try_from(ns).unwrap_or(i128::MAX);
    let ns = ns.saturating_add(i128::from(interface.offset_s) * 1_000_000_000);
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}

/// Code and value of each option; a damaged list ends where it is damaged.
struct Options<'a> {
    section: &'a Section,
    bytes: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.len() < 4 {
            return None;
        }
        let (code, len) = (self.section.half(self.bytes, 0), usize::from(self.section.half(self.bytes, 2)));
        if code == 0 {
            return None;
        }
        let value = self.bytes.get(4..4 + len)?;
        self.bytes = self.bytes.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    }
}
