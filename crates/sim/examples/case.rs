//! Runs one case and prints its recording: `case link.rate=10Gbit stack.cc=cubic --seed=7 --series=1ms
//! --log`.
//!
//! For developers, and for the determinism test, which runs this program twice. Users run `tcpassay run`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use tcpassay_case::{Case, params::Value};
use tcpassay_measure::LatencyKind;
use tcpassay_sim::{CollectOptions, SimOptions, run};
use tcpassay_units::Seed;

fn main() -> ExitCode {
    let mut triples = BTreeMap::new();
    let mut seed = Seed(1);
    let mut collect = CollectOptions { latency: true, ..CollectOptions::default() };
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("--seed", n)) => seed = Seed(n.parse().expect("a seed is a number")),
            Some(("--series", interval)) => collect.series = Some(interval.parse().expect("an interval")),
            None if argument == "--log" => collect.events = true,
            None if argument == "--packets" => collect.packets = true,
            Some((path, value)) => drop(triples.insert(path.to_owned(), Value::from(value))),
            None => panic!("`{argument}` is neither <path>=<value> nor an option"),
        }
    }
    let case = match Case::from_triples(&triples) {
        Ok(case) => case,
        Err(errors) => {
            for error in errors {
                eprintln!("{error}");
            }
            return ExitCode::from(2);
        }
    };
    let outcome = run(&case, seed, &SimOptions { collect, ..SimOptions::default() });
    let r = &outcome.recording;
    let seconds = r.header.duration.as_secs_f64();
    println!(
        "{:?} after {seconds} s, {} events, trace {:016x}, {} hops",
        outcome.ended, outcome.trace.0, outcome.trace.1, outcome.hops
    );
    for (_, flow) in r.data_flows() {
        let c = &flow.counters;
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let mbit = c.read_bytes as f64 * 8.0 / 1e6 / seconds;
        println!(
            "{} {}->{} {} {}: {mbit:.1} Mbit/s, {} packets, {} retransmitted, {} CE, timeouts {:?}, srtt {:?} ns, cwnd {:?}, \
             acks in {:?}, alpha {:?}, undos {:?}, spurious {:?}",
            flow.name,
            flow.from,
            flow.to,
            flow.class,
            flow.cc,
            c.delivered_packets,
            c.retransmitted_packets,
            c.ce_packets,
            flow.tcp.timeouts.unwrap_or(0),
            flow.tcp.srtt_ns.unwrap_or(0),
            flow.tcp.cwnd_bytes.unwrap_or(0),
            flow.tcp.segments_in.unwrap_or(0),
            flow.tcp.alpha,
            flow.tcp.undos.unwrap_or(0),
            flow.tcp.spurious_retransmits.unwrap_or(0),
        );
    }
    for device in &r.devices {
        println!("{} ({}): {:?}", device.name, device.kind, device.counters);
    }
    for latency in r.latencies.iter().filter(|l| l.entity == "all" || l.kind == LatencyKind::QueueDelay) {
        let h = &latency.histogram;
        println!(
            "{:?} {}: p50 {:?} p99 {:?} max {:?}",
            latency.kind,
            latency.entity,
            h.quantile(0.5),
            h.quantile(0.99),
            h.max()
        );
    }
    for e in &r.environment {
        println!("{} {}: asked {:?}, measured {:?} {}", e.entity, e.property, e.asked, e.measured, e.unit);
    }
    if let Some(series) = &r.series {
        for entity in &series.entities {
            for column in &entity.columns {
                println!("{} {}: {:?}", entity.entity, column.name, column.values);
            }
        }
    }
    for event in r.events.iter() {
        println!(
            "{} h{} {:?} {:?} {} seq {:?} ack {:?} len {:?} {:?} cwnd {:?} ssthresh {:?} flight {:?} value {:?}{}",
            event.at,
            event.host,
            event.flow,
            event.kind,
            event.why,
            event.seq,
            event.ack,
            event.len,
            event.flags,
            event.cwnd,
            event.ssthresh,
            event.flight,
            event.value,
            if event.ce { " CE" } else { "" }
        );
    }
    if collect.packets {
        println!("{} packets captured", r.packets.len());
    }
    ExitCode::SUCCESS
}
