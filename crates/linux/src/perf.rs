//! The trace events of a machine's kernel, by `perf_event_open(2)`: told by descriptors that are ours alone.
//!
//! Nothing of the machine's tracing is touched (`trace_pipe`, its switches, its instances): the kernel gives each event to whoever holds
//! a descriptor for it, and takes the descriptors away with the process, however that ends. A record is the one that a trace buffer
//! would hold, so that the event's own `format` says where its fields stand.
//!
//! Every processor has a ring of its own (`include/uapi/linux/perf_event.h`): what is handed over is in the order of time.

use crate::ring::{self, Ring};
use crate::sys;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

const PAGE: usize = 4096;
/// Pages of a ring's data, a power of two: 4 MB, some 40,000 segments.
const PAGES: usize = 1024;
/// `struct perf_event_mmap_page`: where the kernel writes next, and where we read next.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// `PERF_RECORD_LOST`, `PERF_RECORD_SAMPLE`.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;

/// Events being read.
pub struct Events {
    rings: Vec<Ring>,
    /// Of the events that write into a ring of another.
    others: Vec<OwnedFd>,
    held: Vec<(u64, Vec<u8>)>,
    /// From the steady clock, which is the only one that events can have, to that of the taps; a clock that is set fails a run.
    offset: u64,
    /// A ring had no room.
    pub missed: bool,
}

impl Events {
    /// Listens to these events, by the numbers in their formats, on every processor.
    pub fn open(ids: &[u64]) -> io::Result<Events> {
        let offset = sys::now() - sys::steady();
        let mut events =
            Events { rings: Vec::new(), others: Vec::new(), held: Vec::new(), offset, missed: false };
        for processor in processors()? {
            let mut ring: Option<Ring> = None;
            for id in ids {
                let fd = ring::trace_event(*id, processor)?;
                match &ring {
                    None => ring = Some(Ring::map(fd, PAGE * (1 + PAGES))?),
                    Some(ring) => {
                        ring::write_events_to(fd.as_fd(), ring.socket().as_fd())?;
                        events.others.push(fd);
                    }
                }
            }
            events.rings.extend(ring);
        }
        Ok(events)
    }

    /// Hands over what happened since the last time and before `until`: instant and record.
    pub fn drain(&mut self, until: u64, mut each: impl FnMut(u64, &[u8])) {
        for ring in &self.rings {
            let head = ring.read_wide(HEAD);
            let mut tail = ring.read_wide(TAIL);
            while tail < head {
                let header = taken(ring, tail, 8);
                let len = u64::from(u16::from_ne_bytes([header[6], header[7]]));
                let whole = taken(ring, tail, usize::try_from(len).expect("16 bits"));
                match sample(&whole) {
                    Some(Said::Sample(at, record)) => self.held.push((at + self.offset, record.to_vec())),
                    Some(Said::Lost) => self.missed = true,
                    None => {}
                }
                tail += len.max(8);
            }
            ring.write_wide(TAIL, tail);
        }
        self.held.sort_by_key(|(at, _)| *at);
        let ripe = self.held.partition_point(|(at, _)| *at < until);
        self.held.drain(..ripe).for_each(|(at, record)| each(at, &record));
    }
}

/// The processors that are there.
fn processors() -> io::Result<Vec<i32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    ranges(&text).ok_or_else(|| io::Error::other(format!("the processors that are online: {text}")))
}

/// `0-3,8`.
fn ranges(text: &str) -> Option<Vec<i32>> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<i32>().ok()?..=last.parse().ok()?);
    }
    Some(all)
}

/// Bytes of a ring's data, which goes on at its beginning.
fn taken(ring: &Ring, from: u64, len: usize) -> Vec<u8> {
    let size = PAGE * PAGES;
    let at = usize::try_from(from % size as u64).expect("less than the size");
    let first = len.min(size - at);
    let mut bytes = ring.bytes(PAGE + at, first).to_vec();
    bytes.extend_from_slice(ring.bytes(PAGE, len - first));
    bytes
}

enum Said<'a> {
    Sample(u64, &'a [u8]),
    Lost,
}

/// A record: `struct perf_event_header`, then of a sample its instant (`PERF_SAMPLE_TIME`) and the event's own record with its length
/// (`PERF_SAMPLE_RAW`).
fn sample(record: &[u8]) -> Option<Said<'_>> {
    let word = |at: usize| Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().expect("4 bytes")));
    match word(0)? {
        LOST => Some(Said::Lost),
        SAMPLE => {
            let at = u64::from_ne_bytes(record.get(8..16)?.try_into().expect("8 bytes"));
            let len = word(16)? as usize;
            Some(Said::Sample(at, record.get(20..20 + len)?))
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
        assert!(matches!(sample(&bytes), Some(Said::Sample(77, &[1, 2, 3, 4]))));
        assert!(sample(&bytes[..20]).is_none());
        bytes[0] = 2;
        assert!(matches!(sample(&bytes), Some(Said::Lost)));
        bytes[0] = 5;
        assert!(sample(&bytes).is_none());
    }

    #[test]
    fn processors_are_listed_as_ranges() {
        assert_eq!(ranges("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(ranges("0"), Some(vec![0]));
        assert_eq!(ranges(""), None);
    }
}
