//! `TCP_INFO` of a socket. The structure has grown over time: a field is absent if the kernel's answer is too short for it.
//!
//! In `struct tcp_info` times are in microseconds and windows in segments.

use std::io;
use std::os::fd::BorrowedFd;
use tcpassay_linux::sys;
use tcpassay_linux::tcp_info::TcpInfoField;
use tcpassay_measure::{LimitTimes, SenderSample, TcpSummary};

/// The value of ssthresh before the first reduction (`TCP_INFINITE_SSTHRESH`).
const INFINITE: u64 = 0x7fff_ffff;

const RTO: TcpInfoField = TcpInfoField::named("tcpi_rto");
const SND_MSS: TcpInfoField = TcpInfoField::named("tcpi_snd_mss");
const UNACKED: TcpInfoField = TcpInfoField::named("tcpi_unacked");
const SACKED: TcpInfoField = TcpInfoField::named("tcpi_sacked");
const LOST: TcpInfoField = TcpInfoField::named("tcpi_lost");
const RETRANS: TcpInfoField = TcpInfoField::named("tcpi_retrans");
const RTT: TcpInfoField = TcpInfoField::named("tcpi_rtt");
const RTTVAR: TcpInfoField = TcpInfoField::named("tcpi_rttvar");
const SND_SSTHRESH: TcpInfoField = TcpInfoField::named("tcpi_snd_ssthresh");
const SND_CWND: TcpInfoField = TcpInfoField::named("tcpi_snd_cwnd");
const TOTAL_RETRANS: TcpInfoField = TcpInfoField::named("tcpi_total_retrans");
const PACING_RATE: TcpInfoField = TcpInfoField::named("tcpi_pacing_rate");
const BYTES_ACKED: TcpInfoField = TcpInfoField::named("tcpi_bytes_acked");
const BYTES_RECEIVED: TcpInfoField = TcpInfoField::named("tcpi_bytes_received");
const SEGS_OUT: TcpInfoField = TcpInfoField::named("tcpi_segs_out");
const SEGS_IN: TcpInfoField = TcpInfoField::named("tcpi_segs_in");
const MIN_RTT: TcpInfoField = TcpInfoField::named("tcpi_min_rtt");
const BUSY_TIME: TcpInfoField = TcpInfoField::named("tcpi_busy_time");
const RWND_LIMITED: TcpInfoField = TcpInfoField::named("tcpi_rwnd_limited");
const SNDBUF_LIMITED: TcpInfoField = TcpInfoField::named("tcpi_sndbuf_limited");
const BYTES_SENT: TcpInfoField = TcpInfoField::named("tcpi_bytes_sent");
const DSACK_DUPS: TcpInfoField = TcpInfoField::named("tcpi_dsack_dups");
const TOTAL_RTO: TcpInfoField = TcpInfoField::named("tcpi_total_rto");

/// The state of a connection.
pub struct TcpInfo {
    bytes: [u8; 512],
    len: usize,
    /// DCTCP's alpha, from 0 to 1.
    alpha: Option<f64>,
}

impl TcpInfo {
    /// Asks the kernel for the state of a socket; `dctcp`: also for DCTCP's alpha.
    pub fn of(fd: BorrowedFd, dctcp: bool) -> io::Result<TcpInfo> {
        let mut info = TcpInfo { bytes: [0; 512], len: 0, alpha: None };
        info.len = sys::get_bytes(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info.bytes)?;
        if dctcp {
            // struct tcp_dctcp_info: enabled and ce_state (16 bits each), alpha, ab_ecn, ab_tot. Alpha is in units of 1/1024.
            let mut cc = [0; 64];
            let len = sys::get_bytes(fd, libc::IPPROTO_TCP, TCP_CC_INFO, &mut cc)?;
            if len >= 8 && cc[0] != 0 {
                let alpha = u32::from_ne_bytes(cc[4..8].try_into().expect("4 bytes"));
                info.alpha = Some(f64::from(alpha) / 1024.0);
            }
        }
        Ok(info)
    }

    /// The state in the bytes of an answer.
    #[cfg(test)]
    fn from_bytes(answer: &[u8]) -> TcpInfo {
        let mut bytes = [0; 512];
        bytes[..answer.len()].copy_from_slice(answer);
        TcpInfo { bytes, len: answer.len(), alpha: None }
    }

    fn get(&self, field: TcpInfoField) -> Option<u64> {
        field.of(&self.bytes[..self.len])
    }

    /// The segment size in bytes.
    pub fn mss(&self) -> u64 {
        self.get(SND_MSS).unwrap_or(0)
    }

    /// Payload bytes sent, with retransmissions.
    pub fn bytes_sent(&self) -> Option<u64> {
        self.get(BYTES_SENT)
    }

