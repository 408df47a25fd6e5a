//! The summary of an analysis: the counters of each flow, their meaning as text, and the limits of the capture.

use crate::analysis::Analysis;
use crate::flow::{Connection, Copies, EcnFeedback, Half, Place};
use crate::icmp::{IcmpErrors, Reported};
use crate::life::Life;
use crate::notes;
use crate::reader::Interface;
use crate::summary::{FlowSummary, MOST_UNOPENED, RoundTrips, Summary, Unopened};
use crate::table::Entry;
use crate::tunnel::Around;
use crate::words;
use std::borrow::Cow;
use std::collections::BTreeMap;
use tcpassay_units::{Dur, Time};

impl Analysis {
    /// The results so far. `interfaces` are those of the reader.
    pub fn summary(&self, interfaces: &[Interface]) -> Summary {
        let flows = self.flow_summaries(interfaces, 0, usize::MAX);
        Summary { flows, ..self.summary_without_flows(interfaces) }
    }

    /// The results so far without those of the flows.
    pub fn summary_without_flows(&self, interfaces: &[Interface]) -> Summary {
        let (unopened_connections, unopened) = self.unopened(interfaces);
        Summary {
            unopened_connections,
            unopened,
            clock_ns: self.clock_step_ns(),
            connections: self.table.len() as u64,
            flows_with_data: self.flows.len() as u64,
            interfaces: interfaces.iter().map(|one| one.name.clone()).collect(),
            packets: self.counts.clone(),
            notes: notes::notes(self, interfaces),
            flows: Vec::new(),
        }
    }

    /// The results of some flows: those after the first `after`, at most `most`, without those that are no longer in memory.
    pub fn flow_summaries(&self, interfaces: &[Interface], after: usize, most: usize) -> Vec<FlowSummary> {
        let wanted = self.flows.iter().enumerate().skip(after).take(most);
        wanted
            .flat_map(|(index, (place, _))| {
                let mut flows = self.describe(*place as usize, interfaces);
                flows.retain(|flow| flow.flow as usize == index + 1);
                flows
            })
            .collect()
    }

    /// Whether a connection was silent for longer than its round trips explain.
    pub fn has_stalls(&self) -> bool {
        self.table.entries().iter().any(|entry| match &entry.state {
            Life::Open(connection) => connection.halves.iter().any(|half| !half.stalls.is_empty()),
            Life::Ended(ended) => ended.flows.iter().any(|flow| !flow.stalls.is_empty()),
            Life::First(_) | Life::Forgotten => false,
        })
    }

    /// ICMP errors, as text, about connections that are described nowhere else: without data, and opened before the capture or at all. The
    /// first `most`.
    pub(crate) fn errors_without_flow(&self, most: usize) -> Vec<String> {
        let undescribed = self.icmp.iter().filter_map(|(place, errors)| {
            let connection = self.connection(&self.table.entries()[*place as usize])?;
            let is_described = connection.halves.iter().any(|half| half.number.is_some())
                || connection.is_refused().is_some();
            (!is_described).then(|| errors.about([true; 2], connection.first))
        });
        undescribed.flatten().take(most).map(|one| words::icmp_error(&one)).collect()
    }

    /// The connections in memory that were not opened: their number, and the first ones.
    fn unopened(&self, interfaces: &[Interface]) -> (u64, Vec<Unopened>) {
        let (mut count, mut first) = (0, Vec::new());
        for (place, entry) in self.table.entries().iter().enumerate() {
            let made;
            let connection = match &entry.state {
                Life::Open(connection) => &**connection,
                // A scan has millions of them: their state is computed only if they are described.
                Life::First(packet) if packet.is_syn() && first.len() >= MOST_UNOPENED => {
                    count += 1;
                    continue;
                }
                Life::First(packet) if packet.is_syn() => {
                    made = packet.connection(self.point(entry), entry.ends());
                    &made
                }
                Life::First(_) | Life::Ended(_) | Life::Forgotten => continue,
            };
            let Some(refused) = connection.is_refused() else { continue };
            count += 1;
            if first.len() < MOST_UNOPENED {
                let icmp = self.errors(place, [true; 2], connection.first);
                first.push(unopened(connection, place, refused, interfaces, icmp));
            }
        }
        self.say_who_opened(&mut first);
        (count, first)
    }

