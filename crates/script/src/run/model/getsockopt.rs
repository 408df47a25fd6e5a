//! `getsockopt`, and the control message `TCP_CM_INQ`.

use super::args::{int, names, unsupported};
use super::controller;
use super::socket::Role;
use super::state::Model;
use crate::ast::{Expr, Syscall};
use crate::run::target::{ScriptError, SyscallResult};
use tcpassay_tcp::State;
use tcpassay_units::Dur;

impl Model {
    pub(super) fn getsockopt(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let fd = int(args, 0)?;
        let level = names(args, 1).join("|");
        let name = names(args, 2).join("|");
        let index = self.socket_at(fd)?.connection();
        let o = self.socket_at(fd)?.options.clone();
        let sign = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let value = match name.as_str() {
            "SO_ERROR" => match index {
                Some(index) => self.take_error(fd, index)?.map_or(0, number_of),
                None => 0,
            },
            "TCP_NODELAY" => i64::from(o.nodelay),
            "TCP_CORK" => i64::from(o.cork),
            "SO_KEEPALIVE" => i64::from(o.keepalive),
            "TCP_KEEPIDLE" if self.is_bsd() => self.bsd_seconds(o.keep_idle, "keepidle", 7200),
            "TCP_KEEPINTVL" if self.is_bsd() => self.bsd_seconds(o.keep_interval, "keepintvl", 75),
            "TCP_KEEPCNT" if self.is_bsd() => {
                sign(o.keep_count.or_else(|| self.host.number("net.inet.tcp.keepcnt")).unwrap_or(8))
            }
            "TCP_KEEPIDLE" => sign(o.keep_idle.unwrap_or(7200)),
            "TCP_KEEPINTVL" => sign(o.keep_interval.unwrap_or(75)),
            "TCP_KEEPCNT" => sign(o.keep_count.unwrap_or(9)),
            "SO_SNDBUF" => match (o.sndbuf, self.is_bsd()) {
                (Some(n), _) => sign(n),
                (None, true) => sign(self.bsd_buffer(index, "net.inet.tcp.sendspace", 32_768)),
                (None, false) => match index {
                    Some(index) => sign(self.table.connections[index].conn.send_buffer().get()),
                    None => self
                        .host
                        .get("net.ipv4.tcp_wmem")
                        .and_then(|t| t.split_whitespace().nth(1)?.parse().ok())
                        .unwrap_or(16_384),
                },
            },
            "SO_RCVBUF" => match (o.rcvbuf, self.is_bsd()) {
                (Some(n), _) => sign(n),
                (None, true) => sign(self.bsd_buffer(index, "net.inet.tcp.recvspace", 65_536)),
                (None, false) => {
                    let size = index.and_then(|index| self.table.connections[index].conn.info().rcv_memory);
                    let Some((_, size)) = size else { return unsupported("SO_RCVBUF that was not set") };
                    sign(size.get())
                }
            },
            "TCP_KEEPINIT" => self.bsd_seconds(o.keep_init, "keepinit", 75),
            "TCP_FASTOPEN" => o.fast_open.unwrap_or(0),
            "TCP_FASTOPEN_CONNECT" => i64::from(o.fast_open_connect),
            "TCP_FASTOPEN_NO_COOKIE" => i64::from(o.fast_open_no_cookie),
            "TCP_RTO_MIN_US" => sign(o.rto_min.map_or(200_000, Dur::as_micros)),
            "TCP_RTO_MAX_MS" => {
                let sysctl = || self.host.number("net.ipv4.tcp_rto_max_ms");
                sign(o.rto_max.map(Dur::as_millis).or_else(sysctl).unwrap_or(120_000))
            }
            "TCP_DELACK_MAX_US" => sign(o.delay_max.map_or(200_000, Dur::as_micros)),
            "TCP_SYNCNT" => {
                let sysctl = || self.host.number("net.ipv4.tcp_syn_retries");
                sign(o.syn_count.or_else(sysctl).unwrap_or(6))
            }
            "TCP_DEFER_ACCEPT" => i64::from(o.defer_accept),
            "SO_REUSEADDR" | "SO_REUSEPORT" if o.other.is_empty() => 0,
            "TCP_MAXSEG" => match index {
                Some(index) => sign(self.table.connections[index].conn.info().mss.get()),
                None => sign(o.maxseg.unwrap_or(536)),
            },
            "TCP_USER_TIMEOUT" => sign(o.user_timeout.unwrap_or(0)),
            "TCP_LINGER2" => sign(o.fin_wait2.unwrap_or(60)),
            "TCP_NOTSENT_LOWAT" => sign(o.notsent_lowat.unwrap_or(0)),
            "TCP_INQ" => i64::from(o.inq),
            "TCP_CONGESTION" => {
                let live = controller::cc_name(self.profile, &self.host, &o).to_owned();
                let live = if self.is_bsd() && live == "reno" { "newreno".to_owned() } else { live };
                if let Some(want) = text(args.get(3)).filter(|want| *want != "..." && *want != live) {
                    return Err(ScriptError::Mismatch { expected: want.to_owned(), live });
                }
                return Ok(SyscallResult::Done(0));
            }
            "SO_TYPE" => 1,
            "SO_PROTOCOL" => 6,
            "SO_ACCEPTCONN" => i64::from(matches!(self.socket_at(fd)?.role, Role::Listening(_))),
            "TCP_INFO" => return unsupported(format!("getsockopt {name}")),
            _ => match o.other.get(&(level.clone(), name.clone())) {
                Some(n) => *n,
                None => return unsupported(format!("the socket option {level} {name}")),
            },
        };
        self.output_value = value;
        let wanted = match args.get(3) {
            // The script has the name of an error.
            Some(Expr::List(items)) => match items.as_slice() {
                [Expr::Names(names)] if name == "SO_ERROR" => names.first().map(|n| number_of(n)),
                _ => int(args, 3).ok(),
            },
            _ => int(args, 3).ok(),
        };
        if let Some(want) = wanted
            && want != value
        {
            return Err(ScriptError::Mismatch { expected: format!("[{want}]"), live: format!("[{value}]") });
        }
        Ok(SyscallResult::Done(0))
    }

