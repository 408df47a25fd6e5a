//! The layout of `struct tcp_info` (include/uapi/linux/tcp.h). New kernels only append fields.

/// Name, offset and size in bytes of each field.
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

/// A field that consists of whole bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpInfoField {
    at: usize,
    len: usize,
}

impl TcpInfoField {
    /// The field `name`, for example `tcpi_rtt`. In a constant an unknown name is a compile-time error.
    pub const fn named(name: &str) -> TcpInfoField {
        let mut row = 0;
        while row < FIELDS.len() {
            if same(FIELDS[row].0.as_bytes(), name.as_bytes()) {
                return TcpInfoField { at: FIELDS[row].1, len: FIELDS[row].2 };
            }
            row += 1;
        }
        panic!("struct tcp_info has no such field")
    }

    /// The value of the field in an answer of the kernel; `None` if the answer is too short.
    pub fn of(self, info: &[u8]) -> Option<u64> {
        let mut wide = [0; 8];
        wide[..self.len].copy_from_slice(info.get(self.at..self.at + self.len)?);
        Some(u64::from_le_bytes(wide))
    }
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// The size of the structure in bytes.
const SIZE: usize = 248;

/// The value of the field `name` in an answer of the kernel; `None` if the answer is too short or the name is unknown.
pub fn field(info: &[u8], name: &str) -> Option<i64> {
    match name {
        "tcpi_snd_wscale" => return Some((*info.get(6)? & 0xf).into()),
        "tcpi_rcv_wscale" => return Some((*info.get(6)? >> 4).into()),
        "tcpi_delivery_rate_app_limited" => return Some((*info.get(7)? & 1).into()),
        "tcpi_fastopen_client_fail" => return Some((*info.get(7)? >> 1 & 3).into()),
        _ => {}
    }
    let &(_, at, len) = FIELDS.iter().find(|(known, ..)| *known == name)?;
    TcpInfoField { at, len }.of(info).map(u64::cast_signed)
}

/// The bytes of a structure with the values that `value_of` returns for the names of the fields; fields for which it returns `None` are 0.
pub fn tcp_info(value_of: impl Fn(&str) -> Option<i64>) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    for &(name, at, len) in FIELDS {
        let value = value_of(name).unwrap_or(0).to_le_bytes();
        bytes[at..at + len].copy_from_slice(&value[..len]);
    }
    let nibble = |name| u8::try_from(value_of(name).unwrap_or(0) & 0xf).expect("four bits");
    bytes[6] = nibble("tcpi_snd_wscale") | nibble("tcpi_rcv_wscale") << 4;
    bytes
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

    #[test]
    fn a_structure_that_was_made_reads_back() {
        let made = tcp_info(|name| match name {
            "tcpi_snd_cwnd" => Some(12),
            "tcpi_bytes_acked" => Some(1 << 40),
            "tcpi_rcv_wscale" => Some(7),
            _ => None,
        });
        assert_eq!(field(&made, "tcpi_snd_cwnd"), Some(12));
        assert_eq!(field(&made, "tcpi_bytes_acked"), Some(1 << 40));
        assert_eq!((field(&made, "tcpi_snd_wscale"), field(&made, "tcpi_rcv_wscale")), (Some(0), Some(7)));
    }
}