    /// Connections to the same port of the same host, of which both SYNs are in the capture, at the time of those that were not opened.
    fn say_who_opened(&self, unopened: &mut [Unopened]) {
        let mut silent: BTreeMap<String, Vec<&mut Unopened>> = BTreeMap::new();
        for one in unopened.iter_mut().filter(|one| !one.refused) {
            silent.entry(one.other.clone()).or_default().push(one);
        }
        if silent.is_empty() {
            return;
        }
        // Of each, by its place: others that were opened, and whether the capture was taken at their host.
        let mut others: BTreeMap<u32, (u64, bool)> = BTreeMap::new();
        for entry in self.table.entries() {
            let (is_open, place, first) = match &entry.state {
                Life::Open(connection) => (connection.has_both_syns(), connection.place(0), connection.first),
                Life::Ended(ended) => (ended.facts.has_handshake, ended.facts.place, ended.start()),
                Life::First(_) | Life::Forgotten => continue,
            };
            if !is_open {
                continue;
            }
            let Some(near) = silent.get(&entry.ends()[1].to_string()) else { continue };
            for one in near {
                let from = Time::from_nanos(one.start_ns);
                let around = Dur::from_nanos(one.duration_ns).saturating_add(AROUND);
                if first.since(from) <= around && from.since(first) <= AROUND {
                    let (count, at_host) = others.entry(one.connection).or_default();
                    *count += 1;
                    *at_host |= place == Place::Receiver;
                }
            }
        }
        for one in silent.into_values().flatten() {
            if let Some((count, at_host)) = others.get(&one.connection) {
                one.words = format!("{}; {}", one.words, words::others_opened(*count, *at_host));
            }
        }
    }

    /// A connection whose state is in memory; that of a single packet is made for the call.
    fn connection<'a>(&self, entry: &'a Entry<Life>) -> Option<Cow<'a, Connection>> {
        match &entry.state {
            Life::Open(connection) => Some(Cow::Borrowed(connection)),
            Life::First(first) => Some(Cow::Owned(first.connection(self.point(entry), entry.ends()))),
            Life::Ended(_) | Life::Forgotten => None,
        }
    }

    /// The flows of a connection.
    pub(crate) fn describe(&self, place: usize, interfaces: &[Interface]) -> Vec<FlowSummary> {
        let entry = &self.table.entries()[place];
        if let Life::Ended(ended) = &entry.state {
            return ended.flows.clone();
        }
        let Some(connection) = self.connection(entry) else { return Vec::new() };
        let clock_ns = self.clock_step_ns();
        let with_data = (0..2).filter(|from| connection.halves[*from].number.is_some());
        with_data
            .map(|from| {
                let mut about = [true; 2];
                about[1 - from] = connection.halves[1 - from].number.is_none();
                let icmp = self.errors(place, about, connection.first);
                FlowSummary {
                    connection: u32::try_from(place + 1).unwrap_or(u32::MAX),
                    tunnel: self.ways.around(entry.way(from)).map(Around::to_string).unwrap_or_default(),
                    ..flow(&connection, from, interfaces, clock_ns, icmp)
                }
            })
            .collect()
    }

    /// The ICMP errors about segments of the ends of a connection that `about` names.
    fn errors(&self, place: usize, about: [bool; 2], begin: Time) -> Vec<IcmpErrors> {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        self.icmp.get(&place).map(|all: &Reported| all.about(about, begin)).unwrap_or_default()
    }
}

