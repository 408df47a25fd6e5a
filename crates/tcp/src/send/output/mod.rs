//! Selection of the data to send: the send buffer, Nagle's algorithm, segment and super-segment sizes.

pub(super) mod nagle;
pub(super) mod segment_size;
pub(super) mod send_buffer;
pub(super) mod tso;
