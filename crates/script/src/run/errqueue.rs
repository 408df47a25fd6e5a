//! The error queue of a socket: what became of writes without a copy (`MSG_ZEROCOPY`), and when data left and were acknowledged
//! (`SO_TIMESTAMPING`).
//!
//! Sources: `__msg_zerocopy_callback`, `skb_zerocopy_notify_extend`, `tcp_tx_timestamp`, `__skb_tstamp_tx` and `tcp_ack_tstamp` of Linux.
//! The interface of packetdrill copies what is sent, and so says every notification here.

use super::calls::{Attempt, Tried, names, unsupported};
use super::model::Model;
use super::stack::Trouble;
use crate::ast::{Call, Expr};
use std::collections::VecDeque;
use tcpassay_units::{Dur, Time};

/// Buffers of a segment without a copy (`MAX_SKB_FRAGS`): a vector of more pieces fills several.
const FRAGMENTS: usize = 17;

/// When a byte of the stream is told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Scheduled,
    Sent,
    Acknowledged,
}

/// An entry of the queue.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Note {
    /// Writes of these numbers are done with.
    Done(u32, u32),
    /// A byte reached a stage.
    Stamp { stage: Stage, at: Time, byte: u64, tail: bool },
}

/// A byte that is watched: the last one of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Watched {
    /// Position in the stream, from zero.
    at: u64,
    stages: Stages,
    left: bool,
}

/// `SO_TIMESTAMPING`, as far as it concerns what is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "flags of the interface")]
pub(super) struct Stages {
    scheduled: bool,
    sent: bool,
    acknowledged: bool,
    /// `SOF_TIMESTAMPING_OPT_ID`
    numbered: bool,
    /// `SOF_TIMESTAMPING_OPT_TSONLY`: no payload comes with it.
    only: bool,
    /// `SOF_TIMESTAMPING_SOFTWARE`
    told: bool,
}

impl Stages {
    /// By the names of the flags.
    pub fn of(names: &[&str]) -> Stages {
        let has = |name: &str| names.iter().any(|n| n.strip_prefix("SOF_TIMESTAMPING_") == Some(name));
        Stages {
            scheduled: has("TX_SCHED"),
            sent: has("TX_SOFTWARE"),
            acknowledged: has("TX_ACK"),
            numbered: has("OPT_ID"),
            only: has("OPT_TSONLY"),
            told: has("SOFTWARE"),
        }
    }

    fn any(self) -> bool {
        self.scheduled || self.sent || self.acknowledged
    }
}

/// The error queue of a connection, and what will go there.
#[derive(Clone, Debug, Default)]
pub(super) struct ErrorQueue {
    notes: VecDeque<Note>,
    /// The number of the next write without a copy.
    next: u32,
    /// Such writes that are not acknowledged: the position of their end.
    copying: VecDeque<(u64, u32)>,
    watched: Vec<Watched>,
    /// Bytes written so far.
    written: u64,
    /// Bytes acknowledged when stamps were asked for: from there they are numbered.
    base: u64,
    /// How often somebody was woken because of the queue.
    pub wakes: u64,
}

impl ErrorQueue {
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Something is yet to be told of.
    pub fn waits(&self) -> bool {
        !self.watched.is_empty() || !self.copying.is_empty()
    }

    /// Stamps were asked for when `acked` bytes were acknowledged.
    pub fn ask_stamps(&mut self, acked: u64) {
        self.base = acked;
    }

    /// A call has written `n` bytes.
    pub fn wrote(&mut self, n: u64, zero_copy: bool, stages: Stages) {
        if n == 0 {
            return;
        }
        self.written += n;
        if zero_copy {
            self.copying.push_back((self.written, self.next));
            self.next += 1;
        }
        if stages.any() {
            self.watched.push(Watched { at: self.written - 1, stages, left: false });
        }
    }

    fn stamp(&mut self, stage: Stage, at: Time, watched: Watched) {
        if !watched.stages.told {
            return;
        }
        let byte = if watched.stages.numbered { watched.at - self.base.min(watched.at) } else { 0 };
        self.notes.push_back(Note::Stamp { stage, at, byte, tail: !watched.stages.only });
        self.wakes += 1;
    }

