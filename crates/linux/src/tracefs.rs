//! Binary records of trace events from the pages of the kernel's trace buffer, with exact times.
//!
//! The positions of the fields come from the `format` file of each event, so that records of any kernel can be read. The layout of pages
//! and record headers is that of a 64-bit kernel (`include/linux/ring_buffer.h`, `kernel/trace/ring_buffer.c`).

use crate::sys::read_text;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const HERE: &str = "/sys/kernel/tracing";
const PAGE: usize = 4096;
/// Bytes of the header of a page: the time of its first record and the used length (64 bits each).
const HEADER: usize = 16;
/// The bits of the length.
const LENGTH: u64 = (1 << 20) - 1;
/// The bit that is set if events before this page were lost (`RB_MISSED_EVENTS`).
const MISSED: u64 = 1 << 31;

/// A numeric field of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceField {
    at: usize,
    size: usize,
}

impl TraceField {
    /// The field of `size` bytes (at most 8) at an offset.
    pub const fn new(offset: usize, size: usize) -> TraceField {
        TraceField { at: offset, size }
    }

    /// The value of the field in a record; 0 if the record is too short.
    pub fn of(self, record: &[u8]) -> u64 {
        let mut wide = [0; 8];
        if let Some(bytes) = record.get(self.at..self.at + self.size) {
            wide[..self.size].copy_from_slice(bytes);
        }
        u64::from_ne_bytes(wide)
    }

    /// The filter of an event that is true if the IPv4 address in this field, which is called `name`, is one of these. `None` if a filter cannot
    /// compare them: a field that is no number, such as a socket address, or more addresses than a filter has room for.
    pub fn filter(self, name: &str, addresses: impl IntoIterator<Item = [u8; 4]>) -> Option<String> {
        let equal = |address| format!("{name} == {}", u32::from_ne_bytes(address));
        let terms: Vec<String> = addresses.into_iter().map(equal).collect();
        let filter = terms.join(" || ");
        (self.size == 4 && filter.len() < PAGE).then_some(filter)
    }

    /// The filter of an event that is true if one of two ports is in this range.
    pub fn port_filter(names: [&str; 2], ports: &std::ops::RangeInclusive<u16>) -> String {
        let within = names.map(|name| format!("({name} >= {} && {name} <= {})", ports.start(), ports.end()));
        within.join(" || ")
    }

    /// The IPv4 address in the field: four bytes, or a socket address, which begins with family and port.
    pub fn address(self, record: &[u8]) -> [u8; 4] {
        let at = self.at + if self.size > 4 { 4 } else { 0 };
        record.get(at..at + 4).map_or([0; 4], |b| b.try_into().expect("4 bytes"))
    }
}

/// The format of the records of an event.
#[derive(PartialEq, Eq, Debug)]
pub struct Format {
    /// The number of the event, with which its records begin (16 bits).
    pub id: u64,
    fields: Vec<(String, TraceField)>,
}

impl Format {
    /// The format of an event such as `tcp/tcp_probe`; `None` if this kernel does not have the event.
    pub fn of(event: &str) -> io::Result<Option<Format>> {
        let path = format!("{HERE}/events/{event}/format");
        let text = match read_text(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        Format::parse(&text)
            .map(Some)
            .ok_or_else(|| io::Error::other(format!("the format of {event} cannot be parsed")))
    }

    fn parse(text: &str) -> Option<Format> {
        let id =
            text.lines().find_map(|line| line.strip_prefix("ID: ")).and_then(|n| n.trim().parse().ok())?;
        let number = |line: &str, name: &str| {
            let rest = line.split(name).nth(1)?;
            rest.split(';').next()?.trim().parse::<usize>().ok()
        };
        let field = |line: &str| {
            let declared = line.trim().strip_prefix("field:")?.split(';').next()?;
            let name = declared.split_whitespace().last()?.split('[').next()?;
            let field = TraceField { at: number(line, "offset:")?, size: number(line, "size:")? };
            Some((name.trim_start_matches('*').to_owned(), field))
        };
        Some(Format { id, fields: text.lines().filter_map(field).collect() })
    }

    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<TraceField> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, field)| *field)
    }
}

/// Mounts tracefs unless it is mounted. The process must be in a mount namespace of its own.
pub fn mount() -> io::Result<()> {
    if fs::exists(format!("{HERE}/events"))? {
        return Ok(());
    }
    crate::sys::mount("tracefs", HERE, "tracefs", 0)
}

/// Enables an event.
pub fn enable(event: &str) -> io::Result<()> {
    fs::write(format!("{HERE}/events/{event}/enable"), "1")
}

/// The trace buffer of the first processor; a guest has only one.
pub struct Pages {
    pipe: fs::File,
    page: Vec<u8>,
    /// Events were lost because the buffer was full.
    pub missed: bool,
}

impl Pages {
    /// Opens the buffer, with a size in kilobytes. The times of records are those of `CLOCK_MONOTONIC`.
    pub fn open(kilobytes: u32) -> io::Result<Pages> {
        fs::write(format!("{HERE}/trace_clock"), "mono")?;
        fs::write(format!("{HERE}/buffer_size_kb"), kilobytes.to_string())?;
        let path = Path::new(HERE).join("per_cpu/cpu0/trace_pipe_raw");
        let pipe = fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        Ok(Pages { pipe, page: vec![0; PAGE], missed: false })
    }

    /// Calls `each` with the time and the record of the events since the last call.
    pub fn drain(&mut self, mut each: impl FnMut(u64, &[u8])) {
        while let Ok(n @ HEADER..) = self.pipe.read(&mut self.page) {
            self.missed |= records(&self.page[..n], &mut each);
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().expect("4 bytes")))
}

