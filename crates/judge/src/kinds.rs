//! Sets of kinds of events.

use crate::role::Role;
use tcpassay_measure::EventKind;

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
    /// The kinds that it reads of an end that sends no data, and of one to which no data are sent ([`Role`]).
    silent: Kinds,
    deaf: Kinds,
}

impl Reads {
    /// A rule that reads these kinds of every end.
    pub const fn all(kinds: Kinds) -> Reads {
        Reads { all: kinds, silent: kinds, deaf: kinds }
    }

    /// A rule about the data that an end sends.
    pub const fn of_sender(kinds: Kinds) -> Reads {
        Reads { silent: Kinds::of(&[]), ..Reads::all(kinds) }
    }

    /// This rule, which reads only these kinds of an end that sends no data.
    pub const fn silent(self, silent: Kinds) -> Reads {
        Reads { silent, ..self }
    }

    /// This rule, which reads only these kinds of an end to which no data are sent.
    pub const fn deaf(self, deaf: Kinds) -> Reads {
        Reads { deaf, ..self }
    }

    /// The kinds that it reads of an end with this role.
    pub const fn of(self, role: Role) -> Kinds {
        let silent = if role.sends { Kinds::ALL } else { self.silent };
        let deaf = if role.hears { Kinds::ALL } else { self.deaf };
        self.all.common(silent).common(deaf)
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
