//! `setsockopt`.

use super::args::{int, names, unsupported};
use super::connections::DEFAULT_HOP_LIMIT;
use super::getsockopt::text;
use super::socket::{self, SocketOptions};
use super::socket::{OpenMode, Role};
use super::state::Model;
use super::{config, controller, fast_open};
use crate::ast::Expr;
use crate::run::target::{ScriptError, SyscallResult};
use tcpassay_units::Dur;

/// Options without effect on the model. `getsockopt` returns their value.
const INERT: &[&str] = &[
    "SO_REUSEADDR",
    "SO_REUSEPORT",
    "SO_DEBUG",
    "SO_RCVLOWAT",
    "SO_MARK",
    "SO_PRIORITY",
    "SO_SNDTIMEO",
    "SO_RCVTIMEO",
    "SO_BROADCAST",
    "SO_OOBINLINE",
    "SO_BINDTODEVICE",
    "SO_NO_CHECK",
    "SO_INCOMING_CPU",
    "SO_TXREHASH",
    "IP_MTU_DISCOVER",
    "IP_RECVERR",
    "IP_FREEBIND",
    "IP_TRANSPARENT",
    "IP_BIND_ADDRESS_NO_PORT",
    "IP_LOCAL_PORT_RANGE",
    "IPV6_FREEBIND",
    "IPV6_TRANSPARENT",
    "SO_MAX_PACING_RATE",
    "TCP_RACK_PACE_MAX_SEG",
    "TCP_RACK_PACE_RATE_SS",
    "TCP_RACK_PACE_ALWAYS",
    "TCP_TX_DELAY",
    "IPV6_RECVERR",
    "IPV6_MTU_DISCOVER",
    "IPV6_V6ONLY",
    "TCP_SAVE_SYN",
    "TCP_WINDOW_CLAMP",
    "TCP_LOG",
    "SO_ZEROCOPY",
    "SO_TIMESTAMP",
    "SO_TIMESTAMPNS",
    "SO_BUSY_POLL",
    "SO_PREFER_BUSY_POLL",
    "TCP_THIN_LINEAR_TIMEOUTS",
    "TCP_THIN_DUPACK",
    "TCP_TIMESTAMP",
    "IP_RECVTOS",
];

