//! The comparison of decisions with `BBRv3` although its state has a random part.

use super::super::specification::{Specification, Values};
use super::{Bbr3, Departure, FREE};
use std::collections::VecDeque;
use tcpassay_cc::{Ack, Control, Event, View};
use tcpassay_units::{Bytes, Rate};

/// Bytes, and bits per second as a share, by which floating-point arithmetic may differ.
const ROUNDING: u64 = 1;
const RATE_ROUNDING: u64 = 1_000_000_000;

/// The specification with each number of round trips at the begin of a wait that agrees with the decisions so far.
#[derive(Clone, Debug)]
pub(in crate::rules::decisions) struct Candidates {
    all: Vec<Bbr3>,
    /// What was lost does not depend on the candidate.
    departures: VecDeque<Departure>,
}

impl Candidates {
    pub fn new(values: &Values<'_>) -> Candidates {
        Candidates { all: vec![Bbr3::new(values)], departures: VecDeque::new() }
    }

    /// The departure of the segment that a sample is of.
    fn departure(&mut self, ack: &Ack) -> Option<Departure> {
        let sent_at = ack.sample?.sent_at;
        while self.departures.front().is_some_and(|(at, ..)| *at < sent_at) {
            self.departures.pop_front();
        }
        self.departures.front().copied().filter(|(at, ..)| *at == sent_at)
    }

    fn sent(&mut self, view: &View) {
        let Some(lost) = self.all.first().map(|one| one.lost) else { return };
        let departure = (view.now, view.flight.get(), lost);
        match self.departures.back_mut().filter(|last| last.0 == view.now) {
            Some(newest) => *newest = departure,
            None => self.departures.push_back(departure),
        }
    }
}

impl Specification for Candidates {
    fn on(&mut self, view: &View, event: &Event, asked: &Control) -> Option<Control> {
        let (mut left, mut first) = (Vec::new(), None);
        let departure = if let Event::Ack(ack) = event { self.departure(ack) } else { None };
        for before in std::mem::take(&mut self.all) {
            for beginning in [0, 1] {
                let mut next = Bbr3 { beginning, began: false, ..before.clone() };
                let (window, rate) = next.on(view, event, departure);
                let began = next.began;
                (next.beginning, next.began) = (0, false);
                if next.unknown {
                    return None;
                }
                let told = asked.pacing.map_or(0, Rate::bits_per_sec);
                let same = window.abs_diff(asked.cwnd.get()) <= ROUNDING
                    && asked.ssthresh == view.control.ssthresh
                    && rate.abs_diff(told) <= 1 + rate / RATE_ROUNDING;
                if !same {
                    let cwnd = Bytes::new(window);
                    let pacing = Some(Rate::from_bits_per_sec(rate));
                    first.get_or_insert((Control { cwnd, pacing, ..view.control }, next));
                } else if !left.contains(&next) {
                    left.push(next);
                }
                if !began {
                    break;
                }
            }
        }
        if left.is_empty() {
            let (expected, next) = first?;
            self.all = vec![next];
            return Some(expected);
        }
        if left.len() <= 16 {
            self.all = left;
        }
        if matches!(event, Event::Sent { .. }) {
            self.sent(view);
        }
        None
    }

    fn variables(&self) -> String {
        let Some(one) = self.all.first() else { return String::new() };
        format!(
            " ({:?}, {} round trips, bandwidth {:.0} bytes/s, inflight_shortterm {}, inflight_longterm {})",
            one.mode,
            one.rounds,
            one.bandwidth(),
            bound(one.short),
            bound(one.long)
        )
    }
}

fn bound(bytes: u64) -> String {
    if bytes == FREE { "unlimited".to_owned() } else { bytes.to_string() }
}
