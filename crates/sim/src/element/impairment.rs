//! Corruption and duplication of packets. Neither takes time.

use crate::engine::{Core, ElementContext, PacketId};
use tcpassay_case::draws::Chances;
use tcpassay_units::Seed;

/// Corrupts packets. The checksum of the receiving host detects the damage and the host drops the packet, so that
/// corrupted packets use capacity of the path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CorruptSpec {
    /// Probability, 0 to 1.
    pub probability: f64,
}

/// Duplicates packets; the copy follows immediately.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DuplicateSpec {
    /// Probability, 0 to 1.
    pub probability: f64,
}

#[derive(Clone, Debug)]
pub(crate) enum Impairment {
    Corrupt(Chances),
    Duplicate(Chances),
}

impl CorruptSpec {
    pub(super) fn make(self, name: &str, seed: Seed) -> Impairment {
        let chances = Chances::new(self.probability, seed.stream(&format!("{name}.corrupt")));
        Impairment::Corrupt(chances)
    }
}

impl DuplicateSpec {
    pub(super) fn make(self, name: &str, seed: Seed) -> Impairment {
        let chances = Chances::new(self.probability, seed.stream(&format!("{name}.duplicate")));
        Impairment::Duplicate(chances)
    }
}

impl Impairment {
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        match self {
            Impairment::Corrupt(chances) => {
                core.packets[id].corrupt |= chances.hits();
                ctx.forward(core, id);
            }
            Impairment::Duplicate(chances) => {
                let twice = chances.hits();
                ctx.forward(core, id);
                if twice {
                    let copy = core.packets[id].clone();
                    let copy = core.packets.insert(copy);
                    ctx.made(1);
                    ctx.forward(core, copy);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::test_net::{TestPath, numbered};
    use crate::engine::{DropReason, NodeId};

    #[test]
    fn a_damaged_packet_crosses_the_path_and_is_dropped_by_the_checksum_of_the_host() {
        let mut line = TestPath::new(CorruptSpec { probability: 1.0 });
        line.send(numbered(0, 100));
        assert_eq!(line.arrived.len(), 0);
        let host: NodeId = line.net.nodes().find(|n| n.1 == "b").unwrap().0;
        assert_eq!(line.net.counters(host).dropped[DropReason::Checksum], 1);
        assert_eq!(line.counters().packets_out, 1);
    }

    #[test]
    fn a_duplicate_follows_its_original() {
        let mut line = TestPath::new(DuplicateSpec { probability: 1.0 });
        line.send(numbered(0, 100));
        line.send(numbered(1, 100));
        assert_eq!(line.seqs(), [0, 0, 1, 1]);
        assert_eq!((line.counters().made, line.counters().balance()), (2, 0));
    }
}
