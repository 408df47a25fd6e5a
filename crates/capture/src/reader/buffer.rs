//! A window onto a stream: bytes that were read and are not yet consumed.

use super::model::ReadError;
use std::io::{self, Read};

/// Bytes read at once: they are still in the cache of the core when they are decoded.
const STEP: usize = 1 << 18;

/// The bytes between what was consumed and what was read.
pub(super) struct Buffer<R> {
    inner: R,
    bytes: Vec<u8>,
    /// The unconsumed bytes are `start..end` of `bytes`.
    start: usize,
    end: usize,
    /// The last consumed bytes begin here.
    last: usize,
    /// Consumed bytes in total.
    consumed: u64,
    over: bool,
}

impl<R: Read> Buffer<R> {
    pub fn new(inner: R) -> Buffer<R> {
        Buffer { inner, bytes: vec![0; STEP], start: 0, end: 0, last: 0, consumed: 0, over: false }
    }

    /// The unconsumed bytes that are in memory.
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Position in the stream of the first unconsumed byte.
    pub fn offset(&self) -> u64 {
        self.consumed
    }

    /// Reads until `wanted` bytes are in memory or the stream ends; returns how many there are.
    #[inline]
    pub fn fill(&mut self, wanted: usize) -> Result<usize, ReadError> {
        let have = self.end - self.start;
        if have >= wanted {
            return Ok(have);
        }
        self.fill_more(wanted)
    }

    #[cold]
    fn fill_more(&mut self, wanted: usize) -> Result<usize, ReadError> {
        while self.end - self.start < wanted && !self.over {
            if self.bytes.len() - self.start < wanted || self.end == self.bytes.len() {
                self.bytes.copy_within(self.start..self.end, 0);
                (self.start, self.end, self.last) = (0, self.end - self.start, 0);
                if self.bytes.len() < wanted {
                    self.bytes.resize(wanted.next_multiple_of(STEP), 0);
                }
            }
            match self.inner.read(&mut self.bytes[self.end..]) {
                Ok(0) => self.over = true,
                Ok(more) => self.end += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.over = true;
                    let offset = self.consumed + (self.end - self.start) as u64;
                    return Err(ReadError::Stream { offset, why: error.to_string() });
                }
            }
        }
        Ok(self.end - self.start)
    }

    /// Consumes `len` bytes that are in memory.
    pub fn consume(&mut self, len: usize) {
        self.last = self.start;
        self.start += len;
        self.consumed += len as u64;
    }

    /// A part of the bytes that were consumed last.
    pub fn taken(&self, start: usize, len: usize) -> &[u8] {
        &self.bytes[self.last + start..self.last + start + len]
    }

    /// Consumes `len` bytes without keeping them; false when the stream has fewer.
    pub fn discard(&mut self, mut len: u64) -> Result<bool, ReadError> {
        while len > 0 {
            let have = self.fill(1)?;
            if have == 0 {
                return Ok(false);
            }
            let part = usize::try_from(len).unwrap_or(usize::MAX).min(have);
            self.consume(part);
            len -= part as u64;
        }
        Ok(true)
    }
}
