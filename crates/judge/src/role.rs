//! What an end of a connection does in the whole run: most ends of bulk transfers only send data, or only receive them.

use tcpassay_measure::reason::{AckReason, AppCall, Timer};
use tcpassay_measure::{EventKind, Recording};
use tcpassay_wire::Flags;

/// What an end does in the whole run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Role {
    /// It has something to send beside its SYN and ACKs, or its log has rows of a sender of data.
    pub sends: bool,
    /// Its peer has something to send, or its log has rows of a receiver of data.
    pub receives: bool,
}

impl Role {
    /// Number of values of [`index`](Role::index).
    pub const NUMBER: usize = 4;
    /// Nothing is known: every rule applies.
    pub const ANY: Role = Role { sends: true, receives: true };

    /// A number below [`NUMBER`](Role::NUMBER).
    pub fn index(self) -> usize {
        usize::from(self.sends) << 1 | usize::from(self.receives)
    }

    /// All roles, in the order of [`index`](Role::index).
    pub fn all() -> [Role; Role::NUMBER] {
        std::array::from_fn(|index| Role { sends: index & 2 != 0, receives: index & 1 != 0 })
    }
}

/// The role of each end of a recording of the model. A row that no end without data of its own, or no end without data of its peer, can have
/// gives both roles, so that a fault hides no row from a rule. `peers`: for each end the other one of its connection.
pub(crate) fn roles(recording: &Recording, peers: &[usize]) -> Vec<Role> {
    let mut sends = vec![false; peers.len()];
    let mut receives = vec![false; peers.len()];
    let mut answers = vec![0; peers.len()];
    let events = &recording.events;
    let place = |name| events.words().iter().position(|word| word == name);
    let (read, answer) = (place(AppCall::Read.name()), place(AckReason::Answer.name()));
    let (handshake, delayed) = (place(Timer::Handshake.name()), place(Timer::DelayedAck.name()));
    let whys = events.whys();
    for (row, ((kind, flow), why)) in events.kinds().zip(whys).enumerate() {
        let Some(flow) = flow.map(|flow| flow as usize).filter(|flow| *flow < peers.len()) else { continue };
        let why = Some(why);
        match kind {
            EventKind::Out if sends[flow] => {}
            EventKind::Out => {
                sends[flow] = events.range(row).1 > 0 || events.flags(row).any(Flags::FIN | Flags::RST);
            }
            EventKind::In if receives[flow] => {}
            EventKind::In => {
                receives[flow] = events.range(row).1 > 0 || events.flags(row).any(Flags::FIN | Flags::RST);
            }
            EventKind::App if why == read => receives[flow] = true,
            // The ACK of a SYN-ACK, and nothing else, is the answer of an end to which no data are sent.
            EventKind::AckNow if why == answer => {
                answers[flow] += 1;
                receives[flow] |= answers[flow] > 1;
            }
            EventKind::AckNow | EventKind::AckDelay | EventKind::AckForget | EventKind::Refused => {
                receives[flow] = true;
            }
            EventKind::Sack | EventKind::State => {}
            EventKind::TimerSet | EventKind::TimerCancel if why == handshake => {}
            EventKind::TimerSet | EventKind::TimerCancel | EventKind::TimerFire if why == delayed => {
                receives[flow] = true;
            }
            _ => sends[flow] = true,
        }
    }
    let role = |end: usize| Role {
        sends: sends[end] || receives[peers[end]],
        receives: receives[end] || sends[peers[end]],
    };
    (0..peers.len()).map(role).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tcpassay_measure::EventRow;
    use tcpassay_units::Time;

    fn row(flow: u32, kind: EventKind, why: &'static str, len: u32) -> EventRow {
        let segment = matches!(kind, EventKind::In | EventKind::Out);
        EventRow {
            why: why.into(),
            len: segment.then_some(len),
            flags: segment.then_some(Flags::ACK),
            ..EventRow::new(Time::ZERO, flow, Some(flow), kind)
        }
    }

    fn of(rows: &[EventRow]) -> Vec<(bool, bool)> {
        let recording = Recording { events: rows.iter().cloned().collect(), ..Recording::default() };
        roles(&recording, &[1, 0]).into_iter().map(|role| (role.sends, role.receives)).collect()
    }

    /// Flow 0 sends data, which flow 1 acknowledges and reads.
    fn bulk() -> Vec<EventRow> {
        vec![
            row(0, EventKind::TimerSet, "Handshake", 0),
            row(0, EventKind::AckNow, "Answer", 0),
            row(0, EventKind::App, "write", 0),
            row(0, EventKind::Out, "", 1000),
            row(1, EventKind::In, "", 1000),
            row(1, EventKind::AckDelay, "Delay", 0),
            row(1, EventKind::App, "read", 0),
            row(1, EventKind::TimerFire, "DelayedAck", 0),
            row(1, EventKind::Out, "", 0),
            row(0, EventKind::In, "", 0),
            row(0, EventKind::Rtt, "", 0),
        ]
    }

    #[test]
    fn one_end_of_a_bulk_transfer_sends_and_the_other_one_receives() {
        assert_eq!(of(&bulk()), [(true, false), (false, true)]);
        assert_eq!(of(&[]), [(false, false), (false, false)]);
    }

    #[test]
    fn a_row_that_the_role_of_its_end_does_not_explain_gives_both_ends_both_roles() {
        let both = [(true, true), (true, true)];
        for odd in [
            row(1, EventKind::Out, "", 1),
            row(1, EventKind::App, "write", 0),
            row(1, EventKind::Rtt, "", 0),
            row(1, EventKind::Window, "ack", 0),
            row(1, EventKind::Retransmit, "", 0),
            row(1, EventKind::TimerFire, "Keepalive", 0),
            row(0, EventKind::In, "", 1),
            row(0, EventKind::AckNow, "Answer", 0),
            row(0, EventKind::AckNow, "Quick", 0),
            row(0, EventKind::AckDelay, "Delay", 0),
            row(0, EventKind::Refused, "paws", 0),
        ] {
            let what = format!("{odd:?}");
            assert_eq!(of(&[bulk(), vec![odd]].concat()), both, "{what}");
        }
    }

    #[test]
    fn an_end_without_a_peer_in_the_log_is_its_own_peer() {
        let recording = Recording { events: bulk().into_iter().take(4).collect(), ..Recording::default() };
        assert_eq!(roles(&recording, &[0]), [Role::ANY]);
    }
}
