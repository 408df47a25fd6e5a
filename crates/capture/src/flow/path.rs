//! The path of a connection: the place at which the capture was taken, and times from there to both ends.

use super::response::Response;
use serde::Serialize;
use strum::{EnumMessage, IntoStaticStr, VariantArray};
use tcpassay_units::Dur;

/// The place on the path of a flow at which the capture was taken.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, EnumMessage, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Place {
    /// At the sender, or near it.
    Sender,
    /// At the receiver, or near it.
    Receiver,
    /// In between: both ends take a part of the round trip to answer.
    Between,
    /// Unknown.
    Unknown,
}

/// An end is near the capture point when it answers within this, and within a third of the round trip.
const NEAR: Dur = Dur::from_micros(50);

/// The response times of both ends, for data of one of them.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    pub answers: &'a [Response; 2],
    pub sender: usize,
}

impl<'a> Path<'a> {
    /// The response times of the receiver.
    pub fn receiver(self) -> &'a Response {
        &self.answers[1 - self.sender]
    }

    /// The shortest round trip: both ends' smallest response times together.
    pub fn round_trip(self) -> Option<Dur> {
        Some(self.answers[0].least()?.saturating_add(self.answers[1].least()?))
    }

    /// The place at which the capture was taken, from the response times of both ends.
    pub fn place(self) -> Place {
        let [Some(own), Some(other)] = [self.sender, 1 - self.sender].map(|end| self.answers[end].least())
        else {
            return Place::Unknown;
        };
        let near = |one: Dur, other: Dur| {
            let whole = one.saturating_add(other);
            one.saturating_mul(10) <= whole || (one <= NEAR && one.saturating_mul(3) <= whole)
        };
        match (near(own, other), near(other, own)) {
            (true, _) => Place::Sender,
            (false, true) => Place::Receiver,
            (false, false) => Place::Between,
        }
    }

    /// The time from the capture point to the sender and back; zero at the sender.
    pub fn to_sender(self) -> Dur {
        match self.place() {
            Place::Sender | Place::Unknown => Dur::ZERO,
            Place::Receiver | Place::Between => self.answers[self.sender].now().unwrap_or(Dur::ZERO),
        }
    }
}
