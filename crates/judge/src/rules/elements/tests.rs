use super::element::CE;
use super::*;
use crate::judge;
use std::collections::BTreeMap;
use tcpassay_case::Case;
use tcpassay_case::params::Value;
use tcpassay_measure::{CollectOptions, DropReason, ElementLog, ElementPacket};
use tcpassay_sim::{SimOptions, run};
use tcpassay_units::Dur;

type Rows = [(&'static str, &'static str)];

/// Cases each of which has another element, and an event that the element must show: its name, the event, and the least number.
const CASES: &[(&Rows, (&str, ElementEvent, usize))] = {
    use ElementEvent::{Arrived, Began, Departed, Dropped, Marked};
    const LINK: &str = "queue.bottleneck";
    const EARLY: ElementEvent = Dropped(DropReason::Early);
    const FULL: ElementEvent = Dropped(DropReason::Full);
    const LOSS: ElementEvent = Dropped(DropReason::Loss);
    &[
        (
            &[
                ("stack.ecn", "dctcp"),
                ("stack.cc", "dctcp"),
                ("queue.ecn_mark", "data"),
                ("queue.ecn_threshold", "6KB"),
            ],
            (LINK, Marked, 100),
        ),
        (&[("queue.limit", "10p"), ("app.flows", "3")], (LINK, FULL, 20)),
        (
            &[
                ("queue.kind", "red"),
                ("queue.red_min", "10KB"),
                ("queue.red_max", "30KB"),
                ("queue.red_probability", "0.1"),
            ],
            (LINK, EARLY, 40),
        ),
        (
            &[
                ("queue.kind", "red"),
                ("queue.red_min", "3KB"),
                ("queue.red_max", "9KB"),
                ("queue.ecn", "on"),
                ("stack.ecn", "classic"),
            ],
            (LINK, Marked, 50),
        ),
        (&[("queue.kind", "codel"), ("queue.target", "1ms"), ("queue.interval", "10ms")], (LINK, EARLY, 10)),
        (
            &[
                ("queue.kind", "codel"),
                ("queue.target", "1ms"),
                ("queue.interval", "10ms"),
                ("queue.ecn", "on"),
                ("stack.ecn", "classic"),
            ],
            (LINK, Marked, 10),
        ),
        (
            &[
                ("queue.kind", "fq_codel"),
                ("app.flows", "4"),
                ("queue.target", "1ms"),
                ("queue.interval", "10ms"),
                ("queue.ecn", "off"),
            ],
            (LINK, EARLY, 40),
        ),
        (&[("queue.kind", "fq_codel"), ("app.flows", "4"), ("queue.limit", "20p")], (LINK, FULL, 50)),
        (
            &[
                ("queue.kind", "pie"),
                ("queue.target", "2ms"),
                ("app.flows", "4"),
                ("queue.ecn", "on"),
                ("stack.ecn", "classic"),
            ],
            (LINK, Marked, 5),
        ),
        (&[("queue.kind", "fq"), ("app.flows", "4"), ("queue.limit", "60p")], (LINK, FULL, 30)),
        (
            &[("queue.kind", "dualpi2"), ("app.flows", "4"), ("stack.ecn", "dctcp"), ("stack.cc", "dctcp")],
            (LINK, Marked, 50),
        ),
        (&[("queue.kind", "dualpi2"), ("app.flows", "4"), ("queue.target", "3ms")], (LINK, EARLY, 40)),
        (
            &[
                ("queue.kind", "tbf"),
                ("queue.rate", "8Mbit"),
                ("queue.burst", "20KB"),
                ("queue.limit", "30KB"),
                ("nic.tso", "on"),
            ],
            (LINK, FULL, 5),
        ),
        (
            &[
                ("queue.kind", "tbf"),
                ("queue.rate", "8Mbit"),
                ("queue.place", "link"),
                ("queue.limit", "30KB"),
            ],
            (LINK, FULL, 10),
        ),
        (
            &[
                ("queue.kind", "htb"),
                ("queue.rate", "8Mbit"),
                ("queue.classes", "3"),
                ("app.flows", "4"),
                ("queue.limit", "100KB"),
            ],
            (LINK, FULL, 20),
        ),
        (
            &[("link.loss", "2%"), ("link.loss_correlation", "0.1"), ("link.ack_loss", "2%")],
            ("loss.bottleneck.back", LOSS, 5),
        ),
        (&[("link.loss_model", "gilbert-elliott:2%,30%,80%,0.1%")], ("loss.bottleneck", LOSS, 20)),
        (&[("link.loss_model", "list:5,6,40")], ("loss.bottleneck", LOSS, 3)),
        (
            &[("link.corrupt", "2%"), ("link.duplicate", "2%"), ("nic.gro", "on")],
            ("receiver", Dropped(DropReason::Checksum), 5),
        ),
        (&[("link.reorder", "3%:3")], ("reorder.bottleneck", Departed, 500)),
        (&[("link.reorder", "reverse-burst:4")], ("reorder.bottleneck", Departed, 100)),
        (
            &[
                ("link.jitter", "1ms"),
                ("link.jitter_distribution", "pareto"),
                ("link.jitter_correlation", "0.3"),
            ],
            ("jitter.bottleneck", Departed, 500),
        ),
        (&[("link.slot", "1ms,3ms,8")], ("slot.bottleneck", Departed, 500)),
        (&[("link.policer", "8Mbit,20KB")], ("police.bottleneck", Dropped(DropReason::Policed), 20)),
        (
            &[("link.ack_thinning", "4"), ("link.ack_thinning_wait", "3ms"), ("link.loss", "1%")],
            ("thin.bottleneck.back", Dropped(DropReason::Thinned), 100),
        ),
        (
            &[("queue.ecn_mark", "ack"), ("queue.ecn_threshold", "6KB"), ("stack.ecn", "classic")],
            ("mark.bottleneck.back", Marked, 5),
        ),
        (
            &[("nic.tso", "on"), ("nic.gro", "on"), ("nic.rx_usecs", "2ms"), ("nic.rx_frames", "8")],
            ("rx.receiver", Began, 50),
        ),
        (
            &[
                ("nic.gro", "on"),
                ("nic.gro_timeout", "2ms"),
                ("nic.rx_usecs", "20us"),
                ("nic.gro_max", "20KB"),
            ],
            ("rx.receiver", Began, 50),
        ),
        (
            &[("nic.gro", "on"), ("nic.rx_cost", "700us"), ("nic.ring", "16")],
            ("rx.receiver", Dropped(DropReason::Ring), 5),
        ),
        (
            &[("nic.adaptive", "on"), ("app.flows", "3"), ("nic.gro", "on"), ("link.rate", "200Mbit")],
            ("rx.receiver", Began, 500),
        ),
        (&[("nic.adaptive", "hidden"), ("nic.hidden_frames", "4")], ("rx.receiver", Began, 400)),
        (
            &[("nic.lro_order", "stale-hash"), ("nic.gro", "on"), ("nic.rx_usecs", "3ms")],
            ("rx.receiver", Began, 50),
        ),
        (
            &[
                ("nic.tso", "on"),
                ("nic.rate", "10Mbit"),
                ("nic.queue", "20"),
                ("nic.ecn_threshold", "8KB"),
                ("stack.ecn", "classic"),
            ],
            ("nic.bottleneck", Marked, 20),
        ),
        (&[("topology", "star:4"), ("switch.buffers", "shared:30KB")], (LINK, FULL, 20)),
        (&[("topology", "star:4"), ("switch.buffers", "dual:20KB")], (LINK, FULL, 20)),
        (&[("topology", "racks:2x2")], ("queue.access-receiver0", Arrived, 500)),
    ]
};

