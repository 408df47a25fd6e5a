//! Linux's dynamic interrupt moderation for receive (`lib/dim/net_dim.c`): a hill climb over five delays.
//!
//! After every 64 interrupts it compares bytes, packets and interrupts per millisecond with the previous measurement.
//! More bytes are better, then more packets, then fewer interrupts; a difference of at most 10 % is ignored. While
//! the measurement improves, the algorithm continues in its direction; otherwise it turns. Between two turns it parks
//! at the best delay until the load changes. After ten steps it parks (`DIM_PARKING_TIRED`) for the same number of
//! measurements.

use tcpassay_units::{Dur, Time};

/// The delays of NICs that count from the event (`NET_DIM_RX_EQE_PROFILES`).
const USECS: [u64; 5] = [1, 8, 64, 128, 256];
/// Number of interrupts per measurement.
const EVENTS: u64 = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    ParkingOnTop,
    ParkingTired,
    Right,
    Left,
}

/// Per millisecond.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    bytes: u64,
    packets: u64,
    events: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Better,
    Same,
    Worse,
}

#[derive(Clone, Debug)]
pub(crate) struct InterruptModeration {
    state: State,
    at: usize,
    steps_right: u32,
    steps_left: u32,
    tired: u32,
    before: Rates,
    since: Time,
    count: Rates,
}

impl InterruptModeration {
    pub fn new() -> InterruptModeration {
        InterruptModeration {
            state: State::ParkingOnTop,
            at: 1,
            steps_right: 0,
            steps_left: 0,
            tired: 0,
            before: Rates::default(),
            since: Time::ZERO,
            count: Rates::default(),
        }
    }

    /// The current delay.
    pub fn delay(&self) -> Dur {
        Dur::from_micros(USECS[self.at])
    }

    /// A packet arrived.
    pub fn packet(&mut self, bytes: u64) {
        self.count.packets += 1;
        self.count.bytes += bytes;
    }

    /// An interrupt occurred.
    pub fn interrupt(&mut self, now: Time) {
        self.count.events += 1;
        if self.count.events < EVENTS {
            return;
        }
        let us = now.since(self.since).as_micros().max(1);
        let per_ms = |n: u64| (n * 1000).div_ceil(us);
        let rates = Rates {
            bytes: per_ms(self.count.bytes),
            packets: per_ms(self.count.packets),
            events: per_ms(self.count.events),
        };
        self.decide(rates);
        self.since = now;
        self.count = Rates::default();
    }

    fn decide(&mut self, rates: Rates) {
        let was_on_top = self.state == State::ParkingOnTop;
        match self.state {
            State::ParkingOnTop => {
                if compare(rates, self.before) != Verdict::Same {
                    self.leave_parking();
                }
            }
            State::ParkingTired => {
                self.tired -= 1;
                if self.tired == 0 {
                    self.leave_parking();
                }
            }
            State::Right | State::Left => {
                if compare(rates, self.before) != Verdict::Better {
                    self.turn();
                }
                if self.is_on_top() {
                    self.park(State::ParkingOnTop);
                } else {
                    self.step();
                }
            }
        }
        if !(was_on_top && self.state == State::ParkingOnTop) {
            self.before = rates;
        }
    }

    fn leave_parking(&mut self) {
        self.state = if self.at == 0 { State::Right } else { State::Left };
        self.step();
    }

    fn turn(&mut self) {
        if self.state == State::Right {
            (self.state, self.steps_left) = (State::Left, 0);
        } else {
            (self.state, self.steps_right) = (State::Right, 0);
        }
    }

    fn is_on_top(&self) -> bool {
        if self.state == State::Right {
            self.steps_left > 1 && self.steps_right == 1
        } else {
            self.steps_right > 1 && self.steps_left == 1
        }
    }

    fn step(&mut self) {
        if self.tired == 10 {
            self.park(State::ParkingTired);
            return;
        }
        match self.state {
            State::Right if self.at + 1 < USECS.len() => {
                self.at += 1;
                self.steps_right += 1;
            }
            State::Left if self.at > 0 => {
                self.at -= 1;
                self.steps_left += 1;
            }
            _ => {
                self.park(State::ParkingOnTop);
                return;
            }
        }
        self.tired += 1;
    }

    fn park(&mut self, state: State) {
        (self.steps_right, self.steps_left) = (0, 0);
        self.state = state;
        if state == State::ParkingOnTop {
            self.tired = 0;
        }
    }
}

fn compare(now: Rates, before: Rates) -> Verdict {
    let differ = |a: u64, b: u64| 100 * a.abs_diff(b) / b > 10;
    let more = |a: u64, b: u64| if a > b { Verdict::Better } else { Verdict::Worse };
    if before.bytes == 0 {
        return if now.bytes > 0 { Verdict::Better } else { Verdict::Same };
    }
    if differ(now.bytes, before.bytes) {
        more(now.bytes, before.bytes)
    } else if before.packets > 0 && differ(now.packets, before.packets) {
        more(now.packets, before.packets)
    } else if before.events > 0 && differ(now.events, before.events) {
        more(before.events, now.events)
    } else {
        Verdict::Same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `n` interrupts of a steady `packets_per_us`; interrupts come one delay apart, but at least `gap` apart.
    fn steady(dim: &mut InterruptModeration, now: &mut Time, n: u64, gap: Dur) -> Vec<u64> {
        let mut delays = Vec::new();
        for _ in 0..n {
            let passed = dim.delay().max(gap);
            *now += passed;
            let packets = passed.as_micros().div_ceil(gap.as_micros());
            for _ in 0..packets {
                dim.packet(1500);
            }
            dim.interrupt(*now);
            delays.push(dim.delay().as_micros());
        }
        delays
    }

    #[test]
    fn under_a_steady_load_fewer_interrupts_are_better_up_to_the_longest_delay() {
        let (mut dim, mut now) = (InterruptModeration::new(), Time::ZERO);
        let delays = steady(&mut dim, &mut now, 64 * 40, Dur::from_micros(1));
        assert!(delays.contains(&256), "{:?}", dim.delay());
    }

    #[test]
    fn packets_further_apart_than_any_delay_leave_the_moderation_parked() {
        let (mut dim, mut now) = (InterruptModeration::new(), Time::ZERO);
        let delays = steady(&mut dim, &mut now, 64 * 10, Dur::from_millis(1));
        // It steps left once, from 8 to 1 us, sees no difference, turns, and parks.
        assert!(delays.iter().all(|d| *d <= 64), "{delays:?}");
    }

    #[test]
    fn nothing_changes_before_64_interrupts() {
        let (mut dim, mut now) = (InterruptModeration::new(), Time::ZERO);
        assert_eq!(steady(&mut dim, &mut now, 63, Dur::from_micros(1)).last(), Some(&8));
        assert_eq!(steady(&mut dim, &mut now, 1, Dur::from_micros(1)), [1]);
    }
}
