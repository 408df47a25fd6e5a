//! Decisions with literal numbers: the specified one is accepted, one that differs is not.

use super::specification;
use super::specification::Specification;
use std::collections::BTreeMap;
use tcpassay_cc::{
    Ack, Arithmetic, ByteCounting, Cause, Control, Event, HystartMode, Limited, RateSample, View,
};
use tcpassay_tcp::{Config, Profile};
use tcpassay_units::{Bytes, Dur, Rate, Time};

const MSS: u64 = 1000;
const FREE: u64 = u64::MAX;

/// A sender whose controller returns what a test says.
struct Sender {
    specified: Box<dyn Specification>,
    view: View,
    round: u64,
}

impl Sender {
    /// `windows`: cwnd and ssthresh in bytes.
    fn new(name: &str, windows: (u64, u64), change: impl Fn(&mut Config)) -> Sender {
        let mut stack = Config::profile(Profile::Rfc);
        (stack.hystart, stack.byte_counting) = (HystartMode::Off, ByteCounting::All);
        change(&mut stack);
        let control = control(windows);
        let view = View { flight: Bytes::new(windows.0), ..View::start(Bytes::new(MSS), control) };
        let specified = specification(name, &BTreeMap::new(), &stack).expect("a specification");
        Sender { specified, view, round: 0 }
    }

    fn at(&mut self, ms: u64) -> &mut Sender {
        self.view.now = Time::ZERO + Dur::from_millis(ms);
        self
    }

    /// The controller processes `event` and returns these windows. Returns whether this is specified.
    fn answers(&mut self, event: &Event, windows: (u64, u64)) -> bool {
        let asked = control(windows);
        let agrees = self.specified.on(&self.view, event, &asked).is_none();
        self.view.control = asked;
        agrees
    }

    /// An ACK of `bytes` with a round-trip time in milliseconds.
    fn acked(&mut self, bytes: u64, rtt: u64, windows: (u64, u64)) -> bool {
        let ack = Ack { round: self.round, rtt: Some(Dur::from_millis(rtt)), ..delivery(bytes) };
        self.answers(&Event::Ack(ack), windows)
    }

    fn lost(&mut self, windows: (u64, u64)) -> bool {
        let event = Event::Congestion { cause: Cause::Loss, flight: self.view.control.cwnd };
        self.answers(&event, windows)
    }

    fn recovered(&mut self, windows: (u64, u64)) -> bool {
        self.answers(&Event::RecoveryExit { spurious: false, exit: Bytes::MAX }, windows)
    }
}

fn control((cwnd, ssthresh): (u64, u64)) -> Control {
    Control { cwnd: Bytes::new(cwnd), ssthresh: Bytes::new(ssthresh), pacing: None }
}

fn delivery(bytes: u64) -> Ack {
    Ack {
        acked: Bytes::new(bytes),
        delivered: Bytes::new(bytes),
        lost: Bytes::ZERO,
        marked: Bytes::ZERO,
        rtt: None,
        sample: None,
        app_limited: false,
        round: 0,
        reordered: false,
    }
}

#[test]
fn byte_counting_permits_two_segments_for_an_ack_and_one_after_a_timeout() {
    let sender = |ssthresh| {
        Sender::new("reno", (10_000, ssthresh), |stack| stack.byte_counting = ByteCounting::Limit(2))
    };
    assert!(sender(FREE).acked(4000, 10, (12_000, FREE)));
    assert!(!sender(FREE).acked(4000, 10, (13_000, FREE)), "three segments");
    assert!(!sender(FREE).acked(4000, 10, (11_000, FREE)), "one segment");
    let timeout = Event::Timeout { flight: Bytes::new(10_000), again: false };
    for (grown, specified) in [(2000, true), (3000, false)] {
        let mut late = sender(FREE);
        assert!(late.answers(&timeout, (1000, 5000)));
        assert_eq!(late.acked(4000, 10, (grown, 5000)), specified, "RFC 3465 section 2.3: {grown}");
    }
}

#[test]
fn additive_increase_adds_a_segment_with_the_ack_that_completes_a_window() {
    let mut sender = Sender::new("reno", (3000, 3000), |_| {});
    assert!(sender.acked(2000, 10, (3000, 3000)));
    assert!(sender.acked(1000, 10, (4000, 3000)));
    let mut early = Sender::new("reno", (3000, 3000), |_| {});
    assert!(!early.acked(2000, 10, (4000, 3000)));
    let mut unused = Sender::new("reno", (3000, 3000), |_| {});
    unused.view.limited = Limited::App;
    assert!(unused.acked(3000, 10, (3000, 3000)), "RFC 7661");
}