fn recording(rows: &Rows) -> Recording {
    let base = [("app.duration", "600ms"), ("link.rate", "20Mbit"), ("link.delay", "2ms")];
    let triples: BTreeMap<String, Value> = base
        .iter()
        .chain(rows)
        .map(|(path, value)| ((*path).to_owned(), Value::Text((*value).to_owned())))
        .collect();
    let case = Case::from_triples(&triples).unwrap_or_else(|problems| panic!("{rows:?}: {problems:?}"));
    let collect = CollectOptions { events: true, elements: true, latency: true, ..CollectOptions::default() };
    run(&case, Seed(1), &SimOptions { collect, ..SimOptions::default() }).recording
}

fn titles(recording: &Recording) -> Vec<&'static str> {
    judge(recording, &[NAME]).into_iter().map(|one| one.title).collect()
}

const ASTRAY: &str = "a packet does not continue on its way as it left an element";
const MISCOUNTED: &str = "a counter of the recording differs from what happened";

/// The titles about the rules of elements. A changed row may also contradict the next element and the counters.
fn rules(recording: &Recording) -> Vec<&'static str> {
    titles(recording).into_iter().filter(|title| ![ASTRAY, MISCOUNTED].contains(title)).collect()
}

#[test]
fn no_element_of_a_clean_run_deviates_from_its_rule() {
    for (rows, (name, event, least)) in CASES {
        let recording = recording(rows);
        let log = &recording.elements;
        let of_element = |row: &&ElementRow| log.names()[usize::from(row.element)] == *name;
        let seen = log.rows().iter().filter(of_element).filter(|row| row.event == *event).count();
        assert!(seen >= *least, "{rows:?}: {name} has {seen} times {event:?}");
        let found = judge(&recording, &[NAME]);
        assert!(found.is_empty(), "{rows:?}: {}", found[0].text);
    }
}

