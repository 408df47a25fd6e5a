//! Sockets and the other files behind the descriptors of a script.

use super::error_queue::TimestampingFlags;
use std::collections::BTreeMap;
use tcpassay_tcp::{Config, Connection, RecvBuffer};
use tcpassay_units::{Bytes, Dur, Time};

/// The options of a socket.
#[derive(Clone, PartialEq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub(super) struct SocketOptions {
    pub nodelay: bool,
    pub cork: bool,
    pub keepalive: bool,
    pub keep_idle: Option<u64>,
    pub keep_interval: Option<u64>,
    pub keep_count: Option<u64>,
    /// `TCP_KEEPINIT` of FreeBSD, in seconds.
    pub keep_init: Option<u64>,
    pub congestion: Option<String>,
    /// The size that the kernel uses (Linux doubles the requested one), in bytes.
    pub sndbuf: Option<u64>,
    pub rcvbuf: Option<u64>,
    pub maxseg: Option<u64>,
    /// Milliseconds.
    pub user_timeout: Option<u64>,
    pub notsent_lowat: Option<u64>,
    /// `TCP_RTO_MIN_US`, `TCP_RTO_MAX_MS`, `TCP_DELACK_MAX_US`
    pub rto_min: Option<Dur>,
    pub rto_max: Option<Dur>,
    pub delay_max: Option<Dur>,
    pub syn_count: Option<u64>,
    pub defer_accept: bool,
    /// `TCP_LINGER2`, in seconds.
    pub fin_wait2: Option<u64>,
    /// The time of `SO_LINGER`, in seconds.
    pub linger: Option<u64>,
    /// `TCP_INQ`
    pub inq: bool,
    /// `TCP_FASTOPEN`, `TCP_FASTOPEN_CONNECT`, `TCP_FASTOPEN_NO_COOKIE` and `TCP_FASTOPEN_KEY`.
    pub fast_open: Option<i64>,
    pub fast_open_connect: bool,
    pub fast_open_no_cookie: bool,
    pub fast_open_key: Option<Vec<[u64; 2]>>,
    /// `IP_TOS` or `IPV6_TCLASS`, without the ECN field.
    pub tos: u8,
    /// `IP_TTL` or `IPV6_UNICAST_HOPS`
    pub hops: Option<u8>,
    /// `TCP_NOOPT`
    pub no_options: bool,
    /// `SO_TIMESTAMPING`
    pub stages: TimestampingFlags,
    /// Options without effect on the model, by level and name.
    pub other: BTreeMap<(String, String), i64>,
}

impl SocketOptions {
    /// Returns true if an option without effect on the model has a value other than 0.
    pub fn flag(&self, name: &str) -> bool {
        self.other.iter().any(|((_, n), &value)| n == name && value != 0)
    }

    /// Applies the options to the settings of a new connection.
    pub fn apply(&self, cfg: &mut Config) {
        cfg.nodelay = self.nodelay;
        cfg.cork = self.cork;
        if self.no_options {
            (cfg.timestamps, cfg.sack, cfg.window_scale) = (false, false, false);
        }
        if let Some(n) = self.sndbuf {
            cfg.send_buffer = Some(Bytes::new(n));
        }
        if let Some(n) = self.rcvbuf {
            cfg.recv_buffer = RecvBuffer::Fixed(Bytes::new(n / 2));
            if let Some(memory) = &mut cfg.recv_memory {
                (memory.size, memory.locked) = (Bytes::new(n), true);
            }
        }
        if let Some(n) = self.maxseg {
            cfg.mss = cfg.mss.min(Bytes::new(n));
            cfg.path_mss = cfg.path_mss.map(|path| path.min(Bytes::new(n)));
        }
        if let Some(ms) = self.user_timeout.filter(|&ms| ms > 0) {
            cfg.user_timeout = Some(Dur::from_millis(ms));
        }
        if let Some(n) = self.notsent_lowat {
            cfg.notsent_lowat = (n > 0 && n < u64::from(u32::MAX)).then(|| Bytes::new(n));
        }
        cfg.rto.min = self.rto_min.unwrap_or(cfg.rto.min);
        cfg.rto.max = self.rto_max.unwrap_or(cfg.rto.max);
        cfg.delayed_ack.timeout = self.delay_max.unwrap_or(cfg.delayed_ack.timeout);
        if let Some(n) = self.fin_wait2 {
            cfg.fin_wait2 = Dur::from_secs(n);
        }
        if let Some(n) = self.keep_init {
            cfg.connect_timeout = Some(Dur::from_secs(n));
        }
        if let Some(n) = self.syn_count {
            cfg.syn_retries = u32::try_from(n).unwrap_or(u32::MAX);
            // On a listening socket the option limits the SYN-ACKs (`reqsk_timer_handler`).
            cfg.synack_retries = cfg.syn_retries;
        }
    }
}

