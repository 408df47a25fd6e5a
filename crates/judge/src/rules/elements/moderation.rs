//! Dynamic interrupt moderation (Linux `net_dim`): after 64 interrupts the delay goes one step on while that helps, and back otherwise.

use tcpassay_units::{Dur, Time};

/// The delays in microseconds, and the interrupts of a measurement.
const DELAYS: [u64; 5] = [1, 8, 64, 128, 256];
const EVENTS: u64 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tune {
    OnTop,
    Tired,
    Right,
    Left,
}

/// Bytes, packets and interrupts per millisecond.
type Sample = [u64; 3];

/// The state of the algorithm.
#[derive(Debug)]
pub(super) struct Moderation {
    tune: Tune,
    profile: usize,
    right: u32,
    left: u32,
    tired: u32,
    last: Sample,
    count: Sample,
    since: Time,
}

impl Moderation {
    pub fn new() -> Moderation {
        Moderation {
            tune: Tune::OnTop,
            profile: 1,
            right: 0,
            left: 0,
            tired: 0,
            last: [0; 3],
            count: [0; 3],
            since: Time::ZERO,
        }
    }

    pub fn delay(&self) -> Dur {
        Dur::from_micros(DELAYS[self.profile])
    }

    pub fn packet(&mut self, size: u32) {
        self.count[0] += u64::from(size);
        self.count[1] += 1;
    }

    pub fn interrupt(&mut self, now: Time) {
        self.count[2] += 1;
        if self.count[2] == EVENTS {
            let us = now.since(self.since).as_micros().max(1);
            let sample = self.count.map(|n| (n * 1000).div_ceil(us));
            self.decide(sample);
            (self.count, self.since) = ([0; 3], now);
        }
    }

    /// `net_dim_decision`.
    fn decide(&mut self, sample: Sample) {
        let before = self.tune;
        match before {
            Tune::OnTop => {
                if compare(sample, self.last).is_some() {
                    self.exit();
                }
            }
            Tune::Tired => {
                self.tired -= 1;
                if self.tired == 0 {
                    self.exit();
                }
            }
            Tune::Right | Tune::Left => {
                if compare(sample, self.last) != Some(true) {
                    self.turn();
                }
                if self.found_top() {
                    self.park(Tune::OnTop);
                } else {
                    self.step();
                }
            }
        }
        if before != Tune::OnTop || self.tune != Tune::OnTop {
            self.last = sample;
        }
    }

    fn exit(&mut self) {
        self.tune = if self.profile > 0 { Tune::Left } else { Tune::Right };
        self.step();
    }

    fn turn(&mut self) {
        if self.tune == Tune::Left {
            (self.tune, self.right) = (Tune::Right, 0);
        } else {
            (self.tune, self.left) = (Tune::Left, 0);
        }
    }

    fn found_top(&self) -> bool {
        let (toward, away) =
            if self.tune == Tune::Right { (self.right, self.left) } else { (self.left, self.right) };
        toward == 1 && away > 1
    }

    fn step(&mut self) {
        if self.tired == 10 {
            self.park(Tune::Tired);
        } else if self.tune == Tune::Right && self.profile < DELAYS.len() - 1 {
            (self.profile, self.right, self.tired) = (self.profile + 1, self.right + 1, self.tired + 1);
        } else if self.tune == Tune::Left && self.profile > 0 {
            (self.profile, self.left, self.tired) = (self.profile - 1, self.left + 1, self.tired + 1);
        } else {
            self.park(Tune::OnTop);
        }
    }

    fn park(&mut self, tune: Tune) {
        (self.tune, self.right, self.left) = (tune, 0, 0);
        if tune == Tune::OnTop {
            self.tired = 0;
        }
    }
}

/// Whether the sample is better (true) or worse (false) than the last one; `None`: neither. A difference counts above 10 %.
fn compare(now: Sample, last: Sample) -> Option<bool> {
    if last[0] == 0 {
        return (now[0] > 0).then_some(true);
    }
    let differs = |place: usize| last[place] > 0 && 100 * now[place].abs_diff(last[place]) / last[place] > 10;
    let place = (0..3).find(|place| differs(*place))?;
    // Fewer interrupts are better.
    Some((now[place] > last[place]) != (place == 2))
}