impl Model {
    pub(super) fn setsockopt(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let fd = int(args, 0)?;
        let level = names(args, 1).join("|");
        let name = names(args, 2).join("|");
        let linux = self.profile.is_linux();
        let socket = self.socket_at(fd)?;
        let listening = matches!(socket.role, Role::Listening(_));
        let index = socket.connection();
        let o = &mut socket.options;
        let value = int(args, 3);
        if value.as_ref().is_ok_and(|&n| !(i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(&n)) {
            return unsupported(format!("a value of {name} beyond 32 bits"));
        }
        let positive = || value.clone().map(|v| u64::try_from(v).unwrap_or(0));
        match name.as_str() {
            "TCP_NODELAY" => o.nodelay = positive()? != 0,
            "TCP_CORK" | "TCP_NOPUSH" => o.cork = positive()? != 0,
            "SO_KEEPALIVE" => o.keepalive = positive()? != 0,
            "TCP_KEEPIDLE" => o.keep_idle = Some(positive()?),
            "TCP_KEEPINTVL" => o.keep_interval = Some(positive()?),
            "TCP_KEEPCNT" => o.keep_count = Some(positive()?),
            "SO_SNDBUF" | "SO_SNDBUFFORCE" => o.sndbuf = Some(buffer(positive()?, linux, 4608)),
            "SO_RCVBUF" | "SO_RCVBUFFORCE" => o.rcvbuf = Some(buffer(positive()?, linux, 2304)),
            "TCP_MAXSEG" => {
                let n = positive()?;
                if linux && n != 0 && !(88..=32767).contains(&n) {
                    return Ok(SyscallResult::errno("EINVAL"));
                }
                o.maxseg = (n > 0).then_some(n);
            }
            "TCP_USER_TIMEOUT" => match value.clone()? {
                n if n < 0 => return Ok(SyscallResult::errno("EINVAL")),
                n => o.user_timeout = Some(n.unsigned_abs()),
            },
            "TCP_NOTSENT_LOWAT" => o.notsent_lowat = Some(positive()?),
            "TCP_RTO_MIN_US" | "TCP_RTO_MAX_MS" | "TCP_DELACK_MAX_US" if linux => {
                return self.set_timer_bounds(fd, index, &name, value?);
            }
            "TCP_SYNCNT" => match positive()? {
                n @ 1..=127 => o.syn_count = Some(n),
                _ => return Ok(SyscallResult::errno("EINVAL")),
            },
            "TCP_DEFER_ACCEPT" => o.defer_accept = positive()? != 0,
            "TCP_LINGER2" => o.fin_wait2 = Some(positive()?).filter(|&secs| secs > 0),
            "TCP_KEEPINIT" => o.keep_init = Some(positive()?),
            "TCP_FASTOPEN_KEY" => {
                let Some(key) = text(args.get(3)).and_then(fast_open::key_of_text) else {
                    return Ok(SyscallResult::errno("EINVAL"));
                };
                o.fast_open_key = Some(key);
            }
            "TCP_FASTOPEN" | "TCP_FASTOPEN_CONNECT" | "TCP_FASTOPEN_NO_COOKIE" => {
                let value = value.clone()?;
                return self.set_fast_open(fd, &name, value);
            }
            "TCP_INQ" => match value.clone()? {
                0 | 1 => o.inq = value.clone()? == 1,
                _ => return Ok(SyscallResult::errno("EINVAL")),
            },
            "TCP_CONGESTION" => return self.set_controller(fd, index, args),
            "TCP_QUICKACK" => {
                let on = positive()? != 0;
                if let Some(index) = index {
                    let now = self.table.now;
                    self.table.connections[index].conn.set_quickack(now, on);
                    self.table.flush(index);
                }
            }
            "SO_LINGER" => {
                let Some((on, time)) = linger(args.get(3)) else {
                    return Err(ScriptError::Invalid(
                        "the value of SO_LINGER must have the form `{onoff=1, linger=0}`".to_owned(),
                    ));
                };
                o.linger = on.then_some(time);
            }
            "SO_TIMESTAMPING" | "IP_TOS" | "IPV6_TCLASS" | "IP_TTL" | "IPV6_UNICAST_HOPS" => {
                return self.set_header(fd, index, (level, name), args);
            }
            "TCP_NOOPT" => o.no_options = positive()? != 0,
            _ if INERT.contains(&name.as_str()) => {
                o.other.insert((level, name), value.unwrap_or(0));
                return Ok(SyscallResult::Done(0));
            }
            _ => return unsupported(format!("the socket option {level} {name}")),
        }
        if !listening && let Some(index) = index {
            self.refresh(fd, index, &name)?;
        }
        Ok(SyscallResult::Done(0))
    }

    /// The options for fields of the IP header, and `SO_TIMESTAMPING`.
    pub(super) fn set_header(
        &mut self,
        fd: i64,
        index: Option<usize>,
        option: (String, String),
        args: &[Expr],
    ) -> Result<SyscallResult, ScriptError> {
        let o = &mut self.socket_at(fd)?.options;
        match option.1.as_str() {
            "SO_TIMESTAMPING" => {
                o.stages = Model::stages(args);
                if let Some(index) = index {
                    let entry = &mut self.table.connections[index];
                    entry.errors.ask_stamps(entry.conn.info().bytes_acked.get());
                }
            }
            "IP_TOS" | "IPV6_TCLASS" => {
                let Some(tos) = service(args.get(3)) else {
                    return Err(ScriptError::Invalid(
                        "a TOS byte must be a number of 0 to 255 or a name of netinet/ip.h".to_owned(),
                    ));
                };
                o.tos = tos & !3;
                o.other.insert(option, i64::from(tos));
                if let Some(index) = index {
                    self.table.connections[index].tos = tos & !3;
                }
            }
            _ => {
                o.hops = u8::try_from(int(args, 3)?).ok();
                let hops = o.hops.unwrap_or(DEFAULT_HOP_LIMIT);
                o.other.insert(option, i64::from(hops));
                if let Some(index) = index {
                    self.table.connections[index].hops = hops;
                }
            }
        }
        Ok(SyscallResult::Done(0))
    }

    /// Bounds of timers. Values out of range cause `EINVAL`, as on Linux: `TCP_TIMEOUT_MIN` (two ticks), `TCP_RTO_MIN`,
    /// `TCP_DELACK_MAX` and `TCP_RTO_MAX_SEC`.
    pub(super) fn set_timer_bounds(
        &mut self,
        fd: i64,
        index: Option<usize>,
        name: &str,
        value: i64,
    ) -> Result<SyscallResult, ScriptError> {
        let ms = name == "TCP_RTO_MAX_MS";
        let allowed = if ms { 1000..=120_000 } else { 2000..=200_000 };
        if !allowed.contains(&value) {
            return Ok(SyscallResult::errno("EINVAL"));
        }
        let value = value.unsigned_abs();
        let time = Some(if ms { Dur::from_millis(value) } else { Dur::from_micros(value) });
        let o = &mut self.socket_at(fd)?.options;
        match name {
            "TCP_RTO_MIN_US" => o.rto_min = time,
            "TCP_RTO_MAX_MS" => o.rto_max = time,
            _ => o.delay_max = time,
        }
        if let Some(index) = index {
            let options = o.clone();
            let cfg = config::config(self.profile, &self.host, &self.settings, &options, OpenMode::Active)
                .map_err(ScriptError::Unsupported)?;
            let conn = &mut self.table.connections[index].conn;
            conn.set_timer_bounds(cfg.rto.min, cfg.rto.max, cfg.delayed_ack.timeout);
        }
        Ok(SyscallResult::Done(0))
    }

    /// `TCP_CONGESTION`
    pub(super) fn set_controller(
        &mut self,
        fd: i64,
        index: Option<usize>,
        args: &[Expr],
    ) -> Result<SyscallResult, ScriptError> {
        let Some(text) = text(args.get(3)) else {
            return Err(ScriptError::Invalid("a controller is `[\"reno\"]` or `\"reno\"`".to_owned()));
        };
        let probe = SocketOptions { congestion: Some(text.to_owned()), ..SocketOptions::default() };
        let name = controller::cc_name(self.profile, &self.host, &probe).to_owned();
        if tcpassay_cc::names().iter().all(|n| *n != name) {
            return unsupported(format!("the congestion controller `{text}`"));
        }
        let text = text.to_owned();
        self.socket_at(fd)?.options.congestion = Some(text);
        if let Some(index) = index {
            // DCTCP negotiates ECN in the handshake.
            if name == "dctcp" {
                return unsupported("DCTCP on an open connection");
            }
            let options = self.socket_at(fd)?.options.clone();
            let cfg = config::config(self.profile, &self.host, &self.settings, &options, OpenMode::Active)
                .map_err(ScriptError::Unsupported)?;
            let cc = controller::controller(&cfg, &name).map_err(ScriptError::Unsupported)?;
            self.table.connections[index].conn.set_controller(cc);
        }
        Ok(SyscallResult::Done(0))
    }

    /// Applies the options of a socket to its connection.
    pub(super) fn refresh(&mut self, fd: i64, index: usize, name: &str) -> Result<(), ScriptError> {
        let options = self.socket_at(fd)?.options.clone();
        let keepalive = controller::keepalive(&options, &self.host);
        let now = self.table.now;
        socket::update(&mut self.table.connections[index].conn, now, name, &options, keepalive);
        self.table.flush(index);
        Ok(())
    }
}

/// A TOS byte: a number, or a name of `netinet/ip.h`.
fn service(e: Option<&Expr>) -> Option<u8> {
    let e = match e? {
        Expr::List(items) => items.first()?,
        e => e,
    };
    let name = match e {
        Expr::Int(n) => return u8::try_from(*n).ok(),
        Expr::Names(names) => match names.as_slice() {
            [name] => name.as_str(),
            _ => return None,
        },
        _ => return None,
    };
    let digit = |rest: &str| rest.parse::<u8>().ok();
    match name {
        "IPTOS_LOWDELAY" => Some(0x10),
        "IPTOS_THROUGHPUT" => Some(0x08),
        "IPTOS_RELIABILITY" => Some(0x04),
        "IPTOS_MINCOST" | "IPTOS_LOWCOST" => Some(0x02),
        "IPTOS_DSCP_EF" => Some(0xb8),
        "IPTOS_DSCP_VA" => Some(0xb0),
        _ => {
            if let Some(class) = name.strip_prefix("IPTOS_DSCP_CS").and_then(digit) {
                return (class < 8).then_some(class << 5);
            }
            let pair = name.strip_prefix("IPTOS_DSCP_AF").and_then(digit)?;
            let (class, drop) = (pair / 10, pair % 10);
            ((1..=4).contains(&class) && (1..=3).contains(&drop)).then_some(class << 5 | drop << 3)
        }
    }
}

/// The size of a buffer: Linux doubles the requested size and applies a minimum.
fn buffer(asked: u64, linux: bool, least: u64) -> u64 {
    if linux { asked.saturating_mul(2).max(least) } else { asked }
}

fn linger(e: Option<&Expr>) -> Option<(bool, u64)> {
    let e = match e? {
        Expr::List(items) => items.first()?,
        e => e,
    };
    let Expr::Group(members) = e else { return None };
    let get = |names: [&str; 2]| {
        members.iter().find(|(n, _)| names.contains(&n.as_str())).and_then(|(_, e)| match e {
            Expr::Int(n) => u64::try_from(*n).ok(),
            _ => None,
        })
    };
    Some((get(["onoff", "l_onoff"])? != 0, get(["linger", "l_linger"])?))
}