/// The log in which `change` replaced the rows of an element that have this event, by their number from 0.
fn changed(
    recording: &Recording,
    name: &str,
    event: ElementEvent,
    change: impl Fn(usize, ElementRow) -> Option<ElementRow>,
) -> Recording {
    let log = &recording.elements;
    let mut changed = ElementLog::new(log.names().to_vec());
    let mut count = 0;
    for row in log.rows() {
        let fits = log.names()[usize::from(row.element)] == name && row.event == event;
        let other = if fits { change(count, *row) } else { Some(*row) };
        count += usize::from(fits);
        if let Some(row) = other {
            changed.push(row);
        }
    }
    assert!(count > 100, "{name} has {count} times {event:?}");
    Recording { elements: changed, ..recording.clone() }
}

#[test]
fn each_kind_of_deviation_of_one_packet_has_its_title() {
    use ElementEvent::{Departed, Dropped, Marked};
    let (rows, (name, ..)) = CASES[0];
    let run = recording(rows);
    let one = |event, with: fn(ElementRow) -> Option<ElementRow>| {
        rules(&changed(&run, name, event, |n, row| if n == 50 { with(row) } else { Some(row) }))
    };
    let early =
        one(Departed, |row| Some(ElementRow { at: row.at.saturating_sub(Dur::from_nanos(1)), ..row }));
    assert_eq!(early, ["an element acts before its rule permits it"]);
    let late = one(Departed, |row| Some(ElementRow { at: row.at + Dur::from_nanos(1), ..row }));
    assert_eq!(late, ["an element does not act when its rule requires it"]);
    let dropped = one(Departed, |row| Some(ElementRow { event: Dropped(DropReason::Full), ..row }));
    assert_eq!(dropped, ["an element drops a packet against its rule"]);
    let swapped = one(Departed, |row| {
        Some(ElementRow { packet: ElementPacket { id: row.packet.id + 1000, ..row.packet }, ..row })
    });
    assert_eq!(swapped, ["an element serves packets in a wrong order"]);
    let shorter = one(Departed, |row| {
        Some(ElementRow { packet: ElementPacket { len: row.packet.len - 1, ..row.packet }, ..row })
    });
    assert_eq!(shorter, ["an element changes a packet against its rule"]);
    assert_eq!(one(Marked, |_| None), ["an element does not mark a packet as its rule requires"]);
    let unmarked = one(Marked, |row| {
        let packet = ElementPacket { ecn: 0b10, ..row.packet };
        Some(ElementRow { packet, ..row })
    });
    assert_eq!(unmarked, ["an element does not mark a packet as its rule requires"]);
}