    /// Bytes received in order; a FIN counts as one.
    pub fn bytes_received(&self) -> Option<u64> {
        self.get(BYTES_RECEIVED)
    }

    fn ssthresh(&self) -> Option<u64> {
        self.get(SND_SSTHRESH).filter(|n| *n < INFINITE).map(|n| n * self.mss())
    }

    fn flight(&self) -> Option<u64> {
        let (unacked, sacked, lost, retrans) =
            (self.get(UNACKED)?, self.get(SACKED)?, self.get(LOST)?, self.get(RETRANS)?);
        Some((unacked + retrans).saturating_sub(sacked + lost) * self.mss())
    }

    /// The sample for the series.
    pub fn sample(&self) -> SenderSample {
        #[expect(clippy::cast_precision_loss, reason = "windows, times and rates far below 2^53")]
        let float = |n: Option<u64>| n.map(|n| n as f64);
        SenderSample {
            cwnd: float(self.get(SND_CWND).map(|n| n * self.mss())),
            ssthresh: float(self.ssthresh()),
            flight: float(self.flight()),
            srtt: float(self.get(RTT).filter(|n| *n > 0).map(|n| n * 1000)),
            rto: float(self.get(RTO).map(|n| n * 1000)),
            alpha: self.alpha,
            pacing: float(self.get(PACING_RATE).filter(|n| *n != u64::MAX).map(|n| n * 8)),
        }
    }

    /// The summary at the end of a connection. The limited times are parts of the time with outstanding data (`tcpi_busy_time`).
    pub fn summary(&self) -> TcpSummary {
        let us = |n: Option<u64>| n.map(|n| n * 1000);
        let cwnd_limited = match (self.get(BUSY_TIME), self.get(RWND_LIMITED), self.get(SNDBUF_LIMITED)) {
            (Some(busy), Some(window), Some(buffer)) => Some(busy.saturating_sub(window + buffer)),
            _ => None,
        };
        TcpSummary {
            cwnd_bytes: self.get(SND_CWND).map(|n| n * self.mss()),
            ssthresh_bytes: self.ssthresh(),
            srtt_ns: us(self.get(RTT)).filter(|n| *n > 0),
            rttvar_ns: us(self.get(RTTVAR)),
            min_rtt_ns: us(self.get(MIN_RTT)).filter(|n| *n > 0 && *n < u64::from(u32::MAX) * 1000),
            rto_ns: us(self.get(RTO)),
            retransmits: self.get(TOTAL_RETRANS),
            spurious_retransmits: self.get(DSACK_DUPS),
            timeouts: self.get(TOTAL_RTO),
            bytes_acked: self.get(BYTES_ACKED),
            segments_out: self.get(SEGS_OUT),
            segments_in: self.get(SEGS_IN),
            limits: LimitTimes {
                send_buffer: us(self.get(SNDBUF_LIMITED)),
                receive_window: us(self.get(RWND_LIMITED)),
                congestion_window: us(cwnd_limited),
                ..LimitTimes::default()
            },
            cwnd_limited_ns: us(cwnd_limited),
            rwnd_limited_ns: us(self.get(RWND_LIMITED)),
            alpha: self.alpha,
            ..TcpSummary::default()
        }
    }
}

/// `TCP_CC_INFO` (include/uapi/linux/tcp.h).
const TCP_CC_INFO: i32 = 26;

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let mut put = |at: usize, n: u32| bytes[at..at + 4].copy_from_slice(&n.to_ne_bytes());
        put(8, 204_000); // rto
        put(16, 1448); // snd_mss
        put(24, 10); // unacked
        put(28, 2); // sacked
        put(32, 1); // lost
        put(36, 1); // retrans
        put(68, 10_000); // rtt
        put(76, 0x7fff_ffff); // snd_ssthresh
        put(80, 12); // snd_cwnd
        bytes
    }

    #[test]
    fn windows_are_bytes_and_an_infinite_ssthresh_is_absent() {
        let sample = TcpInfo::from_bytes(&answer(240)).sample();
        assert_eq!(sample.cwnd, Some(17_376.0));
        assert_eq!(sample.ssthresh, None);
        assert_eq!(sample.flight, Some(11_584.0));
        assert_eq!(sample.srtt, Some(10_000_000.0));
        assert_eq!(sample.rto, Some(204_000_000.0));
    }

    #[test]
    fn fields_that_an_older_kernel_lacks_are_absent_and_not_zero() {
        // Linux 3.2 answers 104 bytes.
        let old = TcpInfo::from_bytes(&answer(104)).summary();
        assert_eq!((old.bytes_acked, old.min_rtt_ns, old.timeouts), (None, None, None));
        assert_eq!(old.cwnd_bytes, Some(17_376));
        let new = TcpInfo::from_bytes(&answer(248)).summary();
        assert_eq!((new.bytes_acked, new.timeouts), (Some(0), Some(0)));
    }
}
