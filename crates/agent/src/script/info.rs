//! The names of `TCP_INFO` that blocks of code may ask for: `struct tcp_info` of include/uapi/linux/tcp.h, which only grows.

use super::door;
use std::os::fd::RawFd;

/// Name, offset, bytes.
const FIELDS: &[(&str, usize, usize)] = &[
    ("tcpi_state", 0, 1),
    ("tcpi_ca_state", 1, 1),
    ("tcpi_retransmits", 2, 1),
    ("tcpi_probes", 3, 1),
    ("tcpi_backoff", 4, 1),
    ("tcpi_options", 5, 1),
    ("tcpi_rto", 8, 4),
    ("tcpi_ato", 12, 4),
    ("tcpi_snd_mss", 16, 4),
    ("tcpi_rcv_mss", 20, 4),
    ("tcpi_unacked", 24, 4),
    ("tcpi_sacked", 28, 4),
    ("tcpi_lost", 32, 4),
    ("tcpi_retrans", 36, 4),
    ("tcpi_fackets", 40, 4),
    ("tcpi_last_data_sent", 44, 4),
    ("tcpi_last_ack_sent", 48, 4),
    ("tcpi_last_data_recv", 52, 4),
    ("tcpi_last_ack_recv", 56, 4),
    ("tcpi_pmtu", 60, 4),
    ("tcpi_rcv_ssthresh", 64, 4),
    ("tcpi_rtt", 68, 4),
    ("tcpi_rttvar", 72, 4),
    ("tcpi_snd_ssthresh", 76, 4),
    ("tcpi_snd_cwnd", 80, 4),
    ("tcpi_advmss", 84, 4),
    ("tcpi_reordering", 88, 4),
    ("tcpi_rcv_rtt", 92, 4),
    ("tcpi_rcv_space", 96, 4),
    ("tcpi_total_retrans", 100, 4),
    ("tcpi_pacing_rate", 104, 8),
    ("tcpi_max_pacing_rate", 112, 8),
    ("tcpi_bytes_acked", 120, 8),
    ("tcpi_bytes_received", 128, 8),
    ("tcpi_segs_out", 136, 4),
    ("tcpi_segs_in", 140, 4),
    ("tcpi_notsent_bytes", 144, 4),
    ("tcpi_min_rtt", 148, 4),
    ("tcpi_data_segs_in", 152, 4),
    ("tcpi_data_segs_out", 156, 4),
    ("tcpi_delivery_rate", 160, 8),
    ("tcpi_busy_time", 168, 8),
    ("tcpi_rwnd_limited", 176, 8),
    ("tcpi_sndbuf_limited", 184, 8),
    ("tcpi_delivered", 192, 4),
    ("tcpi_delivered_ce", 196, 4),
    ("tcpi_bytes_sent", 200, 8),
    ("tcpi_bytes_retrans", 208, 8),
    ("tcpi_dsack_dups", 216, 4),
    ("tcpi_reord_seen", 220, 4),
    ("tcpi_rcv_ooopack", 224, 4),
    ("tcpi_snd_wnd", 228, 4),
    ("tcpi_rcv_wnd", 232, 4),
    ("tcpi_rehash", 236, 4),
    ("tcpi_total_rto", 240, 2),
    ("tcpi_total_rto_recoveries", 242, 2),
    ("tcpi_total_rto_time", 244, 4),
];

fn ask(fd: RawFd) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 512];
    let len = door::get(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes).ok()?;
    bytes.truncate(len);
    Some(bytes)
}

fn field(info: &[u8], name: &str) -> Option<i64> {
    match name {
        "tcpi_snd_wscale" => return Some((*info.get(6)? & 0xf).into()),
        "tcpi_rcv_wscale" => return Some((*info.get(6)? >> 4).into()),
        "tcpi_delivery_rate_app_limited" => return Some((*info.get(7)? & 1).into()),
        "tcpi_fastopen_client_fail" => return Some((*info.get(7)? >> 1 & 3).into()),
        _ => {}
    }
    let &(_, at, len) = FIELDS.iter().find(|(known, ..)| *known == name)?;
    let mut wide = [0; 8];
    wide[..len].copy_from_slice(info.get(at..at + len)?);
    Some(u64::from_le_bytes(wide).cast_signed())
}

/// The value of a name; `None` when the kernel does not say it.
pub fn look(fd: RawFd, name: &str) -> Option<i64> {
    field(&ask(fd)?, name)
}

/// The state of a connection, for the text of a mismatch.
pub fn words(fd: RawFd) -> Vec<String> {
    let Some(info) = ask(fd) else { return Vec::new() };
    let told = |names: &[&str]| {
        let one = |name: &&str| Some(format!("{} {}", name.trim_start_matches("tcpi_"), field(&info, name)?));
        names.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    };
    let first =
        ["tcpi_state", "tcpi_ca_state", "tcpi_snd_cwnd", "tcpi_snd_ssthresh", "tcpi_unacked", "tcpi_sacked"];
    let second =
        ["tcpi_lost", "tcpi_retrans", "tcpi_rtt", "tcpi_rto", "tcpi_reordering", "tcpi_notsent_bytes"];
    vec![format!("TCP_INFO: {}", told(&first)), format!("          {}", told(&second))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_kernel_puts_them_and_absent_ones_are_none() {
        let mut info = vec![0; 104];
        info[6] = 0x75;
        info[80] = 10;
        assert_eq!(field(&info, "tcpi_snd_cwnd"), Some(10));
        assert_eq!((field(&info, "tcpi_snd_wscale"), field(&info, "tcpi_rcv_wscale")), (Some(5), Some(7)));
        assert_eq!(field(&info, "tcpi_bytes_acked"), None);
        assert_eq!(field(&info, "tcpi_nothing"), None);
    }
}
