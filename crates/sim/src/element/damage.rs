//! Small impairments: corruption, duplication, ACK thinning. All in no time.

use super::dice::Dice;
use super::{Element, IntoElement};
use crate::engine::{Core, Drop, Io, PacketId};
use tcpassay_units::Seed;

/// Damages packets, which the checksum of the receiving host finds and drops, so that corruption is loss that the path
/// has paid for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CorruptSpec {
    /// From 0 to 1.
    pub probability: f64,
}

/// Sends packets twice, the copy right behind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DuplicateSpec {
    /// From 0 to 1.
    pub probability: f64,
}

/// Keeps one pure ACK in so many of each flow, the first of each group, as return paths do that cannot carry them all
/// (RFC 3449 section 5.2.1 and 5.2.2). At least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThinSpec {
    /// Pure ACKs of which one is kept.
    pub one_in: u16,
}

#[derive(Clone, Debug)]
pub(crate) enum Damage {
    Corrupt(f64, Dice),
    Duplicate(f64, Dice),
    /// Of each flow, how many of the present group have been dropped.
    Thin(u16, Vec<u16>),
}

impl IntoElement for CorruptSpec {
    fn into_element(self, name: &str, seed: Seed) -> Element {
        let dice = Dice::new(seed.stream(&format!("{name}.corrupt")), 0.0);
        Element::Damage(Box::new(Damage::Corrupt(self.probability, dice)))
    }
}

impl IntoElement for DuplicateSpec {
    fn into_element(self, name: &str, seed: Seed) -> Element {
        let dice = Dice::new(seed.stream(&format!("{name}.duplicate")), 0.0);
        Element::Damage(Box::new(Damage::Duplicate(self.probability, dice)))
    }
}

impl IntoElement for ThinSpec {
    fn into_element(self, _: &str, _: Seed) -> Element {
        assert!(self.one_in > 0, "one ACK in none");
        Element::Damage(Box::new(Damage::Thin(self.one_in, Vec::new())))
    }
}

impl Damage {
    pub fn receive(&mut self, io: &mut Io, core: &mut Core, id: PacketId) {
        match self {
            Damage::Corrupt(p, dice) => {
                core.packets[id].corrupt |= dice.chance(*p);
                io.forward(core, id);
            }
            Damage::Duplicate(p, dice) => {
                let twice = dice.chance(*p);
                io.forward(core, id);
                if twice {
                    let copy = core.packets[id].clone();
                    let copy = core.packets.insert(copy);
                    io.made(1);
                    io.forward(core, copy);
                }
            }
            Damage::Thin(one_in, flows) => {
                if core.packets[id].is_pure_ack() {
                    let flow = core.packets[id].flow.0 as usize;
                    if flow >= flows.len() {
                        flows.resize(flow + 1, 0);
                    }
                    let nth = flows[flow];
                    flows[flow] = (nth + 1) % *one_in;
                    if nth > 0 {
                        io.drop(core, id, Drop::Thinned);
                        return;
                    }
                }
                io.forward(core, id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::test_net::{Line, numbered};
    use crate::engine::{FlowId, NodeId};

    #[test]
    fn a_damaged_packet_crosses_the_path_and_is_dropped_by_the_checksum_of_the_host() {
        let mut line = Line::new(CorruptSpec { probability: 1.0 });
        line.send(numbered(0, 100));
        assert_eq!(line.arrived.len(), 0);
        let host: NodeId = line.net.nodes().find(|n| n.1 == "b").unwrap().0;
        assert_eq!(line.net.counters(host).dropped[Drop::Checksum], 1);
        assert_eq!(line.counters().packets_out, 1);
    }

    #[test]
    fn a_duplicate_follows_its_original() {
        let mut line = Line::new(DuplicateSpec { probability: 1.0 });
        line.send(numbered(0, 100));
        line.send(numbered(1, 100));
        assert_eq!(line.seqs(), [0, 0, 1, 1]);
        assert_eq!((line.counters().made, line.counters().balance()), (2, 0));
    }

    #[test]
    fn one_pure_ack_in_three_of_each_flow_is_kept_and_data_always() {
        let mut line = Line::new(ThinSpec { one_in: 3 });
        for seq in 0..7 {
            line.send(numbered(seq, 0));
            let mut other = numbered(100 + seq, 0);
            other.flow = FlowId(1);
            line.send(other);
            line.send(numbered(1000 + seq, 1));
        }
        let kept: Vec<u32> = line.seqs().into_iter().filter(|s| *s < 1000).collect();
        assert_eq!(kept, [0, 100, 3, 103, 6, 106]);
        assert_eq!(line.counters().dropped[Drop::Thinned], 8);
        assert_eq!(line.seqs().iter().filter(|s| **s >= 1000).count(), 7);
    }
}
