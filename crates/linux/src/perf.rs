//! Trace events of the running kernel by `perf_event_open(2)`.
//!
//! The tracing of the machine (`trace_pipe`, enabled events, instances) does not change: the kernel delivers an event to each process that
//! has opened a descriptor for it, and closes the descriptors with the process. A record has the same layout as in a trace
//! buffer, which the `format` file of the event describes.
//!
//! Each processor has a ring of its own (`include/uapi/linux/perf_event.h`). [`PerfEvents::drain`] merges them in the order of time.
//!
//! A kernel counts the events of a descriptor as well, and there are kernels that count events and do not record them: on a virtual machine
//! with Linux 6.18 all events that happened while one processor was idle, or while certain threads ran. `perf record` lacks them, too.

use crate::ring::{self, Ring};
use crate::sys;
use std::borrow::Cow;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

const PAGE: usize = 4096;
/// Pages of the data of a ring, a power of two: 4 MB, enough for about 40,000 events.
const PAGES: usize = 1024;
/// Offsets in `struct perf_event_mmap_page`: where the kernel writes next, and where the process reads next.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// `PERF_RECORD_LOST`, `PERF_RECORD_SAMPLE`.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;

/// Subscribed events.
pub struct PerfEvents {
    rings: Vec<Ring>,
    /// Descriptors of events that are written to the ring of the first event of their processor, each with its place in the list of events.
    others: Vec<(usize, OwnedFd)>,
    /// The events, and how many records of each were read.
    recorded: Vec<(u64, u64)>,
    /// Records that were read and are not before the `until` of the last call.
    waiting: Vec<(u64, Vec<u8>)>,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC` in nanoseconds. Events have times of `CLOCK_MONOTONIC` only.
    offset: u64,
    /// True if events were lost because a ring was full.
    pub missed: bool,
}

impl PerfEvents {
    /// Subscribes to events on all processors. Each has its number, which its `format` file in tracefs contains, and a filter.
    pub fn open(wanted: &[(u64, String)]) -> io::Result<PerfEvents> {
        let offset = sys::realtime_offset();
        let mut events = PerfEvents {
            rings: Vec::new(),
            others: Vec::new(),
            recorded: wanted.iter().map(|(id, _)| (*id, 0)).collect(),
            waiting: Vec::new(),
            offset,
            missed: false,
        };
        for processor in processors()? {
            let mut ring: Option<Ring> = None;
            for (place, (id, filter)) in wanted.iter().enumerate() {
                let fd = ring::trace_event(*id, processor)?;
                // A kernel that does not take the filter writes more records, which the reader passes over.
                let _ = ring::filter_events(fd.as_fd(), filter);
                match &ring {
                    None => ring = Some(Ring::map(fd, PAGE * (1 + PAGES))?),
                    Some(ring) => {
                        ring::write_events_to(fd.as_fd(), ring.socket().as_fd())?;
                        events.others.push((place, fd));
                    }
                }
            }
            events.rings.extend(ring);
        }
        Ok(events)
    }

    /// Discards all events until now, and whether events were lost.
    pub fn discard(&mut self) {
        self.drain(u64::MAX, |_, _| {});
        self.missed = false;
    }

    /// Calls `each` with the time and the record of the events since the last call that are earlier than `until` (both in nanoseconds of `CLOCK_REALTIME`).
    pub fn drain(&mut self, until: u64, mut each: impl FnMut(u64, &[u8])) {
        for ring in &self.rings {
            let head = ring.read_wide(HEAD);
            let mut tail = ring.read_wide(TAIL);
            while tail < head {
                let header = data(ring, tail, 8);
                let len = u64::from(u16::from_ne_bytes([header[6], header[7]]));
                let whole = data(ring, tail, usize::try_from(len).expect("16 bits"));
                match parse(&whole) {
                    Some(RingRecord::Sample(at, record)) => {
                        let id = record.first_chunk().map(|id| u64::from(u16::from_ne_bytes(*id)));
                        if let Some((_, count)) = self.recorded.iter_mut().find(|(one, _)| Some(*one) == id) {
                            *count += 1;
                        }
                        self.waiting.push((at + self.offset, record.to_vec()));
                    }
                    Some(RingRecord::Lost) => self.missed = true,
                    None => {}
                }
                tail += len.max(8);
            }
            ring.write_wide(TAIL, tail);
        }
        self.waiting.sort_by_key(|(at, _)| *at);
        let complete = self.waiting.partition_point(|(at, _)| *at < until);
        self.waiting.drain(..complete).for_each(|(at, record)| each(at, &record));
    }

    /// Ends the subscription. The records that are in the rings can still be read.
    pub fn stop(&self) -> io::Result<()> {
        self.descriptors().try_for_each(|(_, fd)| ring::stop_events(fd.as_fd()))
    }

    /// How many events the kernel has counted (read(2) of a descriptor) and not recorded, in the order of the events. Exact after
    /// [`PerfEvents::stop`] and a drain. A kernel may leave out records without a record of the loss.
    pub fn unrecorded(&self) -> io::Result<Vec<u64>> {
        let mut counted = vec![0_u64; self.recorded.len()];
        for (place, fd) in self.descriptors() {
            let mut count = [0; 8];
            sys::read(fd.as_fd(), &mut count)?;
            counted[place] += u64::from_ne_bytes(count);
        }
        Ok(counted
            .iter()
            .zip(&self.recorded)
            .map(|(counted, (_, recorded))| counted.saturating_sub(*recorded))
            .collect())
    }

    /// All descriptors, each with the place of its event.
    fn descriptors(&self) -> impl Iterator<Item = (usize, &OwnedFd)> {
        let first = self.rings.iter().map(|ring| (0, ring.socket()));
        first.chain(self.others.iter().map(|(place, fd)| (*place, fd)))
    }
}

/// The processors that are online.
fn processors() -> io::Result<Vec<i32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    ranges(&text)
        .ok_or_else(|| io::Error::other(format!("the list of online processors cannot be parsed: {text}")))
}

/// The numbers of a list of ranges such as `0-3,8`.
fn ranges(text: &str) -> Option<Vec<i32>> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<i32>().ok()?..=last.parse().ok()?);
    }
    Some(all)
}

/// Bytes of the data of a ring, which wraps around. Only bytes that wrap are copied.
fn data(ring: &Ring, from: u64, len: usize) -> Cow<'_, [u8]> {
    let size = PAGE * PAGES;
    let at = usize::try_from(from % size as u64).expect("less than the size");
    let first = len.min(size - at);
    let bytes = ring.bytes(PAGE + at, first);
    if first == len { bytes.into() } else { [bytes, ring.bytes(PAGE, len - first)].concat().into() }
}

/// A record of a ring.
enum RingRecord<'a> {
    /// The time and the record of an event.
    Sample(u64, &'a [u8]),
    /// Events were lost.
    Lost,
}

/// Parses a record: `struct perf_event_header`; a sample then has its time (`PERF_SAMPLE_TIME`) and the length and bytes of the event
/// (`PERF_SAMPLE_RAW`). `None` for other records.
fn parse(record: &[u8]) -> Option<RingRecord<'_>> {
    let word = |at: usize| Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().expect("4 bytes")));
    match word(0)? {
        LOST => Some(RingRecord::Lost),
        SAMPLE => {
            let at = u64::from_ne_bytes(record.get(8..16)?.try_into().expect("8 bytes"));
            let len = word(16)? as usize;
            Some(RingRecord::Sample(at, record.get(20..20 + len)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_its_instant_and_the_events_own_record_and_others_are_passed_over() {
        let mut bytes = 9_u32.to_ne_bytes().to_vec();
        bytes.extend([0, 0, 32, 0]);
        bytes.extend(77_u64.to_ne_bytes());
        bytes.extend(4_u32.to_ne_bytes());
        bytes.extend([1, 2, 3, 4, 0, 0, 0, 0]);
        assert!(matches!(parse(&bytes), Some(RingRecord::Sample(77, &[1, 2, 3, 4]))));
        assert!(parse(&bytes[..20]).is_none());
        bytes[0] = 2;
        assert!(matches!(parse(&bytes), Some(RingRecord::Lost)));
        bytes[0] = 5;
        assert!(parse(&bytes).is_none());
    }

    #[test]
    fn processors_are_listed_as_ranges() {
        assert_eq!(ranges("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(ranges("0"), Some(vec![0]));
        assert_eq!(ranges(""), None);
    }
}
