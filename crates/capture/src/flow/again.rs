//! Classification of packets below the highest position as retransmitted, late, or duplicated by the
//! network, and detection of unnecessary retransmissions.

use super::ids::Ids;
use super::response::Response;
use super::sequence::Behind;
use serde::Serialize;
use tcpassay_units::{Dur, Time};

/// Number of retransmissions that are stored until a DSACK may have arrived.
const MOST: usize = 256;
/// Without a round-trip time: packets of one flight that arrive in another order are this close.
const CLOSE: Dur = Dur::from_millis(3);
/// Packets that come later than this, and than a round trip, did not overtake each other: a device may repeat one with its identification.
const LATEST: Dur = Dur::from_millis(200);

/// Numbers of unnecessary retransmissions, by evidence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Spurious {
    /// The receiver reported the data as duplicate (DSACK, RFC 2883).
    pub dsack: u64,
    /// The ACK echoes a timestamp older than the retransmission (Eifel, RFC 3522).
    pub timestamp: u64,
    /// The ACK came sooner after the retransmission than any answer of the receiver.
    pub early_ack: u64,
    /// The data had been acknowledged at the capture point before they were sent again.
    pub acknowledged_before: u64,
    /// The receiver had reported the data by SACK before they were sent again.
    pub sacked_before: u64,
}

impl Spurious {
    /// Retransmissions; each is counted once.
    pub fn total(&self) -> u64 {
        self.dsack + self.timestamp + self.early_ack + self.acknowledged_before + self.sacked_before
    }
}

/// What the capture shows of the data of a retransmission before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// Not all of them had reached the receiver.
    No,
    /// The cumulative ACK covered them.
    Acknowledged,
    /// SACK covered them.
    Sacked,
}

/// Positions that were sent again, or that arrived late.
#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u64,
    end: u64,
    at: Time,
    stamp: Option<u32>,
    verdict: Verdict,
    acked: bool,
}

/// What is known of a packet below the highest position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// A retransmission; nothing shows that it was unnecessary.
    Open,
    /// It arrived late.
    Late,
    /// A retransmission that proved unnecessary, and was counted.
    Unnecessary,
    /// The same, and a DSACK has reported it.
    Reported,
}

/// The latest packets below the highest position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Again {
    sent: Vec<Sent>,
    /// How many of them are not acknowledged.
    waiting: usize,
    /// The highest position of them.
    last: u64,
    pub spurious: Spurious,
}

/// Whether a packet that fills a hole is late, rather than sent again; `round_trip` is the shortest one.
///
/// A timestamp older than that of the packet before which it should have arrived shows that it was sent earlier, a newer one that it was
/// sent later. Otherwise the identifications do, if the host counts its packets (`ids`), then time: no sender can retransmit before a round trip
/// has passed. Without one, identifications that are close to each other are believed, too.
pub(crate) fn is_late(packet: Behind, behind: Behind, round_trip: Option<Dur>, ids: Ids) -> bool {
    if let (Some(own), Some(other)) = (packet.stamp, behind.stamp) {
        let ahead = own.wrapping_sub(other).cast_signed();
        if ahead != 0 {
            return ahead < 0;
        }
    }
    let waited = packet.at.since(behind.at);
    match ids.ahead(packet.id, behind.id) {
        Some(ahead) if ahead > 0 => return false,
        Some(_) if waited < round_trip.map_or(LATEST, |whole| whole.max(LATEST)) => return true,
        _ => {}
    }
    if let Some(round_trip) = round_trip {
        return waited < round_trip.mul_f64(0.9);
    }
    let ahead = packet.id.wrapping_sub(behind.id).cast_signed();
    if packet.id != 0 && behind.id != 0 && (1..256).contains(&ahead.unsigned_abs()) {
        return ahead < 0;
    }
    waited < CLOSE
}

impl Again {
    /// Positions arrived late and were not retransmitted.
    pub fn late(&mut self, start: u64, end: u64, at: Time) {
        self.remember(Sent { start, end, at, stamp: None, verdict: Verdict::Late, acked: false });
    }

    /// Positions were sent again.
    pub fn retransmitted(&mut self, start: u64, end: u64, at: Time, stamp: Option<u32>, known: Known) {
        self.spurious.acknowledged_before += u64::from(known == Known::Acknowledged);
        self.spurious.sacked_before += u64::from(known == Known::Sacked);
        let is_known = known != Known::No;
        let verdict = if is_known { Verdict::Unnecessary } else { Verdict::Open };
        self.remember(Sent { start, end, at, stamp, verdict, acked: is_known });
    }

