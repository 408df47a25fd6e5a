//! Types that the readers of all formats share.

/// The longest packet or block that is read into memory (16 MiB).
pub(super) const LONGEST: usize = 16 << 20;

/// Number of interfaces that are read.
pub const MOST_INTERFACES: usize = 1 << 16;
/// Number of bytes of an interface's name that are kept.
pub(super) const LONGEST_NAME: usize = 255;

/// A link-layer type, as in the registry of the tcpdump project (`LINKTYPE_...`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkType(pub u16);

/// A capture interface.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Interface {
    /// Its name (`if_name`); without one, `interface N` in pcapng, and empty in pcap.
    pub name: String,
    /// The link layer of its packets.
    pub link: LinkType,
}

/// The error that ends the reading of a capture.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// There is not a single byte.
    #[error("the file is empty")]
    Empty,
    /// Neither pcap nor pcapng.
    #[error("this is neither pcap nor pcapng: it begins with {0}")]
    Unknown(String),
    /// The file ends inside a header, block or packet.
    #[error("the file ends inside a {what} that begins at byte {offset}")]
    Truncated {
        /// Position of its first byte, after decompression.
        offset: u64,
        /// The incomplete structure.
        what: &'static str,
    },
    /// A length or a value that no such file has.
    #[error("the {what} at byte {offset} is damaged: {why}")]
    Damaged {
        /// Position of its first byte, after decompression.
        offset: u64,
        /// The damaged structure.
        what: &'static str,
        /// The kind of damage.
        why: String,
    },
    /// The stream cannot be read or decompressed.
    #[error("after byte {offset} the file cannot be read: {why}")]
    Stream {
        /// Number of bytes that could be read, after decompression.
        offset: u64,
        /// The message of the operating system or the decompressor.
        why: String,
    },
}

/// A packet in the part of the buffer that was consumed last.
pub(super) struct Found {
    pub at_ns: Option<u64>,
    pub interface: usize,
    pub original_len: u32,
    /// Its first byte, and its length, in the consumed part.
    pub start: usize,
    pub len: usize,
}
