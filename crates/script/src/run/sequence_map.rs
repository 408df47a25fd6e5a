//! Conversion of sequence numbers and timestamps between the script and the target.
//!
//! As in packetdrill, the sequence number of a SYN is absolute, and all others are relative to it. The timestamps in the script
//! are mapped to those of the target by the packets that carried them.

use super::tcp_options::counters_of;
use crate::ast::{TcpOption, TcpPacket};
use std::collections::BTreeMap;
use tcpassay_units::SeqNum;
use tcpassay_wire::{Flags, Options, SackBlock, Segment, Timestamps};

/// The sequence numbers and timestamps of one connection in the script and in the target.
#[derive(Clone, Debug)]
pub struct SequenceMap {
    /// The initial sequence number of the target.
    pub iss: SeqNum,
    /// The same number in the script.
    pub script_iss: u32,
    /// The initial sequence number of the peer, which the script chooses.
    pub irs: SeqNum,
    /// Timestamps of the target by their value in the script.
    stamps: BTreeMap<u32, u32>,
    /// The first timestamp: of the target, in the script.
    first_stamp: Option<(u32, u32)>,
    /// The handshake has started. Another SYN of the peer does not change `irs`.
    pub settled: bool,
    /// The last SYN of the peer: its sequence number, and the position after its data.
    syn: Option<(SeqNum, u32)>,
}

impl SequenceMap {
    /// The map of a connection whose initial sequence number is `iss`.
    pub fn new(iss: SeqNum) -> SequenceMap {
        SequenceMap {
            iss,
            script_iss: 0,
            irs: SeqNum::new(0),
            stamps: BTreeMap::new(),
            first_stamp: None,
            settled: false,
            syn: None,
        }
    }

    /// The target has sent a segment: for a target that does not show the state of its connections.
    ///
    /// The first acknowledgment settles the connection. A later SYN of the peer then belongs to it (RFC 9293 section 3.10.7.4, RFC 5961
    /// section 4), unless the target answers it with a SYN that acknowledges it: this is another connection.
    pub fn answered(&mut self, segment: &Segment) {
        let syn = segment.flags.has(Flags::SYN);
        if syn {
            self.iss = segment.seq;
        }
        if !segment.flags.has(Flags::ACK) || segment.flags.has(Flags::RST) {
            return;
        }
        self.settled = true;
        let acknowledged =
            |(seq, len): &(SeqNum, u32)| (1..=1 + len).contains(&segment.ack.get().wrapping_sub(seq.get()));
        if let Some((seq, _)) = self.syn.filter(|offered| syn && acknowledged(offered)) {
            self.irs = seq;
        }
    }

    fn ours(&self, syn: bool) -> u32 {
        if syn { self.iss.get().wrapping_sub(self.script_iss) } else { self.iss.get() }
    }

    fn theirs(&self, syn: bool) -> u32 {
        if syn { 0 } else { self.irs.get() }
    }

    /// The value in the script of a timestamp of the target.
    fn stamp_out(&self, live: u32) -> u32 {
        self.first_stamp.map_or(live, |(first, script)| script.wrapping_add(live.wrapping_sub(first)))
    }

    /// The timestamp of the target for a value in the script.
    fn stamp_in(&self, script: u32) -> u32 {
        if script == 0 && !self.stamps.contains_key(&0) {
            return 0;
        }
        let by_first = || self.first_stamp.map(|(live, first)| live.wrapping_add(script.wrapping_sub(first)));
        self.stamps.get(&script).copied().or_else(by_first).unwrap_or(script)
    }

    /// Records that the script expects the timestamp `script` where the target sent `live`.
    pub fn learn_stamp(&mut self, live: u32, script: u32) {
        self.first_stamp.get_or_insert((live, script));
        self.stamps.insert(script, live);
    }