    /// Bytes `start..end` of the stream left.
    pub fn left(&mut self, now: Time, start: u64, end: u64) {
        for i in 0..self.watched.len() {
            let watched = self.watched[i];
            if watched.left || !(start..end).contains(&watched.at) {
                continue;
            }
            self.watched[i].left = true;
            if watched.stages.scheduled {
                self.stamp(Stage::Scheduled, now, watched);
            }
            if watched.stages.sent {
                self.stamp(Stage::Sent, now, watched);
            }
        }
    }

    /// `acked` bytes of the stream are acknowledged.
    pub fn acknowledged(&mut self, now: Time, acked: u64) {
        while let Some(watched) = self.watched.first().copied().filter(|w| w.at < acked) {
            self.watched.remove(0);
            if watched.stages.acknowledged {
                self.stamp(Stage::Acknowledged, now, watched);
            }
        }
        while let Some((_, number)) = self.copying.front().copied().filter(|(end, _)| *end <= acked) {
            self.copying.pop_front();
            match self.notes.back_mut() {
                Some(Note::Done(_, last)) if *last + 1 == number => *last = number,
                _ => self.notes.push_back(Note::Done(number, number)),
            }
            self.wakes += 1;
        }
    }
}

/// Where the buffers of a write of `n` bytes end, when more pieces are written without a copy than one buffer has room for.
pub(super) fn fragments(call: &Call, n: u64, zero_copy: bool) -> Vec<u64> {
    let members = match call.args.get(1) {
        Some(Expr::Group(members)) if zero_copy => members.as_slice(),
        _ => return vec![n],
    };
    let Some((_, Expr::List(pieces))) = members.iter().find(|(name, _)| name == "msg_iov") else {
        return vec![n];
    };
    let lens = pieces.iter().map(|piece| match piece {
        Expr::Group(members) => match members.last() {
            Some((_, Expr::Int(n))) => u64::try_from(*n).unwrap_or(0),
            _ => 0,
        },
        _ => 0,
    });
    let lens: Vec<u64> = lens.filter(|&n| n > 0).collect();
    let mut end = 0;
    let ends = lens.chunks(FRAGMENTS).map(|chunk| {
        end += chunk.iter().sum::<u64>();
        end
    });
    let ends: Vec<u64> = ends.collect();
    if ends.is_empty() { vec![n] } else { ends }
}

/// A member of a group by its name.
fn member<'a>(group: &'a [(String, Expr)], name: &str) -> Option<&'a Expr> {
    group.iter().find(|(n, _)| n == name).map(|(_, e)| e)
}

fn is_name(e: Option<&Expr>, wanted: &str) -> bool {
    matches!(e, Some(Expr::Names(names)) if names.as_slice() == [wanted])
}

/// What the script writes for a number or a name of this interface.
fn says(e: Option<&Expr>, number: u64, name: &str) -> bool {
    match e {
        None | Some(Expr::Any) => true,
        Some(Expr::Int(n)) => u64::try_from(*n) == Ok(number),
        Some(Expr::Names(names)) => !name.is_empty() && names.as_slice() == [name],
        _ => false,
    }
}

