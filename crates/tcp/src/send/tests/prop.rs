//! Any mix of loss, reordering and duplication: the counts equal a recount, no segment exceeds a window, and the stream arrives.

use super::*;
use crate::config::{
    EcnMode, LossDetection, Nagle, Pacing, PrrBound, Recovery, RecoveryExitRule, Skbs, StackFlavor, Tlp, Undo,
};
use crate::log::LogEntry;
use crate::messages::WholeRun;
use crate::send::Flow;
use crate::{Gauges, Info};
use proptest::prelude::*;
use std::collections::VecDeque;
use tcpassay_units::{Seed, Stream};

/// A receiver that stores the received data as sorted ranges and acknowledges every segment.
#[derive(Debug)]
struct Receiver {
    got: Vec<Span>,
    window: u64,
    recent: Vec<Span>,
    stamp: Option<u32>,
}

impl Receiver {
    fn next(&self) -> u64 {
        self.got.first().filter(|r| r.start == 1).map_or(1, |r| r.end)
    }

    /// Processes a segment; returns the DSACK block if all of its data were received before.
    fn take(&mut self, chunk: &Chunk, stamp: u32) -> Option<Span> {
        let end = chunk.span.end + u64::from(chunk.fin);
        let span = chunk.span.start..end;
        if span.is_empty() {
            return None;
        }
        if self.got.iter().any(|r| r.start <= span.start && span.end <= r.end) {
            return Some(span);
        }
        if span.start <= self.next() {
            self.stamp = Some(stamp);
        }
        self.got.push(span.clone());
        self.got.sort_by_key(|r| r.start);
        let mut merged: Vec<Span> = Vec::new();
        for r in self.got.drain(..) {
            match merged.last_mut() {
                Some(last) if r.start <= last.end => last.end = last.end.max(r.end),
                _ => merged.push(r),
            }
        }
        self.got = merged;
        self.recent.insert(0, span);
        self.recent.truncate(8);
        None
    }

    fn ack(&self, dsack: Option<Span>, ts: bool, ece: bool) -> AckIn {
        let next = self.next();
        let mut ack = AckIn { ack: next, window: self.window, dsack, ece, ..AckIn::default() };
        ack.ts_ecr = self.stamp.filter(|_| ts);
        for span in &self.recent {
            let block =
                self.got.iter().find(|r| r.start <= span.start && span.end <= r.end).expect("was taken");
            if block.start > next && !ack.sacks.contains(block) && ack.sacks.len() < 3 {
                ack.sacks.push(block.clone());
            }
        }
        ack
    }
}

#[derive(Clone, Copy, Debug)]
struct Network {
    loss: f64,
    ack_loss: f64,
    reorder: f64,
    duplicate: f64,
    mark: f64,
    seed: u64,
}

/// The packets in flight in one direction: (time of arrival, order of transmission, content).
struct Pipe<T>(Vec<(Time, u64, T)>);

impl<T> Pipe<T> {
    fn first(&self) -> Option<Time> {
        self.0.iter().map(|(at, ..)| *at).min()
    }

    fn pop(&mut self) -> T {
        let i = (0..self.0.len()).min_by_key(|&i| (self.0[i].0, self.0[i].1)).expect("not empty");
        self.0.remove(i).2
    }
}

struct Fixture {
    r: Rig,
    rx: Receiver,
    data: Pipe<(Chunk, u32)>,
    acks: Pipe<AckIn>,
    rng: Stream,
    net: Network,
    count: u64,
    /// Whether the fast paths of [`Sender::flow`] and of ACKs are used.
    short: bool,
    /// What is left of a burst.
    burst: VecDeque<Chunk>,
    /// The number of bytes in one write of the application.
    chunk: u64,
    /// The log of events; `None` if it is not kept.
    history: Option<Vec<LogEntry>>,
}

