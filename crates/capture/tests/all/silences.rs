//! What silences waited for, how connections ended, and what never arrived: as far as the place of the capture and timestamps prove it.

use crate::made::{Made, Timed, analyse, by, from_to, handshake, pcap};
use tcpassay_capture::{BlackHole, EndingKind, FlowSummary, MOST_UNOPENED, StallCause, Summary};
use tcpassay_wire::{Ecn, Flags};

/// Milliseconds at which a packet passes the capture, and at which it was sent.
type When = (u64, u64);

/// A packet with the timestamp of the millisecond in which it was sent, if `stamps`.
fn made(one: Made, (passes, sent): When, stamps: bool) -> Timed {
    let val = u32::try_from(7000 + sent).expect("small");
    if stamps { one.stamps(val, 0).at_us(1000 * passes) } else { one.at_us(1000 * passes) }
}

fn data(seq: u32, len: u32, push: bool) -> Made {
    let one = by(true).seq(seq, len).ack(5001).window(500);
    let flags = one.segment.flags;
    if push { one.flags(flags | Flags::PSH) } else { one }
}

fn ack(ack: u32, window: u16) -> Made {
    by(false).seq(5001, 0).ack(ack).window(window)
}

/// A connection with a round trip of 20 ms, captured at the client or at the server, that has sent 10 segments of 1000 bytes by 220 ms, each after the
/// ACK of the one before.
fn begun(at_client: bool, stamps: bool) -> Vec<Timed> {
    let way =
        |of_client: bool, sent: u64| if of_client == at_client { (sent, sent) } else { (sent + 10, sent) };
    let mut packets = vec![
        made(by(true).flags(Flags::SYN).seq(1000, 0).ack(0).window(64_000).scale(7), way(true, 0), stamps),
        made(
            by(false).flags(Flags::SYN | Flags::ACK).seq(5000, 0).ack(1001).window(64_000).scale(7),
            way(false, 10),
            stamps,
        ),
        made(by(true).seq(1001, 0).ack(5001).window(500), way(true, 20), stamps),
    ];
    for n in 0..10 {
        let at = 20 + 20 * u64::from(n);
        packets.push(made(data(1001 + 1000 * n, 1000, false), way(true, at), stamps));
        packets.push(made(ack(2001 + 1000 * n, 500), way(false, at + 10), stamps));
    }
    packets
}

fn summary(packets: &[Timed]) -> Summary {
    analyse(&pcap(101, packets)).0
}

fn only(packets: &[Timed]) -> FlowSummary {
    let made = summary(packets);
    assert_eq!(made.flows.len(), 1);
    made.flows[0].clone()
}

/// A response of the server.
fn response(seq: u32, len: u32, ack: u32) -> Made {
    by(false).seq(seq, len).ack(ack).window(500)
}

/// The stalls of both flows after what follows, with their milliseconds.
fn stalls(at_client: bool, rest: Vec<(Made, When)>) -> [Vec<(StallCause, u64)>; 2] {
    let mut packets = begun(at_client, true);
    packets.extend(rest.into_iter().map(|(one, when)| made(one, when, true)));
    let flows = summary(&packets).flows;
    assert_eq!(flows.len(), 2);
    [0, 1].map(|flow: usize| {
        flows[flow].stalls.iter().map(|one| (one.cause, one.total_ns / 1_000_000)).collect()
    })
}

/// The only stall of what follows, and its milliseconds.
fn stall(at_client: bool, stamps: bool, rest: Vec<(Made, When)>) -> (StallCause, u64) {
    let mut packets = begun(at_client, stamps);
    packets.extend(rest.into_iter().map(|(one, when)| made(one, when, stamps)));
    let stalls = only(&packets).stalls;
    assert_eq!((stalls.len(), stalls[0].count), (1, 1), "{stalls:?}");
    (stalls[0].cause, stalls[0].total_ns / 1_000_000)
}

#[test]
fn the_timestamp_of_data_tells_a_path_that_held_them_from_a_sender_that_sent_nothing() {
    let late = |sent| {
        vec![
            (data(11_001, 500, true), (230, 220)),
            (ack(11_501, 500), (230, 230)),
            (data(11_501, 1000, true), (400, sent)),
        ]
    };
    assert_eq!(stall(false, true, late(230)), (StallCause::Path, 170));
    assert_eq!(stall(false, true, late(390)), (StallCause::Application, 170));
    assert_eq!(stall(false, false, late(390)), (StallCause::NoData, 170));
    // The last segment was full: the sender may have waited for its window.
    let full = vec![
        (data(11_001, 1000, false), (230, 220)),
        (ack(12_001, 500), (230, 230)),
        (data(12_001, 1000, true), (400, 390)),
    ];
    assert_eq!(stall(false, true, full), (StallCause::NoData, 170));
    // At the sender nothing else explains it.
    let sent = vec![
        (data(11_001, 1000, false), (220, 220)),
        (ack(12_001, 500), (240, 230)),
        (data(12_001, 1000, true), (400, 400)),
    ];
    assert_eq!(stall(true, false, sent), (StallCause::Application, 160));
}

