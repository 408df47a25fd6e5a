//! Properties of runs with random impairments: bytes are read once and in order, connections end or report a
//! failure, and no packet disappears.
//!
//! Conservation at every element is asserted by the run itself, at its end, in builds with debug assertions.

use crate::{Rows, case};
use proptest::prelude::*;
use tcpassay_sim::{EndReason, SimOptions, run};
use tcpassay_units::Seed;

fn pick(values: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(values)
}

prop_compose! {
    fn network()(
        rate in pick(&["1Mbit", "20Mbit", "1Gbit"]),
        delay in pick(&["10us", "2ms", "60ms"]),
        loss in pick(&["0", "0.5%", "5%"]),
        model in pick(&["bernoulli", "gilbert-elliott:2%,30%", "list:1,2,5"]),
        reorder in pick(&["off", "5%:3", "reverse-burst:4"]),
        duplicate in pick(&["0", "3%"]),
        corrupt in pick(&["0", "2%"]),
        ack_loss in pick(&["0", "20%"]),
        thinning in pick(&["1", "4"]),
        queue in pick(&["fifo", "red", "codel", "fq_codel", "pie", "fq", "dualpi2"]),
        limit in pick(&["4p", "20KB", "auto"]),
        slot in pick(&["off", "1ms,3ms,5"]),
    ) -> Vec<(&'static str, &'static str)> {
        vec![
            ("link.rate", rate), ("link.delay", delay), ("link.loss", loss), ("link.loss_model", model),
            ("link.reorder", reorder), ("link.duplicate", duplicate), ("link.corrupt", corrupt),
            ("link.ack_loss", ack_loss), ("link.ack_thinning", thinning), ("queue.kind", queue),
            ("queue.limit", limit), ("link.slot", slot),
        ]
    }
}

prop_compose! {
    fn host()(
        profile in pick(&["rfc", "linux", "linux-4.6", "freebsd", "freebsd-rack"]),
        cc in pick(&["reno", "cubic", "vegas", "mvegas"]),
        ecn in pick(&["off", "classic", "accurate"]),
        tso in pick(&["off", "on"]),
        gro in pick(&["off", "on"]),
        coalesce in pick(&["0s", "50us"]),
        small in pick(&["profile", "off", "auto"]),
        rcvbuf in pick(&["auto", "4KB", "64KB"]),
        pacing in pick(&["profile", "on"]),
        timestamps in pick(&["profile", "off"]),
    ) -> Vec<(&'static str, &'static str)> {
        vec![
            ("stack.profile", profile), ("stack.cc", cc), ("stack.ecn", ecn), ("nic.tso", tso), ("nic.gro", gro),
            ("nic.rx_usecs", coalesce), ("stack.small_queues", small), ("app.rcvbuf", rcvbuf),
            ("stack.pacing", pacing), ("stack.timestamps", timestamps),
        ]
    }
}

fn check(rows: Rows, seed: u64) {
    let case = case(rows);
    let outcome = run(&case, Seed(seed), &SimOptions { max_events: 20_000_000, ..SimOptions::default() });
    let r = &outcome.recording;
    assert_ne!(outcome.ended, EndReason::EventLimit, "a connection that goes round in circles");
    for done in &r.completions {
        if done.ok {
            assert_eq!(done.request.get(), 60_000);
        }
    }
    let read: u64 = r.flows.iter().map(|f| f.counters.read_bytes).sum();
    let whole = u64::try_from(r.completions.iter().filter(|c| c.ok).count()).expect("few") * 60_000;
    assert!(read >= whole, "what completed was read: {read} of {whole}");
    assert!(read <= 120_000, "no byte was read twice: {read}");
    if outcome.ended == EndReason::Finished {
        assert_eq!(r.completions.len(), 2, "a connection that is over was completed or failed");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_is_read_once_and_the_connection_ends_or_reports(net in network(), host in host(), seed: u64) {
        let mut rows = net;
        rows.extend(host);
        rows.extend([("app.flows", "2"), ("app.flow_size", "60KB"), ("app.duration", "600s")]);
        check(&rows, seed);
    }
}