/// Active or passive OPEN (RFC 9293). By default the passive side accepts ECN and the active side does not request it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OpenMode {
    Active,
    Passive,
}

/// The role of a socket.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Role {
    /// Neither listening nor connecting yet.
    Fresh,
    /// Listening, with the numbers of the connections that wait for `accept`.
    Listening(Vec<usize>),
    /// Connected, with the number of the connection.
    Connected(usize),
}

#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct Socket {
    pub role: Role,
    pub options: SocketOptions,
    pub nonblocking: bool,
    /// `shutdown(SHUT_RD)`, `shutdown(SHUT_WR)`
    pub shut_read: bool,
    pub shut_write: bool,
    pub bound: bool,
    /// The application has received the error of the connection.
    pub error_reported: bool,
    /// A `connect` has returned success.
    pub connect_reported: bool,
    /// The number of connections that `accept` returned.
    pub accepted: u64,
    /// `connect` is deferred to the first write (`TCP_FASTOPEN_CONNECT`).
    pub deferred: bool,
    /// The offset in the stream after the urgent byte that was read with `MSG_OOB`.
    pub urgent_taken: u64,
}

impl Socket {
    pub fn new() -> Socket {
        Socket {
            role: Role::Fresh,
            options: SocketOptions::default(),
            nonblocking: false,
            shut_read: false,
            shut_write: false,
            bound: false,
            error_reported: false,
            connect_reported: false,
            accepted: 0,
            deferred: false,
            urgent_taken: 0,
        }
    }

    /// The connection of a connected socket.
    pub fn connection(&self) -> Option<usize> {
        match self.role {
            Role::Connected(index) => Some(index),
            _ => None,
        }
    }
}

/// The number of wakeups of a socket, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct WakeupCounts {
    /// An entry of the error queue.
    pub errors: u64,
    /// Space in the send buffer.
    pub write_wakeups: u64,
    /// Data, a FIN, or a connection to accept.
    pub arrivals: u64,
}

/// A descriptor in the interest list of an epoll instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct EpollItem {
    pub fd: i64,
    pub events: i64,
    /// The events of the last report, for `EPOLLET`, and whether `EPOLLONESHOT` has disarmed the entry.
    pub seen: i64,
    pub disarmed: bool,
    /// The wakeups at the last report.
    pub wakes: WakeupCounts,
}

/// The file behind a descriptor.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum File {
    Socket(Box<Socket>),
    Epoll(Vec<EpollItem>),
    /// A pipe or a regular file.
    Plain,
}

/// Applies the option `name` to an existing connection.
pub(super) fn update(
    conn: &mut Connection,
    now: Time,
    name: &str,
    options: &SocketOptions,
    keepalive: Option<tcpassay_tcp::Keepalive>,
) {
    let low = options.notsent_lowat.filter(|&n| n > 0 && n < u64::from(u32::MAX)).map(Bytes::new);
    match name {
        "TCP_NODELAY" => conn.set_nodelay(now, options.nodelay),
        "TCP_CORK" | "TCP_NOPUSH" => conn.set_cork(now, options.cork),
        "SO_SNDBUF" | "SO_SNDBUFFORCE" => conn.set_send_buffer(Bytes::new(options.sndbuf.unwrap_or(0))),
        "SO_RCVBUF" | "SO_RCVBUFFORCE" => conn.set_recv_memory(Bytes::new(options.rcvbuf.unwrap_or(0))),
        "TCP_SYNCNT" => {
            conn.set_syn_retries(options.syn_count.and_then(|n| u32::try_from(n).ok()).unwrap_or(u32::MAX));
        }
        "TCP_LINGER2" => conn.set_fin_wait2(options.fin_wait2.map_or(Dur::from_secs(60), Dur::from_secs)),
        "TCP_NOTSENT_LOWAT" => conn.set_notsent_lowat(low),
        "TCP_USER_TIMEOUT" => {
            conn.set_user_timeout(options.user_timeout.filter(|&ms| ms > 0).map(Dur::from_millis));
        }
        "SO_KEEPALIVE" | "TCP_KEEPIDLE" | "TCP_KEEPINTVL" | "TCP_KEEPCNT" => conn.set_keepalive(keepalive),
        _ => {}
    }
}
