//! Sockets: what a file descriptor of the script stands for.

use super::error_queue::TimestampingFlags;
use std::collections::BTreeMap;
use tcpassay_tcp::{Config, Connection, RecvBuffer};
use tcpassay_units::{Bytes, Dur, Time};

/// Options of a socket, as far as they govern the stack; the others are remembered only.
#[derive(Clone, PartialEq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
pub(super) struct SocketOptions {
    pub nodelay: bool,
    pub cork: bool,
    pub keepalive: bool,
    pub keep_idle: Option<u64>,
    pub keep_interval: Option<u64>,
    pub keep_count: Option<u64>,
    /// FreeBSD's `TCP_KEEPINIT`, in seconds.
    pub keep_init: Option<u64>,
    pub congestion: Option<String>,
    /// As the kernel keeps it (Linux doubles what is asked).
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
    /// `SO_LINGER` with this time in seconds.
    pub linger: Option<u64>,
    /// `TCP_INQ`
    pub inq: bool,
    /// `TCP_FASTOPEN`, and the options beside it.
    pub fast_open: Option<i64>,
    pub fast_open_connect: bool,
    pub fast_open_no_cookie: bool,
    pub fast_open_key: Option<Vec<[u64; 2]>>,
    /// `IP_TOS` or `IPV6_TCLASS`, less ECN.
    pub tos: u8,
    /// `IP_TTL` or `IPV6_UNICAST_HOPS`
    pub hops: Option<u8>,
    /// `TCP_NOOPT`
    pub no_options: bool,
    /// `SO_TIMESTAMPING`
    pub stages: TimestampingFlags,
    /// Whatever else was set, by level and name.
    pub other: BTreeMap<(String, String), i64>,
}

impl SocketOptions {
    /// Whether an option that is only remembered was set to something.
    pub fn flag(&self, name: &str) -> bool {
        self.other.iter().any(|((_, n), &value)| n == name && value != 0)
    }

    /// Puts into the stack's switches what is set.
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
            // Of a listening socket it is the number of SYN-ACKs (`reqsk_timer_handler`).
            cfg.synack_retries = cfg.syn_retries;
        }
    }
}

/// Which way a connection is opened: passive ECN is accepted and not offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OpenMode {
    Active,
    Passive,
}

/// What a socket is.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Role {
    /// Neither listening nor connecting yet.
    Fresh,
    /// Listening; the connections that wait for `accept`, by number.
    Listening(Vec<usize>),
    /// One end of the connection of this number.
    Connected(usize),
}

/// A socket.
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
    /// The error of the connection was told to the application.
    pub error_reported: bool,
    /// A `connect` has said that it succeeded.
    pub connect_reported: bool,
    /// Connections that `accept` has taken from it.
    pub accepted: u64,
    /// `connect` was put off to the first write (`TCP_FASTOPEN_CONNECT`).
    pub deferred: bool,
    /// Where the urgent byte ended that was read out of band.
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

/// How often somebody was woken who waits for a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct WakeupCounts {
    /// Because of its error queue.
    pub errors: u64,
    /// Because there was room to write again.
    pub write_wakeups: u64,
    /// Bytes, the end of the stream or connections that came.
    pub arrivals: u64,
}

/// An event that an epoll descriptor watches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct EpollItem {
    pub fd: i64,
    pub events: i64,
    /// `EPOLLET` and `EPOLLONESHOT` by what was reported last.
    pub seen: i64,
    pub disarmed: bool,
    /// How often somebody had been woken when this was last reported.
    pub wakes: WakeupCounts,
}

/// What a descriptor stands for.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum File {
    Socket(Box<Socket>),
    Epoll(Vec<EpollItem>),
    /// A pipe, or a file that is long enough.
    Plain,
}

/// Tells a living connection that the option `name` was set.
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
