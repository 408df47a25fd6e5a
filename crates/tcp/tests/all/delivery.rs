//! Properties of connections over a faulty path: every byte is delivered once and in order, and the
//! connection ends or reports an error.

use crate::common::*;
use proptest::prelude::*;
use tcpassay_tcp::{Config, Connection, EcnMode, Keepalive, Outgoing, Profile, RecvBuffer, State};
use tcpassay_units::{Bytes, Dur, Seed, Time};

/// A path's faults, in percent of packets.
#[derive(Clone, Copy, Debug)]
struct Faults {
    loss: u32,
    duplicate: u32,
    late: u32,
    /// Longest extra delay.
    jitter_us: u64,
}

fn faults() -> impl Strategy<Value = Faults> {
    (0u32..30, 0u32..20, 0u32..40, 1u64..50_000).prop_map(|(loss, duplicate, late, jitter_us)| Faults {
        loss,
        duplicate,
        late,
        jitter_us,
    })
}

fn profiles() -> impl Strategy<Value = Profile> {
    prop::sample::select(Profile::ALL.to_vec())
}

fn ecn_modes() -> impl Strategy<Value = EcnMode> {
    prop::sample::select(vec![EcnMode::Off, EcnMode::Classic, EcnMode::Dctcp, EcnMode::Accurate])
}

/// Runs two ends that both send `sizes` bytes, read the received data and close; returns the data that each end received.
struct Play {
    net: Two,
    unsent: [u64; 2],
    received: [u64; 2],
    closed: [bool; 2],
}

impl Play {
    fn apps(&mut self, read_at_most: u64) {
        let now = self.net.now;
        for i in 0..2 {
            let c = &mut self.net.ends[i];
            let got = c.read(now, Bytes::new(read_at_most)).get();
            self.received[i] += got;
            if self.unsent[i] > 0 && matches!(c.state(), State::Established | State::CloseWait) {
                self.unsent[i] -= c.write(now, Bytes::new(self.unsent[i])).get();
            }
            let may_close = self.unsent[i] == 0 && !self.closed[i];
            if may_close && matches!(c.state(), State::Established | State::CloseWait) {
                self.closed[i] = true;
                c.shutdown(now);
            }
        }
    }

    fn run(&mut self, end: Time, read: u64, fate: &mut dyn FnMut(usize, &Outgoing) -> Fate) {
        self.net.pump(fate);
        loop {
            let before = self.received;
            if !self.net.step(end) {
                // No timer and no packet is left: the readers finish.
                self.apps(read);
                if self.received == before {
                    return;
                }
            }
            self.net.pump(fate);
            self.apps(read);
            self.net.pump(fate);
            for c in &self.net.ends {
                let t = c.next_timer();
                assert!(
                    t.is_none_or(|t| t >= self.net.now || c.state() == State::Closed),
                    "a timer in the past"
                );
            }
        }
    }
}

fn over(c: &Connection) -> bool {
    c.state() == State::Closed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_byte_is_delivered_once_and_in_order_and_the_connection_ends_or_reports_an_error(
        profile in profiles(),
        ecn in ecn_modes(),
        faults in faults(),
        seed: u64,
        sizes in [0u64..120_000, 0u64..120_000],
        sack: bool,
        timestamps: bool,
        window_scale: bool,
        buffer in prop_oneof![Just(3000u64), Just(20_000), Just(1 << 20)],
        read in prop_oneof![Just(500u64), Just(u64::MAX)],
        delay_us in 10u64..100_000,
        tso: bool,
    ) {
        let cfg = Config {
            ecn,
            sack,
            timestamps,
            window_scale,
            recv_buffer: RecvBuffer::Fixed(Bytes::new(buffer)),
            // Keepalive detects that the peer aborted while this end only waits.
            keepalive: Some(Keepalive { idle: Dur::from_secs(7200), interval: Dur::from_secs(75), count: 9 }),
            tso: tso.then_some(Bytes::new(20_000)),
            // Enough retransmissions that no handshake fails: with FreeBSD's three, one of four hundred fails at 12 %.
            syn_retries: 12,
            synack_retries: 12,
            ..Config::profile(profile)
        };
        let a = connect(&cfg, 0xffff_f000, Time::ZERO);
        let b = listen(&cfg, 77);
        let mut rng = Seed(seed).stream("path");
        let mut fate = |_: usize, _: &Outgoing| {
            let hit = |rng: &mut tcpassay_units::Stream, p: u32| rng.below(100) < u64::from(p);
            let mut fate = Vec::new();
            for copy in 0..2 {
                let dropped = if copy == 0 { hit(&mut rng, faults.loss) } else { !hit(&mut rng, faults.duplicate) };
                let late = hit(&mut rng, faults.late);
                let extra = if late { Dur::from_micros(rng.below(faults.jitter_us)) } else { Dur::ZERO };
                if !dropped {
                    fate.push(extra);
                }
            }
            fate
        };
        let net = Two::new(a, b, Dur::from_micros(delay_us));
        let mut play = Play { net, unsent: sizes, received: [0; 2], closed: [false; 2] };
        play.run(Time::ZERO + Dur::from_secs(100_000), read, &mut fate);
        let [a, b] = &play.net.ends;
        let failed = a.error().is_some() || b.error().is_some();
        for (i, c) in play.net.ends.iter().enumerate() {
            // In any case, no more data are received than were sent.
            prop_assert!(play.received[i] <= sizes[1 - i]);
            prop_assert!(over(c) || c.state() == State::Listen, "end {} stays in {:?}", i, c.state());
            if !failed {
                prop_assert_eq!(play.received[i], sizes[1 - i], "end {}", i);
            }
        }
        // With fewer losses than this no connection is aborted.
        if faults.loss < 15 {
            prop_assert!(!failed, "{:?} {:?}", a.error(), b.error());
        }
    }
}
