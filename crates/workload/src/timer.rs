//! Timers of applications.

use crate::schedule::HostIndex;

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum AppTimer {
    /// A client begins.
    Begin(u32),
    /// So many flows or requests arrive at a client.
    Arrive(u32, u32),
    /// A client's duration is over.
    Stop(u32),
    /// The next round of an incast client.
    Round(u32),
    /// A client may open its next flow to this server.
    Next(u32, HostIndex),
    /// A thinking connection issues its next request; the second number is the slot's generation.
    Think(u32, u32),
    /// A pacing or slowly reading end is due.
    Endpoint(u32, u32),
}