/// How a note looks, or what the control messages of a script say that it is not.
fn mismatch(note: &Note, messages: &[Expr], tolerance: Dur) -> Option<String> {
    let groups: Vec<&[(String, Expr)]> = messages
        .iter()
        .filter_map(|m| match m {
            Expr::Group(members) => Some(members.as_slice()),
            _ => None,
        })
        .collect();
    let data = |kind: &dyn Fn(&Expr) -> bool| {
        let found = groups.iter().find(|g| member(g, "cmsg_type").is_some_and(kind))?;
        match member(found, "cmsg_data") {
            Some(Expr::Group(members)) => Some(members.as_slice()),
            _ => None,
        }
    };
    let error = data(&|e| {
        is_name(Some(e), "IP_RECVERR")
            || is_name(Some(e), "IPV6_RECVERR")
            || is_name(Some(e), "CMSG_TYPE_RECVERR")
    });
    let Some(error) = error else { return Some("an extended error".to_owned()) };
    let stamp = data(&|e| is_name(Some(e), "SCM_TIMESTAMPING"));
    match *note {
        Note::Done(first, last) => {
            let same = says(member(error, "ee_errno"), 0, "")
                && says(member(error, "ee_origin"), 5, "SO_EE_ORIGIN_ZEROCOPY")
                && says(member(error, "ee_code"), 1, "SO_EE_CODE_ZEROCOPY_COPIED")
                && says(member(error, "ee_info"), first.into(), "")
                && says(member(error, "ee_data"), last.into(), "");
            (!same).then(|| {
                format!(
                    "ee_origin=SO_EE_ORIGIN_ZEROCOPY, ee_code=SO_EE_CODE_ZEROCOPY_COPIED, ee_info={first}, ee_data={last}"
                )
            })
        }
        Note::Stamp { stage, at, byte, .. } => {
            let (number, name) = match stage {
                Stage::Sent => (0, "SCM_TSTAMP_SND"),
                Stage::Scheduled => (1, "SCM_TSTAMP_SCHED"),
                Stage::Acknowledged => (2, "SCM_TSTAMP_ACK"),
            };
            let when = stamp.is_none_or(|stamp| {
                let part = |name| match member(stamp, name) {
                    Some(Expr::Int(n)) => u64::try_from(*n).unwrap_or(0).min(1_000_000_000),
                    _ => 0,
                };
                let wanted = Time::ZERO + Dur::from_secs(part("scm_sec")) + Dur::from_nanos(part("scm_nsec"));
                wanted.since(at).max(at.since(wanted)) <= tolerance
            });
            let same = when
                && says(member(error, "ee_errno"), 42, "ENOMSG")
                && says(member(error, "ee_origin"), 4, "SO_EE_ORIGIN_TIMESTAMPING")
                && says(member(error, "ee_info"), number, name)
                && says(member(error, "ee_data"), byte, "");
            (!same).then(|| format!("ee_info={name}, ee_data={byte} at {at}"))
        }
    }
}

impl Model {
    /// `recvmsg` with `MSG_ERRQUEUE`.
    pub(super) fn receive_error(&mut self, call: &Call, peer: Option<usize>) -> Tried {
        let Some(peer) = peer else { return Ok(Attempt::Error("EAGAIN")) };
        let Some(Expr::Group(message)) = call.args.get(1) else {
            return unsupported(format!("{} with MSG_ERRQUEUE", call.name));
        };
        let queue = &mut self.world.peers[peer].errors;
        let Some(note) = queue.notes.pop_front() else { return Ok(Attempt::Error("EAGAIN")) };
        if let Some(Expr::List(messages)) = member(message, "msg_control") {
            let tolerance = self.settings.tolerance;
            if let Some(live) = mismatch(&note, messages, tolerance) {
                let expected = "another note of the error queue".to_owned();
                return Err(Trouble::Mismatch { expected, live });
            }
        }
        let tail = matches!(note, Note::Stamp { tail: true, .. });
        let live = if tail { ["MSG_ERRQUEUE", "MSG_TRUNC"].as_slice() } else { &["MSG_ERRQUEUE"] };
        let flags: Vec<&str> = match member(message, "msg_flags") {
            Some(Expr::Names(names)) => names.iter().map(String::as_str).collect(),
            _ => live.to_vec(),
        };
        if flags.len() != live.len() || !live.iter().all(|f| flags.contains(f)) {
            return Err(Trouble::Mismatch { expected: flags.join("|"), live: live.join("|") });
        }
        Ok(Attempt::Done(0))
    }

    /// The names of `SO_TIMESTAMPING`, which stand in brackets.
    pub(super) fn stages(args: &[Expr]) -> Stages {
        match args.get(3) {
            Some(Expr::List(items)) => Stages::of(&names(items, 0)),
            _ => Stages::of(&names(args, 3)),
        }
    }
}