impl Analysis {
    /// Directions without data in the capture whose sequence numbers show data: the number of them, and of these bytes.
    pub(crate) fn flows_of_missing_data(&self) -> (u64, u64) {
        let missing =
            self.counters().filter(|(_, has_data)| !has_data).map(|(counters, _)| counters.missing_bytes);
        missing.filter(|bytes| *bytes > 1).fold((0, 0), |(flows, sum), bytes| (flows + 1, sum + bytes))
    }

    /// The number of flows whose data are not in the capture although they were acknowledged, and the number of these bytes. A FIN alone,
    /// which occupies one position, is no data.
    pub(crate) fn flows_of_acks_alone(&self) -> (u64, u64) {
        let unseen =
            self.counters().filter(|(_, has_data)| !has_data).map(|(counters, _)| counters.unseen_bytes);
        unseen.filter(|bytes| *bytes > 1).fold((0, 0), |(flows, sum), bytes| (flows + 1, sum + bytes))
    }
}

fn name(interfaces: &[Interface], index: usize) -> String {
    interfaces.get(index).map(|one| one.name.clone()).unwrap_or_default()
}

/// Connections that opened within this time of one that did not.
const AROUND: Dur = Dur::from_secs(60);

fn unopened(
    connection: &Connection,
    place: usize,
    refused: bool,
    interfaces: &[Interface],
    icmp: Vec<IcmpErrors>,
) -> Unopened {
    let [opener, other] = connection.ends.map(|end| end.to_string());
    let syns = 1 + connection.halves[0].counters.syn_retransmissions;
    let duration_ns = connection.last.since(connection.first).as_nanos();
    let told: Vec<String> = icmp.iter().map(words::icmp_error).collect();
    let words = [words::unopened([&opener, &other], syns, duration_ns, refused)].into_iter().chain(told);
    let words = words.collect::<Vec<_>>().join("; ");
    Unopened {
        connection: u32::try_from(place + 1).unwrap_or(u32::MAX),
        interface: name(interfaces, connection.interface),
        opener,
        other,
        start_ns: connection.first.as_nanos(),
        syns,
        duration_ns,
        refused,
        icmp,
        words,
    }
}

fn flow(
    connection: &Connection,
    from: usize,
    interfaces: &[Interface],
    clock_ns: Option<u64>,
    icmp: Vec<IcmpErrors>,
) -> FlowSummary {
    let clock_ns = clock_ns.unwrap_or(0);
    let half = &connection.halves[from];
    let mut made = FlowSummary {
        flow: half.number.unwrap_or(0),
        connection: 0,
        interface: name(interfaces, connection.interface),
        tunnel: String::new(),
        sender: connection.ends[from].to_string(),
        receiver: connection.ends[1 - from].to_string(),
        place: connection.place(from),
        start_ns: connection.first.as_nanos(),
        duration_ns: connection.last.since(connection.first).as_nanos(),
        largest_packet: half.largest,
        ecn_feedback: connection.ecn.feedback,
        counters: half.counted(),
        spurious: half.again.spurious,
        rounds: half.rounds,
        round_trips: half.round_trips.as_ref().and_then(|all| RoundTrips::of(all, clock_ns)),
        stalls: half.stalls.take(),
        time_shares: half
            .waits
            .shares(connection.last, connection.finished[from])
            .filter(|_| connection.place(from) == Place::Sender),
        ending: connection.ending(from),
        black_hole: half.lengths.found(),
        icmp,
        words: Vec::new(),
        unknown: Vec::new(),
    };
    let routers = near_end(connection, from).is_some_and(|(_, ttl)| ttl.is_some());
    made.words = words::found(&made, connection.answers[from].least(), clock_ns, routers);
    let ending = made.words.pop();
    made.words.extend(words::of_handshake(connection, half));
    if let Some(pause) = half.pause.filter(|pause| pause.fired) {
        made.words.push(words::forgotten(&made, pause.length, pause.since.since(connection.first)));
    }
    made.words.extend(ending);
    made.unknown = unknown(connection, from, half);
    made
}

