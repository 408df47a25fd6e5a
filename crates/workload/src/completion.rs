//! Completions: flows, requests and barrier rounds that ended.

use crate::schedule::ConnKey;
use tcpassay_units::{Bytes, Time};

/// The kind of a completion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AppCompletionKind {
    /// A bulk flow: from its arrival to the peer's FIN, which follows when the peer has read all data.
    Flow,
    /// A request: from its arrival to the last byte of its response.
    Rpc,
    /// A barrier round of incast: from the first request to the last byte of the last response.
    Round,
}

/// The end of a transfer, with the times that an application observes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppCompletion {
    /// The kind.
    pub kind: AppCompletionKind,
    /// The connection; for a barrier round, the one that responded last.
    pub key: ConnKey,
    /// Bytes from client to server; for a barrier round, to all servers.
    pub request: Bytes,
    /// Bytes from server to client.
    pub response: Bytes,
    /// Time at which the application wanted to begin.
    pub start: Time,
    /// Time at which it ended.
    pub end: Time,
    /// False when the connection failed before completion.
    pub ok: bool,
}
