//! Sets of kinds of events.

use crate::role::Role;
use tcpassay_measure::EventKind;
use tcpassay_wire::Flags;

/// A set of kinds of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kinds(u32);

impl Kinds {
    /// Every kind.
    pub const ALL: Kinds = Kinds::of(EventKind::ALL);
    /// Segments.
    pub const SEGMENTS: Kinds = Kinds::of(&[EventKind::In, EventKind::Out, EventKind::Retransmit]);

    /// The given kinds.
    pub const fn of(kinds: &[EventKind]) -> Kinds {
        Kinds(0).and(kinds)
    }

    /// These kinds and the given ones.
    pub const fn and(self, kinds: &[EventKind]) -> Kinds {
        let (mut set, mut place) = (self.0, 0);
        while place < kinds.len() {
            set |= 1 << kinds[place] as u32;
            place += 1;
        }
        Kinds(set)
    }

    /// The kinds that are in at least one of the two sets.
    pub const fn or(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// The kinds that are in both sets.
    const fn common(self, other: Kinds) -> Kinds {
        Kinds(self.0 & other.0)
    }

    /// Whether the set contains `kind`.
    pub const fn has(self, kind: EventKind) -> bool {
        self.0 & 1 << kind as u32 != 0
    }
}

/// The kinds of rows that a rule reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reads {
    all: Kinds,
    /// The kinds that it reads of an end that only receives data, and of one that only sends them ([`Role`]).
    receiver_only: Kinds,
    sender_only: Kinds,
}

impl Reads {
    /// A rule that reads these kinds of every end.
    pub const fn all(kinds: Kinds) -> Reads {
        Reads { all: kinds, receiver_only: kinds, sender_only: kinds }
    }

    /// A rule about the data that an end sends.
    pub const fn of_sender(kinds: Kinds) -> Reads {
        Reads::all(kinds).receiver_only(Kinds::of(&[]))
    }

    /// The same, but only these kinds of an end that only receives data.
    pub const fn receiver_only(self, receiver_only: Kinds) -> Reads {
        Reads { receiver_only, ..self }
    }

    /// The same, but only these kinds of an end that only sends data.
    pub const fn sender_only(self, sender_only: Kinds) -> Reads {
        Reads { sender_only, ..self }
    }

    /// The kinds that it reads of an end with this role.
    pub const fn of(self, role: Role) -> Kinds {
        let receiver_only = if role.sends { Kinds::ALL } else { self.receiver_only };
        let sender_only = if role.receives { Kinds::ALL } else { self.sender_only };
        self.all.common(receiver_only).common(sender_only)
    }
}

/// Sorts of segments; a segment can be of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sorts(u8);

impl Sorts {
    /// Every row.
    pub const ALL: Sorts = Sorts(u8::MAX);
    /// Segments with SYN.
    pub const SYN: Sorts = Sorts(1);
    /// Segments with FIN or RST.
    pub const LAST: Sorts = Sorts(1 << 1);
    /// Segments with SACK blocks that are sent.
    pub const SACKS_OUT: Sorts = Sorts(1 << 2);
    /// Segments with SACK blocks that arrive.
    pub const SACKS_IN: Sorts = Sorts(1 << 3);
    /// Data that are sent.
    pub const DATA_OUT: Sorts = Sorts(1 << 4);
    /// Data that arrive.
    pub const DATA_IN: Sorts = Sorts(1 << 5);
    /// Segments without data that are sent.
    pub const EMPTY_OUT: Sorts = Sorts(1 << 6);
    /// Segments without data that arrive.
    pub const EMPTY_IN: Sorts = Sorts(1 << 7);
    /// Number of sets.
    pub const NUMBER: usize = 1 << 8;

    /// The sorts that are in at least one of the two sets.
    pub const fn or(self, other: Sorts) -> Sorts {
        Sorts(self.0 | other.0)
    }

    /// The sorts of a segment.
    #[inline]
    pub fn of(sent: bool, flags: Flags, data: bool, sacks: bool) -> Sorts {
        let way = |out: Sorts, into: Sorts| if sent { out.0 } else { into.0 };
        let segment =
            if data { way(Sorts::DATA_OUT, Sorts::DATA_IN) } else { way(Sorts::EMPTY_OUT, Sorts::EMPTY_IN) };
        let sacks = if sacks { way(Sorts::SACKS_OUT, Sorts::SACKS_IN) } else { 0 };
        let syn = u8::from(flags.has(Flags::SYN));
        let last = u8::from(flags.any(Flags::FIN | Flags::RST)) << 1;
        Sorts(segment | sacks | syn | last)
    }

    /// A number below [`NUMBER`](Sorts::NUMBER).
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Whether the two sets have a common sort.
    pub fn meets(self, index: usize) -> bool {
        usize::from(self.0) & index != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_contains_the_kinds_that_it_was_made_of() {
        let set = Kinds::of(&[EventKind::App]).and(&[EventKind::Sack]).or(Kinds::of(&[EventKind::In]));
        let has: Vec<_> = EventKind::ALL.iter().copied().filter(|kind| set.has(*kind)).collect();
        assert_eq!(has, [EventKind::In, EventKind::App, EventKind::Sack]);
        assert!(EventKind::ALL.iter().all(|kind| Kinds::ALL.has(*kind)));
    }
}