#[test]
fn a_reduction_forgets_the_bytes_counted_before() {
    let mut sender = Sender::new("reno", (8000, 4000), |_| {});
    assert!(sender.acked(7000, 10, (8000, 4000)));
    assert!(sender.lost((4000, 4000)));
    assert!(sender.recovered((4000, 4000)));
    assert!(sender.acked(3000, 10, (4000, 4000)), "the ACK that ends the recovery");
    assert!(sender.acked(3000, 10, (4000, 4000)));
    assert!(!sender.acked(900, 10, (5000, 4000)), "3900 of 4000 bytes");
}

#[test]
fn an_undo_restores_window_and_threshold() {
    for (windows, specified) in [((8000, FREE), true), ((4000, FREE), false), ((8000, 4000), false)] {
        let mut sender = Sender::new("reno", (8000, FREE), |_| {});
        assert!(sender.lost((4000, 4000)));
        let undo = Event::RecoveryExit { spurious: true, exit: Bytes::MAX };
        assert_eq!(sender.answers(&undo, windows), specified, "{windows:?}");
    }
}

#[test]
fn idle_time_keeps_three_quarters_of_the_window_as_threshold() {
    let idle = Event::Resume { idle: Dur::from_secs(2), rto: Dur::from_secs(1), restart: Bytes::new(10_000) };
    for (windows, specified) in [((10_000, 15_000), true), ((20_000, 5000), false), ((10_000, 5000), false)] {
        let mut sender = Sender::new("reno", (20_000, 5000), |_| {});
        assert_eq!(sender.answers(&idle, windows), specified, "{windows:?}");
    }
}

#[test]
fn alpha_of_dctcp_moves_by_a_sixteenth_of_the_difference_each_round() {
    // alpha 1, a round without marks: 15/16, so that a mark leaves 1 - 15/32 of 32,000 bytes: 17,000.
    let mark = Event::Congestion { cause: Cause::Ecn, flight: Bytes::new(32_000) };
    for (window, specified) in [(17_000, true), (16_000, false), (17_500, false)] {
        let mut sender = Sender::new("dctcp", (32_000, 32_000), |_| {});
        sender.round = 1;
        assert!(sender.acked(1000, 10, (32_000, 32_000)));
        assert_eq!(sender.answers(&mark, (window, window)), specified, "{window}");
    }
}

#[test]
fn cubic_follows_its_function_after_a_loss() {
    // W_max 100 segments, window 70, K = cbrt(30 / 0.4) = 4.217 s. After 1 s without samples of SRTT the target is 100 + 0.4 * (1 -
    // 4.217)^3 = 86.677 segments; the ACK of a tenth of the window gives a tenth of the difference: 1667.7 bytes.
    let after_loss = || {
        let mut sender = Sender::new("cubic", (100_000, 100_000), |_| {});
        assert!(sender.lost((70_000, 70_000)));
        assert!(sender.recovered((70_000, 70_000)));
        assert!(sender.acked(1000, 10, (70_000, 70_000)), "the ACK that ends the recovery");
        // It begins the epoch. At t = 0 the function gives the window; W_est adds 9/17 of a 70,000th of a segment for a byte.
        assert!(sender.acked(1, 10, (70_000, 70_000)));
        sender
    };
    for (window, specified) in [(71_667, true), (71_660, false), (71_690, false)] {
        let mut sender = after_loss();
        sender.at(1000);
        assert_eq!(sender.acked(7000, 10, (window, 70_000)), specified, "{window}");
    }
}

#[test]
fn cubic_converges_fast_only_below_the_last_maximum() {
    // A second loss at 80 of 100 segments: W_max = 80 * 0.85 = 68 segments. The window of 56 grows towards it with K = cbrt(12 / 0.4) = 3.107 s.
    // After 1 s: 68 + 0.4 * (-2.107)^3 = 64.258 segments; a tenth of the difference is 825.8 bytes. Without it (W_max 80, K 3.915 s) it is 1489.
    for (window, specified) in [(56_825, true), (57_489, false)] {
        let mut sender = Sender::new("cubic", (100_000, 100_000), |_| {});
        assert!(sender.lost((70_000, 70_000)));
        assert!(sender.recovered((70_000, 70_000)));
        sender.view.control = control((80_000, 70_000));
        assert!(sender.lost((56_000, 56_000)));
        assert!(sender.recovered((56_000, 56_000)));
        assert!(sender.acked(1000, 10, (56_000, 56_000)));
        assert!(sender.acked(1, 10, (56_000, 56_000)));
        sender.at(1000);
        assert_eq!(sender.acked(5600, 10, (window, 56_000)), specified, "{window}");
    }
}

#[test]
fn cubic_of_linux_adds_a_segment_for_twenty_before_the_first_loss() {
    let linux = |stack: &mut Config| stack.cc_arithmetic = Arithmetic::Linux;
    let mut sender = Sender::new("cubic", (100_000, 100_000), linux);
    sender.at(5);
    assert!(sender.acked(19_000, 10, (100_000, 100_000)));
    assert!(sender.acked(1000, 10, (101_000, 100_000)));
    let mut early = Sender::new("cubic", (100_000, 100_000), linux);
    early.at(5);
    assert!(!early.acked(19_000, 10, (101_000, 100_000)));
    // 717/1024 of 100 segments, rounded down.
    let mut reduces = Sender::new("cubic", (100_000, 100_000), linux);
    assert!(reduces.lost((70_000, 70_000)));
    let mut differs = Sender::new("cubic", (100_000, 100_000), linux);
    assert!(!differs.lost((71_000, 71_000)));
}

