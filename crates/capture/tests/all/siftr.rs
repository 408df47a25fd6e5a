//! Logs of siftr.

use proptest::prelude::*;
use tcpassay_capture::siftr::{SiftrLine, is_siftr, read_limited, read_siftr};

/// Seven lines of the review of RFC 6582 in FreeBSD (D17614), without its patch: recovery, its end with a congestion window of one
/// segment, and the timeout 234 ms later.
const REVIEW: &str = "\
enable_time_secs=1547810107\tenable_time_usecs=0\tsiftrver=1.2.4\thz=1000\ttcp_rtt_scale=32\tsysname=FreeBSD\tsysver=1300000\tipmode=4
i,0x00000000,1547810107.990995,192.168.0.1,8080,192.0.2.1,12988,1073725440,40001,0,33553920,66000,9,6,4,1000,0,1,608,23,57576,36000,66000,0,36000,0,0,0
o,0x00000000,1547810107.991024,192.168.0.1,8080,192.0.2.1,12988,20000,1000,0,33553920,66000,9,6,4,1000,0,1,537920096,23,57576,36000,66000,0,36000,0,0,0
i,0x00000000,1547810107.992316,192.168.0.1,8080,192.0.2.1,12988,20000,1000,0,33553920,66000,9,6,4,1000,0,1,537920096,23,57576,46000,66000,0,36000,0,0,0
o,0x00000000,1547810107.992338,192.168.0.1,8080,192.0.2.1,12988,20000,1000,0,33553920,66000,9,6,4,1000,0,1,608,23,57576,10000,66000,0,0,0,0,0 # first segment after recovery (flags!)
o,0x00000000,1547810108.226675,192.168.0.1,8080,192.0.2.1,12988,2000,1000,0,33553920,66000,9,6,4,1000,0,1,8801,26,57576,10000,66000,0,1000,0,0,0 # RTO
";

#[test]
fn the_trace_of_the_fifth_paper_shows_the_window_of_one_segment_and_the_wait_for_the_timer() {
    assert!(is_siftr(REVIEW.as_bytes()));
    let log = read_siftr(REVIEW.as_bytes()).expect("memory");
    assert_eq!((log.lines, log.notes.len(), log.flows.len()), (5, 0, 1));
    let flow = &log.flows[0];
    assert_eq!((flow.local.as_str(), flow.foreign.as_str()), ("192.168.0.1:8080", "192.0.2.1:12988"));
    assert_eq!((flow.arrived, flow.left, flow.mss), (2, 3, 1000));
    assert_eq!((flow.cwnd, flow.least_ssthresh, flow.most_in_flight), ((1000, 40_001), Some(2000), 36_000));
    assert_eq!((flow.collapses, flow.first_collapse_ns), (1, Some(1_547_810_107_991_024_000)));
    assert_eq!((flow.silences_ended_here, flow.silences_ended_there), ((1, 234_337_000), (0, 0)));
}

#[test]
fn a_round_trip_time_is_in_ticks_times_the_scale_of_the_first_line() {
    let log = read_siftr(REVIEW.replace("4,1000,0,1", "4,1000,57,1").replace("hz=1000", "hz=100").as_bytes());
    // 57 / 32 of 10 ms.
    assert_eq!(log.expect("memory").flows[0].srtt_ns, Some((17_812_500, 17_812_500)));
}

#[test]
fn a_field_too_many_or_too_few_and_every_wrong_field_is_damage_that_is_counted() {
    let line = REVIEW.lines().nth(1).expect("a line");
    assert!(SiftrLine::read(line).is_some());
    let fields: Vec<&str> = line.split(',').collect();
    for place in 0..fields.len() {
        let mut wrong = fields.clone();
        wrong[place] = "x";
        assert_eq!(SiftrLine::read(&wrong.join(",")), None, "field {place}");
        wrong.remove(place);
        if place == 1 {
            continue; // Without its packet hash it is a line of version 1.3.
        }
        assert_eq!(SiftrLine::read(&wrong.join(",")), None, "without field {place}");
    }
    let log =
        read_siftr(format!("{REVIEW}i,0x0,broken\n{}\n", "o,".repeat(5000)).as_bytes()).expect("memory");
    assert_eq!(log.lines, 5);
    assert_eq!(log.notes, ["2 damaged lines were skipped, the first one is line 7."]);
}

