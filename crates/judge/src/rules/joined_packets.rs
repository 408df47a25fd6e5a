//! Packets that Linux joined when it sent them again.

use crate::step::Step;

/// Ranges that Linux joined into one packet when it sent them again (`tcp_retrans_try_collapse`).
#[derive(Clone, Debug, Default)]
pub(super) struct JoinedPackets(Vec<(u64, u64)>);

impl JoinedPackets {
    /// Whether each SACKed part of this retransmission lies in a packet that was joined before and is not SACKed as a whole. Linux
    /// SACKs a packet as a whole or not at all (`tcp_match_skb_to_sack`), so that it sends such a packet again, and may join more to it.
    pub fn contain_sacked_parts(&self, step: &Step<'_>) -> bool {
        let (start, end) = (step.seq(), step.seq_end());
        let parts = |from, to| step.end.from(from).take_while(move |s| s.end <= to);
        let inside = self.0.iter().filter(|packet| start <= packet.0 && packet.1 <= end);
        let open: Vec<_> = inside.filter(|packet| parts(packet.0, packet.1).any(|s| !s.sacked)).collect();
        parts(start, end)
            .filter(|s| s.sacked)
            .all(|s| open.iter().any(|packet| packet.0 <= s.start && s.end <= packet.1))
    }

    /// `linux`: the sender of this retransmission joins packets.
    pub fn sent_again(&mut self, step: &Step<'_>, linux: bool) {
        self.0.retain(|packet| packet.1 > step.before.una);
        let (start, end) = (step.seq(), step.seq_end());
        if linux && step.end.from(start).take_while(|s| s.end <= end).nth(1).is_some() {
            self.0.push((start, end));
        }
    }
}
