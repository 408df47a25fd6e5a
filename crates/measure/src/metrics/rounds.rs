//! Statistics per round trip of each flow.

use crate::event::EventKind;
use crate::reason::Timer;
use crate::recording::Recording;
use crate::serial;
use serde::Serialize;
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Flags;

/// One round trip of a flow. It begins with the first transmission of a segment and ends with the ACK that covers all
/// data sent up to that point.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RttRound {
    /// Index of the flow in the recording.
    pub flow: u32,
    /// Number of the round trip, from 0 for each flow.
    pub round: u32,
    /// Start time.
    #[serde(rename = "start_ns", with = "serial::time")]
    pub start: Time,
    /// Duration; the last round trip lasts until the last event of the flow.
    #[serde(rename = "length_ns", with = "serial::dur")]
    pub length: Dur,
    /// Payload bytes sent for the first time.
    pub sent_bytes: u64,
    /// Payload bytes retransmitted.
    pub retransmitted_bytes: u64,
    /// Bytes newly acknowledged.
    pub acked_bytes: u64,
    /// ACKs received.
    pub acks: u32,
    /// ACKs received with ECE.
    pub ece_acks: u32,
    /// Bytes marked lost.
    pub lost_bytes: u64,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Mean of the round-trip time samples.
    pub rtt_ns: Option<u64>,
    /// Congestion window at the end.
    pub cwnd_bytes: Option<u64>,
}

/// The state of a flow during counting.
struct RoundCounter {
    round: RttRound,
    /// The sequence position whose acknowledgement ends the round trip.
    end: u64,
    /// The highest position sent.
    sent: u64,
    acked: u64,
    rtts: (u64, u64),
    last: Time,
}

/// The round trips of all flows, flow by flow, computed from the event log; empty without an event log.
pub fn rounds(recording: &Recording) -> Vec<RttRound> {
    let mut all: Vec<Vec<RttRound>> = vec![Vec::new(); recording.flows.len()];
    let mut under_way: Vec<Option<RoundCounter>> = recording.flows.iter().map(|_| None).collect();
    for event in recording.events.iter() {
        let Some((flow, place)) = event.flow.and_then(|f| Some((f, under_way.get_mut(f as usize)?))) else {
            continue;
        };
        let (seq, len) = (event.seq.unwrap_or(0), event.len.map_or(0, u64::from));
        if event.kind == EventKind::Out && len > 0 && place.is_none() {
            *place = Some(RoundCounter::new(flow, event.at, seq, len));
        }
        let Some(counting) = place else { continue };
        counting.last = event.at;
        let round = &mut counting.round;
        match event.kind {
            EventKind::Out if len > 0 => {
                round.sent_bytes += len;
                counting.sent = counting.sent.max(seq + len);
            }
            EventKind::Retransmit => round.retransmitted_bytes += len,
            EventKind::Lost => round.lost_bytes += len,
            EventKind::TimerFire if event.why == Timer::Rto.name() => {
                round.timeouts += 1;
            }
            EventKind::Window => round.cwnd_bytes = event.cwnd.map(Bytes::get).or(round.cwnd_bytes),
            EventKind::Rtt => {
                let rtts = &mut counting.rtts;
                *rtts = (rtts.0 + event.value.unwrap_or(0), rtts.1 + 1);
            }
            EventKind::In if event.flags.is_some_and(|f| f.has(Flags::ACK)) => {
                round.acks += 1;
                round.ece_acks += u32::from(event.flags.is_some_and(|f| f.has(Flags::ECE)));
                let ack = event.ack.unwrap_or(0);
                round.acked_bytes += ack.saturating_sub(counting.acked);
                counting.acked = counting.acked.max(ack);
                if ack >= counting.end {
                    all[flow as usize].push(counting.finish(event.at));
                }
            }
            _ => {}
        }
    }
    for (rounds, counting) in all.iter_mut().zip(under_way) {
        if let Some(mut counting) = counting.filter(|c| c.round.acks > 0 || c.round.sent_bytes > 0) {
            let last = counting.last;
            rounds.push(counting.finish(last));
        }
    }
    all.into_iter().flatten().collect()
}

impl RoundCounter {
    fn new(flow: u32, at: Time, seq: u64, len: u64) -> RoundCounter {
        RoundCounter {
            round: RttRound::new(flow, 0, at),
            end: seq + len,
            sent: seq,
            acked: seq,
            rtts: (0, 0),
            last: at,
        }
    }

    /// Ends the round trip and begins the next one.
    fn finish(&mut self, at: Time) -> RttRound {
        let next = RttRound {
            cwnd_bytes: self.round.cwnd_bytes,
            ..RttRound::new(self.round.flow, self.round.round + 1, at)
        };
        let mut round = std::mem::replace(&mut self.round, next);
        round.length = at.since(round.start);
        round.rtt_ns = self.rtts.0.checked_div(self.rtts.1);
        self.rtts = (0, 0);
        // With no data outstanding, the next round trip ends with the data that is sent next.
        self.end = self.sent.max(self.acked + 1);
        round
    }
}

impl RttRound {
    fn new(flow: u32, round: u32, start: Time) -> RttRound {
        RttRound {
            flow,
            round,
            start,
            length: Dur::ZERO,
            sent_bytes: 0,
            retransmitted_bytes: 0,
            acked_bytes: 0,
            acks: 0,
            ece_acks: 0,
            lost_bytes: 0,
            timeouts: 0,
            rtt_ns: None,
            cwnd_bytes: None,
        }
    }
}
