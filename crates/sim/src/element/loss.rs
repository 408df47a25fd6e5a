//! Loss on the path: independent, correlated, in bursts, or of given packets.

use crate::engine::{Core, DropReason, ElementContext, Packet, PacketId, Protocol};
use tcpassay_case::draws::{LossProcess, Losses};
use tcpassay_units::Seed;

/// The packets to which an impairment applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PacketFilter {
    /// Every packet.
    #[default]
    All,
    /// Packets with payload.
    Data,
    /// Pure ACKs.
    PureAcks,
}

impl PacketFilter {
    pub(crate) fn includes(self, packet: &Packet) -> bool {
        match self {
            PacketFilter::All => true,
            PacketFilter::Data => packet.segment.len > 0 && packet.kind != Protocol::Icmp,
            PacketFilter::PureAcks => packet.is_pure_ack(),
        }
    }
}

/// Loss.
#[derive(Clone, PartialEq, Debug)]
pub struct LossSpec {
    /// The loss process.
    pub model: LossProcess,
    /// The packets to which it applies. Other packets pass and do not advance the process.
    pub which: PacketFilter,
}

#[derive(Clone, Debug)]
pub(crate) struct Loss {
    which: PacketFilter,
    draws: Losses,
}

impl LossSpec {
    pub(super) fn make(self, name: &str, seed: Seed) -> Loss {
        let which = self.which;
        let draws = Losses::new(self.model, seed.stream(&format!("{name}.loss")));
        Loss { which, draws }
    }
}

impl Loss {
    pub fn receive(&mut self, ctx: &mut ElementContext, core: &mut Core, id: PacketId) {
        if self.which.includes(&core.packets[id]) && self.draws.loses() {
            ctx.drop(core, id, DropReason::Loss);
        } else {
            ctx.forward(core, id);
        }
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
mod tests {
    use super::*;
    use crate::element::test_net::{TestPath, numbered};
    use crate::engine::Packet;

    /// Returns the numbers of the lost ones of `n` full segments.
    fn lost(model: LossProcess, n: u32, seed: u64) -> Vec<u32> {
        let mut line = TestPath::seeded(LossSpec { model, which: PacketFilter::All }, seed);
        for seq in 0..n {
            line.send(numbered(seq, 1460));
        }
        let arrived = line.seqs();
        assert_eq!(line.counters().dropped[DropReason::Loss] + arrived.len() as u64, u64::from(n));
        (0..n).filter(|seq| arrived.binary_search(seq).is_err()).collect()
    }

    #[test]
    fn independent_losses_come_as_often_as_asked() {
        let n = lost(LossProcess::Bernoulli { probability: 0.01, correlation: 0.0 }, 100_000, 1).len();
        assert!((900..1100).contains(&n), "{n}");
    }

    #[test]
    fn correlation_loses_less_than_asked_as_in_netem() {
        // With rho 0.25 a draw is 0.75 u + 0.25 of the draw before, which is below 0.01 much more rarely.
        let n = lost(LossProcess::Bernoulli { probability: 0.01, correlation: 0.25 }, 100_000, 1).len();
        assert!((1..300).contains(&n), "{n}");
    }

    #[test]
    fn gilbert_elliott_loses_in_bursts_of_the_mean_length_of_the_bad_state() {
        let model = LossProcess::GilbertElliott { p: 0.01, r: 0.25, bad: 1.0, good: 0.0 };
        let lost = lost(model, 100_000, 1);
        let bursts = lost.windows(2).filter(|w| w[1] != w[0] + 1).count() + 1;
        // The share of the bad state is p / (p + r) = 3.85 %, a burst is 1 / r = 4 packets long.
        assert!((3500..4200).contains(&lost.len()), "{}", lost.len());
        let length = lost.len() as f64 / bursts as f64;
        assert!((3.7..4.3).contains(&length), "{length}");
    }

    #[test]
    fn a_list_loses_exactly_the_packets_it_names() {
        assert_eq!(lost(LossProcess::List(vec![1, 3, 7]), 10, 1), [0, 2, 6]);
    }

    #[test]
    fn a_list_for_data_does_not_count_acks() {
        let spec = LossSpec { model: LossProcess::List(vec![2]), which: PacketFilter::Data };
        let mut line = TestPath::new(spec);
        for (seq, len) in [(0, 1460), (1, 0), (2, 0), (3, 1460), (4, 1460)] {
            line.send(numbered(seq, len));
        }
        assert_eq!(line.seqs(), [0, 1, 2, 4]);
    }

    #[test]
    fn loss_of_pure_acks_spares_data_and_fin() {
        let spec = LossSpec {
            model: LossProcess::Bernoulli { probability: 1.0, correlation: 0.0 },
            which: PacketFilter::PureAcks,
        };
        let mut line = TestPath::new(spec);
        let fin = |mut p: Packet| {
            p.segment.flags |= tcpassay_wire::Flags::FIN;
            p
        };
        line.send(numbered(0, 0));
        line.send(numbered(1, 1));
        line.send(fin(numbered(2, 0)));
        assert_eq!(line.seqs(), [1, 2]);
    }

    #[test]
    fn the_losses_are_a_function_of_name_and_seed() {
        let model = LossProcess::Bernoulli { probability: 0.5, correlation: 0.0 };
        assert_eq!(lost(model.clone(), 100, 1), lost(model.clone(), 100, 1));
        assert_ne!(lost(model.clone(), 100, 1), lost(model, 100, 2));
    }
}