/// Calls `each` for the records of a page. Returns true if events before the page were lost.
fn records(page: &[u8], each: &mut impl FnMut(u64, &[u8])) -> bool {
    let wide = |at: usize| u64::from_ne_bytes(page[at..at + 8].try_into().expect("8 bytes"));
    let (mut now, used) = (wide(0), wide(8));
    let end = page.len().min(HEADER + usize::try_from(used & LENGTH).expect("20 bits"));
    let data = &page[..end];
    let mut at = HEADER;
    // The header of a record: 5 bits of type or length, 27 bits of nanoseconds since the previous record.
    while let Some(header) = word(data, at) {
        let (kind, delta) = (header & 31, u64::from(header >> 5));
        let more = word(data, at + 4).unwrap_or(0);
        now += delta;
        match kind {
            // Padding: to the end of the page, or of the given length.
            29 if delta == 0 => break,
            29 => at += 4 + more as usize,
            // The upper bits of a long difference, and an absolute time.
            30 => {
                now += u64::from(more) << 27;
                at += 8;
            }
            31 => {
                now = now & !((1 << 59) - 1) | u64::from(more) << 27 | delta;
                at += 8;
            }
            _ => {
                let (from, len) = if kind == 0 {
                    (at + 8, (more as usize).saturating_sub(4))
                } else {
                    (at + 4, 4 * kind as usize)
                };
                if let Some(record) = data.get(from..from + len) {
                    each(now, record);
                }
                at = from + len;
            }
        }
    }
    used & MISSED != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: tcp_cong_state_set\nID: 1234\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:const void * skaddr;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:__u16 sport;\toffset:16;\tsize:2;\tsigned:0;\n\
        \tfield:__u8 saddr[4];\toffset:22;\tsize:4;\tsigned:0;\n\
        \tfield:__u8 daddr[28];\toffset:26;\tsize:28;\tsigned:0;\n\n\
        print fmt: \"field:%d offset:0; size:1;\", REC->x\n";

    #[test]
    fn a_field_has_the_offset_of_the_format_of_its_event() {
        let format = Format::parse(FORMAT).expect("a format");
        assert_eq!(format.id, 1234);
        let record: Vec<u8> = (0..54).collect();
        assert_eq!(
            format.field("sport").expect("it is there").of(&record),
            u64::from(u16::from_ne_bytes([16, 17]))
        );
        assert_eq!(format.field("saddr").expect("it is there").address(&record), [22, 23, 24, 25]);
        // After the family and the port of a socket address.
        assert_eq!(format.field("daddr").expect("it is there").address(&record), [30, 31, 32, 33]);
        assert_eq!(format.field("nobody"), None);
        assert_eq!(format.field("sport").expect("it is there").of(&record[..17]), 0);
    }

    #[test]
    fn a_filter_compares_a_field_of_four_bytes_with_each_address_as_a_number_of_this_machine() {
        let format = Format::parse(FORMAT).expect("a format");
        let filter = |name: &str, addresses: &[[u8; 4]]| {
            format.field(name).expect("it is there").filter(name, addresses.iter().copied())
        };
        let [a, b] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(u32::from_ne_bytes);
        let expected = format!("saddr == {a} || saddr == {b}");
        assert_eq!(filter("saddr", &[[10, 0, 0, 1], [10, 0, 0, 2]]), Some(expected));
        assert_eq!(filter("daddr", &[[10, 0, 0, 1]]), None, "a socket address");
        assert_eq!(filter("saddr", &[[10, 0, 0, 1]; 1000]), None, "longer than a filter may be");
        let ports = TraceField::port_filter(["sport", "dport"], &(5001..=5003));
        assert_eq!(ports, "(sport >= 5001 && sport <= 5003) || (dport >= 5001 && dport <= 5003)");
    }

    fn page(used: u64, words: &[u32]) -> Vec<u8> {
        let mut bytes = 1_000_u64.to_ne_bytes().to_vec();
        bytes.extend(used.to_ne_bytes());
        bytes.extend(words.iter().flat_map(|w| w.to_ne_bytes()));
        bytes
    }

    #[test]
    fn records_of_a_page_come_with_their_instants_across_pauses_and_padding() {
        // Two words after 7 ns; a pause of 2^27 + 3 ns; one long record of a word; padding of two words; one record; the rest of the page.
        let words = [
            7 << 5 | 2,
            10,
            11,
            3 << 5 | 0x1e,
            1,
            0,
            8,
            12,
            1 << 5 | 0x1d,
            8,
            99,
            5 << 5 | 1,
            13,
            29,
            77,
            77,
        ];
        let mut seen = Vec::new();
        let whole = page(words.len() as u64 * 4, &words);
        let missed =
            records(&whole, &mut |at, r: &[u8]| seen.push((at, r.len(), word(r, 0).expect("a word"))));
        assert!(!missed);
        let later = 1_007 + 3 + (1 << 27);
        assert_eq!(seen, [(1_007, 8, 10), (later, 4, 12), (later + 6, 4, 13)]);
    }

    #[test]
    fn lost_events_before_a_page_are_reported_and_a_truncated_page_ends() {
        let mut seen = 0;
        assert!(records(&page(8 | MISSED, &[1, 5]), &mut |_, _: &[u8]| seen += 1));
        assert!(!records(&page(400, &[28, 5]), &mut |_, _: &[u8]| seen += 1));
        assert_eq!(seen, 1);
    }
}
