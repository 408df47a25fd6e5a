//! Every parameter that the model supports according to the table changes a run when it is set.

use crate::{Rows, go_with, triples};
use std::collections::BTreeSet;
use tcpassay_case::params;
use tcpassay_measure::CollectOptions;

/// A parameter, a value that is not its default, and the case in which it matters.
type Flip = (&'static str, &'static str, Rows<'static>);

const LOSSY: Rows =
    &[("link.rate", "100Mbit"), ("link.delay", "10ms"), ("link.loss", "1%"), ("app.duration", "3s")];
const REORDERED: Rows =
    &[("link.rate", "100Mbit"), ("link.delay", "10ms"), ("link.reorder", "2%:5"), ("app.duration", "3s")];
const LATE: Rows = &[
    ("link.rate", "10Mbit"),
    ("link.delay", "20ms"),
    ("link.slot", "1ms,3s"),
    ("app.duration", "60s"),
    ("stack.min_rto", "200ms"),
];
const MARKED: Rows =
    &[("stack.ecn", "classic"), ("queue.ecn_mark", "data"), ("link.rate", "100Mbit"), ("link.delay", "5ms")];
const ACCURATE: Rows =
    &[("stack.ecn", "accurate"), ("queue.ecn_mark", "data"), ("link.rate", "100Mbit"), ("link.delay", "5ms")];
const TSO_HTB: Rows = &[
    ("queue.kind", "htb"),
    ("queue.rate", "500Mbit"),
    ("nic.tso", "on"),
    ("link.delay", "1ms"),
    ("stack.profile", "linux"),
    ("nic.gro", "on"),
    ("nic.rx_usecs", "100us"),
];
const DCTCP: Rows = &[
    ("stack.cc", "dctcp"),
    ("stack.ecn", "dctcp"),
    ("queue.ecn_mark", "data"),
    ("link.rate", "1Gbit"),
    ("stack.profile", "linux-4.6"),
    ("app.flows", "4"),
    ("nic.tso", "on"),
    ("nic.gro", "on"),
    ("nic.rx_usecs", "50us"),
];
const RPC: Rows =
    &[("app.workload", "rpc"), ("app.request", "3KB"), ("app.response", "2KB"), ("link.delay", "5ms")];
const ONE_EACH: Rows = &[
    ("app.workload", "rpc"),
    ("app.request", "1KB"),
    ("app.response", "2KB"),
    ("app.reuse", "off"),
    ("link.delay", "5ms"),
];
const SLOW_RPC: Rows = &[
    ("app.workload", "rpc"),
    ("app.request", "40KB"),
    ("app.think", "3s"),
    ("link.delay", "20ms"),
    ("app.duration", "10s"),
];
const DEAD: Rows = &[("link.loss_model", "gilbert-elliott:100%,0%"), ("app.duration", "900s")];
const DIES: Rows = &[
    ("link.rate", "10Mbit"),
    ("link.loss_model", "gilbert-elliott:0.1%,0%"),
    ("app.duration", "3000s"),
    ("stack.max_rto", "2s"),
];
const FLOWS: Rows = &[
    ("app.flow_size", "30KB"),
    ("app.arrival", "poisson:50/s"),
    ("link.rate", "100Mbit"),
    ("link.loss", "3%"),
    ("app.duration", "5s"),
];
const GRO: Rows = &[("nic.tso", "on"), ("nic.gro", "on"), ("nic.rx_usecs", "50us"), ("link.delay", "1ms")];
const STAR: Rows = &[("topology", "star:3"), ("link.rate", "100Mbit"), ("queue.limit", "100KB")];
const RACKS: Rows = &[("topology", "racks:1x1"), ("link.rate", "100Mbit"), ("app.duration", "200ms")];
const RED: Rows = &[("queue.kind", "red"), ("link.rate", "100Mbit"), ("link.delay", "5ms")];
const CODEL_ECN: Rows =
    &[("queue.kind", "codel"), ("queue.ecn", "on"), ("link.rate", "100Mbit"), ("link.delay", "5ms")];
const EXIT: Rows = &[
    ("link.loss_model", "list:60,150,151,200,300"),
    ("app.rcvbuf", "20KB"),
    ("link.delay", "20ms"),
    ("link.ack_thinning", "3"),
    ("stack.sack", "off"),
    ("stack.recovery", "newreno"),
    ("app.duration", "5s"),
];
const CODEL: Rows = &[("queue.kind", "codel"), ("link.rate", "100Mbit"), ("link.delay", "5ms")];
const HTB: Rows = &[("queue.kind", "htb"), ("queue.rate", "500Mbit"), ("app.flows", "2"), ("nic.tso", "on")];
const JITTER: Rows = &[("link.delay", "5ms"), ("link.jitter", "1ms"), ("link.rate", "100Mbit")];

const FLIPS: &[Flip] = &[
    ("app.workload", "rpc", &[]),
    ("app.mix", "bulk + rpc request=1MB", &[("app.workload", "mix"), ("app.mix", "bulk")]),
    ("app.flows", "3", &[]),
    ("app.flow_size", "1MB", &[]),
    ("app.arrival", "poisson:20/s", &[("app.flow_size", "100KB")]),
    ("app.duration", "500ms", &[]),
    ("app.start", "10ms", &[]),
    ("app.request", "20KB", RPC),
    ("app.response", "20KB", RPC),
    ("app.concurrency", "4", RPC),
    ("app.think", "1ms", RPC),
    ("app.open", "both", &[]),
    ("app.rate", "20Mbit", &[("app.workload", "paced"), ("app.rate", "10Mbit")]),
    ("app.burst", "10KB", &[("app.workload", "onoff")]),
    ("app.gap", "1ms", &[("app.workload", "onoff")]),
    ("app.write_size", "100B", &[("app.nodelay", "on"), ("link.delay", "5ms"), ("app.duration", "100ms")]),
    ("app.read_size", "1KB", &[("app.read_rate", "10Mbit")]),
    ("app.read_rate", "10Mbit", &[]),
    ("app.sndbuf", "30KB", &[]),
    ("app.rcvbuf", "30KB", &[]),
    (
        "app.nodelay",
        "on",
        &[("app.workload", "rpc"), ("app.request", "700B"), ("app.concurrency", "4"), ("link.delay", "5ms")],
    ),
    ("app.cork", "on", RPC),
    ("app.notsent_lowat", "10KB", &[("link.delay", "5ms")]),
    ("app.quickack", "on", &[]),
    ("app.keepalive", "1s", SLOW_RPC),
    ("app.user_timeout", "5s", DIES),
    ("app.linger", "0s", FLOWS),
    ("app.background", "udp:100Mbit", &[]),
    ("stack.implementation", "smoltcp", &[]),
    ("stack.profile", "linux", &[]),
    ("stack.cc", "cubic", LOSSY),
    ("stack.ecn", "classic", CODEL_ECN),
    ("stack.ecn_option", "off", ACCURATE),
    ("stack.ecn_form", "linux", ACCURATE),
    ("stack.delayed_ack", "off", &[]),
    ("stack.dctcp_receiver", "immediate", DCTCP),
    ("stack.ack_check", "always", DCTCP),
    ("stack.sack", "off", &[("link.loss", "1%"), ("stack.recovery", "newreno")]),
    ("stack.dsack", "off", &[("link.duplicate", "1%"), ("link.delay", "5ms"), ("stack.profile", "linux")]),
    ("stack.timestamps", "off", &[]),
    ("stack.window_scale", "off", &[("link.delay", "10ms")]),
    ("stack.initial_window", "2", &[]),
    ("stack.isn", "4294900000", &[]),
    ("stack.initial_rto", "3s", DEAD),
    ("stack.min_rto", "50ms", FLOWS),
    ("stack.max_rto", "10s", DEAD),
    ("stack.rto_slop", "100ms", LATE),
    ("stack.rto_floor", "variance", LATE),
    ("stack.loss_detection", "rack", REORDERED),
    ("stack.recovery", "prr", LOSSY),
    ("stack.recovery_exit", "rfc3782-less-careful", EXIT),
    ("stack.cwr", "prr", MARKED),
    ("stack.prr_bound", "safe-ack", DCTCP),
    ("stack.undo", "dsack", REORDERED),
    ("stack.tlp", "on", FLOWS),
    ("stack.frto", "on", LATE),
    ("stack.hystart", "hystart++", &[("link.delay", "20ms"), ("link.rate", "100Mbit")]),
    ("stack.flavor", "linux", &[]),
    ("stack.cc_arithmetic", "linux", &[("stack.cc", "cubic"), ("link.loss", "1%")]),
    ("stack.pacing", "on", &[("link.delay", "5ms")]),
    ("stack.slow_start_after_idle", "off", SLOW_RPC),
    ("stack.abc", "2", &[("link.delay", "5ms")]),
    ("stack.limited_transmit", "off", &[("link.loss", "2%"), ("link.delay", "10ms")]),
    (
        "stack.early_retransmit",
        "on",
        &[
            ("app.flow_size", "5KB"),
            ("app.arrival", "poisson:50/s"),
            ("link.loss", "5%"),
            ("app.duration", "5s"),
            ("stack.limited_transmit", "off"),
        ],
    ),
    (
        "stack.nagle",
        "small",
        &[("app.workload", "rpc"), ("app.request", "4KB"), ("app.concurrency", "4"), ("link.delay", "5ms")],
    ),
    ("stack.mtu", "9000B", &[]),
    ("stack.mss", "536B", &[]),
    ("stack.mtu_probing", "always", &[]),
    ("stack.rcv_autotune", "on", &[("link.delay", "10ms")]),
    ("stack.max_rwnd", "100KB", &[("link.delay", "10ms")]),
    ("stack.fastopen", "on", ONE_EACH),
    ("app.reuse", "off", RPC),
    ("link.offload", "lro", &[]),
    ("nic.rx_buffer", "4KB", &[("stack.profile", "linux"), ("app.rcvbuf", "64KB"), ("link.delay", "5ms")]),
    ("app.reboot", "20ms", RPC),
    (
        "app.order",
        "round-robin",
        &[
            ("app.workload", "streams"),
            ("app.concurrency", "3"),
            ("app.request", "100KB"),
            ("app.sndbuf", "20KB"),
        ],
    ),
    ("app.half_close", "on", ONE_EACH),
    ("stack.small_queues", "auto", &[("nic.tso", "on"), ("nic.rate", "500Mbit")]),
    ("stack.max_sndbuf", "64KB", &[("link.delay", "10ms")]),
    ("stack.tso_autosize", "rate", &[("nic.tso", "on"), ("link.delay", "5ms")]),
    ("stack.tso_defer", "on", &[("nic.tso", "on"), ("link.delay", "5ms")]),
    // Every SYN is lost, so the number of retransmissions of the client decides.
    ("stack.syn_retries", "2", &[("link.loss", "100%"), ("app.duration", "900s")]),
    ("stack.retries", "3", DIES),
    ("stack.time_wait", "1s", FLOWS),
    // FIN-WAIT-2 of an orphan: the FIN of the peer never arrives, because the path fails.
    ("stack.fin_wait2", "1s", &[]),
    ("nic.tso", "on", &[]),
    ("nic.gso_max", "16KB", TSO_HTB),
    ("nic.gro", "on", &[("nic.rx_usecs", "50us")]),
    ("nic.gro_max", "16KB", &[("nic.gro", "on"), ("nic.rx_usecs", "1ms"), ("link.delay", "5ms")]),
    ("nic.gro_timeout", "20us", GRO),
    ("nic.lro_order", "stale-hash", GRO),
    ("nic.rx_usecs", "30us", &[]),
    ("nic.rx_frames", "4", &[("nic.rx_usecs", "100us")]),
    ("nic.rx_cost", "2us", &[]),
    ("nic.tx_usecs", "100us", &[("stack.small_queues", "20KB"), ("nic.rate", "500Mbit")]),
    ("nic.adaptive", "on", &[]),
    ("nic.hidden_short", "5us", &[("nic.adaptive", "hidden"), ("nic.hidden_idle", "1ms")]),
    ("nic.hidden_long", "500us", &[("nic.adaptive", "hidden")]),
    ("nic.hidden_idle", "1ms", &[("nic.adaptive", "hidden")]),
    ("nic.hidden_frames", "2", &[("nic.adaptive", "hidden")]),
    ("nic.rate", "100Mbit", &[]),
    ("nic.queue", "50", &[("nic.rate", "100Mbit"), ("link.delay", "5ms")]),
    ("nic.ecn_threshold", "10KB", &[("stack.ecn", "dctcp"), ("stack.cc", "dctcp"), ("nic.rate", "500Mbit")]),
    ("nic.ring", "8", &[("nic.rx_usecs", "200us")]),
    ("link.rate", "100Mbit", &[]),
    ("link.delay", "1ms", &[]),
    ("link.jitter", "1ms", &[("link.delay", "5ms")]),
    ("link.jitter_correlation", "50%", JITTER),
    ("link.jitter_distribution", "pareto", JITTER),
    ("link.loss", "1%", &[]),
    ("link.loss_correlation", "50%", LOSSY),
    ("link.loss_model", "list:10,20", &[]),
    ("link.ack_loss", "20%", &[]),
    ("link.ack_thinning", "3", &[]),
    ("link.ack_thinning_wait", "1ms", &[("link.ack_thinning", "100")]),
    ("link.reorder", "5%:3", &[]),
    ("link.duplicate", "1%", &[]),
    ("link.corrupt", "1%", &[]),
    ("link.policer", "100Mbit,50KB", &[]),
    ("link.slot", "1ms,5ms", &[]),
    ("link.pause", "300ms,100ms", &[]),
    ("link.back_rate", "1Mbit", &[]),
    ("link.back_delay", "5ms", &[]),
    ("link.mtu", "1400B", &[]),
    ("link.icmp", "off", &[("link.mtu", "1400B")]),
    ("link.rewrite", "no-window-scale", &[("link.delay", "10ms")]),
    ("link.idle_timeout", "1s", SLOW_RPC),
    ("queue.kind", "codel", &[("link.rate", "100Mbit"), ("link.delay", "5ms")]),
    ("queue.limit", "20KB", &[]),
    ("queue.place", "link", HTB),
    ("queue.rate", "200Mbit", HTB),
    ("queue.burst", "100KB", HTB),
    ("queue.classes", "2", HTB),
    ("queue.ecn_threshold", "60KB", DCTCP),
    ("queue.ecn_mark", "ack", DCTCP),
    ("queue.red_min", "10KB", RED),
    ("queue.red_max", "60KB", RED),
    ("queue.red_probability", "0.5", RED),
    ("queue.target", "1ms", CODEL),
    ("queue.interval", "20ms", CODEL),
    (
        "queue.ecn",
        "on",
        &[("queue.kind", "codel"), ("link.rate", "100Mbit"), ("link.delay", "5ms"), ("stack.ecn", "classic")],
    ),
    ("switch.buffers", "shared:50KB", STAR),
    ("topology", "star:2", &[]),
    ("rack.hosts", "2", RACKS),
    ("rack.fanout", "2", RACKS),
    ("rack.uplink", "50Mbit", RACKS),
];

/// Parameters that do not change the events of a run, with the reason. A unit test of the stack covers each
/// of them.
const UNSEEN: &[(&str, &str)] = &[
    ("stack.fin_wait2", "both ends of the model close together, so that no end waits for the other's FIN"),
    ("stack.isn", "positions in a recording begin with the SYN; its packets show the numbers"),
    ("stack.flavor", "the hosts of a case send no segments outside of their connections"),
];

/// The recording of a run without its case, and the number and hash of its events.
fn steps(rows: Rows, more: &[(&str, &str)]) -> (String, (u64, u64)) {
    let all: Vec<_> = rows.iter().chain(more).copied().collect();
    let mut outcome = go_with(&all, CollectOptions { latency: true, ..CollectOptions::default() });
    outcome.recording.header.case.clear();
    (format!("{:?}", outcome.recording), outcome.trace)
}

#[test]
fn every_parameter_of_the_model_changes_a_run() {
    let mut deaf = Vec::new();
    for (path, value, rows) in FLIPS {
        if UNSEEN.iter().any(|(unseen, _)| unseen == path) {
            continue;
        }
        let (before, after) = (steps(rows, &[]), steps(rows, &[(path, value)]));
        if before == after {
            deaf.push(*path);
        }
    }
    assert_eq!(deaf, [""; 0], "set, and nothing changed");
}

#[test]
fn no_parameter_of_the_model_is_left_out_here() {
    let flipped: BTreeSet<&str> = FLIPS.iter().map(|(path, _, _)| *path).collect();
    let model: BTreeSet<&str> =
        params::rows().filter(|row| row.substrates.model).map(|row| row.path).collect();
    assert_eq!(model.difference(&flipped).collect::<Vec<_>>(), [&""; 0]);
    assert_eq!(flipped.difference(&model).collect::<Vec<_>>(), [&""; 0]);
}

#[test]
fn a_controller_s_own_parameter_changes_a_run() {
    for (cc, parameter, value) in [("reno", "beta", "0.8"), ("cubic", "beta", "0.9"), ("vegas", "beta", "20")]
    {
        let loss = if cc == "vegas" { "0" } else { "0.1%" };
        let rows = [
            ("stack.cc", cc),
            ("link.rate", "100Mbit"),
            ("link.delay", "5ms"),
            ("link.loss", loss),
            ("app.duration", "5s"),
        ];
        let path = format!("stack.cc.{parameter}");
        let changed = [(path.as_str(), value)];
        assert_ne!(steps(&rows, &[]), steps(&rows, &changed), "{cc} {parameter}");
    }
}

#[test]
fn an_addressed_parameter_holds_for_that_instance_alone() {
    let rows = triples(&[("topology", "star:2"), ("sender1/stack.initial_window", "2")]);
    let case = tcpassay_case::Case::from_triples(&rows).expect("a case");
    let windows: Vec<u32> = case.hosts.iter().map(|h| h.stack.initial_window).collect();
    assert_eq!(windows, [10, 10, 2]);
}
