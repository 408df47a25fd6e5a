//! The packets of a run with another TCP, for the rules that need whole headers.
//!
//! The log of such a run has a row for each segment at the host that sends or receives it, and the recording, if packets were
//! captured, the packet. Both are in the order of time, so that each row finds its packet.

use crate::captured::{Captured, Packet};
use crate::needs::{EndLog, Need};
use std::collections::{BTreeMap, VecDeque};
use tcpassay_measure::{EventKind, PacketRecord, Recording};
use tcpassay_units::Dur;

/// What the rows of a recording have in addition.
#[derive(Debug)]
pub(crate) struct OwnPackets {
    packets: Vec<Packet>,
    rows: Vec<u32>,
    ends: Vec<EndLog>,
}

impl OwnPackets {
    /// Those of a recording; `None` unless a host has another TCP than the model, and packets were captured.
    pub fn of(recording: &Recording) -> Option<OwnPackets> {
        if recording.header.stacks.is_empty() || recording.packets.is_empty() {
            return None;
        }
        let mut waiting = by_host(recording);
        let log = EndLog { lacks: Vec::new(), first: 1, answers_in: Some(Dur::ZERO) };
        let mut made =
            OwnPackets { packets: vec![NONE], rows: Vec::new(), ends: vec![log; recording.flows.len()] };
        for event in recording.events.iter() {
            let sent = match event.kind {
                EventKind::Out | EventKind::Retransmit => true,
                EventKind::In => false,
                _ => {
                    made.rows.push(0);
                    continue;
                }
            };
            let queue = waiting.entry((event.host, sent)).or_default();
            while queue.front().is_some_and(|(_, packet)| packet.at < event.at) {
                queue.pop_front();
            }
            let alike = |packet: &PacketRecord| {
                packet.segment.is_some_and(|s| Some(s.flags) == event.flags && Some(s.len) == event.len)
            };
            let now = queue.iter().take_while(|(_, packet)| packet.at == event.at);
            let place = now.zip(0..).find(|((_, packet), _)| alike(packet)).map(|(_, place)| place);
            let Some((frame, packet)) = place.and_then(|place| queue.remove(place)) else {
                made.rows.push(0);
                let flow = event.flow.map_or(0, |flow| flow as usize);
                if made.ends[flow].lacks.is_empty() {
                    made.ends[flow].lacks.push((Need::Headers, "a row of the log has no packet".into()));
                }
                continue;
            };
            made.rows.push(u32::try_from(made.packets.len()).expect("fewer than 2^32 packets"));
            let options = packet.segment.expect("it is alike").options;
            made.packets.push(Packet {
                frame,
                stamps: options.timestamps,
                mss: options.mss,
                sack_permitted: options.sack_permitted,
                ecn: packet.ecn,
                cut: false,
            });
        }
        Some(made)
    }

    /// As a pass over the log of a capture reads them.
    pub fn captured(&self) -> Captured<'_> {
        Captured { packets: &self.packets, rows: &self.rows, ends: &self.ends, resolution: Dur::ZERO }
    }
}

/// The packet of rows that are no segments. No rule reads it.
const NONE: Packet = Packet {
    frame: 0,
    stamps: None,
    mss: None,
    sack_permitted: false,
    ecn: tcpassay_wire::Ecn::NotEct,
    cut: false,
};

type Numbered<'a> = VecDeque<(u64, &'a PacketRecord)>;

/// The segments that each host sent, and those that it received, with their numbers in the capture.
fn by_host(recording: &Recording) -> BTreeMap<(u32, bool), Numbered<'_>> {
    let mut all: BTreeMap<_, Numbered<'_>> = BTreeMap::new();
    for (number, packet) in (1..).zip(&recording.packets) {
        let point = recording.interfaces.get(packet.interface as usize).map(|point| point.name.as_str());
        let at = |host: u32| recording.hosts.get(host as usize).map(String::as_str) == point;
        if packet.note.is_none() && packet.segment.is_some() {
            if at(packet.from) {
                all.entry((packet.from, true)).or_default().push_back((number, packet));
            } else if at(packet.to) {
                all.entry((packet.to, false)).or_default().push_back((number, packet));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge;
    use tcpassay_case::params::Value;
    use tcpassay_measure::CollectOptions;
    use tcpassay_sim::{SimOptions, run};
    use tcpassay_units::Seed;

    fn lossy() -> Recording {
        let rows = [
            ("link.rate", "20Mbit"),
            ("link.delay", "5ms"),
            ("link.loss", "2%"),
            ("app.flow_size", "200KB"),
            ("app.duration", "20s"),
            ("sender/stack.implementation", "smoltcp"),
            ("sender/stack.timestamps", "on"),
        ];
        let triples = rows.map(|(path, value)| (path.to_owned(), Value::Text(value.to_owned())));
        let case = tcpassay_case::Case::from_triples(&BTreeMap::from(triples)).expect("a case");
        let collect = CollectOptions { events: true, packets: true, ..CollectOptions::default() };
        run(&case, Seed(1), &SimOptions { collect, ..SimOptions::default() }).recording
    }

    #[test]
    fn each_segment_of_a_run_with_another_tcp_has_its_packet_and_a_timestamp_that_is_missing_is_found() {
        let mut recording = lossy();
        let own = OwnPackets::of(&recording).expect("smoltcp with packets");
        assert_eq!(own.ends.iter().map(|end| end.lacks.len()).sum::<usize>(), 0);
        let segments = own.rows.iter().filter(|row| **row > 0).count();
        assert!(segments > 300 && own.packets.len() == segments + 1, "{segments}");
        assert!(own.packets[1..].iter().all(|packet| packet.stamps.is_some()));
        assert_eq!(judge(&recording, &["timestamp-missing"]), []);

        let sender = recording.interfaces.iter().position(|point| point.name == recording.hosts[0]);
        let sender = u32::try_from(sender.expect("it was captured there")).expect("few");
        let data = recording.packets.iter_mut().filter(|p| p.interface == sender && p.from == 0);
        let mut data = data.filter(|p| p.segment.is_some_and(|s| s.len > 0));
        data.nth(50).and_then(|packet| packet.segment.as_mut()).expect("data").options.timestamps = None;
        let found = judge(&recording, &["timestamp-missing"]);
        assert_eq!(
            found.iter().map(|one| (one.oracle, one.host, one.count)).collect::<Vec<_>>(),
            [("timestamp-missing", 0, 1)]
        );
    }

    #[test]
    fn a_run_of_the_model_alone_has_none() {
        let mut recording = lossy();
        recording.header.stacks.clear();
        assert!(OwnPackets::of(&recording).is_none());
    }
}
