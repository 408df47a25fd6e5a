//! The sockets of a host, as its applications use them.

use crate::schedule::ConnKey;
use tcpassay_units::Bytes;

/// One end of a connection at one host: an index that the host may use for a table of its own. After
/// [`Sockets::close`], or after [`Apps::failed`](crate::Apps::failed), the slot is used again for another connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(pub u32);

/// The sockets of a host, as its applications use them. All of them are non-blocking.
pub trait Sockets {
    /// Opens a connection to `key.server`; its options and its congestion control are those of `key.part`. The
    /// application hears from it by [`Apps::ready`](crate::Apps::ready).
    fn connect(&mut self, slot: SocketId, key: ConnKey);
    /// Hands over `n` bytes; returns how many were taken (none before the connection stands). When that is fewer than
    /// `n`, [`Apps::ready`](crate::Apps::ready) follows once more would be taken.
    fn write(&mut self, slot: SocketId, n: Bytes) -> Bytes;
    /// Bytes that a read would return.
    fn readable(&self, slot: SocketId) -> Bytes;
    /// Takes up to `n` bytes that arrived in order; returns how many.
    fn read(&mut self, slot: SocketId, n: Bytes) -> Bytes;
    /// The peer closed its direction and everything before that was read.
    fn peer_closed(&self, slot: SocketId) -> bool;
    /// Closes our direction behind what was written.
    fn shutdown(&mut self, slot: SocketId);
    /// Gives the socket up, behind what was written; the slot is free.
    fn close(&mut self, slot: SocketId);
}