impl Fixture {
    fn poll(&mut self) -> Option<Chunk> {
        if let Some(chunk) = self.burst.pop_front() {
            return Some(chunk);
        }
        let Rig { s, now, log, .. } = &mut self.r;
        let flow = if self.short { s.flow() } else { Flow::Other };
        match flow {
            Flow::Whole(room) => {
                let WholeRun { start, count, pushes, cwr, ect, fills } =
                    s.emit_whole(*now, room, WholeRun::MOST);
                for i in 0..count {
                    let from = start + u64::from(i) * s.mss;
                    let (push, cwr) = (pushes >> i & 1 == 1, cwr && i == 0);
                    let span = from..from + s.mss;
                    self.burst.push_back(Chunk { span, fin: false, push, retransmission: false, cwr, ect });
                }
                assert_eq!(fills, s.flow() == Flow::Full, "whether the window is full behind them");
                self.burst.pop_front()
            }
            Flow::Full => {
                s.rest_full(*now, log);
                None
            }
            Flow::Other => s.poll(*now, log),
        }
    }

    fn delay(&mut self, reorder: f64) -> Dur {
        let late = if self.rng.chance(reorder) { self.rng.below(60) } else { 0 };
        ms(20 + late) + Dur::from_nanos(self.count)
    }

    fn new(cfg: &Config, agreed: &Agreed, cc: &str, net: Network) -> Fixture {
        let controller = tcpassay_cc::build(cc, &tcpassay_cc::Params::default()).expect("a known controller");
        Fixture {
            r: Rig::boxed(cfg, agreed, controller),
            rx: Receiver { got: Vec::new(), window: agreed.window, recent: Vec::new(), stamp: None },
            data: Pipe(Vec::new()),
            acks: Pipe(Vec::new()),
            rng: Seed(net.seed).stream("network"),
            net,
            count: 0,
            short: true,
            burst: VecDeque::new(),
            chunk: u64::MAX,
            history: None,
        }
    }

    fn send(&mut self) -> Result<(), TestCaseError> {
        while let Some(chunk) = self.poll() {
            let s = &self.r.s;
            prop_assert_eq!(s.audit_counts(), Ok(()));
            if chunk.span.is_empty() && !chunk.fin {
                continue;
            }
            let info = self.r.info();
            let edge = s.snd_una() + info.snd_wnd.get();
            prop_assert!(chunk.retransmission || chunk.span.end <= edge, "beyond the peer's window");
            prop_assert!(chunk.span.end <= s.snd_nxt() + s.unsent(), "not written");
            self.count += 1;
            prop_assert!(self.count < 200_000, "a storm");
            let stamp = self.r.ts_now();
            for _ in 0..=u32::from(self.rng.chance(self.net.duplicate)) {
                if !self.rng.chance(self.net.loss) {
                    let at = self.r.now + self.delay(self.net.reorder);
                    self.data.0.push((at, self.count, (chunk.clone(), stamp)));
                }
            }
        }
        Ok(())
    }

    fn gauges_are_those_of_the_info(&self) -> Result<(), TestCaseError> {
        let (gauges, mut info) = (self.r.s.gauges(), Info::empty());
        self.r.s.fill(self.r.now, &mut info);
        let alpha = info.internals.iter().find(|(name, _)| *name == "alpha").map(|(_, alpha)| *alpha);
        let Info { cwnd, ssthresh, flight, unacked, srtt, rto, pacing_rate, .. } = info;
        prop_assert_eq!(gauges, Gauges { cwnd, ssthresh, flight, unacked, srtt, rto, pacing_rate, alpha });
        Ok(())
    }

    /// A write of `n` bytes in steps; after each step the segments that may be sent are sent.
    fn write(&mut self, n: u64) -> Result<u64, TestCaseError> {
        let n = n.min(self.chunk);
        let mut taken = 0;
        while taken < n {
            let (step, _) = self.r.s.write_step(self.r.now, n - taken, taken == 0, false, 0, &mut self.r.log);
            taken += step;
            if step == 0 || !self.r.s.writes_in_steps() {
                break;
            }
            self.send()?;
        }
        Ok(taken)
    }

