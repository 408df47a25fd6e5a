//! Tests of parsing, checking and printing of cases.

use crate::params::Value;
use crate::params::grammar::LinkRate;
use crate::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tcpassay_tcp::{DctcpReceiver, EcnMode, RecvBuffer};
use tcpassay_units::{Bytes, Dur, Rate};

fn triples(rows: &[(&str, &str)]) -> BTreeMap<String, Value> {
    rows.iter().map(|(path, value)| ((*path).to_owned(), Value::from(*value))).collect()
}

fn case(rows: &[(&str, &str)]) -> Case {
    Case::from_triples(&triples(rows)).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn error(rows: &[(&str, &str)]) -> String {
    let errors = Case::from_triples(&triples(rows)).expect_err("wrong");
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[test]
fn a_case_without_triples_has_only_defaults() {
    let case = case(&[]);
    assert_eq!((case.hosts.len(), case.links.len()), (2, 1));
    assert_eq!(case.hosts[0].cc, CcName::RENO);
    assert_eq!(case.end, Dur::from_secs(1));
    assert!(case.to_triples().is_empty());
}

#[test]
fn a_triple_at_its_default_is_not_printed() {
    let rows =
        [("link.rate", "1000Mbit"), ("stack.sack", "profile"), ("link.delay", "0.05ms"), ("link.loss", "1%")];
    // A rate is text with a grammar; times and rates with a unit print in one canonical form.
    let back = case(&rows).to_triples();
    assert!(!back.contains_key("link.delay") && !back.contains_key("stack.sack"), "{back:?}");
    assert_eq!(back["link.loss"], Value::Real(0.01));
}

#[test]
fn an_explicit_row_overrides_the_profile_and_the_rest_stays() {
    let case = case(&[
        ("stack.profile", "linux-4.6"),
        ("stack.ecn", "dctcp"),
        ("stack.dctcp_receiver", "rearm"),
        ("stack.min_rto", "10ms"),
    ]);
    let stack = &case.hosts[1].stack;
    assert_eq!(stack.dctcp_receiver, DctcpReceiver::Rearm);
    assert_eq!(stack.rto.min, Dur::from_millis(10));
    assert_eq!(stack.rto.max, Dur::from_secs(120));
    assert_eq!(stack.ecn, EcnMode::Dctcp);
}

#[test]
fn the_most_specific_address_wins() {
    let case = case(&[
        ("topology", "dumbbell:2"),
        ("stack.initial_window", "2"),
        ("sender/stack.initial_window", "4"),
        ("sender1/stack.initial_window", "8"),
    ]);
    let by_name = |name: &str| {
        let i = case.net.hosts.iter().position(|h| h.name == name).unwrap();
        case.hosts[i].stack.initial_window
    };
    assert_eq!([by_name("receiver0"), by_name("sender0"), by_name("sender1")], [2, 4, 8]);
}

#[test]
fn access_links_have_no_delay_or_loss_unless_addressed() {
    let case = case(&[
        ("topology", "dumbbell:2"),
        ("link.delay", "10ms"),
        ("link.loss", "1%"),
        ("access-sender1/link.delay", "30ms"),
    ]);
    let by_name = |name: &str| &case.links[case.net.links.iter().position(|l| l.name == name).unwrap()];
    assert_eq!(by_name("bottleneck").delay, Dur::from_millis(10));
    assert_eq!(by_name("access-sender0").delay, Dur::ZERO);
    assert_eq!(by_name("access-sender1").delay, Dur::from_millis(30));
    assert!(by_name("access-sender0").loss.abs() < f64::EPSILON);
    assert_eq!(by_name("access-sender0").rate, LinkRate::Fixed(Rate::from_gbit(10)));
}

#[test]
fn an_application_s_buffer_is_fixed_and_autotuning_can_be_turned_off() {
    let buffer = |rows: &[(&str, &str)]| case(rows).hosts[1].stack.recv_buffer;
    assert_eq!(buffer(&[("app.rcvbuf", "64KB")]), RecvBuffer::Fixed(Bytes::new(64_000)));
    let rfc_tuned = buffer(&[("stack.rcv_autotune", "on"), ("stack.max_rwnd", "1MB")]);
    assert!(
        matches!(rfc_tuned, RecvBuffer::Auto { max, .. } if max == Bytes::new(1_000_000)),
        "{rfc_tuned:?}"
    );
    // Linux charges buffers with their overhead, and half of a buffer is window.
    let memory = |row: (&str, &str)| {
        case(&[("stack.profile", "linux"), row]).hosts[1].stack.recv_memory.expect("Linux's")
    };
    assert!(memory(("stack.rcv_autotune", "off")).locked);
    assert!(!memory(("stack.rcv_autotune", "on")).locked);
    assert_eq!(memory(("stack.max_rwnd", "1MB")).max, Bytes::new(2_000_000));
}

#[test]
fn a_buffer_of_linux_7_3_has_a_larger_head() {
    let overhead = |profile: &str, of_nic: &str| {
        let stack = &case(&[("stack.profile", profile), ("nic.rx_buffer", of_nic)]).hosts[1].stack;
        (
            stack.skbs.expect("Linux's").overhead.get(),
            stack.recv_memory.expect("Linux's").buffer.map(Bytes::get),
        )
    };
    assert_eq!(overhead("linux", "auto"), (768, Some(768)));
    assert_eq!(overhead("linux-7.3", "auto"), (832, Some(832)));
    // What the case says is the memory of a packet in any release.
    assert_eq!(overhead("linux-7.3", "768B"), (832, Some(768)));
}

#[test]
fn an_unknown_parameter_is_refused_with_the_nearest() {
    assert_eq!(
        error(&[("link.dealy", "1ms")]),
        "`link.dealy`: no such parameter; did you mean `link.delay`?"
    );
}

#[test]
fn a_wrong_unit_shows_the_value_and_what_is_allowed() {
    assert_eq!(
        error(&[("link.delay", "10KB")]),
        "`link.delay` = `10KB`: `10KB` is not a length of time: the unit is unknown here; allowed are a number and one of ns \
         us ms s min h, as in `10ms`"
    );
}

#[test]
fn a_parameter_that_the_model_does_not_support_is_refused_with_the_substrates_that_do() {
    assert_eq!(
        error(&[("app.blocking", "off")]),
        "`app.blocking` = `off`: the model does not support it; substrates that do are kernel, host, remote"
    );
}

#[test]
fn an_mtu_that_differs_along_a_path_names_both_places() {
    let error = error(&[("sender/stack.mtu", "9000B")]);
    assert_eq!(
        error,
        "`sender/stack.mtu` = `9KB`: with `receiver/stack.mtu` = `1500B`: the MTU must be equal along a path"
    );
}

#[test]
fn marks_need_ecn_at_both_ends() {
    let error = error(&[("sender/stack.ecn", "classic"), ("queue.ecn_mark", "data")]);
    assert!(error.contains("marking needs ECN at both ends"), "{error}");
}

#[test]
fn constraints_are_refused_with_both_settings() {
    for (rows, message) in [
        (&[("stack.cc", "dctcp")][..], "dctcp needs stack.ecn = dctcp"),
        (&[("queue.ecn_mark", "data")], "marking needs ECN"),
        (&[("nic.tso", "on"), ("nic.gso_max", "1000B")], "tso needs a super-segment larger than the MSS"),
        (&[("nic.lro_order", "stale-hash")], "nic.gro = on"),
        (&[("stack.dctcp_receiver", "rearm")], "a DCTCP receiver needs stack.ecn = dctcp"),
        (&[("queue.kind", "htb")], "a shaper needs its rate"),
        (&[("queue.rate", "1Gbit")], "only htb and tbf"),
        (&[("stack.sack", "off"), ("stack.loss_detection", "rack")], "RACK needs SACK"),
        (&[("stack.mss", "1461B")], "must fit in the MTU"),
        (&[("switch.buffers", "shared:1MB")], "there is no switch"),
        (&[("stack.min_rto", "2s"), ("stack.max_rto", "1s")], "the smallest timeout is above the largest"),
        (&[("app.workload", "paced")], "`paced` needs a rate"),
        (&[("nowhere/link.delay", "1ms")], "this topology has no entity `nowhere`"),
        (&[("stack.cc.beta", "7")], "out of range"),
        (&[("stack.cc.zeta", "7")], "no controller has a parameter `zeta`"),
        (&[("link.rate", "trace:missing.tr")], "cannot read `missing.tr`"),
        (&[("link.rate", "steps:10Mbit")], "steps of the form `seconds,rate` are needed, separated by `;`"),
        (&[("link.rate", "steps:0,10Mbit;1,fast")], "step 2: `1,fast`: not a rate as in `20Mbit`"),
        (&[("link.rate", "steps:0,0;1,0")], "the trace never permits a transmission"),
        (&[("topology", "file:missing.toml")], "cannot read `missing.toml`"),
        (&[("link.jitter", "1ms")], "before they are sent"),
        (&[("app.reboot", "900ms:200ms")], "the host is not back within the 1s of app.duration"),
        (&[("app.reboot", "100ms"), ("app.open", "both")], "a host that is back opens its connections alone"),
        (
            &[("app.reboot", "100ms"), ("stack.implementation", "smoltcp")],
            "it may be the server, to which a host comes back",
        ),
    ] {
        let error = error(rows);
        assert!(error.contains(message), "{rows:?}: {error}");
    }
}

#[test]
fn every_error_is_reported_not_only_the_first() {
    let errors = error(&[("link.delay", "10"), ("queue.kind", "drr"), ("app.flows", "0")]);
    assert_eq!(errors.lines().count(), 3, "{errors}");
}

#[test]
fn a_value_that_cannot_be_read_is_the_only_message_about_it() {
    for (rows, place) in [
        (
            &[("app.workload", "rpc"), ("app.request", "file:missing.txt")][..],
            "`app.request` = `file:missing.txt`: ",
        ),
        (&[("app.workload", "rpc"), ("app.response", "10")], "`app.response` = `10`: "),
        (&[("app.workload", "paced"), ("app.rate", "10Mbt")], "`app.rate` = `10Mbt`: "),
        (&[("app.duration", "10")], "`app.duration` = `10`: "),
        (&[("stack.cc", "dctcp"), ("stack.ecn", "dctpc")], "`stack.ecn` = `dctpc`: "),
        (&[("stack.cc", "dctcp"), ("sender/stack.ecn", "dctpc")], "`sender/stack.ecn` = `dctpc`: "),
        (&[("queue.kind", "htb"), ("queue.rate", "1Gbt")], "`queue.rate` = `1Gbt`: "),
        (&[("link.rate", "trace:missing.tr"), ("app.duration", "1us")], "`link.rate` = `trace:missing.tr`: "),
    ] {
        let errors = error(rows);
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.starts_with(place), "{errors}");
    }
    let both = error(&[("app.workload", "rpc"), ("app.request", "file:missing.txt"), ("stack.mtu", "1")]);
    assert_eq!(both.lines().count(), 2, "{both}");
}

#[test]
fn a_trace_s_mean_rate_is_that_of_its_opportunities() {
    let rows = triples(&[("link.rate", "trace:t")]);
    let case = Case::with_files(&rows, &|_| Ok("1\n2\n3\n4\n".to_owned())).expect("valid");
    assert_eq!(case.link_rate(0), Rate::from_mbit(12));
    let steps = Case::with_files(&rows, &|_| Ok("0,10Mbit\n1,20Mbit\n2,0\n4,0\n".to_owned())).expect("valid");
    assert_eq!(steps.link_rate(0), Rate::from_bits_per_sec(7_500_000));
    assert!(Case::with_files(&rows, &|_| Ok("2\n1\n".to_owned())).is_err());
    let written = triples(&[("link.rate", "steps:0,10Mbit;1,20Mbit;2,0;4,0")]);
    let without_file = Case::with_files(&written, &|name| panic!("{name} is no file")).expect("valid");
    assert_eq!(without_file.link_rate(0), Rate::from_bits_per_sec(7_500_000));
    assert!(Case::with_files(&rows, &|_| Ok(String::new())).is_err());
}

proptest! {
    /// Levels of the table in any mixture are a case or are refused with reasons; a case prints triples that give it back.
    #[test]
    fn any_mixture_of_levels_is_a_case_or_is_refused(choices in proptest::collection::vec((0usize..200, 0usize..8), 0..12)) {
        let rows: Vec<_> = crate::params::rows().collect();
        let mut given = BTreeMap::new();
        for (row, level) in choices {
            let row = rows[row % rows.len()];
            if let Some(text) = row.levels.get(level % row.levels.len().max(1)) {
                given.insert(row.path.to_owned(), Value::from(*text));
            }
        }
        match Case::from_triples(&given) {
            Err(errors) => prop_assert!(!errors.is_empty() && errors.iter().all(|e| !e.why.is_empty())),
            Ok(case) => {
                let again = Case::from_triples(&case.to_triples()).expect("what is printed is a case");
                prop_assert_eq!(&again.hosts, &case.hosts);
                prop_assert_eq!(&again.links, &case.links);
                prop_assert_eq!(&again.apps, &case.apps);
                prop_assert_eq!(again.to_triples(), case.to_triples());
            }
        }
    }
}