#[test]
fn an_end_whose_peers_data_are_missing_waits_for_them() {
    // At the client: the server's sequence numbers show 4000 bytes that were lost before the capture.
    let lost = vec![
        (response(5001, 100, 11_001), (230, 220)),
        (data(11_001, 0, false).ack(5101), (230, 230)),
        (response(9101, 0, 11_001), (240, 230)),
        (data(11_001, 100, true).ack(5101), (500, 500)),
    ];
    assert_eq!(stalls(true, lost.clone()), [vec![], vec![(StallCause::MissingData, 260)]]);
    // The server sends them again.
    let mut again = lost;
    again[3] = (response(5101, 1000, 11_001), (500, 490));
    assert_eq!(stalls(true, again), [vec![], vec![(StallCause::MissingData, 260)]]);
    // At the server: what it sent is outstanding, and the client does not acknowledge it.
    let outstanding = |ack: u32| {
        vec![
            (response(5001, 100, 11_001), (220, 220)),
            (data(11_001, 0, false).ack(5101), (240, 230)),
            (response(5101, 1000, 11_001), (240, 240)),
            (data(11_001, 100, true).ack(ack), (500, 490)),
        ]
    };
    assert_eq!(stalls(false, outstanding(5101)), [vec![], vec![(StallCause::MissingData, 260)]]);
    // It acknowledges them, but when they arrived is unknown.
    assert_eq!(stalls(false, outstanding(6101)), [vec![(StallCause::NoData, 260)], vec![]]);
}

#[test]
fn a_late_response_is_the_applications_only_if_an_ack_of_the_request_was_early() {
    let late = |acked: bool| {
        let mut rest = vec![
            (response(5001, 100, 11_001), (230, 220)),
            (data(11_001, 500, true).ack(5101), (231, 231)),
            (response(5101, 0, 11_501), (251, 241)),
            (response(5101, 100, 11_501), (400, 390)),
        ];
        if !acked {
            rest.remove(2);
        }
        stalls(true, rest)
    };
    assert_eq!(late(true), [vec![], vec![(StallCause::Application, 149)]]);
    assert_eq!(late(false), [vec![], vec![(StallCause::NoData, 169)]]);
}

#[test]
fn an_ack_is_delayed_if_it_has_that_form_and_its_timestamp_shows_it() {
    let one = |sent| vec![(data(11_001, 500, true), (220, 220)), (ack(11_501, 500), (280, sent))];
    assert_eq!(stall(true, true, one(270)), (StallCause::DelayedAck, 60));
    assert_eq!(stall(true, true, one(230)), (StallCause::Path, 60));
    assert_eq!(stall(true, false, one(270)), (StallCause::PossibleDelayedAck, 60));
    // At the receiver the ACK is seen when it leaves.
    let there = vec![(data(11_001, 500, true), (230, 220)), (ack(11_501, 500), (275, 275))];
    assert_eq!(stall(false, false, there), (StallCause::DelayedAck, 45));
    // Several segments, or more than 500 ms.
    let mut several = one(270);
    several.insert(0, (data(11_001, 1000, false), (220, 220)));
    several.insert(1, (data(12_001, 1000, true), (220, 220)));
    several.remove(2);
    several[2].0 = ack(13_001, 500);
    assert_eq!(stall(true, true, several), (StallCause::LateAck, 60));
    let long = vec![(data(11_001, 500, true), (220, 220)), (ack(11_501, 500), (820, 810))];
    assert_eq!(stall(true, true, long), (StallCause::LateAck, 600));
}

#[test]
fn a_wait_with_a_full_window_lasts_until_an_ack_opens_it() {
    // The window of the last ACK has room for 1024 bytes.
    let full = |zero: Option<u64>| {
        let mut rest = vec![
            (data(11_001, 1000, true), (240, 240)),
            (ack(12_001, 8), (260, 250)),
            (data(12_001, 1024, true), (260, 260)),
        ];
        rest.extend(zero.map(|at| (ack(13_025, 0), (at, at - 10))));
        rest.push((ack(13_025, 500), (320, 310)));
        rest
    };
    assert_eq!(stall(true, true, full(Some(313))), (StallCause::ClosedWindow, 60));
    assert_eq!(stall(true, true, full(None)), (StallCause::FullWindow, 60));
}

