//! Recordings on disk.

use crate::sample;
use proptest::prelude::*;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tcpassay_measure::{
    EntitySeries, EventKind, EventLog, EventRow, Histogram, Latency, LatencyKind, Recording, Series,
    SeriesColumn,
};
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

const FILES: [&str; 7] = [
    "completions.parquet",
    "deliveries.parquet",
    "events.parquet",
    "latency.parquet",
    "packets.pcapng",
    "recording.json",
    "series.parquet",
];

#[test]
fn a_recording_that_was_written_is_read_back_equal() {
    let dir = sample::folder("round-trip").join("r");
    let recording = sample::recording();
    recording.write(&dir).expect("writable");
    let mut names: Vec<String> = fs::read_dir(&dir)
        .expect("written")
        .map(|e| e.expect("listed").file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, FILES);
    let back = Recording::read(&dir).expect("readable");
    assert_eq!(back.header, recording.header);
    assert_eq!(back.series, recording.series);
    assert_eq!(back.events, recording.events);
    assert_eq!(back.packets, recording.packets);
    assert_eq!(back.latencies, recording.latencies);
    assert_eq!(back, recording);
}

#[test]
fn an_empty_recording_is_one_file() {
    let dir = sample::folder("empty").join("r");
    Recording::default().write(&dir).expect("writable");
    assert_eq!(fs::read_dir(&dir).expect("written").count(), 1);
    assert_eq!(Recording::read(&dir).expect("readable"), Recording::default());
}

#[test]
fn two_writes_of_one_recording_are_equal_byte_for_byte() {
    let dir = sample::folder("bytes");
    for name in ["a", "b"] {
        sample::recording().write(&dir.join(name)).expect("writable");
    }
    for file in FILES {
        let bytes = |name: &str| fs::read(dir.join(name).join(file)).expect("written");
        assert!(bytes("a") == bytes("b"), "{file}");
    }
}

#[test]
fn a_recording_replaces_a_recording_and_leaves_nothing_beside_it() {
    let dir = sample::folder("replace");
    sample::recording().write(&dir.join("r")).expect("writable");
    Recording::default().write(&dir.join("r")).expect("replaced");
    assert_eq!(Recording::read(&dir.join("r")).expect("readable"), Recording::default());
    assert_eq!(fs::read_dir(&dir).expect("there").count(), 1);
}

#[test]
fn a_folder_that_is_no_recording_is_not_replaced() {
    let dir = sample::folder("foreign");
    fs::write(dir.join("thesis.tex"), "years of work").expect("writable");
    let error = sample::recording().write(&dir).expect_err("not ours").to_string();
    assert!(error.ends_with("foreign: it exists already and is not a recording"), "{error}");
    assert!(dir.join("thesis.tex").exists());
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let file = sample::folder("unwritable").join("file");
    fs::write(&file, "").expect("writable");
    let error = sample::recording().write(&file.join("r")).expect_err("inside a file").to_string();
    assert!(error.contains("unwritable/file/r: cannot be written: "), "{error}");
}

#[test]
fn a_missing_or_damaged_file_is_named_and_nothing_panics() {
    let dir = sample::folder("damage");
    let good = dir.join("good");
    sample::recording().write(&good).expect("writable");
    let bad = dir.join("bad");
    for file in FILES {
        let whole = fs::read(good.join(file)).expect("written");
        let mut broken: Vec<Option<Vec<u8>>> = vec![None, Some(Vec::new()), Some(b"hello".to_vec())];
        broken.push(Some(whole[..whole.len() / 2].to_vec()));
        broken.push(Some(whole[..whole.len() - 1].to_vec()));
        for content in broken {
            let _ = fs::remove_dir_all(&bad);
            fs::create_dir_all(&bad).expect("writable");
            for other in FILES {
                fs::copy(good.join(other), bad.join(other)).expect("copied");
            }
            match &content {
                Some(bytes) => fs::write(bad.join(file), bytes).expect("written"),
                None => fs::remove_file(bad.join(file)).expect("removed"),
            }
            match Recording::read(&bad) {
                Err(error) => assert!(error.to_string().contains(&format!("bad/{file}: ")), "{error}"),
                Ok(_) => panic!("{file} is damaged and was read"),
            }
        }
    }
}

#[test]
fn a_flipped_byte_anywhere_in_a_table_or_a_capture_is_refused() {
    let dir = sample::folder("flips");
    let r = dir.join("r");
    sample::recording().write(&r).expect("writable");
    for file in FILES {
        let whole = fs::read(r.join(file)).expect("written");
        for at in (0..whole.len()).step_by(1 + whole.len() / 150) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            fs::write(r.join(file), &bytes).expect("written");
            let read = Recording::read(&r);
            assert!(read.is_err(), "{file} byte {at}");
        }
        fs::write(r.join(file), &whole).expect("written");
    }
    assert!(Recording::read(&r).is_ok());
}

#[test]
fn a_recording_of_another_format_says_so() {
    let dir = sample::folder("format").join("r");
    Recording::default().write(&dir).expect("writable");
    let path = dir.join("recording.json");
    let text = fs::read_to_string(&path).expect("written").replace("\"format\": 2", "\"format\": 3");
    fs::write(&path, text).expect("written");
    let error = Recording::read(&dir).expect_err("another format").to_string();
    assert!(error.ends_with("recording.json: its format is 3; this version reads 2"), "{error}");
}

