//! The ends of a capture: their packets, and why some of them cannot be followed.

use super::order::{Stream, order};
use super::packet::CapturedPacket;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use tcpassay_capture::{Analysis, AnalysisOptions, CLOCK_DISORDER, ConnectionFacts, Place, Reader};
use tcpassay_units::{Dur, SeqNum, Time};
use tcpassay_wire::{Flags, Layout, Segment};

/// An end at which a capture was taken answers sooner than this at least once.
const PROMPT: Dur = Dur::from_micros(500);
/// The bounds of the time within which an end acts, if the capture does not show it better.
const ACTS_WITHIN: (Dur, Dur) = (Dur::from_micros(200), Dur::from_millis(2));
/// An end may be slower than its fastest answer by this factor.
const SLOWER: u64 = 20;

/// What is read of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Capture point, copies, and connections in memory.
    pub analysis: AnalysisOptions,
    /// Maximum number of packets in memory.
    pub most_packets: u64,
    /// The capture was taken at the host with this address. `None`: the times of answers show where.
    pub host: Option<IpAddr>,
    /// Within this time an end acts that should act at once. `None`: it follows from the fastest answer of the end.
    pub acts_within: Option<Dur>,
}

/// One end of a connection of a capture.
#[derive(Clone, PartialEq, Debug)]
pub struct CapturedEnd {
    /// Its address and that of its peer.
    pub ends: [SocketAddr; 2],
    /// The packets of the connection, in order.
    pub packets: Vec<CapturedPacket>,
    /// Until when the capture is complete.
    pub until: Time,
    /// Within this time it does what it should do at once.
    pub acts_within: Dur,
    /// The first packet whose ACK field is older than that of a packet that left before it: a queue of the own host delays what TCP sends.
    pub queued: Option<u64>,
    /// Bytes of the connection are acknowledged that the capture does not have.
    pub is_incomplete: bool,
    /// Why it cannot be followed at all.
    pub refused: Option<String>,
}

impl CapturedEnd {
    /// What its SYN does not offer although every profile offers it by default, and, in a SYN-ACK, although its peer did.
    pub fn lacks(&self) -> Vec<&'static str> {
        let syn = |sent: bool| {
            self.packets.iter().find(|p| p.sent == sent && p.segment.flags.has(Flags::SYN)).map(|p| p.segment)
        };
        let (Some(own), Some(peer)) = (syn(true), syn(false)) else { return Vec::new() };
        let offers = |segment: &Segment| {
            let options = &segment.options;
            [options.timestamps.is_some(), options.sack_permitted, options.window_scale.is_some()]
        };
        let answers = own.flags.has(Flags::ACK);
        let lacking =
            offers(&own).into_iter().zip(offers(&peer)).map(|(own, peer)| !own && (peer || !answers));
        lacking.zip(["timestamps", "SACK", "window scaling"]).filter(|one| one.0).map(|one| one.1).collect()
    }

    /// Whether the SYN of the end has its options in the order of `layout`; true if it is unknown.
    pub fn has_order(&self, layout: Layout) -> bool {
        let syn = self.packets.iter().find(|p| p.sent && p.segment.flags.has(Flags::SYN));
        let place = Layout::ALL.iter().position(|one| *one == layout);
        syn.zip(place).is_none_or(|(syn, place)| syn.layouts[place])
    }

    /// How many ACKs without payload left after the handshake, and how many segments with payload arrived.
    pub fn shows(&self) -> (usize, usize) {
        let bare = |p: &&CapturedPacket| {
            p.sent && p.segment.len == 0 && !p.segment.flags.any(Flags::SYN | Flags::FIN | Flags::RST)
        };
        let arrivals = self.packets.iter().filter(|p| !p.sent && p.segment.len > 0).count();
        (self.packets.iter().filter(bare).count(), arrivals)
    }

    /// Its name: both addresses, its own first.
    pub fn name(&self) -> String {
        format!("{} > {}", self.ends[0], self.ends[1])
    }
}