#[test]
fn only_a_long_wait_without_a_report_of_loss_is_the_retransmission_timer() {
    let flight = || (0..3).map(|n| (data(11_001 + 1000 * n, 1000, n == 2), (220, 220))).collect::<Vec<_>>();
    let mut probe = flight();
    probe.push((data(13_001, 1000, true), (270, 270)));
    assert_eq!(stall(true, true, probe), (StallCause::TailLossProbe, 50));
    let mut timer = flight();
    timer.push((data(11_001, 1000, false), (440, 440)));
    assert_eq!(stall(true, true, timer), (StallCause::RetransmissionTimer, 220));
    // The last of several outstanding segments is not what that timer sends.
    let mut later = flight();
    later.push((data(13_001, 1000, true), (440, 440)));
    assert_eq!(stall(true, true, later), (StallCause::TailLossProbe, 220));
    let mut one = vec![(data(11_001, 500, true), (220, 220)), (data(11_001, 500, true), (440, 440))];
    assert_eq!(stall(true, true, one.clone()), (StallCause::RetransmissionTimer, 220));
    one[1].1 = (400, 400);
    assert_eq!(stall(true, true, one), (StallCause::TailLossProbe, 180));
    // The timer runs since the data, whatever the other end sends.
    let fed = vec![
        (data(11_001, 500, true), (230, 220)),
        (ack(11_501, 500), (230, 230)),
        (response(5001, 100, 11_501), (290, 290)),
        (data(11_001, 500, true), (440, 430)),
    ];
    assert_eq!(stalls(false, fed)[0], vec![(StallCause::RetransmissionTimer, 150)]);
    // Without any ACK nothing is known to be acknowledged.
    let alone = [data(11_001, 500, true).at_us(0), data(11_001, 500, true).at_us(206_000)];
    assert_eq!(only(&alone).stalls[0].cause, StallCause::RetransmissionTimer);
    // At the receiver a retransmission comes a round trip after the report of the loss.
    let fast = vec![
        (data(12_001, 1000, false), (230, 220)),
        (ack(11_001, 500).sack(12_001, 13_001), (230, 230)),
        (data(11_001, 1000, false), (265, 255)),
    ];
    assert_eq!(stall(false, true, fast), (StallCause::FastRetransmission, 35));
}

#[test]
fn the_end_of_a_connection_is_told() {
    let ending = |rest: Vec<(Made, When)>| {
        let mut packets = begun(true, false);
        packets.extend(rest.into_iter().map(|(one, when)| made(one, when, false)));
        let flow = only(&packets);
        (flow.ending.clone(), flow.words.last().expect("words").clone())
    };
    let (open, words) = ending(vec![]);
    assert_eq!((open.how, open.by, open.outstanding), (EndingKind::Open, None, 0));
    assert_eq!(words, "Still open at the end: neither FIN nor RST is in the capture.");
    let reset = |from: bool| by(from).flags(Flags::RST | Flags::ACK).seq(5001, 0).ack(11_001).window(0);
    let (cut, words) = ending(vec![(data(11_001, 1000, true), (230, 230)), (reset(false), (240, 240))]);
    assert_eq!(
        (cut.how, cut.by.as_deref(), cut.at_ns),
        (EndingKind::Reset, Some("192.0.2.2:80"), Some(240_000_000))
    );
    assert_eq!((cut.outstanding, cut.went_on), (1000, false));
    assert_eq!(
        words,
        "Ended by a reset (RST) of 192.0.2.2:80 at 0.240000, with 1.0KB of 192.0.2.1:40000 not acknowledged."
    );
    let (forged, _) = ending(vec![(reset(false), (240, 240)), (ack(11_001, 500), (260, 250))]);
    assert!(forged.went_on);
    let fin = |from: bool, seq: u32, ack: u32| {
        by(from).flags(Flags::FIN | Flags::ACK).seq(seq, 0).ack(ack).window(500)
    };
    let (closed, words) =
        ending(vec![(fin(false, 5001, 11_001), (240, 240)), (fin(true, 11_001, 5002), (250, 250))]);
    assert_eq!((closed.how, closed.by.as_deref()), (EndingKind::Closed, Some("192.0.2.2:80")));
    assert!(
        words.starts_with("Closed (FIN): 192.0.2.2:80 first, at 0.240000, the other end at 0.250000"),
        "{words}"
    );
    let (half, _) = ending(vec![(fin(true, 11_001, 5001), (240, 240))]);
    assert_eq!((half.how, half.by.as_deref()), (EndingKind::HalfClosed, Some("192.0.2.1:40000")));
}

