//! The socket interface that a host provides to its applications.

use crate::schedule::ConnKey;
use tcpassay_units::Bytes;

/// A socket of one host: an index that the host may use for its own table. After [`Sockets::close`], or after
/// [`Apps::failed`](crate::Apps::failed), the id is reused for another connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(pub u32);

/// The socket interface of a host. All calls are non-blocking.
pub trait Sockets {
    /// Opens a connection to `key.server` with the options and the congestion control of `key.part`.
    /// [`Apps::ready`](crate::Apps::ready) follows when it is established.
    fn connect(&mut self, slot: SocketId, key: ConnKey);
    /// As [`Sockets::connect`], from the port of the connection `before`, which vanished when the host stopped.
    fn connect_again(&mut self, slot: SocketId, key: ConnKey, before: ConnKey);
    /// The host stops: its connections vanish without a segment, and what arrives is lost until [`Sockets::boot`]. All ids are free.
    fn halt(&mut self);
    /// The host begins again.
    fn boot(&mut self);
    /// Writes `n` bytes. Returns the number of accepted bytes, which is zero before the connection is established.
    /// When it is less than `n`, [`Apps::ready`](crate::Apps::ready) follows when the socket accepts more.
    fn write(&mut self, slot: SocketId, n: Bytes) -> Bytes;
    /// Number of bytes that can be read.
    fn readable(&self, slot: SocketId) -> Bytes;
    /// Reads up to `n` bytes that arrived in order. Returns their number.
    fn read(&mut self, slot: SocketId, n: Bytes) -> Bytes;
    /// Whether the peer closed its direction and all data before it was read.
    fn peer_closed(&self, slot: SocketId) -> bool;
    /// Closes this direction after the written data.
    fn shutdown(&mut self, slot: SocketId);
    /// Closes the socket after the written data; the id is free.
    fn close(&mut self, slot: SocketId);
}
