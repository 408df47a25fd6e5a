//! Packets of the script and of the stack: to and fro, and what differs.

use super::tcp_options::counters_of;
use crate::ast::{TcpOption, TcpPacket};
use std::collections::BTreeMap;
use tcpassay_units::SeqNum;
use tcpassay_wire::{Flags, Options, SackBlock, Segment, Timestamps};

/// How the numbers of one connection map.
#[derive(Clone, Debug)]
pub struct SequenceMap {
    /// Our initial sequence number.
    pub iss: SeqNum,
    /// What the script calls it.
    pub script_iss: u32,
    /// The peer's, which the script chose.
    pub irs: SeqNum,
    /// Timestamps that the script wrote for ours.
    stamps: BTreeMap<u32, u32>,
    /// The first of them: live, script.
    first_stamp: Option<(u32, u32)>,
    /// Both ends know both numbers: another SYN of the peer changes nothing.
    pub settled: bool,
}

impl SequenceMap {
    /// Of a connection whose initial sequence number is `iss`.
    pub fn new(iss: SeqNum) -> SequenceMap {
        SequenceMap {
            iss,
            script_iss: 0,
            irs: SeqNum::new(0),
            stamps: BTreeMap::new(),
            first_stamp: None,
            settled: false,
        }
    }

    fn ours(&self, syn: bool) -> u32 {
        if syn { self.iss.get().wrapping_sub(self.script_iss) } else { self.iss.get() }
    }

    fn theirs(&self, syn: bool) -> u32 {
        if syn { 0 } else { self.irs.get() }
    }

    /// The script's name of one of our timestamps.
    fn stamp_out(&self, live: u32) -> u32 {
        self.first_stamp.map_or(live, |(first, script)| script.wrapping_add(live.wrapping_sub(first)))
    }

    /// The timestamp of ours that the script means.
    fn stamp_in(&self, script: u32) -> u32 {
        if script == 0 && !self.stamps.contains_key(&0) {
            return 0;
        }
        let by_first = || self.first_stamp.map(|(live, first)| live.wrapping_add(script.wrapping_sub(first)));
        self.stamps.get(&script).copied().or_else(by_first).unwrap_or(script)
    }

    /// The script expects `script` where the stack sent `live`.
    pub fn learn_stamp(&mut self, live: u32, script: u32) {
        self.first_stamp.get_or_insert((live, script));
        self.stamps.insert(script, live);
    }

    /// The segment that the script injects.
    ///
    /// # Errors
    /// What the model cannot take.
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
                // Fast Open's goes beside the segment.
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

    /// The packet that the script injects, with live numbers.
    ///
    /// # Errors
    /// A timestamp that is no number.
    pub fn live(&mut self, tcp: &TcpPacket) -> Result<TcpPacket, String> {
        let syn = tcp.flags.has(Flags::SYN);
        if syn {
            self.irs = SeqNum::new(tcp.seq);
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

    /// A sequence number of ours, of which the script says how far it is behind the SYN.
    pub fn our_number(&self, script: u32) -> u32 {
        script.wrapping_add(self.iss.get())
    }

    /// A segment of the stack in the words of the script; `options` are its options in the order of the header.
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

    /// An option of the stack in the words of the script.
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
