//! Vegas: once a round trip, compare the window with what the path holds without a queue.
//!
//! Source: Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet" (1995), in the form of
//! Linux `net/ipv4/tcp_vegas.c`.
//!
//! How Linux differs from the paper, and this with it:
//!
//! * Loss detection and recovery are the data path's, without Vegas' own fine-grained timers.
//! * Slow start doubles the window every round trip, not every other.
//! * The actual rate is that of the ACKs, by the smallest round-trip time of the last round, which filters out
//!   delayed ACKs; fewer than three samples in a round are not trusted, and that round's last ACK counts as Reno's.
//! * Slow start ends with the window set to what the path holds without a queue, and one packet.
//! * The queue is `cwnd * (rtt - base) / base` packets, a little more than the paper's `cwnd * (rtt - base) / rtt`.
//! * After recovery, a timeout or idle it waits for a whole round of samples; after idle it learns `baseRTT` anew.
//!
//! How this differs from Linux:
//!
//! * A window that the sender does not fill is not judged (the skeleton's app-limited rule); Linux would raise it.
//! * "A whole round of samples" ends with the second end of a round by the sender's counter, one to two round trips
//!   after recovery; Linux counts exactly one from there.
//! * Idle means longer than the RTO; Linux learns `baseRTT` anew whenever it sends with nothing in flight.
//! * After a loss the window is half the flight (RFC 5681) where Linux halves cwnd.
//! * ssthresh is not raised to three quarters of the window each round trip (Linux `tcp_current_ssthresh`): Vegas
//!   does not read it before the next loss, which sets it.

use super::queue::{Change, Rounds, above, below};
use crate::{Ack, Cause, ParamInfo, Params, Reset, Values, View, WindowRule};
use tcpassay_units::Bytes;

/// Vegas (Brakmo and Peterson; Linux).
#[derive(Clone, PartialEq, Debug)]
pub struct Vegas {
    alpha: f64,
    beta: f64,
    gamma: f64,
    rounds: Rounds,
}

impl Vegas {
    /// With the parameters that [`WindowRule::PARAMS`] declares.
    pub fn new(values: &Values, _params: &Params) -> Vegas {
        Vegas {
            alpha: values.get("alpha"),
            beta: values.get("beta"),
            gamma: values.get("gamma"),
            rounds: Rounds::default(),
        }
    }
}

impl WindowRule for Vegas {
    const NAME: &'static str = "vegas";
    const PARAMS: &'static [ParamInfo] = &[
        ParamInfo {
            name: "alpha",
            default: 2.0,
            range: (0.0, 1000.0),
            doc: "fewer queued packets than this: the window grows by one a round trip",
        },
        ParamInfo {
            name: "beta",
            default: 4.0,
            range: (0.0, 1000.0),
            doc: "more queued packets than this: the window shrinks by one a round trip",
        },
        ParamInfo {
            name: "gamma",
            default: 1.0,
            range: (0.0, 1000.0),
            doc: "more queued packets than this end slow start",
        },
    ];

    fn observe(&mut self, _view: &View, ack: &Ack) {
        self.rounds.observe(ack);
    }

    fn grow(&mut self, view: &View, acked: Bytes) -> Bytes {
        let (alpha, beta) = (self.alpha, self.beta);
        self.rounds.grow(view, acked, |round| match round.queued() {
            queued if above(queued, beta) => Change::Down,
            queued if below(queued, alpha) => Change::Up,
            _ => Change::Stay,
        })
    }

    fn reduce(&mut self, view: &View, _cause: Cause, flight: Bytes) -> Bytes {
        self.rounds.reduce(view, flight)
    }

    fn leave_slow_start(&mut self, view: &View) -> Option<Bytes> {
        let gamma = self.gamma;
        self.rounds.leave_slow_start(view, |round| above(round.queued(), gamma))
    }

    fn reset(&mut self, _view: &View, why: Reset) {
        self.rounds.reset(why);
    }

    fn undo(&mut self, _view: &View, before: &Vegas) {
        self.rounds.undo(&before.rounds);
    }

    fn internals(&self) -> Vec<(&'static str, f64)> {
        self.rounds.internals()
    }
}
