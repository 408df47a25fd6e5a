//! The fields of [`Info`] that the sender fills in.

use super::Sender;
use crate::{Gauges, Info, LimitTimes};
use tcpassay_units::{Bytes, Time};

impl Sender {
    /// As [`Info::bytes_sent`].
    pub fn bytes_sent(&self) -> Bytes {
        Bytes::new(self.stats.bytes_sent)
    }

    /// As [`Connection::gauges`](crate::Connection::gauges).
    pub fn gauges(&self) -> Gauges {
        Gauges {
            cwnd: Bytes::new(self.cwnd),
            ssthresh: self.cc.control().ssthresh,
            flight: Bytes::new(self.pipe()),
            unacked: Bytes::new(self.scoreboard.outstanding()),
            srtt: self.rtt.srtt(),
            rto: self.rtt.rto(),
            pacing_rate: self.pacer.rate(),
            alpha: self.cc.alpha(),
        }
    }

    /// Fills in the sender's fields of `info`.
    pub fn fill(&self, now: Time, info: &mut Info) {
        let bytes = Bytes::new;
        let (by_cwnd, by_window, by_app) =
            if self.up { self.cwnd_validation.until(now) } else { Default::default() };
        let fin_acked = u64::from(self.fin_acked());
        let (busy, starved) = self.buffer.times(now);
        *info = Info {
            ca_state: self.state,
            mss: bytes(self.mss),
            cwnd: bytes(self.cwnd),
            ssthresh: self.cc.control().ssthresh,
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            rto: self.rtt.rto(),
            min_rtt: self.rtt.min(),
            flight: bytes(self.pipe()),
            unacked: bytes(self.scoreboard.outstanding()),
            sacked: bytes(self.scoreboard.sacked() + self.duplicates.bytes()),
            lost: bytes(self.scoreboard.pending()),
            lost_all: bytes(self.scoreboard.lost()),
            retransmitted_out: bytes(self.scoreboard.retransmitted()),
            backoff: self.rtt.backoff(),
            timeouts_in_a_row: self.timers.timeouts(),
            reordering: self.dup_thresh.threshold(),
            reorderings: self.dup_thresh.reorderings(),
            probes: self.persist.unanswered(),
            notsent: bytes(self.unsent()),
            bytes_sent: bytes(self.stats.bytes_sent),
            bytes_acked: bytes(self.scoreboard.una() - 1 - fin_acked),
            bytes_retransmitted: bytes(self.stats.bytes_retransmitted),
            retransmissions: self.stats.retransmissions,
            timeouts: self.stats.timeouts,
            recoveries: self.stats.recoveries,
            ecn_reductions: self.stats.ecn_reductions,
            undos: self.stats.undos,
            spurious: self.stats.spurious,
            tlp_probes: self.stats.tlp_probes,
            delivered: bytes(self.deliveries.total()),
            delivered_packets: self.deliveries.packets(),
            delivered_ce: bytes(self.deliveries.marked()),
            ece_acks_in: self.stats.ece_acks_in,
            dup_acks_in: self.stats.dup_acks_in,
            snd_wnd: bytes(self.window.size()),
            limited_cwnd: by_cwnd,
            limited_rwnd: by_window,
            limited_app: by_app,
            limits: if self.up { self.limits.until(now) } else { LimitTimes::default() },
            busy,
            limited_sndbuf: starved,
            pacing_rate: self.pacer.rate(),
            clamps: self.cc.clamps(),
            controller: self.cc.name(),
            internals: self.cc.internals(),
            ..info.clone()
        };
    }
}