    /// The receiver reports positions by SACK: as for an ACK, but without an echo of their own timestamp.
    pub fn sacked(&mut self, start: u64, end: u64, at: Time, receiver: &Response) {
        let inside = |sent: &&mut Sent| !sent.acked && start <= sent.start && sent.end <= end;
        if self.waiting == 0 {
            return;
        }
        for sent in self.sent.iter_mut().filter(inside) {
            sent.acked = true;
            self.waiting -= 1;
            if sent.verdict == Verdict::Open && is_early(at, sent.at, receiver) {
                self.spurious.early_ack += 1;
                sent.verdict = Verdict::Unnecessary;
            }
        }
    }

    fn remember(&mut self, sent: Sent) {
        if self.sent.len() == MOST {
            let oldest = self.sent.remove(0);
            self.waiting -= usize::from(!oldest.acked);
            self.last = self.sent.iter().map(|sent| sent.end).max().unwrap_or(0);
        }
        self.waiting += usize::from(!sent.acked);
        self.last = self.last.max(sent.end);
        self.sent.push(sent);
    }

    /// An ACK of everything from `una` to `ack`, with the timestamp that it echoes.
    ///
    /// The timestamp is that of the packet that closes the gap at `una`: a receiver does not echo those of packets above (RFC 7323 section 4.3).
    pub fn acknowledged(&mut self, una: u64, ack: u64, at: Time, echo: Option<u32>, receiver: &Response) {
        if self.sent.is_empty() {
            return;
        }
        let waiting = if self.waiting > 0 { self.sent.as_mut_slice() } else { &mut [] };
        for sent in waiting.iter_mut().filter(|sent| !sent.acked && sent.end <= ack) {
            sent.acked = true;
            self.waiting -= 1;
            if sent.verdict != Verdict::Open {
                continue;
            }
            let older = match (echo, sent.stamp) {
                (Some(echo), Some(stamp)) if sent.start <= una => echo.wrapping_sub(stamp).cast_signed() < 0,
                _ => false,
            };
            let early = is_early(at, sent.at, receiver);
            self.spurious.timestamp += u64::from(older);
            self.spurious.early_ack += u64::from(early && !older);
            if older || early {
                sent.verdict = Verdict::Unnecessary;
            }
        }
        // A DSACK comes with the ACK of the copy, at most a round trip after the ACK of the original.
        if self.sent.len() > MOST / 2 || self.last + (64 << 20) < ack {
            self.sent.retain(|sent| {
                !sent.acked || sent.verdict == Verdict::Open && at.since(sent.at) < Dur::from_secs(5)
            });
            self.last = self.sent.iter().map(|sent| sent.end).max().unwrap_or(0);
        }
    }

    /// The receiver reports positions as duplicate; false when no retransmission of them is known.
    ///
    /// One report is about one copy of each position: about one that has proved unnecessary already, otherwise about the latest one.
    pub fn duplicate(&mut self, start: u64, end: u64) -> bool {
        let of = |sent: &Sent| sent.start < end && start < sent.end;
        let known = self.sent.iter().any(of);
        let mut explained: Vec<(u64, u64)> = Vec::new();
        for wanted in [Verdict::Unnecessary, Verdict::Open] {
            for sent in self.sent.iter_mut().rev().filter(|sent| of(sent) && sent.verdict == wanted) {
                if explained.iter().any(|(from, to)| sent.start < *to && *from < sent.end) {
                    continue;
                }
                explained.push((sent.start, sent.end));
                self.spurious.dsack += u64::from(wanted == Verdict::Open);
                sent.verdict = Verdict::Reported;
            }
        }
        known
    }

    /// Whether some of the positions were sent again, or arrived late.
    pub fn covers(&self, start: u64, end: u64) -> bool {
        self.sent.iter().any(|sent| sent.start < end && start < sent.end)
    }
}

/// Whether an answer is sooner after a retransmission than any answer of the receiver.
fn is_early(at: Time, sent: Time, receiver: &Response) -> bool {
    receiver.least().is_some_and(|least| at.since(sent) < least.mul_f64(0.75))
}
