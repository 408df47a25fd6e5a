//! What ended: flows, requests, rounds.

use crate::schedule::ConnKey;
use tcpassay_units::{Bytes, Time};

/// What ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AppCompletionKind {
    /// A bulk flow: from its arrival to the peer's FIN, which answers ours after everything was read.
    Flow,
    /// A request: from its arrival to the last byte of its response.
    Rpc,
    /// A barrier round of incast: from the first request to the last byte of the last response.
    Round,
}

/// Something that ended, with the times that an application sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppCompletion {
    /// What.
    pub kind: AppCompletionKind,
    /// The connection (of a round: the one that answered last).
    pub key: ConnKey,
    /// Bytes from client to server (of a round: to all servers).
    pub request: Bytes,
    /// Bytes from server to client.
    pub response: Bytes,
    /// When the application wanted it to begin.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// False when the connection failed under it.
    pub ok: bool,
}
