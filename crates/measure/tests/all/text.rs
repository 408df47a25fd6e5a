//! Tests of the event log as text.

use crate::sample::{flow, recording, us};
use std::borrow::Cow;
use tcpassay_measure::{EventKind, EventRow, Flow, Recording, siftr};
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

fn log() -> Recording {
    let mut recording = Recording {
        hosts: vec!["sender0".to_owned(), "receiver0".to_owned()],
        flows: vec![Flow { mss: Bytes::new(1000), ..flow(0) }, Flow { from: 1, to: 0, ..flow(0) }],
        ..Recording::default()
    };
    recording.header.duration = Dur::from_millis(1500);
    recording.header.version.push_str("0.1.0");
    let at = |n, kind| EventRow::new(us(n), 0, Some(0), kind);
    let says = |n, kind, why| EventRow { why: Cow::Borrowed(why), ..at(n, kind) };
    let segment = |n, kind, seq, len, ack| EventRow {
        seq: Some(seq),
        len: Some(len),
        ack: Some(ack),
        flags: Some(Flags::ACK),
        ..at(n, kind)
    };
    recording.events = vec![
        says(100, EventKind::State, "SynSent->Established"),
        EventRow {
            cwnd: Some(Bytes::new(10_000)),
            flight: Some(Bytes::ZERO),
            ..says(100, EventKind::Window, "ack")
        },
        segment(110, EventKind::Out, 1, 1000, 1),
        EventRow { window: Some(Bytes::new(66_000)), ce: true, ..segment(40_110, EventKind::In, 1, 0, 1001) },
        EventRow {
            value: Some(40_000_000),
            srtt: Some(Dur::from_millis(40)),
            rto: Some(Dur::from_millis(240)),
            ..at(40_110, EventKind::Rtt)
        },
        EventRow { value: Some(280_110_000), ..says(40_115, EventKind::TimerSet, "Retransmit") },
        segment(40_120, EventKind::Out, 1001, 1000, 1),
        says(50_000, EventKind::Congestion, "Disorder->Recovery: dupthresh"),
        EventRow {
            cwnd: Some(Bytes::new(5000)),
            ssthresh: Some(Bytes::new(4000)),
            ..says(50_000, EventKind::Window, "enter")
        },
        segment(50_000, EventKind::Retransmit, 1001, 1000, 1),
        EventRow::new(us(60_000), 1, Some(1), EventKind::AckForget),
        EventRow::new(us(60_001), 7, Some(9), EventKind::Drop),
    ]
    .into();
    recording
}

#[test]
fn each_event_is_a_line_with_time_place_kind_and_reason() {
    let mut out = Vec::new();
    log().write_event_text(&mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    let expected = "\
0.000100000 sender0 flow.0 state SynSent->Established
0.000100000 sender0 flow.0 window ack cwnd 10000 flight 0
0.000110000 sender0 flow.0 out 1:1001(1000) ack 1 .
0.040110000 sender0 flow.0 in 1:1(0) ack 1001 . CE win 66000
0.040110000 sender0 flow.0 rtt srtt 40ms rto 240ms sample 40ms
0.040115000 sender0 flow.0 timer_set Retransmit at 0.280110000
0.040120000 sender0 flow.0 out 1001:2001(1000) ack 1 .
0.050000000 sender0 flow.0 congestion Disorder->Recovery: dupthresh
0.050000000 sender0 flow.0 window enter cwnd 5000 ssthresh 4000
0.050000000 sender0 flow.0 retransmit 1001:2001(1000) ack 1 .
0.060000000 receiver0 flow.0 ack_forget
0.060001000 host7 flow9 drop
";
    assert_eq!(text, expected);
}

#[test]
fn siftr_lines_have_the_28_fields_of_freebsd_with_the_state_of_their_moment() {
    let mut out = Vec::new();
    siftr::write(&log(), 0, &mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    // The fields after the state: mss, srtt (ticks of 1/32 ms), sack, flags, rto (ms), four of buffers, in flight.
    let expected = [
        "enable_time_secs=0\tenable_time_usecs=0\tsiftrver=1.2.4\thz=1000\ttcp_rtt_scale=32\tsysname=tcpassay\tsysver=0.1.0\tipmode=4",
        "o,0x00000000,0.000110,10.0.0.1,32768,10.0.0.2,5001,1073725440,10000,0,0,0,0,0,4,1000,0,1,608,0,0,0,0,0,0,0,0,0",
        "i,0x00000000,0.040110,10.0.0.1,32768,10.0.0.2,5001,1073725440,10000,0,0,0,0,0,4,1000,0,1,608,0,0,0,0,0,1000,0,0,0",
        "o,0x00000000,0.040120,10.0.0.1,32768,10.0.0.2,5001,1073725440,10000,0,66000,0,0,0,4,1000,1280,1,608,240,0,0,0,0,0,0,0,0",
        "o,0x00000000,0.050000,10.0.0.1,32768,10.0.0.2,5001,4000,5000,0,66000,0,0,0,4,1000,1280,1,537920096,240,0,0,0,0,1000,0,0,0",
    ];
    assert_eq!(lines[..5], expected);
    assert!(lines[1..5].iter().all(|line| line.split(',').count() == 28));
    assert!(lines[5].starts_with(
        "disable_time_secs=1\tdisable_time_usecs=500000\tnum_inbound_tcp_pkts=1\tnum_outbound_tcp_pkts=3\t"
    ));
    assert!(lines[5].ends_with("flow_list=10.0.0.1;32768-10.0.0.2;5001,"));
    assert_eq!(lines.len(), 6);
}

#[test]
fn the_log_of_a_stored_recording_reads_the_same() {
    let dir = crate::sample::folder("text").join("r");
    recording().write(&dir).expect("writable");
    let text = |r: &Recording| r.events.iter().map(|e| r.event_line(&e)).collect::<Vec<_>>();
    let back = Recording::read(&dir).expect("readable");
    assert_eq!(text(&back), text(&recording()));
    assert_eq!(
        text(&back)[1],
        "0.200000000 sender0 flow.0 timer_fire retransmit CE cwnd 1448 ssthresh 2896 rto 200ms"
    );
    assert_eq!(back.events.get(1).expect("a row").at, Time::from_nanos(200_000_000));
}