#[test]
fn a_packet_that_should_be_dropped_is_found() {
    let (rows, (name, event, _)) = CASES[6];
    let run = recording(rows);
    let kept = changed(&run, name, ElementEvent::Began, |_, row| Some(row));
    assert_eq!(rules(&kept), [""; 0]);
    // The log without one of its drops.
    let log = &run.elements;
    let first = log.rows().iter().position(|row| row.event == event).expect("a drop");
    let mut kept = ElementLog::new(log.names().to_vec());
    log.rows().iter().enumerate().filter(|(at, _)| *at != first).for_each(|(_, row)| kept.push(*row));
    let kept = Recording { elements: kept, ..run.clone() };
    assert_eq!(rules(&kept), ["an element does not drop a packet as its rule requires"]);
}

#[test]
fn an_element_that_the_run_does_not_have_is_missing() {
    let run = recording(&[("link.loss", "2%")]);
    let names = run.elements.names().iter().map(|name| name.replace("loss.", "lost.")).collect();
    let mut log = ElementLog::new(names);
    run.elements.rows().iter().for_each(|row| log.push(*row));
    let found = judge(&Recording { elements: log, ..run }, &[NAME]);
    let missing =
        found.iter().find(|one| one.title == "an element of the case is missing").expect("a finding");
    assert_eq!(
        missing.text,
        "The case has the element `loss.bottleneck`, and the network of the run does not contain it."
    );
}

#[test]
fn a_recording_without_a_log_of_elements_is_not_judged() {
    let run = recording(&[("link.loss", "2%")]);
    assert_eq!(titles(&Recording { elements: ElementLog::default(), ..run }), [""; 0]);
}

#[test]
fn a_packet_that_changes_or_arrives_elsewhere_between_two_elements_is_found() {
    let run = recording(&[("link.loss", "2%")]);
    let arrived = |with: fn(ElementRow) -> Option<ElementRow>| {
        let changed =
            changed(
                &run,
                "receiver",
                ElementEvent::Arrived,
                |n, row| if n == 50 { with(row) } else { Some(row) },
            );
        titles(&changed)
    };
    assert_eq!(arrived(Some), [""; 0]);
    let marked = arrived(|row| Some(ElementRow { packet: ElementPacket { ecn: CE, ..row.packet }, ..row }));
    assert!(marked.contains(&ASTRAY), "{marked:?}");
    let elsewhere = arrived(|row| Some(ElementRow { element: 0, ..row }));
    assert!(elsewhere.contains(&ASTRAY), "{elsewhere:?}");
    let lost = titles(&changed(&run, "receiver", ElementEvent::Arrived, |n, row| (n < 100).then_some(row)));
    assert!(lost.contains(&ASTRAY), "{lost:?}");
}

#[test]
fn a_counter_that_is_not_what_the_log_shows_is_found() {
    let mut run = recording(&[("link.loss", "2%")]);
    assert_eq!(titles(&run), [""; 0]);
    run.devices[0].counters.packets += 1;
    assert_eq!(titles(&run), [MISCOUNTED]);
    run.devices[0].counters.packets -= 1;
    run.devices[0].counters.max_backlog_bytes += 1;
    assert_eq!(titles(&run), [MISCOUNTED]);
    run.devices[0].counters.max_backlog_bytes -= 1;
    run.flows[0].counters.ce_packets += 1;
    assert_eq!(titles(&run), [MISCOUNTED]);
}