    fn run(&mut self, total: u64, ts: bool) -> Result<(), TestCaseError> {
        let mut left = total;
        for _ in 0..400_000u32 {
            while left > 0 {
                let n = self.write(left)?;
                if n == 0 {
                    break;
                }
                left -= n;
            }
            if left == 0 {
                self.r.s.finish();
            }
            self.send()?;
            if self.r.s.fin_acked() {
                prop_assert_eq!(self.rx.got.clone(), [1..total + 2]);
                prop_assert_eq!(self.r.info().unacked.get(), 0);
                prop_assert_eq!(self.r.info().flight.get(), 0);
                return Ok(());
            }
            let timer = self.r.s.next_timer();
            let next = [timer, self.data.first(), self.acks.first()].into_iter().flatten().min();
            let Some(next) = next else {
                return Err(TestCaseError::fail("silence with data outstanding"));
            };
            self.r.now = self.r.now.max(next);
            if self.data.first() == Some(next) {
                let (chunk, stamp) = self.data.pop();
                let dsack = self.rx.take(&chunk, stamp);
                let ece = self.rng.chance(self.net.mark);
                let ack = self.rx.ack(dsack, ts, ece);
                if !self.rng.chance(self.net.ack_loss) {
                    self.count += 1;
                    let at = self.r.now + self.delay(0.0);
                    self.acks.0.push((at, self.count, ack));
                }
            } else if self.acks.first() == Some(next) {
                let mut ack = self.acks.pop();
                ack.ts_now = self.r.ts_now();
                self.r.deliver(&ack);
                prop_assert_eq!(self.r.s.audit_counts(), Ok(()));
                self.gauges_are_those_of_the_info()?;
            } else {
                prop_assert_eq!(self.r.s.on_timer(self.r.now, &mut self.r.log), Ok(()));
                prop_assert_eq!(self.r.s.audit_counts(), Ok(()));
            }
            match &mut self.history {
                Some(history) => history.extend(self.r.log.drain()),
                None => self.r.log.drain().for_each(drop),
            }
        }
        Err(TestCaseError::fail("no end"))
    }
}

fn switches() -> impl Strategy<Value = Config> {
    let detection = prop_oneof![
        Just(LossDetection::DupThresh { threshold: 3, adaptive: false }),
        Just(LossDetection::DupThresh { threshold: 3, adaptive: true }),
        Just(LossDetection::Rack { dsack_adaptation: true }),
    ];
    let recovery = prop_oneof![Just(Recovery::NewReno), Just(Recovery::Sack), Just(Recovery::Prr)];
    let exit = prop_oneof![
        Just(RecoveryExitRule::Ssthresh),
        Just(RecoveryExitRule::Rfc3782LessCareful),
        Just(RecoveryExitRule::Rfc6582)
    ];
    let undo = any::<(bool, bool, bool, bool)>().prop_map(|(eifel, eifel_timeout, dsack, rack_restore)| {
        Undo { eifel, eifel_timeout, dsack, rack_restore }
    });
    let tlp = prop_oneof![Just(Tlp::Off), Just(Tlp::OpenOnly), Just(Tlp::On)];
    let ecn = prop_oneof![Just(EcnMode::Off), Just(EcnMode::Classic), Just(EcnMode::Dctcp)];
    let tso = prop_oneof![Just(None), Just(Some(Bytes::new(64_000)))];
    (detection, recovery, exit, undo, tlp, ecn, tso, any::<[bool; 11]>()).prop_map(
        |(loss_detection, recovery, recovery_exit, undo, tlp, ecn, tso, b)| Config {
            loss_detection,
            recovery,
            recovery_exit,
            prr_bound: if b[7] { PrrBound::SafeAck } else { PrrBound::Repair },
            undo,
            tlp,
            ecn,
            tso,
            tso_defer: b[0],
            frto: b[1],
            limited_transmit: b[2],
            early_retransmit: b[3],
            cwr_by_prr: b[4],
            nagle: if b[5] { Nagle::All } else { Nagle::Small },
            pacing: if b[6] { Pacing::Percent { slow_start: 200, avoidance: 120 } } else { Pacing::Off },
            // Linux's queue of buffers, with a limit that writes reach.
            skbs: b[8].then_some(Skbs {
                overhead: Bytes::new(768),
                headers: Bytes::new(192),
                initial: Bytes::new(16_384),
            }),
            send_buffer: b[9].then_some(Bytes::new(20_000)),
            flavor: if b[10] { StackFlavor::Linux } else { StackFlavor::Rfc },
            retries: 1000,
            user_timeout: None,
            ..rfc()
        },
    )
}