#[test]
fn packets_above_a_length_that_never_arrive_are_told_from_losses() {
    let mut packets = handshake(20_000);
    let long = |n: u32| data(1001 + 1400 * n, 1400, false);
    packets.extend((0..3).map(|n| long(n).at_us(21_000)));
    packets.extend([250, 700, 1600].map(|ms| long(0).at_us(1000 * ms)));
    assert_eq!(only(&packets).black_hole, None);
    // The receiver is there.
    packets
        .push(by(false).flags(Flags::FIN | Flags::ACK).seq(5001, 0).ack(1001).window(500).at_us(2_000_000));
    let hole = BlackHole { length: 1400, passed: 0, transmissions: 4, over: false };
    let flow = only(&packets);
    assert_eq!(flow.black_hole, Some(hole));
    let said = "No packet with 1400B arrives (the first was sent 4 times), while packets without data pass";
    let words = flow.words.iter().find(|words| words.starts_with(said)).expect("a black hole");
    assert!(words.ends_with("the capture has no ICMP error that tells the sender."), "{words}");
    packets.push(ack(2401, 500).at_us(2_020_000));
    assert_eq!(only(&packets).black_hole, None);
}

#[test]
fn sequence_numbers_show_data_that_never_arrived() {
    let mut packets = handshake(20_000);
    packets.push(by(true).seq(16_929, 0).ack(5001).window(500).at_us(25_000_000));
    let made = summary(&packets);
    assert_eq!(made.flows, []);
    let said =
        "1 flow of which no data are in the capture although sequence numbers show that 15.9KB were sent";
    assert!(made.notes.iter().any(|note| note.starts_with(said)), "{:?}", made.notes);
}

#[test]
fn an_end_that_closes_after_its_own_data_waited_for_the_application_of_the_other_end() {
    // Each request of 100 bytes is answered by as many; the last one is acknowledged only.
    let exchange = |answers: u32| {
        let mut all = Vec::new();
        for n in 0..=answers {
            let (at, own, other) = (220 + 20 * u64::from(n), 11_001 + 100 * n, 5001 + 100 * n);
            all.push((data(own, 100, true).ack(other), (at, at)));
            let answer = response(other, if n < answers { 100 } else { 0 }, own + 100);
            all.push((answer, (at + 20, at + 10)));
        }
        let (own, other) = (11_101 + 100 * answers, 5001 + 100 * answers);
        (all, by(true).seq(own, 0).ack(other).window(500))
    };
    let cause = |answers: u32, flags: Flags| {
        let (mut rest, last) = exchange(answers);
        rest.push((last.flags(flags), (4000, 4000)));
        let mut packets = begun(true, true);
        packets.extend(rest.into_iter().map(|(one, when)| made(one, when, true)));
        let flow = &summary(&packets).flows[0];
        let one = flow.stalls.last().expect("a stall");
        assert_eq!(one.total_ns / 1_000_000, 3760 - 20 * u64::from(answers));
        one.cause
    };
    for flags in [Flags::FIN | Flags::ACK, Flags::RST | Flags::ACK] {
        assert_eq!(cause(2, flags), StallCause::Unanswered);
        assert_eq!(cause(0, flags), StallCause::OneOfTheApplications);
    }
}

#[test]
fn nothing_that_is_answered_after_a_pause_is_told() {
    let told = |answered: bool| {
        let mut packets = begun(true, false);
        packets.extend([3220, 3520, 4120].map(|ms| data(11_001, 100, true).at_us(1000 * ms)));
        packets.extend(answered.then(|| ack(11_101, 500).at_us(4_140_000)));
        only(&packets)
            .words
            .iter()
            .any(|text| text.starts_with("After a pause of 3.00s at 0.220000 nothing of"))
    };
    assert!(told(false));
    assert!(!told(true));
}