    /// The buffer size on FreeBSD: the sysctl, rounded up to whole segments on a connected socket (`tcp_mss`).
    pub(super) fn bsd_buffer(&self, index: Option<usize>, sysctl: &str, default: u64) -> u64 {
        let size = self.host.number(sysctl).unwrap_or(default);
        let Some(conn) = index.map(|p| &self.table.connections[p].conn) else { return size };
        let handshake = matches!(conn.state(), State::SynReceived) || conn.was_established();
        let mss = conn.segment_size().get().max(1);
        if handshake { size.next_multiple_of(mss) } else { size }
    }

    /// A time on FreeBSD in seconds: the option, or its default from a sysctl in milliseconds.
    pub(super) fn bsd_seconds(&self, set: Option<u64>, key: &str, default: u64) -> i64 {
        let sysctl = || self.host.number(&format!("net.inet.tcp.{key}")).map(|ms| ms / 1000);
        i64::try_from(set.or_else(sysctl).unwrap_or(default)).unwrap_or(i64::MAX)
    }

    /// Compares the control message `TCP_CM_INQ` of `recvmsg` with the script.
    pub(super) fn check_control(
        &mut self,
        call: &Syscall,
        index: usize,
        inq: bool,
    ) -> Result<(), ScriptError> {
        let Some(Expr::Group(members)) = call.args.get(1) else { return Ok(()) };
        let Some((_, Expr::List(messages))) = members.iter().find(|(name, _)| name == "msg_control") else {
            return Ok(());
        };
        for message in messages {
            let Expr::Group(parts) = message else { return unsupported("a control message") };
            let part = |name: &str| parts.iter().find(|(n, _)| n == name).map(|(_, e)| e);
            let is_inq = matches!(part("cmsg_type"), Some(Expr::Names(n)) if n.as_slice() == ["TCP_CM_INQ"]);
            let (true, Some(Expr::Int(want))) = (is_inq && inq, part("cmsg_data")) else {
                return unsupported("a control message other than TCP_CM_INQ");
            };
            let conn = &self.table.connections[index].conn;
            let there = conn.readable().get();
            // `tcp_inq_hint` of Linux reports a FIN as one byte.
            let live = if there == 0 && conn.peer_has_closed() { 1 } else { there };
            if i64::try_from(live) != Ok(*want) {
                return Err(ScriptError::Mismatch {
                    expected: format!("cmsg_data={want}"),
                    live: format!("cmsg_data={live}"),
                });
            }
        }
        Ok(())
    }
}

pub(super) fn text(e: Option<&Expr>) -> Option<&str> {
    match e? {
        Expr::Text(t) => Some(t),
        Expr::List(items) => text(items.first()),
        Expr::Names(n) => n.first().map(String::as_str),
        _ => None,
    }
}

/// The number of an error on Linux.
fn number_of(errno: &str) -> i64 {
    match errno {
        "EPIPE" => 32,
        "ECONNRESET" => 104,
        "ETIMEDOUT" => 110,
        "ECONNREFUSED" => 111,
        "EHOSTUNREACH" => 113,
        "ENETUNREACH" => 101,
        "ENOPROTOOPT" => 92,
        "EOPNOTSUPP" => 95,
        "EHOSTDOWN" => 112,
        "ENONET" => 64,
        "EACCES" => 13,
        "EPROTO" => 71,
        _ => -1,
    }
}
