//! The algorithms that end slow start before a loss: HyStart++ (RFC 9406 section 4) and HyStart of Linux (`hystart_update`).

use tcpassay_cc::{Ack, HystartDetect, HystartMode, View};
use tcpassay_tcp::Config;
use tcpassay_units::{Dur, Time};

/// The growth of slow start with HyStart++.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Speed {
    Full,
    /// Conservative slow start: `CSS_GROWTH_DIVISOR` is 4.
    Quarter,
    Over,
}

/// HyStart++ with the constants of RFC 9406 section 4.3.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlusPlus {
    round: u64,
    /// The least round-trip time of the last round and of this one, and the number of its samples.
    last: Option<Dur>,
    least: Option<Dur>,
    samples: u32,
    /// Conservative slow start: the baseline and the number of rounds that have ended.
    conservative: Option<(Dur, u32)>,
}

impl PlusPlus {
    pub fn on_ack(&mut self, ack: &Ack) -> Speed {
        if ack.round != self.round {
            (self.round, self.last, self.least, self.samples) = (ack.round, self.least, None, 0);
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
                if *rounds == 5 {
                    return Speed::Over;
                }
            }
        }
        if let Some(rtt) = ack.rtt {
            self.samples += 1;
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        }
        if let Some(least) = self.least.filter(|_| self.samples >= 8) {
            if let Some((baseline, _)) = self.conservative {
                if least < baseline {
                    self.conservative = None;
                }
            } else if let Some(last) = self.last {
                let rise = (last / 8).clamp(Dur::from_millis(4), Dur::from_millis(16));
                if least >= last + rise {
                    self.conservative = Some((least, 0));
                }
            }
        }
        if self.conservative.is_some() { Speed::Quarter } else { Speed::Full }
    }
}

/// HyStart of Linux.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hystart {
    detect: HystartDetect,
    /// `delay_min`.
    pub shortest: Option<Dur>,
    /// Bytes acknowledged, the most bytes sent by then, and that number at the begin of the round.
    acked: u64,
    sent: u64,
    end: u64,
    begun: Time,
    last: Time,
    least: Option<Dur>,
    samples: u32,
    pub found: bool,
}

impl Hystart {
    /// HyStart as the settings enable it; without detections it only keeps the shortest round-trip time.
    pub fn new(stack: &Config) -> Hystart {
        let detect = match stack.hystart {
            HystartMode::Linux(detect) => detect,
            _ => HystartDetect::default(),
        };
        Hystart {
            detect,
            shortest: None,
            acked: 0,
            sent: 0,
            end: 0,
            begun: Time::ZERO,
            last: Time::ZERO,
            least: None,
            samples: 0,
            found: false,
        }
    }

    /// A timeout (`bictcp_reset`, `bictcp_hystart_reset`).
    pub fn reset(&mut self, now: Time) {
        self.shortest = None;
        self.found = false;
        self.begin(now);
    }

    fn begin(&mut self, now: Time) {
        (self.end, self.begun, self.last) = (self.sent, now, now);
        (self.least, self.samples) = (None, 0);
    }

    /// `fresh`: the epoch began less than a second ago, so that samples are discarded.
    pub fn on_ack(&mut self, view: &View, ack: &Ack, fresh: bool) {
        let now = view.now;
        self.acked += ack.acked.get();
        self.sent = self.sent.max(self.acked + view.flight.get());
        let Some(sample) = ack.rtt.filter(|_| !fresh) else { return };
        let shortest = self.shortest.map_or(sample, |shortest| shortest.min(sample));
        self.shortest = Some(shortest);
        let (cwnd, ssthresh) = (view.control.cwnd, view.control.ssthresh);
        if self.found || cwnd >= ssthresh {
            return;
        }
        if self.acked > self.end {
            self.begin(now);
        }
        if cwnd.get() < 16 * view.mss.get() {
            return;
        }
        if self.detect.train && now.since(self.last) <= Dur::from_millis(2) {
            self.last = now;
            // `hystart_ack_delay`: four super-segments at twice the window per SRTT, at most a millisecond.
            let srtt = u128::from(view.srtt.map_or(0, Dur::as_nanos));
            let delay = srtt * 4 * 65_536 / u128::from(2 * cwnd.get());
            let delay = Dur::from_nanos(u64::try_from(delay).unwrap_or(u64::MAX)).min(Dur::from_millis(1));
            self.found |= now.since(self.begun) > (shortest + delay) / 2;
        }
        if self.detect.delay {
            let least = self.least.map_or(sample, |least| least.min(sample));
            self.least = Some(least);
            if self.samples == 8 {
                let rise = (shortest / 8).clamp(Dur::from_millis(4), Dur::from_millis(16));
                self.found |= least > shortest + rise;
            } else {
                self.samples += 1;
            }
        }
    }
}