fn network() -> impl Strategy<Value = Network> {
    (0.0..0.3, 0.0..0.5, 0.0..0.5, 0.0..0.2, 0.0..0.3, any::<u64>()).prop_map(
        |(loss, ack_loss, reorder, duplicate, mark, seed)| Network {
            loss,
            ack_loss,
            reorder,
            duplicate,
            mark,
            seed,
        },
    )
}

const CASES: u32 = 500;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn every_byte_is_acknowledged_in_the_end_and_the_counts_equal_a_recount(
        cfg in switches(),
        net in network(),
        cc in prop_oneof![Just("reno"), Just("cubic"), Just("dctcp")],
        (sack, timestamps) in any::<(bool, bool)>(),
        window in 1_500u64..200_000,
        total in 1u64..150_000,
    ) {
        let agreed = Agreed { sack, timestamps, ecn: cfg.ecn, window, ..agreed() };
        let mut w = Fixture::new(&cfg, &agreed, cc, net);
        w.run(total, timestamps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn the_fast_path_has_the_results_of_the_slow_path(
        cfg in switches(),
        net in network(),
        // Also without losses and reordering, so that the fast path is used for a long time.
        calm in 0.0..1.0,
        cc in prop_oneof![Just("reno"), Just("cubic"), Just("dctcp")],
        (sack, timestamps) in any::<(bool, bool)>(),
        window in 1_500u64..200_000,
        total in 1u64..150_000,
        chunk in prop_oneof![Just(u64::MAX), 1u64..20_000],
    ) {
        let Network { loss, ack_loss, reorder, duplicate, mark, seed } = net;
        let k = calm * calm;
        let net = Network {
            loss: loss * k,
            ack_loss: ack_loss * k,
            reorder: reorder * k,
            duplicate: duplicate * k,
            mark,
            seed,
        };
        let agreed = Agreed { sack, timestamps, ecn: cfg.ecn, window, ..agreed() };
        let mut ways = [true, false].map(|short| {
            let mut w = Fixture::new(&cfg, &agreed, cc, net);
            w.short = short;
            w.chunk = chunk;
            w.r.s.process_in_full(!short);
            w.history = Some(Vec::new());
            let ended = w.run(total, timestamps);
            (ended, w)
        });
        let [(one, short), (other, long)] = &mut ways;
        prop_assert!(one.is_ok() && other.is_ok(), "{one:?}, {other:?}");
        prop_assert_eq!(&short.history, &long.history);
        long.r.s.process_in_full(false);
        prop_assert_eq!(format!("{:?}", short.r.s), format!("{:?}", long.r.s));
    }
}

#[test]
fn the_networks_of_this_property_reach_every_mechanism() {
    let cfg = Config {
        loss_detection: LossDetection::Rack { dsack_adaptation: true },
        recovery: Recovery::Prr,
        undo: Undo { eifel: true, dsack: true, rack_restore: true, eifel_timeout: false },
        tlp: Tlp::On,
        frto: true,
        ecn: EcnMode::Classic,
        retries: 1000,
        user_timeout: None,
        ..rfc()
    };
    let mut sum = Info::empty();
    for seed in 0..100 {
        let net = Network { loss: 0.05, ack_loss: 0.2, reorder: 0.2, duplicate: 0.05, mark: 0.02, seed };
        let agreed = Agreed { timestamps: true, ecn: cfg.ecn, ..agreed() };
        let mut w = Fixture::new(&cfg, &agreed, "cubic", net);
        w.run(100_000, true).expect("the stream arrives");
        let s = w.r.info();
        sum.timeouts += s.timeouts;
        sum.recoveries += s.recoveries;
        sum.undos += s.undos;
        sum.spurious += s.spurious;
        sum.tlp_probes += s.tlp_probes;
        sum.ecn_reductions += s.ecn_reductions;
    }
    for (name, n) in [
        ("timeouts", sum.timeouts),
        ("recoveries", sum.recoveries),
        ("undos", sum.undos),
        ("spurious", sum.spurious),
        ("probes", sum.tlp_probes),
        ("reductions", sum.ecn_reductions),
    ] {
        assert!(n >= 5, "{name}: {n}");
    }
}