/// The ends of a capture.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CapturedEnds {
    /// Both ends of each connection.
    pub ends: Vec<CapturedEnd>,
    /// The capture has more packets than may be in memory.
    pub cut: bool,
    /// Why the capture could not be read to its end.
    pub error: Option<String>,
}

/// Reads the ends of a capture. After an error the packets before it are there.
pub fn read<R: Read>(reader: &mut Reader<R>, options: &Options) -> CapturedEnds {
    let mut analysis = Analysis::new(options.analysis.clone());
    let mut made = CapturedEnds::default();
    let mut connections: Vec<Vec<(usize, CapturedPacket)>> = Vec::new();
    let (mut start, mut last, mut number) = (None, Time::ZERO, 0);
    loop {
        let found = match reader.next_segment(&mut analysis.counts) {
            Ok(Some(Some(found))) => found,
            Ok(Some(None)) => continue,
            Ok(None) => break,
            Err(error) => {
                made.error = Some(error.to_string());
                break;
            }
        };
        let Some(placed) = analysis.segment(&found, reader.interfaces()) else { continue };
        let _ = analysis.take_rounds();
        let start = *start.get_or_insert(placed.at);
        if number == options.most_packets {
            made.cut = true;
            break;
        }
        number += 1;
        let at = Time::ZERO + placed.at.since(start);
        last = last.max(at);
        if connections.len() <= placed.connection {
            connections.resize_with(placed.connection + 1, Vec::new);
        }
        let packet = CapturedPacket {
            at,
            frame: analysis.counts.packets,
            sent: false,
            segment: found.headers.segment,
            ecn: found.headers.envelope.ecn,
            cut: found.headers.has_unknown_options(),
            layouts: found.headers.layouts,
        };
        connections[placed.connection].push((placed.from, packet));
    }
    for (facts, packets) in analysis.connections().zip(connections) {
        for end in 0..2 {
            made.ends.push(one(&facts, &packets, end, options, last));
        }
    }
    made
}

fn one(
    facts: &ConnectionFacts,
    packets: &[(usize, CapturedPacket)],
    end: usize,
    options: &Options,
    until: Time,
) -> CapturedEnd {
    let fastest = facts.answers_in[end].unwrap_or(Dur::ZERO);
    let usual = fastest.saturating_mul(SLOWER).max(ACTS_WITHIN.0).min(ACTS_WITHIN.1);
    let refused = why_not(facts, packets, end, options);
    let mut made = CapturedEnd {
        ends: [facts.ends[end], facts.ends[1 - end]],
        packets: Vec::new(),
        until,
        acts_within: options.acts_within.unwrap_or(usual),
        queued: None,
        is_incomplete: false,
        refused: refused.map(str::to_owned),
    };
    if made.refused.is_none() {
        let mut latest = Time::ZERO;
        let in_order = |(from, p): &(usize, CapturedPacket)| {
            // The order of the packets holds if the clock goes back by no more than its disorder.
            let at = if latest.since(p.at) <= CLOCK_DISORDER { latest.max(p.at) } else { p.at };
            latest = at;
            CapturedPacket { at, sent: *from == end, ..*p }
        };
        made.packets = packets.iter().map(in_order).collect();
        reorder(&mut made.packets);
        made.queued = goes_back(&made.packets);
        let local =
            facts.ends.iter().all(|end| end.ip().is_loopback()) || facts.ends[0].ip() == facts.ends[1].ip();
        if options.host.is_none() && !local && answered_at_once(&made.packets) {
            made.refused = Some("the capture was taken at the other end".to_owned());
        }
        made.is_incomplete = [false, true].iter().any(|sent| lacks_bytes(&made.packets, *sent));
    }
    made
}

