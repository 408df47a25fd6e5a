//! The named constants of code blocks (`linux/tcp.h`, and the states of FreeBSD).

/// The value of a named constant.
pub fn constant(name: &str) -> Option<i64> {
    TABLE.iter().find(|(known, _)| *known == name).map(|&(_, value)| value)
}

const TABLE: &[(&str, i64)] = &[
    ("True", 1),
    ("False", 0),
    // enum tcp_ca_state
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    // TCPI_OPT_*
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
    ("TCPI_OPT_SYN_DATA", 32),
    // enum of tcp_states.h
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
    ("TCP_INFINITE_SSTHRESH", 0x7fff_ffff),
    // FreeBSD's tcp_fsm.h
    ("TCPS_CLOSED", 0),
    ("TCPS_LISTEN", 1),
    ("TCPS_SYN_SENT", 2),
    ("TCPS_SYN_RECEIVED", 3),
    ("TCPS_ESTABLISHED", 4),
    ("TCPS_CLOSE_WAIT", 5),
    ("TCPS_FIN_WAIT_1", 6),
    ("TCPS_CLOSING", 7),
    ("TCPS_LAST_ACK", 8),
    ("TCPS_FIN_WAIT_2", 9),
    ("TCPS_TIME_WAIT", 10),
];