#[test]
fn wireshark_reads_the_capture_with_nanoseconds_names_and_comments() {
    let dir = sample::folder("wireshark").join("r");
    sample::recording().write(&dir).expect("writable");
    let fields = [
        "frame.time_epoch",
        "frame.len",
        "frame.interface_name",
        "frame.comment",
        "ip.src",
        "ip.dst",
        "ip.dsfield.ecn",
        "tcp.seq_raw",
        "tcp.options.mss_val",
        "tcp.checksum.status",
        "ip.checksum.status",
        "udp.length",
    ];
    let mut tshark = Command::new("tshark");
    tshark.args([
        "-o",
        "tcp.check_checksum:TRUE",
        "-o",
        "ip.check_checksum:TRUE",
        "-T",
        "fields",
        "-E",
        "separator=|",
    ]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let out = match tshark.arg("-r").arg(dir.join("packets.pcapng")).output() {
        Ok(out) => out,
        Err(error) => {
            eprintln!("skipped: tshark cannot be run: {error} (Debian: apt-get install tshark)");
            return;
        }
    };
    let text = String::from_utf8(out.stdout).expect("text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[0], "0.000001000|56|sender0.nic||10.0.0.1|10.0.1.45|2|4294967295|1460|1|1|");
    let second = "1.234567891|1504|sender0.nic|dropped: full|10.0.0.1|10.0.1.45|3|0|1460|";
    assert!(lines[1].starts_with(second), "{}", lines[1]);
    assert_eq!(lines[2], "2.000000000|1028|sender0.nic||10.0.0.1|10.0.1.45|2||||1|1008");
}

fn any_event() -> impl Strategy<Value = EventRow> {
    let number = || prop::option::of(0u64..1 << 63);
    let kind = prop::sample::select(EventKind::ALL.to_vec());
    let (place, small) = (any::<(u64, u32)>(), prop::option::of(any::<u32>()));
    let numbers = prop::collection::vec(number(), 10);
    (place, small.clone(), kind, ".*", numbers, small, prop::option::of(0u16..0x200), any::<bool>()).prop_map(
        |((at, host), flow, kind, why, n, len, flags, ce)| EventRow {
            flow,
            why: why.into(),
            seq: n[0],
            ack: n[1],
            len,
            flags: flags.map(Flags::from_bits),
            window: n[2].map(Bytes::new),
            cwnd: n[3].map(Bytes::new),
            ssthresh: n[4].map(Bytes::new),
            flight: n[5].map(Bytes::new),
            srtt: n[6].map(Dur::from_nanos),
            rto: n[7].map(Dur::from_nanos),
            value: n[8].filter(|_| kind != EventKind::Clamp),
            asked: n[9].filter(|_| kind == EventKind::Clamp).map(Bytes::new),
            ce,
            ..EventRow::new(Time::from_nanos(at >> 1), host, None, kind)
        },
    )
}

fn any_entity() -> impl Strategy<Value = EntitySeries> {
    let value = prop_oneof![4 => any::<f64>(), 1 => Just(f64::NAN)];
    (1usize..40, 0u64..1 << 30).prop_flat_map(move |(len, first)| {
        let column = prop::collection::vec(value.clone(), len);
        let names = prop::sample::subsequence(vec!["alpha", "bytes", "cwnd"], 1..=3);
        (names, prop::collection::vec(column, 3)).prop_map(move |(names, columns)| EntitySeries {
            entity: String::new(),
            first,
            columns: names
                .into_iter()
                .zip(columns)
                .map(|(name, values)| SeriesColumn { name: name.to_owned(), values })
                .filter(|c| c.values.iter().any(|v| !v.is_nan()))
                .collect(),
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_event_log_gives_back_what_it_was_given(events in prop::collection::vec(any_event(), 0..60)) {
        let log = EventLog::from(events.clone());
        prop_assert_eq!(log.iter().rev().collect::<Vec<_>>(), events.iter().rev().cloned().collect::<Vec<_>>());
        let whys: Vec<_> = (0..log.len()).map(|row| log.why(row).expect("a row").to_owned()).collect();
        prop_assert_eq!(whys, events.into_iter().map(|e| e.why.into_owned()).collect::<Vec<_>>());
    }

    #[test]
    fn any_rows_read_back_equal(
        events in prop::collection::vec(any_event(), 0..60),
        entities in prop::collection::vec(any_entity(), 0..5),
        values in prop::collection::vec(0u64..1 << 40, 0..50),
    ) {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("any-rows");
        let mut histogram = Histogram::default();
        for value in &values {
            histogram.record(Dur::from_nanos(*value));
        }
        let entities = (0..).zip(entities).filter(|(_, e)| !e.is_empty());
        let series = Series {
            interval: Dur::from_micros(10),
            entities: entities.map(|(n, e): (u32, _)| EntitySeries { entity: format!("flow.{n}"), ..e }).collect(),
        };
        let mut latencies = Vec::new();
        if !values.is_empty() {
            latencies.push(Latency { kind: LatencyKind::OneWay, entity: "all".to_owned(), histogram });
        }
        let recording = Recording { events: events.into(), series: Some(series), latencies, ..Recording::default() };
        recording.write(&dir).expect("writable");
        prop_assert_eq!(Recording::read(&dir).expect("readable"), recording);
    }
}
