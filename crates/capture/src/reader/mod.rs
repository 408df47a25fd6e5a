//! Packets of a capture file in the order of the file.
//!
//! [`Reader`] reads pcap and pcapng from any stream with a buffer of constant size. What precedes a damaged place is read; the error
//! states the place. A pcapng block whose content is damaged, but whose length is not, is skipped and counted.

mod buffer;
mod model;
mod pcap;
mod pcapng;

use crate::source::{MOST_EXPANDED, Source};
use buffer::Buffer;
pub use model::{Interface, LinkType, MOST_INTERFACES, ReadError};
use std::io::Read;

/// A captured packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureRecord<'a> {
    /// Nanoseconds since 1970; absent in a simple packet block, which has no time.
    pub at_ns: Option<u64>,
    /// Index of [`Reader::interfaces`].
    pub interface: usize,
    /// Its link layer.
    pub link: LinkType,
    /// Bytes on the wire.
    pub original_len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
}

enum Format {
    Pcap(pcap::Layout),
    Pcapng(pcapng::Section),
}

/// Reads the packets of a capture.
pub struct Reader<R: Read> {
    buffer: Buffer<Source<R>>,
    format: Format,
    interfaces: Vec<Interface>,
    skipped: pcapng::Skipped,
    over: bool,
    /// Segments in tunnels over UDP were found.
    pub(crate) over_udp: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header of the file, which may be compressed.
    ///
    /// # Errors
    /// An empty stream, another format, a damaged or incomplete header.
    pub fn new(inner: R) -> Result<Reader<R>, ReadError> {
        Reader::limited(inner, MOST_EXPANDED)
    }

    /// The same with a limit: a compressed file that expands to more than `most_expanded` bytes, and to more than fifty times its size,
    /// is read up to there.
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn limited(inner: R, most_expanded: u64) -> Result<Reader<R>, ReadError> {
        let stream = |error: std::io::Error| ReadError::Stream { offset: 0, why: error.to_string() };
        let mut buffer = Buffer::new(Source::new(inner, most_expanded).map_err(stream)?);
        let have = buffer.fill(4)?.min(4);
        let first: [u8; 4] = match buffer.data().get(..4) {
            Some(first) => first.try_into().expect("four bytes"),
            None if have == 0 => return Err(ReadError::Empty),
            None => return Err(unknown(buffer.data())),
        };
        let mut interfaces = Vec::new();
        let format = if first == pcapng::SECTION.to_be_bytes() {
            Format::Pcapng(pcapng::Section::default())
        } else {
            let (layout, interface) = pcap::header(&mut buffer, first)?.ok_or_else(|| unknown(&first))?;
            interfaces.push(interface);
            Format::Pcap(layout)
        };
        let skipped = pcapng::Skipped::default();
        Ok(Reader { buffer, format, interfaces, skipped, over: false, over_udp: false })
    }

    /// The next packet; `None` at the end of the file. After an error there are no more packets.
    ///
    /// # Errors
    /// A truncated or damaged file; see [`ReadError`].
    #[inline]
    pub fn next_packet(&mut self) -> Result<Option<CaptureRecord<'_>>, ReadError> {
        if self.over {
            return Ok(None);
        }
        let found = match &mut self.format {
            Format::Pcap(layout) => pcap::next(layout, &mut self.buffer),
            Format::Pcapng(section) => {
                pcapng::next(section, &mut self.buffer, &mut self.interfaces, &mut self.skipped)
            }
        };
        match found {
            Ok(Some(found)) => Ok(Some(CaptureRecord {
                at_ns: found.at_ns,
                interface: found.interface,
                link: self.interfaces[found.interface].link,
                original_len: found.original_len,
                data: self.buffer.taken(found.start, found.len),
            })),
            Ok(None) => {
                self.over = true;
                Ok(None)
            }
            Err(error) => {
                self.over = true;
                Err(error)
            }
        }
    }

    /// The interfaces that were described up to now.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Number of damaged blocks that were skipped.
    pub fn skipped_blocks(&self) -> u64 {
        self.skipped.damaged
    }

    /// Number of packets that the capture lost up to now, as a pcapng file says (`isb_ifdrop`, `isb_osdrop`, `epb_dropcount`). Tools that
    /// sort or cut files may leave out these counts.
    pub fn lost_packets(&self) -> u64 {
        self.skipped.lost()
    }

    /// Number of interfaces beyond [`MOST_INTERFACES`].
    pub fn too_many_interfaces(&self) -> u64 {
        self.skipped.interfaces
    }
}

fn unknown(first: &[u8]) -> ReadError {
    let shown: Vec<String> = first.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    ReadError::Unknown(shown.join(" "))
}