/// The end to which the capture point is near, for data of end `from`, and the TTL of its packets if they have passed routers.
fn near_end(connection: &Connection, from: usize) -> Option<(usize, Option<u8>)> {
    let end = match connection.place(from) {
        Place::Sender => from,
        Place::Receiver => 1 - from,
        Place::Between | Place::Unknown => return None,
    };
    Some((end, connection.points.routed(end)))
}

/// Describes what the packets of a flow cannot show.
fn unknown(connection: &Connection, from: usize, half: &Half) -> Vec<String> {
    let mut said = Vec::new();
    let mut say = |text: String| said.push(text);
    match connection.syns {
        [Some(_), Some(_)] => {}
        [None, None] => say("The handshake is not in the capture: the connection may be older, round trips are known from data alone.".to_owned()),
        _ => say("Only one SYN of the handshake is in the capture.".to_owned()),
    }
    if !connection.knows_scale(1 - from) {
        say("The window scale is unknown without the options of both SYNs: of the receive window only whether it is closed (0) can be recognised.".to_owned());
    }
    if connection.ecn.feedback == EcnFeedback::Unknown && half.counters.ece > 0 {
        say(format!(
            "{} of the ACKs have the flag ECE. Without the handshake it cannot be told whether it echoes marks (RFC 3168) or is a bit of the \
             counter of accurate ECN (RFC 9768).",
            words::share(half.counters.ece, half.counters.acks)
        ));
    }
    if connection.packets[1 - from] == 0 {
        say("No packet of the receiver is in the capture: without ACKs there are no round trips, and no limit by the receive window.".to_owned());
    } else if half.counters.acks == 0 {
        say("No ACK of the receiver is in the capture.".to_owned());
    }
    if half.counters.unseen_bytes > 0 {
        say(format!(
            "{} were acknowledged but are not in the capture: the capture missed packets, or they took another path. Retransmissions and \
             reordering are counted among the captured packets only.",
            words::bytes(half.counters.unseen_bytes)
        ));
    }
    let missing = half.counted().missing_bytes;
    if missing > 1 {
        say(format!(
            "The sequence numbers of the sender show {} that never reached the capture: they were lost before it, or the capture missed them.",
            words::bytes(missing)
        ));
    }
    if let Some((near, marks)) = connection.points.words() {
        let left_out: u64 = connection.halves.iter().map(|half| half.counters.other_point).sum();
        say(format!(
            "The file mixes the packets of two capture points of this connection ({marks}): those of the point nearer to {} are used, {} \
             of the other one left out.",
            connection.ends[near],
            words::many(left_out, "packet")
        ));
    }
    if connection.points.words().is_none()
        && Copies::is_doubled(half.counters.duplicates, half.counters.packets)
        && connection.path(from).round_trip().is_none_or(|whole| half.copies.lag * 10 >= whole)
    {
        let unsure = match half.copies.unsure {
            0 => String::new(),
            1 => " One of them may be a retransmission: losses were reported, and only this time tells it from one.".to_owned(),
            n => format!(
                " {n} of them may be retransmissions: losses were reported, and only this time tells them from some."
            ),
        };
        say(format!(
            "The capture has {} of the data packets twice, the second time {} later, and neither interface nor VLAN nor TTL tells two capture points \
             apart. The first one of each is used: if they passed two places of the path, round trips are those between the places where each was seen first.{unsure}",
            words::share(half.counters.duplicates, half.counters.packets),
            words::time(half.copies.lag.as_nanos())
        ));
    }
    if let Some((end, Some(ttl))) = near_end(connection, from) {
        say(format!(
            "The capture was not taken at {}: its packets have passed routers (TTL {ttl}).",
            connection.ends[end]
        ));
    }
    if half.counters.beyond_window > 0 {
        say(format!(
            "{} with a sequence number far beyond the receive window, which were left out.",
            words::many(half.counters.beyond_window, "data packet")
        ));
    }
    if connection.first == Time::ZERO && connection.last == Time::ZERO {
        say("The packets have no times.".to_owned());
    }
    said
}