#[test]
fn lines_whose_times_go_backwards_are_counted() {
    let lines: Vec<&str> = REVIEW.lines().filter(|line| SiftrLine::read(line).is_some()).collect();
    let times: Vec<u64> = lines.iter().map(|line| SiftrLine::read(line).expect("a line").at_ns).collect();
    let (first, last) = (times[0], times[times.len() - 1]);
    assert!(last - first > 1_000_000, "{times:?}");
    let log = read_siftr(format!("{}\n{}\n", lines[lines.len() - 1], lines[0]).as_bytes()).expect("memory");
    let note = log.notes.iter().find(|note| note.starts_with("Time goes backwards at 1 line, by up to "));
    assert!(note.is_some(), "{:?}", log.notes);
    let whole = read_siftr(lines.join("\n").as_bytes()).expect("memory");
    assert!(whole.notes.iter().all(|note| !note.contains("backwards")), "{:?}", whole.notes);
}

#[test]
fn a_line_of_version_1_3_has_no_packet_hash_and_times_in_microseconds() {
    let head =
        "enable_time_secs=1\tenable_time_usecs=0\tsiftrver=1.3.0\tsysname=FreeBSD\tsysver=1500000\tipmode=4";
    let line = "o,1547810107.991024,192.168.0.1,8080,192.0.2.1,12988,20000,1000,0,33553920,66000,9,6,4,1000,40123,1,\
                537920096,240000,57576,36000,66000,0,36000,0,7,128";
    let read = SiftrLine::read(line).expect("a line");
    assert_eq!((read.recent, read.cwnd, read.ssthresh, read.mss), (true, 1000, 20_000, 1000));
    assert_eq!((read.srtt, read.rto, read.in_flight), (40_123, 240_000, 36_000));
    let log = read_siftr(format!("{head}\n{line}\n").as_bytes()).expect("memory");
    assert_eq!((log.lines, log.flows[0].srtt_ns), (1, Some((40_123_000, 40_123_000))));
    // The units need no first line.
    assert!(is_siftr(line.as_bytes()));
    assert!(read_siftr(line.as_bytes()).expect("memory").notes.is_empty());
}

#[test]
fn a_log_without_lines_has_a_message() {
    let log = read_siftr("enable_time_secs=1\n".as_bytes()).expect("memory");
    assert_eq!(log.notes, ["The log has no lines of packets."]);
}

proptest! {
    #[test]
    fn damage_at_any_place_never_panics(
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut log = REVIEW.as_bytes().to_vec();
        for (place, byte) in places {
            let place = place.index(log.len());
            log[place] = byte;
        }
        // A line feed that becomes another byte joins two lines.
        prop_assert!(read_siftr(&log[..]).is_ok_and(|log| log.lines <= 25));
    }
}

#[test]
fn connections_after_the_limit_are_counted_in_a_note_and_take_no_memory() {
    let line = |port: u32, at: u32| {
        format!(
            "i,0x00000000,{at}.5,192.168.0.1,8080,192.0.2.1,{port},1073725440,40001,0,33553920,66000,9,6,4,1000,0,1,608,23,57576,36000,66000,0,36000,0,0,0\n"
        )
    };
    let log: String = (1..=5).map(|port| line(port, 10) + &line(port, 11)).collect();
    let read = |most| read_limited(log.as_bytes(), most, 1 << 20).expect("memory");
    assert_eq!(read(5).flows.len(), 5);
    let some = read(3);
    assert_eq!((some.lines, some.flows.len()), (10, 3));
    assert_eq!(some.flows[2].foreign, "192.0.2.1:3");
    assert_eq!(some.flows[2].arrived, 2);
    let said = "4 lines are of connections after the first 3, which are the limit (--max-connections).";
    assert!(some.notes.contains(&said.to_owned()), "{:?}", some.notes);
}