/// Processes a round of `samples` ACKs with a round-trip time, during which the window grows by `growth` bytes for each ACK.
fn round(sender: &mut Sender, samples: u64, rtt: u64, growth: u64) -> bool {
    sender.round += 1;
    (0..samples).all(|_| {
        let cwnd = sender.view.control.cwnd.get();
        sender.acked(1000, rtt, (cwnd + growth, FREE))
    })
}

#[test]
fn hystart_plus_plus_grows_by_a_quarter_after_eight_longer_samples_and_ends_after_five_rounds() {
    let plus_plus = |stack: &mut Config| stack.hystart = HystartMode::PlusPlus;
    let mut sender = Sender::new("reno", (20_000, FREE), plus_plus);
    assert!(round(&mut sender, 8, 40, 1000));
    // 40 ms and an eighth are 45 ms.
    assert!(round(&mut sender, 7, 45, 1000));
    assert!(sender.acked(1000, 45, (35_250, FREE)), "the eighth sample");
    for _ in 0..4 {
        assert!(round(&mut sender, 2, 45, 250));
    }
    sender.round += 1;
    assert!(sender.acked(1000, 45, (37_250, 37_250)), "the fifth round ends it");
    let mut short = Sender::new("reno", (20_000, FREE), plus_plus);
    assert!(round(&mut short, 8, 40, 1000));
    assert!(round(&mut short, 7, 44, 1000));
    assert!(!short.acked(1000, 44, (35_250, FREE)), "a rise of 4 ms is below an eighth");
}

#[test]
fn vegas_compares_the_queue_with_its_bounds_once_a_round() {
    // 20 packets; 40 ms, then 50 ms: 20 * 10 / 40 = 5 packets are queued, more than 4.
    for (after, specified) in [(19_000, true), (20_000, false), (21_000, false)] {
        let mut sender = Sender::new("vegas", (20_000, 20_000), |_| {});
        let still = (20_000, 20_000);
        assert!(sender.acked(1000, 40, still));
        sender.round = 1;
        assert!(sender.acked(1000, 50, still), "a round with too few samples");
        assert!((0..3).all(|_| sender.acked(1000, 50, still)));
        sender.round = 2;
        assert_eq!(sender.acked(1000, 50, (after, 20_000.min(after))), specified, "{after}");
    }
}

/// A decision of BBR, with a sample of `packets` in 10 ms, and the rate and window that it returns.
fn bbr(sender: &mut Sender, round: u64, packets: u64, window: u64, rate: u64) -> bool {
    sender.at(100 + 10 * round);
    let sample = RateSample {
        delivered: Bytes::new(packets * MSS),
        interval: Dur::from_millis(10),
        sent_at: sender.view.now,
    };
    let ack = Ack { rtt: Some(Dur::from_millis(10)), sample: Some(sample), ..delivery(packets * MSS) };
    let pacing = Some(Rate::from_bits_per_sec(8 * rate));
    let asked = Control { cwnd: Bytes::new(window * MSS), ssthresh: Bytes::MAX, pacing };
    let agrees = sender.specified.on(&sender.view, &Event::Ack(ack), &asked).is_none();
    sender.view.control = asked;
    agrees
}

#[test]
fn bbr_paces_its_startup_with_a_gain_of_two_over_ln_2() {
    // 10 packets in 10 ms are 1000 packets/s, in Linux's arithmetic 16,777 / 2^24 a microsecond; with a gain of 739/256 and a margin of 1 %
    // 2,857,814 bytes/s.
    let begun = || {
        let mut sender = Sender::new("bbr", (10_000, FREE), |_| {});
        sender.view.srtt = Some(Dur::from_millis(20));
        let pacing = Some(Rate::from_bits_per_sec(8 * 1_428_822));
        let asked = Control { pacing, ..sender.view.control };
        let first = sender.specified.on(&sender.view, &Event::Established, &asked);
        assert_eq!(first, None, "10 packets in 20 ms");
        sender.view.control = asked;
        sender
    };
    assert!(bbr(&mut begun(), 1, 10, 20, 2_857_814));
    assert!(!bbr(&mut begun(), 1, 10, 20, 2_500_000), "a lower gain");
    assert!(!bbr(&mut begun(), 1, 10, 10, 2_857_814), "the window does not grow");
}

#[test]
fn a_controller_without_a_specification_is_not_judged() {
    let stack = Config::profile(Profile::Rfc);
    assert!(specification("python", &BTreeMap::new(), &stack).is_none());
}
