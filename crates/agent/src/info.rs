//! `TCP_INFO` of any kernel: a field is there when the kernel's answer is long enough to hold it.
//!
//! Offsets are those of `struct tcp_info` (include/uapi/linux/tcp.h), which only ever grows at its end. Times in it are
//! microseconds, windows are segments.

use crate::sys;
use std::io;
use std::os::fd::BorrowedFd;
use tcpassay_measure::{Sample, TcpSummary};

/// `ssthresh` before the first congestion (`TCP_INFINITE_SSTHRESH`).
const INFINITE: u64 = 0x7fff_ffff;

/// What the kernel says of a connection.
pub struct Info {
    bytes: [u8; 512],
    len: usize,
    alpha: Option<f64>,
}

impl Info {
    /// Asks the kernel. `dctcp` asks for alpha, too.
    pub fn of(fd: BorrowedFd, dctcp: bool) -> io::Result<Info> {
        let mut info = Info { bytes: [0; 512], len: 0, alpha: None };
        info.len = sys::get_bytes(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info.bytes)?;
        if dctcp {
            // struct tcp_dctcp_info: enabled and ce_state (16 bits each), alpha, ab_ecn, ab_tot; alpha of 1024 is 1.
            let mut cc = [0; 64];
            let len = sys::get_bytes(fd, libc::IPPROTO_TCP, TCP_CC_INFO, &mut cc)?;
            if len >= 8 && cc[0] != 0 {
                let alpha = u32::from_ne_bytes(cc[4..8].try_into().expect("4 bytes"));
                info.alpha = Some(f64::from(alpha) / 1024.0);
            }
        }
        Ok(info)
    }

    /// From the bytes of an answer.
    #[cfg(test)]
    fn from_bytes(answer: &[u8]) -> Info {
        let mut bytes = [0; 512];
        bytes[..answer.len()].copy_from_slice(answer);
        Info { bytes, len: answer.len(), alpha: None }
    }

    fn u32(&self, at: usize) -> Option<u64> {
        let word = self.bytes.get(at..at + 4).filter(|_| at + 4 <= self.len)?;
        Some(u64::from(u32::from_ne_bytes(word.try_into().expect("4 bytes"))))
    }

    fn u64(&self, at: usize) -> Option<u64> {
        let word = self.bytes.get(at..at + 8).filter(|_| at + 8 <= self.len)?;
        Some(u64::from_ne_bytes(word.try_into().expect("8 bytes")))
    }

    /// Segment size in use.
    pub fn mss(&self) -> u64 {
        self.u32(16).unwrap_or(0)
    }

    /// Bytes sent with payload, retransmissions included.
    pub fn bytes_sent(&self) -> Option<u64> {
        self.u64(200)
    }

    /// Bytes that arrived in order; a FIN counts as one.
    pub fn bytes_received(&self) -> Option<u64> {
        self.u64(128)
    }

    fn ssthresh(&self) -> Option<u64> {
        self.u32(76).filter(|n| *n < INFINITE).map(|n| n * self.mss())
    }

    fn flight(&self) -> Option<u64> {
        let (unacked, sacked, lost, retrans) = (self.u32(24)?, self.u32(28)?, self.u32(32)?, self.u32(36)?);
        Some((unacked + retrans).saturating_sub(sacked + lost) * self.mss())
    }

    /// For the series.
    pub fn sample(&self) -> Sample {
        #[expect(clippy::cast_precision_loss, reason = "windows, times and rates far below 2^53")]
        let float = |n: Option<u64>| n.map(|n| n as f64);
        Sample {
            cwnd: float(self.u32(80).map(|n| n * self.mss())),
            ssthresh: float(self.ssthresh()),
            flight: float(self.flight()),
            srtt: float(self.u32(68).filter(|n| *n > 0).map(|n| n * 1000)),
            rto: float(self.u32(8).map(|n| n * 1000)),
            alpha: self.alpha,
            pacing: float(self.u64(104).filter(|n| *n != u64::MAX).map(|n| n * 8)),
        }
    }

    /// The last words of a connection. Times limited are of the time with data outstanding (`tcpi_busy_time`).
    pub fn summary(&self) -> TcpSummary {
        let us = |n: Option<u64>| n.map(|n| n * 1000);
        let cwnd_limited = match (self.u64(168), self.u64(176), self.u64(184)) {
            (Some(busy), Some(window), Some(buffer)) => Some(busy.saturating_sub(window + buffer)),
            _ => None,
        };
        TcpSummary {
            cwnd_bytes: self.u32(80).map(|n| n * self.mss()),
            ssthresh_bytes: self.ssthresh(),
            srtt_ns: us(self.u32(68)).filter(|n| *n > 0),
            rttvar_ns: us(self.u32(72)),
            min_rtt_ns: us(self.u32(148)).filter(|n| *n > 0 && *n < u64::from(u32::MAX) * 1000),
            rto_ns: us(self.u32(8)),
            retransmits: self.u32(100),
            spurious_retransmits: self.u32(216),
            timeouts: self.u32(240).map(|n| n & 0xffff),
            bytes_acked: self.u64(120),
            segments_out: self.u32(136),
            segments_in: self.u32(140),
            cwnd_limited_ns: us(cwnd_limited),
            rwnd_limited_ns: us(self.u64(176)),
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
        let sample = Info::from_bytes(&answer(240)).sample();
        assert_eq!(sample.cwnd, Some(17_376.0));
        assert_eq!(sample.ssthresh, None);
        assert_eq!(sample.flight, Some(11_584.0));
        assert_eq!(sample.srtt, Some(10_000_000.0));
        assert_eq!(sample.rto, Some(204_000_000.0));
    }

    #[test]
    fn what_an_older_kernel_does_not_say_is_absent_and_not_zero() {
        // Linux 3.2 answers 104 bytes.
        let old = Info::from_bytes(&answer(104)).summary();
        assert_eq!((old.bytes_acked, old.min_rtt_ns, old.timeouts), (None, None, None));
        assert_eq!(old.cwnd_bytes, Some(17_376));
        let new = Info::from_bytes(&answer(248)).summary();
        assert_eq!((new.bytes_acked, new.timeouts), (Some(0), Some(0)));
    }
}
