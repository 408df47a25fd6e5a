//! Timers of applications.

use crate::schedule::HostIndex;
use tcpassay_units::Dur;

/// The purpose of a timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum AppTimer {
    /// The host stops, for this time.
    Halt(Dur),
    /// The host begins again.
    Boot,
    /// A client starts.
    Begin(u32),
    /// The given number of flows or requests arrives at a client.
    Arrive(u32, u32),
    /// The duration of a client has passed.
    Stop(u32),
    /// The next round of an incast client.
    Round(u32),
    /// A client may open its next flow to this server.
    Next(u32, HostIndex),
    /// The think time of a connection ended; the second number is the generation of its socket id.
    Think(u32, u32),
    /// A paced source or a slow reader continues.
    Endpoint(u32, u32),
}
