//! What the traces of both versions of BBR use: samples of the delivery rate, the variables of the model, pacing rates.

use crate::trace::{MSS, Outcome, Sender};
use tcpassay_cc::{Ack, RateSample};
use tcpassay_units::{Bytes, Dur, Time};

/// A variable of the controller.
pub fn inner(t: &Sender, name: &str) -> f64 {
    t.controller.internals().into_iter().find(|(n, _)| *n == name).expect("a variable").1
}

/// Demands a pacing rate in bytes a second, with a deviation of `most` bit/s.
#[track_caller]
pub fn paced(t: &Sender, expected: u64, most: u64) -> Outcome {
    let place = std::panic::Location::caller();
    match t.view.control.pacing {
        Some(rate) if rate.bits_per_sec().abs_diff(expected * 8) <= most => Ok(()),
        live => Err(format!("{place}: expected {} bit/s, live {live:?}", expected * 8)),
    }
}

/// A sample of `delivered` segments in so many microseconds, of which the newest was sent at `sent_at`.
pub fn sample(delivered: u64, us: u64, sent_at: Time) -> RateSample {
    RateSample { delivered: Bytes::new(delivered * MSS), interval: Dur::from_micros(us), sent_at }
}

/// An ACK for so many segments with a sample.
pub fn sampled(t: &mut Sender, acked: u64, sample: RateSample, change: impl FnOnce(&mut Ack)) {
    t.ack_with(acked * MSS, |ack| {
        ack.sample = Some(sample);
        change(ack);
    });
}
