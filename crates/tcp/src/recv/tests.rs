//! Tests of the receiver without a connection.

use super::*;
use crate::Profile;
use crate::log::Log;
use tcpassay_units::Bytes;

fn receiver(profile: Profile) -> Receiver {
    let mut receiver = Receiver::new(&Config::profile(profile));
    receiver.agreed(7, 1000, true, Echo::Off);
    receiver
}

fn arrival(span: Span, rtt: Dur) -> Arrival {
    Arrival {
        span,
        fin: false,
        push: false,
        cwr: false,
        ecn: Ecn::NotEct,
        rtt: Some(rtt),
        rto: Dur::from_secs(1),
        header: 32,
        closing: false,
    }
}

#[test]
fn linux_measures_round_trips_by_segments_out_of_order_and_by_duplicates() {
    let ms = Dur::from_millis;
    for (profile, measured) in
        [(Profile::Linux, [ms(80), ms(60), ms(40)]), (Profile::FreeBsd, [Dur::ZERO, ms(60), ms(60)])]
    {
        let mut r = receiver(profile);
        let log = &mut Log::default();
        let got = [(2001..3001, ms(80)), (1..1001, ms(60)), (1..1001, ms(40))].map(|(span, rtt)| {
            r.data(Time::ZERO, &arrival(span, rtt), log);
            r.window.rtt()
        });
        assert_eq!(got, measured, "{profile:?}");
    }
}

#[test]
fn linux_ends_a_round_trip_with_data_that_arrive_and_not_with_those_that_waited_behind_a_gap() {
    // `tcp_rcv_rtt_measure` comes before `tcp_ofo_queue`.
    for (profile, measured) in [(Profile::Linux, [0, 30]), (Profile::FreeBsd, [20, 20])] {
        let mut r = receiver(profile);
        let log = &mut Log::default();
        let mut get = |ms: u64, span: Span| {
            let without = Arrival { rtt: None, ..arrival(span, Dur::ZERO) };
            r.data(Time::ZERO + Dur::from_millis(ms), &without, log);
            r.edge = 200_001;
            r.window.rtt().as_nanos() / 1_000_000
        };
        get(0, 1..1001);
        get(10, 2001..190_001);
        assert_eq!([get(20, 1001..2001), get(30, 190_001..191_001)], measured, "{profile:?}");
    }
}

#[test]
fn linux_7_3_measures_longer_round_trips_only_while_nothing_is_unread() {
    // `tcp_rcv_rtt_update`.
    let ms = Dur::from_millis;
    for (profile, measured) in
        [(Profile::Linux61, [ms(8), ms(9), ms(4)]), (Profile::Linux73, [ms(8), ms(8), ms(4)])]
    {
        let mut r = receiver(profile);
        let log = &mut Log::default();
        let got = [(1..1001, ms(8)), (1001..2001, ms(16)), (2001..3001, ms(4))].map(|(span, rtt)| {
            r.data(Time::ZERO, &arrival(span, rtt), log);
            r.window.rtt()
        });
        assert_eq!(got, measured, "{profile:?}");
        r.read(Time::ZERO, 3000);
        r.data(Time::ZERO, &arrival(3001..4001, ms(12)), log);
        assert_eq!(r.window.rtt(), ms(5), "{profile:?}");
    }
}

#[test]
fn the_window_of_an_ack_for_an_older_position_counts_from_the_next_one() {
    // `tcp_select_window`: rcv_wup is RCV.NXT, whatever the ACK field says.
    let cfg = Config { dctcp_receiver: crate::DctcpReceiver::Immediate, ..Config::profile(Profile::Linux) };
    let mut r = Receiver::new(&cfg);
    r.agreed(0, 1000, true, Echo::Off);
    let memory = crate::RecvMemory {
        size: Bytes::new(131_072),
        max: Bytes::new(6 << 20),
        locked: false,
        shrink: false,
        passive: false,
        ip: Bytes::new(20),
        gso: None,
        rules: crate::MemoryRules::Half,
        buffer: Some(Bytes::new(768)),
        pages: crate::PacketPages::Sender,
    };
    r.count_memory(Time::ZERO, memory, 1000, false, true);
    r.data(Time::ZERO, &arrival(1..1001, Dur::ZERO), &mut Log::default());
    let before = r.at();
    r.announce_at(501);
    assert_eq!((before.acked, r.at().acked), (1, 1001));
}

/// Segments of 1000 bytes, at the positions `at` in thousands; returns the SACK blocks of the ACK that each of them causes, in thousands.
fn blocks_of_acks(at: &[u64]) -> Vec<Option<Vec<(u64, u64)>>> {
    let mut r = receiver(Profile::Linux);
    let log = &mut Log::default();
    let blocks = |sacks: &[Span]| sacks.iter().map(|s| (s.start / 1000, s.end / 1000)).collect();
    let one = |at: &u64| {
        let span = 1000 * at + 1..1000 * (at + 1) + 1;
        r.data(Time::from_nanos(1_000_000), &arrival(span, Dur::from_millis(100)), log);
        if let Some(old) = r.take_old_ack() {
            assert!(!r.ack_due(Time::from_nanos(1_000_000), None, log), "one ACK for each segment");
            return Some(blocks(&old.sacks));
        }
        r.ack_due(Time::from_nanos(1_000_000), None, log).then(|| {
            let sacks = r.sacks(4);
            r.ack_sent(Time::from_nanos(1_000_000), false, 1, log);
            blocks(&sacks)
        })
    };
    at.iter().map(one).collect()
}

#[test]
fn linux_sends_the_ack_for_compressed_ones_before_a_third_block_changes() {
    let first = [Some(vec![(2, 3)]), Some(vec![(2, 4)]), Some(vec![(2, 5)])];
    // The fourth one is compressed. A second block changes nothing; a third one does.
    assert_eq!(
        blocks_of_acks(&[2, 3, 4, 5, 8, 11, 9, 12]),
        [&first[..], &[None, None, Some(vec![(8, 9), (2, 6)]), None, None]].concat()
    );
    // The third block grows, and the ACK reports it, still as the third one.
    let acks = blocks_of_acks(&[2, 3, 4, 7, 10, 11, 5]);
    assert_eq!(acks[6], Some(vec![(10, 12), (7, 8), (2, 6)]));
    // A segment of the third block arrives again.
    let acks = blocks_of_acks(&[2, 3, 4, 6, 8, 9, 2]);
    assert_eq!(
        acks[3..],
        [None, Some(vec![(6, 7), (2, 5)]), None, Some(vec![(2, 3), (8, 10), (6, 7), (2, 5)])]
    );
}
