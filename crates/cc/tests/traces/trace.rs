//! A sender that is driven by a trace: a list of events, and the expected outputs of the controller.
//!
//! Segments have 1000 bytes, so that windows read as segments.

use tcpassay_cc::{Ack, Cause, Control, Controller, Event, Limited, View};
use tcpassay_units::{Bytes, Dur, Time};

/// The result of a trace: success, or a description of the first wrong output.
pub type Outcome = Result<(), String>;

/// One trace: its name is the behaviour.
pub type Trace = fn(&mut Sender) -> Outcome;

pub const MSS: u64 = 1000;

/// The sender. Fields may be set between events.
pub struct Sender {
    pub controller: Box<dyn Controller>,
    pub view: View,
    pub round: u64,
    /// The round-trip sample of each ACK, in microseconds.
    pub rtt: u64,
    /// The flight that is left after each ACK.
    pub flight: u64,
}

impl Sender {
    /// Just established, with an initial window.
    pub fn new(controller: Box<dyn Controller>, cwnd: u64) -> Sender {
        let control = Control { cwnd: Bytes::new(cwnd), ssthresh: Bytes::MAX, pacing: None };
        let view = View { srtt: Some(Dur::from_millis(100)), ..View::start(Bytes::new(MSS), control) };
        let mut sender = Sender { controller, view, round: 1, rtt: 100_000, flight: cwnd };
        sender.tell(Event::Established);
        sender
    }

    pub fn tell(&mut self, event: Event) {
        self.view.flight = Bytes::new(self.flight);
        self.view.control = self.controller.on(&self.view, &event);
    }

    pub fn cwnd(&self) -> u64 {
        self.view.control.cwnd.get()
    }

    /// Sets window and ssthresh as if they were outputs of the controller.
    pub fn put(&mut self, cwnd: u64, ssthresh: u64) {
        self.view.control.cwnd = Bytes::new(cwnd);
        self.view.control.ssthresh = Bytes::new(ssthresh);
        self.flight = cwnd;
    }

    /// Milliseconds pass.
    pub fn wait(&mut self, ms: u64) {
        self.view.now += Dur::from_millis(ms);
    }

    /// Sets the clock to so many milliseconds after `start`.
    pub fn at(&mut self, start: Time, ms: u64) {
        self.view.now = start + Dur::from_millis(ms);
    }

    pub fn ack_with(&mut self, acked: u64, change: impl FnOnce(&mut Ack)) {
        let mut ack = Ack {
            acked: Bytes::new(acked),
            delivered: Bytes::new(acked),
            lost: Bytes::ZERO,
            marked: Bytes::ZERO,
            rtt: Some(Dur::from_micros(self.rtt)),
            sample: None,
            app_limited: false,
            round: self.round,
            reordered: false,
        };
        change(&mut ack);
        self.tell(Event::Ack(ack));
    }

    /// An ACK for so many bytes.
    pub fn ack(&mut self, acked: u64) {
        self.ack_with(acked, |_| {});
    }

    /// `n` ACKs for one segment each.
    pub fn acks(&mut self, n: u64) {
        for _ in 0..n {
            self.ack(MSS);
        }
    }

    /// One ACK for the whole window.
    pub fn ack_window(&mut self) {
        self.ack(self.cwnd());
    }

    /// The next ACK begins a new round.
    pub fn next_round(&mut self) {
        self.round += 1;
    }

    pub fn enter(&mut self, cause: Cause, flight: u64) {
        self.tell(Event::Congestion { cause, flight: Bytes::new(flight) });
    }

    /// Ends a recovery that was not spurious, without an exit rule.
    pub fn leave(&mut self) {
        self.leave_within(u64::MAX);
    }

    pub fn leave_within(&mut self, exit: u64) {
        self.tell(Event::RecoveryExit { spurious: false, exit: Bytes::new(exit) });
    }

    pub fn undo(&mut self) {
        self.tell(Event::RecoveryExit { spurious: true, exit: Bytes::MAX });
    }

    pub fn timeout(&mut self, flight: u64, again: bool) {
        self.tell(Event::Timeout { flight: Bytes::new(flight), again });
    }

    /// A loss with the whole window in flight, and its recovery, including the ACK that ends it.
    pub fn lose(&mut self) {
        self.enter(Cause::Loss, self.cwnd());
        self.leave();
        self.ack(MSS);
    }

    pub fn limited(&mut self, by: Limited) {
        self.view.limited = by;
    }

    /// Asserts a window and a slow-start threshold in bytes.
    #[track_caller]
    pub fn expect(&self, cwnd: u64, ssthresh: u64) -> Outcome {
        let Control { cwnd: c, ssthresh: s, .. } = self.view.control;
        let line = std::panic::Location::caller();
        if (c.get(), s.get()) == (cwnd, ssthresh) {
            return Ok(());
        }
        Err(format!(
            "{line}: expected cwnd {cwnd} ssthresh {ssthresh}, live cwnd {} ssthresh {}",
            c.get(),
            s.get()
        ))
    }

    /// Asserts an internal variable to nine digits.
    #[track_caller]
    pub fn expect_inner(&self, name: &str, value: f64) -> Outcome {
        let place = std::panic::Location::caller();
        let found = self.controller.internals().into_iter().find(|(n, _)| *n == name).map(|(_, v)| v);
        match found {
            Some(v) if (v - value).abs() <= 1e-9 * value.abs() => Ok(()),
            _ => Err(format!("{place}: expected {name} {value}, live {found:?}")),
        }
    }
}

/// Runs a trace on a controller with an initial window of ten segments.
pub fn run(trace: Trace, controller: Box<dyn Controller>) -> Outcome {
    trace(&mut Sender::new(controller, 10 * MSS))
}

/// Asserts that the tools for mutants without a fault pass all traces. Otherwise the detection of a mutant
/// would prove nothing.
#[track_caller]
pub fn unharmed(traces: &[(&str, Trace)], make: impl Fn() -> Box<dyn Controller>) {
    for (name, trace) in traces {
        assert_eq!(run(*trace, make()), Ok(()), "{name}");
    }
}

/// Asserts that at least one trace fails with a planted fault.
#[track_caller]
pub fn caught(traces: &[(&str, Trace)], mutant: impl Fn() -> Box<dyn Controller>) {
    assert!(traces.iter().any(|(_, trace)| run(*trace, mutant()).is_err()), "no trace detects this mutant");
}

/// Declares traces: one test each, run on what `$make` makes, and the list `TRACES` for mutants.
macro_rules! traces {
    ($make:expr; $($(#[$meta:meta])* fn $name:ident($sender:ident) $body:block)+) => {
        mod trace_bodies {
            use super::*;
            $($(#[$meta])* pub fn $name($sender: &mut Sender) -> Outcome { $body; Ok(()) })+
        }
        pub(crate) const TRACES: &[(&str, crate::trace::Trace)] = &[$((stringify!($name), trace_bodies::$name)),+];
        $(#[test] fn $name() {
            crate::trace::run(trace_bodies::$name, $make).unwrap();
        })+
    };
}
pub(crate) use traces;