/// Whether every segment that left reports what had arrived, so that the capture has packets of one instant in the order in which they passed.
fn is_in_order(packets: &[CapturedPacket]) -> bool {
    let mut arrived = Stream::default();
    packets.iter().all(|packet| {
        let segment = &packet.segment;
        if !packet.sent {
            arrived.passes(segment);
        } else if segment.flags.has(Flags::ACK) {
            arrived.acked = Some(segment.ack);
            return arrived.explains(segment);
        }
        true
    })
}

/// Puts the packets of each instant in order, unless the capture has them so.
fn reorder(packets: &mut [CapturedPacket]) {
    if is_in_order(packets) {
        return;
    }
    let mut arrived = Stream::default();
    for instant in packets.chunk_by_mut(|a, b| a.at == b.at) {
        order(instant, &mut arrived);
    }
}

/// Whether bytes of the direction `sent` are acknowledged that the packets before do not have.
fn lacks_bytes(packets: &[CapturedPacket], sent: bool) -> bool {
    let mut stream = Stream::default();
    packets.iter().any(|packet| {
        if packet.sent == sent {
            stream.passes(&packet.segment);
            return false;
        }
        packet.segment.flags.has(Flags::ACK) && stream.lacks(packet.segment.ack) > 0
    })
}

/// Whether data are acknowledged at the instant at which they leave, which is the case where they arrive.
fn answered_at_once(packets: &[CapturedPacket]) -> bool {
    let mut left: Option<(SeqNum, Time)> = None;
    packets.iter().any(|packet| {
        let segment = &packet.segment;
        if packet.sent && segment.len > 0 {
            left = Some((segment.end(), packet.at));
        }
        let answers = !packet.sent && segment.flags.has(Flags::ACK);
        answers && left == Some((segment.ack, packet.at))
    })
}

/// The first packet that left with an older ACK field than one before it.
fn goes_back(packets: &[CapturedPacket]) -> Option<u64> {
    let mut latest: Option<SeqNum> = None;
    for packet in packets.iter().filter(|packet| packet.sent) {
        let flags = packet.segment.flags;
        if flags.any(Flags::SYN | Flags::RST) || !flags.has(Flags::ACK) {
            continue;
        }
        let ack = packet.segment.ack;
        if latest.is_some_and(|latest| ack.distance(latest) < 0) {
            return Some(packet.frame);
        }
        latest = Some(ack);
    }
    None
}

/// Why an end cannot be followed at all.
fn why_not(
    facts: &ConnectionFacts,
    packets: &[(usize, CapturedPacket)],
    end: usize,
    options: &Options,
) -> Option<&'static str> {
    let local =
        facts.ends[0].ip() == facts.ends[1].ip() || facts.ends.iter().all(|end| end.ip().is_loopback());
    let here = match (options.host, facts.place, end) {
        (Some(host), ..) => facts.ends[end].ip() == host,
        (None, Place::Sender, 0) | (None, Place::Receiver, 1) => true,
        (None, Place::Sender | Place::Receiver, _) if !local => {
            return Some("the capture was taken at the other end");
        }
        (None, Place::Between, _) if !local => return Some("the capture was taken between the ends"),
        _ => local,
    };
    let spoke = |end: usize| {
        packets.iter().any(|(from, packet)| *from == end && !packet.segment.flags.has(Flags::RST))
    };
    if !(spoke(0) && spoke(1)) {
        return Some("the capture shows one direction only");
    }
    if !facts.has_handshake {
        return Some("the capture has no whole handshake of the connection");
    }
    if !here && options.host.is_some() {
        return Some("it is not the end at which the capture was taken (`--host`)");
    }
    if !here {
        return Some(
            "the place of the capture is not known: too few packets are answered (`--host` tells it)",
        );
    }
    if facts.counters[end].duplicates > 0 {
        return Some("the capture has packets of this end more than once (`--point` selects an interface)");
    }
    if options.host.is_none() && !local && facts.answers_in[end].is_none_or(|answer| answer > PROMPT) {
        return Some(
            "the end never answers within 500 us, as it does where it is captured (`--host` tells the place)",
        );
    }
    None
}