#[test]
fn what_the_syn_offers_and_the_syn_ack_lacks_is_told() {
    let ect = |ecn: Ecn| {
        let mut packets = handshake(20_000);
        let asks = Flags::SYN | Flags::ECE | Flags::CWR;
        packets[0] = by(true).flags(asks).seq(1000, 0).ack(0).window(64_000).scale(7).stamps(1, 0).at_us(0);
        let accepts = Flags::SYN | Flags::ACK | Flags::ECE;
        packets[1] = by(false).flags(accepts).seq(5000, 0).ack(1001).window(64_000).at_us(20_000);
        packets.push(data(1001, 1000, true).ecn(ecn).at_us(20_000));
        packets.push(ack(2001, 500).at_us(40_000));
        only(&packets).words.join(" ")
    };
    let lacks =
        "The SYN offers what the SYN-ACK lacks: window scale, timestamps: no window is larger than 64 KB.";
    let clear = "ECN was negotiated, and none of 1 data packet is ECN-capable (ECT)";
    for (ecn, cleared) in [(Ecn::NotEct, true), (Ecn::Ect0, false)] {
        let told = ect(ecn);
        assert!(told.contains(lacks), "{told}");
        assert_eq!(told.contains(clear), cleared, "{told}");
    }
    let whole = only(&begun(true, true)).words.join(" ");
    assert!(!whole.contains("lacks") && !whole.contains("ECN"), "{whole}");
}

#[test]
fn syns_without_answer_beside_connections_that_opened_may_have_met_a_full_listen_queue() {
    let told = |at_host: bool, later: u64| {
        let mut packets = begun(!at_host, false);
        let syn = from_to("192.0.2.1:40001", "192.0.2.2:80").flags(Flags::SYN).seq(1000, 0).ack(0);
        packets.push(syn.at_us(1_000_000 * later));
        summary(&packets).unopened[0].words.clone()
    };
    let plain = "192.0.2.1:40001 > 192.0.2.2:80: 1 SYN, no answer";
    assert_eq!(told(true, 61), plain);
    let here = "; 1 other connection to this port opened within a minute, and the capture was taken at its host: its listen \
                queue may be full";
    assert_eq!(told(true, 50), format!("{plain}{here}"));
    let elsewhere = "; 1 other connection to this port opened within a minute: the path lost the SYNs or their answers, or the \
                     listen queue of the host is full";
    assert_eq!(told(false, 50), format!("{plain}{elsewhere}"));
}

#[test]
fn data_far_beyond_the_window_do_not_decide_about_later_data() {
    let packets = |far: u32| {
        let mut packets = begun(true, false);
        packets.push(data(far, 1000, false).at_us(230_000));
        packets.extend((0..5).map(|n| data(11_001 + 1000 * n, 1000, false).at_us(231_000)));
        packets
    };
    let odd = only(&packets(300_000_000)).counters;
    assert_eq!((odd.packets, odd.retransmissions, odd.beyond_window), (15, 0, 1));
    // Within reach of the window the capture may have missed data.
    let near = only(&packets(100_001)).counters;
    assert_eq!((near.packets, near.beyond_window), (16, 0));
}

#[test]
fn connections_that_are_not_opened_are_told() {
    let syn = |port: u16| {
        let client = format!("192.0.2.1:{port}");
        move |ms: u64| from_to(&client, "192.0.2.2:81").flags(Flags::SYN).seq(1000, 0).ack(0).at_us(1000 * ms)
    };
    let (lost, refused) = (syn(40_001), syn(40_002));
    let reset = from_to("192.0.2.2:81", "192.0.2.1:40002").flags(Flags::RST | Flags::ACK).seq(0, 0).ack(1001);
    let mut packets = vec![lost(0), refused(1), reset.at_us(31_000), lost(1030), lost(3100)];
    // Of a connection of which one direction was captured more than SYNs is there.
    packets.extend(begun(true, false).into_iter().filter(|(_, bytes)| bytes[15] == 1));
    let made = summary(&packets);
    let told: Vec<(&str, u64, bool)> =
        made.unopened.iter().map(|one| (one.words.as_str(), one.syns, one.refused)).collect();
    let expected = [
        ("192.0.2.1:40001 > 192.0.2.2:81: 3 SYNs in 3.10s, no answer", 3, false),
        ("192.0.2.1:40002 > 192.0.2.2:81: 1 SYN, refused by a reset (RST) after 30.0ms", 1, true),
    ];
    assert_eq!((told.as_slice(), made.unopened_connections), (expected.as_slice(), 2));
    let scan: Vec<Timed> = (0..150).map(|n| syn(41_000 + n)(u64::from(n))).collect();
    let many = summary(&scan);
    assert_eq!((many.unopened.len(), many.unopened_connections), (MOST_UNOPENED, 150));
    assert_eq!(many.unopened[0].words, "192.0.2.1:41000 > 192.0.2.2:81: 1 SYN, no answer");
}
