//! The paths and states of the traces of BBR version 3. Ten segments of 1000 bytes each 100 ms are 100,000 bytes a second; the product is ten segments.

use crate::rate_samples::{self, inner, paced, sample};
use crate::trace::{MSS, Outcome, Sender};
use tcpassay_cc::{Ack, Event};
use tcpassay_units::{Bytes, Time};

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub fn signals(bytes: u64) -> f64 {
    bytes as f64
}

/// Asserts a pacing rate in bytes per second.
#[track_caller]
pub fn rate(t: &Sender, expected: u64) -> Outcome {
    paced(t, expected, 1)
}

/// Sends a segment now, after which `flight` bytes are in flight.
pub fn send(t: &mut Sender, flight: u64) -> Time {
    t.flight = flight;
    t.tell(Event::Sent { bytes: Bytes::new(MSS), app_limited: false, idle: None });
    t.view.now
}

pub fn sampled(t: &mut Sender, acked: u64, delivered: u64, sent_at: Time, change: impl FnOnce(&mut Ack)) {
    rate_samples::sampled(t, acked, sample(delivered, 100_000, sent_at), change);
}

/// An ACK with a sample of `delivered` segments in 100 ms.
pub fn ack(t: &mut Sender, acked: u64, delivered: u64) {
    sampled(t, acked, delivered, Time::ZERO, |_| {});
}

pub fn lossy(t: &mut Sender, acked: u64, lost: u64, sent_at: Time) {
    sampled(t, acked, 10, sent_at, |ack| ack.lost = Bytes::new(lost * MSS));
}

pub fn round(t: &mut Sender, acked: u64, delivered: u64) {
    t.wait(100);
    ack(t, acked, delivered);
}

pub fn limited_round(t: &mut Sender, delivered: u64) {
    t.wait(100);
    sampled(t, delivered, delivered, Time::ZERO, |ack| ack.app_limited = true);
}

/// So many ACKs that report a loss, and the end of their round trip.
pub fn startup_losses(t: &mut Sender, count: u64) {
    let sent_at = send(t, 20_000);
    for _ in 0..count {
        lossy(t, 1, 1, sent_at);
    }
    t.flight = 60_000;
    t.wait(100);
    lossy(t, 20, 1, sent_at);
}

/// A probe that loses three segments of so many bytes in flight.
pub fn lossy_probe(t: &mut Sender, flight: u64) {
    probing(t);
    let sent_at = send(t, flight);
    t.wait(100);
    lossy(t, 10, 3, sent_at);
}

/// In Up again, with six segments in flight, less than the bound of eight: the probe does not end early.
pub fn probe_again(t: &mut Sender) {
    t.flight = 6_000;
    for _ in 0..20 {
        if inner(t, "mode") > 4.5 {
            break;
        }
        round(t, 8, 8);
    }
}

/// In Cruise, with a product of so many segments in so many milliseconds.
pub fn cruising_at(t: &mut Sender, segments: u64, ms: u64) {
    t.flight = 4 * segments * MSS;
    for _ in 0..4 {
        quick_round(t, segments, ms);
    }
    t.flight = segments * MSS;
    quick_round(t, segments, ms);
    quick_round(t, segments, ms);
}

pub fn quick_round(t: &mut Sender, segments: u64, ms: u64) {
    t.wait(ms);
    rate_samples::sampled(t, segments, sample(segments, ms * 1000, Time::ZERO), |_| {});
}

pub fn rounds_until_refill(t: &mut Sender, segments: u64, ms: u64) -> u64 {
    for rounds in 0..100 {
        if inner(t, "mode") > 3.5 {
            return rounds;
        }
        quick_round(t, segments, ms);
    }
    100
}

/// The pipe is full, 40 segments are in flight.
pub fn filled(t: &mut Sender) {
    t.flight = 40_000;
    for _ in 0..4 {
        round(t, 10, 10);
    }
}

/// In Cruise, with ten segments in flight.
pub fn cruising(t: &mut Sender) {
    filled(t);
    t.flight = 10_000;
    ack(t, 1, 10);
    ack(t, 1, 10);
}

/// In Up, with ten segments in flight.
pub fn probing(t: &mut Sender) {
    cruising(t);
    for _ in 0..20 {
        if inner(t, "mode") > 4.5 {
            break;
        }
        round(t, 10, 10);
    }
}