    /// The segment of an injected packet, with the numbers of the target.
    ///
    /// # Errors
    /// An option value that a segment cannot carry.
    pub fn inject(&mut self, tcp: &TcpPacket) -> Result<Segment, String> {
        let syn = tcp.flags.has(Flags::SYN);
        if syn && !self.settled {
            self.irs = SeqNum::new(tcp.seq);
        }
        let mut options = Options::default();
        let mut counters = None;
        for opt in tcp.options.iter().flatten() {
            match opt {
                TcpOption::Mss(n) => options.mss = Some(*n),
                TcpOption::WindowScale(n) => options.window_scale = Some(*n),
                TcpOption::SackPermitted => options.sack_permitted = true,
                TcpOption::Timestamps(val, ecr) => {
                    let val = val.ok_or("a timestamp to inject must be a number")?;
                    let ecr = ecr.ok_or("a timestamp to inject must be a number")?;
                    options.timestamps = Some(Timestamps { val, ecr: self.stamp_in(ecr) });
                }
                TcpOption::Sack(blocks) => {
                    let ours = self.ours(syn);
                    let live = |n: &u32| SeqNum::new(n.wrapping_add(ours));
                    options.sack =
                        blocks.iter().map(|(s, e)| SackBlock { start: live(s), end: live(e) }).collect();
                }
                // `fast_open_of` handles the Fast Open option.
                TcpOption::Nop | TcpOption::Eol | TcpOption::FastOpen { .. } | TcpOption::Md5(_) => {}
                TcpOption::AccurateEcn(text) => counters = Some(counters_of(text)?),
            }
        }
        if let Some(counters) = counters {
            if options.sack.len() > 3 {
                return Err("four SACK blocks beside accurate ECN".to_owned());
            }
            options.set_accecn(&counters);
        }
        let ack = tcp.ack.map_or(SeqNum::new(0), |n| SeqNum::new(n.wrapping_add(self.ours(syn))));
        Ok(Segment {
            seq: SeqNum::new(tcp.seq.wrapping_add(self.theirs(syn))),
            ack,
            flags: tcp.flags,
            window: tcp.window.unwrap_or(0),
            urgent: tcp.urgent.unwrap_or(0),
            len: tcp.len,
            options,
        })
    }

    /// An injected packet with the numbers of the target.
    ///
    /// # Errors
    /// A timestamp is not a number.
    pub fn live(&mut self, tcp: &TcpPacket) -> Result<TcpPacket, String> {
        let syn = tcp.flags.has(Flags::SYN);
        if syn {
            self.syn = Some((SeqNum::new(tcp.seq), tcp.len));
            if !self.settled {
                self.irs = SeqNum::new(tcp.seq);
            }
        }
        let (ours, theirs) = (self.ours(syn), self.theirs(syn));
        let option = |opt: &TcpOption| match opt {
            TcpOption::Timestamps(Some(val), Some(ecr)) => {
                Ok(TcpOption::Timestamps(Some(*val), Some(self.stamp_in(*ecr))))
            }
            TcpOption::Timestamps(..) => Err("a timestamp to inject must be a number".to_owned()),
            TcpOption::Sack(blocks) => Ok(TcpOption::Sack(
                blocks.iter().map(|(s, e)| (s.wrapping_add(ours), e.wrapping_add(ours))).collect(),
            )),
            other => Ok(other.clone()),
        };
        let options = tcp.options.iter().flatten().map(option).collect::<Result<_, _>>()?;
        Ok(TcpPacket {
            seq: tcp.seq.wrapping_add(theirs),
            ack: tcp.ack.map(|n| n.wrapping_add(ours)),
            options: Some(options),
            ..tcp.clone()
        })
    }

    /// A sequence number of the target that the script gives relative to the SYN.
    pub fn our_number(&self, script: u32) -> u32 {
        script.wrapping_add(self.iss.get())
    }

    /// A segment of the target with the numbers of the script. `options` are its options in the order of the header.
    pub fn show(&self, live: &Segment, options: &[TcpOption]) -> TcpPacket {
        let syn = live.flags.has(Flags::SYN);
        let ack = live.flags.has(Flags::ACK);
        TcpPacket {
            flags: live.flags,
            seq: live.seq.get().wrapping_sub(self.ours(syn)),
            any_seq: false,
            len: live.len,
            ack: ack.then(|| live.ack.get().wrapping_sub(self.theirs(syn))),
            window: Some(live.window),
            urgent: live.flags.has(Flags::URG).then_some(live.urgent),
            options: Some(options.iter().map(|opt| self.option(opt, syn)).collect()),
        }
    }

    /// An option of the target with the numbers of the script.
    fn option(&self, live: &TcpOption, syn: bool) -> TcpOption {
        let theirs = self.theirs(syn);
        match live {
            TcpOption::Timestamps(val, ecr) => {
                TcpOption::Timestamps(val.map(|val| self.stamp_out(val)), *ecr)
            }
            TcpOption::Sack(blocks) => TcpOption::Sack(
                blocks.iter().map(|(s, e)| (s.wrapping_sub(theirs), e.wrapping_sub(theirs))).collect(),
            ),
            other => other.clone(),
        }
    }
}
