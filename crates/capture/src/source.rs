//! A capture as a stream of bytes: plain, or compressed with gzip or zstd.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Read};

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Number of bytes that are read at once.
const BLOCK: usize = 64 * 1024;
/// The largest window of a zstd frame: `zstd --ultra` and `--long=27` need 128 MiB; frames that need more are refused.
const MAX_WINDOW: u64 = 128 << 20;

/// What a compressed file may expand to, if it is more than [`MOST_RATIO`] times its size.
pub const MOST_EXPANDED: u64 = 4_000_000_000;
/// Real captures are compressed to a tenth or a fifth.
const MOST_RATIO: u64 = 50;

/// A decompressed stream of bytes; the first bytes identify the compression.
pub struct Source<R: Read> {
    form: Form<R>,
    /// Bytes after decompression.
    expanded: u64,
    most_expanded: u64,
}

enum Form<R: Read> {
    Plain(BufReader<Counted<R>>),
    Gzip(Box<MultiGzDecoder<BufReader<Counted<R>>>>),
    Zstd(Box<Zstd<BufReader<Counted<R>>>>),
}

/// A stream whose bytes are counted.
struct Counted<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(out)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

impl<R: Read> Source<R> {
    /// Looks at the first bytes of `inner`. Reading ends with an error when a compressed stream expands to more than `most_expanded` bytes,
    /// and to more than fifty times its size.
    ///
    /// # Errors
    /// Errors of `inner`, and a zstd frame header that is damaged or asks for more memory than 128 MiB.
    pub fn new(inner: R, most_expanded: u64) -> io::Result<Source<R>> {
        let mut inner = BufReader::with_capacity(BLOCK, Counted { inner, bytes: 0 });
        let first = loop {
            match inner.fill_buf() {
                Ok(first) => break first,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        };
        let form = if first.starts_with(&GZIP) {
            Form::Gzip(Box::new(MultiGzDecoder::new(inner)))
        } else if first.starts_with(&ZSTD) || is_skippable(first) {
            Form::Zstd(Box::new(Zstd::new(inner)))
        } else {
            Form::Plain(inner)
        };
        Ok(Source { form, expanded: 0, most_expanded })
    }

    /// Bytes before decompression; `None` when nothing is decompressed.
    fn compressed(&self) -> Option<u64> {
        match &self.form {
            Form::Plain(_) => None,
            Form::Gzip(inner) => Some(inner.get_ref().get_ref().bytes),
            Form::Zstd(inner) => Some(inner.input.get_ref().bytes),
        }
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.expanded > self.most_expanded
            && self.compressed().is_some_and(|bytes| self.expanded > bytes.saturating_mul(MOST_RATIO))
        {
            return Err(io::Error::other(format!(
                "it expands to more than {} bytes and {MOST_RATIO} times its size; `--max-expanded` raises the limit",
                self.most_expanded
            )));
        }
        let count = match &mut self.form {
            Form::Plain(inner) => inner.read(out),
            Form::Gzip(inner) => inner.read(out),
            Form::Zstd(inner) => inner.read(out),
        }?;
        self.expanded += count as u64;
        Ok(count)
    }
}

/// A skippable frame of zstd (RFC 8878 section 3.1.2).
fn is_skippable(first: &[u8]) -> bool {
    matches!(first, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// Zstd frames one after the other.
struct Zstd<R: BufRead> {
    input: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> Zstd<R> {
    fn new(input: R) -> Zstd<R> {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW);
        Zstd { input, decoder }
    }

    /// Begins the next frame; false at the end of the stream.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.input) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut self.input.by_ref().take(length), &mut io::sink())? < length {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !out.is_empty() {
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(out);
            }
            if !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.input, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            } else if !self.next_frame()? {
                break;
            }
        }
        Ok(0)
    }
}
