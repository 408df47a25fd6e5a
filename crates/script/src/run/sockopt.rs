//! `setsockopt` and `getsockopt`, control messages.

use super::calls::{Attempt, Tried, int, names, unsupported};
use super::model::Model;
use super::socket::{self, Options, Role};
use super::stack::Trouble;
use super::world::HOPS;
use super::{config, fastopen};
use crate::ast::{Call, Expr};
use tcpassay_tcp::{Profile, State};
use tcpassay_units::Dur;

/// Options without effect on the model; their value is remembered.
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
    pub(super) fn setsockopt(&mut self, args: &[Expr]) -> Tried {
        let fd = int(args, 0)?;
        let level = names(args, 1).join("|");
        let name = names(args, 2).join("|");
        let linux = matches!(self.profile, Profile::Linux | Profile::Linux46);
        let socket = self.socket_at(fd)?;
        let listening = matches!(socket.role, Role::Listening(_));
        let peer = socket.peer();
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
                    return Ok(Attempt::Error("EINVAL"));
                }
                o.maxseg = (n > 0).then_some(n);
            }
            "TCP_USER_TIMEOUT" => match value.clone()? {
                n if n < 0 => return Ok(Attempt::Error("EINVAL")),
                n => o.user_timeout = Some(n.unsigned_abs()),
            },
            "TCP_NOTSENT_LOWAT" => o.notsent_lowat = Some(positive()?),
            "TCP_RTO_MIN_US" | "TCP_RTO_MAX_MS" | "TCP_DELACK_MAX_US" if linux => {
                return self.set_timer_bounds(fd, peer, &name, value?);
            }
            "TCP_SYNCNT" => match positive()? {
                n @ 1..=127 => o.syn_count = Some(n),
                _ => return Ok(Attempt::Error("EINVAL")),
            },
            "TCP_DEFER_ACCEPT" => o.defer_accept = positive()? != 0,
            "TCP_LINGER2" => o.fin_wait2 = Some(positive()?).filter(|&secs| secs > 0),
            "TCP_KEEPINIT" => o.keep_init = Some(positive()?),
            "TCP_FASTOPEN_KEY" => {
                let Some(key) = text(args.get(3)).and_then(fastopen::key_of_text) else {
                    return Ok(Attempt::Error("EINVAL"));
                };
                o.fast_open_key = Some(key);
            }
            "TCP_FASTOPEN" | "TCP_FASTOPEN_CONNECT" | "TCP_FASTOPEN_NO_COOKIE" => {
                let value = value.clone()?;
                return self.set_fast_open(fd, &name, value);
            }
            "TCP_INQ" => match value.clone()? {
                0 | 1 => o.inq = value.clone()? == 1,
                _ => return Ok(Attempt::Error("EINVAL")),
            },
            "TCP_CONGESTION" => return self.set_controller(fd, peer, args),
            "TCP_QUICKACK" => {
                let on = positive()? != 0;
                if let Some(peer) = peer {
                    let now = self.world.now;
                    self.world.peers[peer].conn.set_quickack(now, on);
                    self.world.flush(peer);
                }
            }
            "SO_LINGER" => {
                let Some((on, time)) = linger(args.get(3)) else {
                    return Err(Trouble::Nonsense("SO_LINGER is `{onoff=1, linger=0}`".to_owned()));
                };
                o.linger = on.then_some(time);
            }
            "SO_TIMESTAMPING" | "IP_TOS" | "IPV6_TCLASS" | "IP_TTL" | "IPV6_UNICAST_HOPS" => {
                return self.set_header(fd, peer, (level, name), args);
            }
            "TCP_NOOPT" => o.bare = positive()? != 0,
            _ if INERT.contains(&name.as_str()) => {
                o.other.insert((level, name), value.unwrap_or(0));
                return Ok(Attempt::Done(0));
            }
            _ => return unsupported(format!("the socket option {level} {name}")),
        }
        if !listening && let Some(peer) = peer {
            self.refresh(fd, peer, &name)?;
        }
        Ok(Attempt::Done(0))
    }

    /// What the IP header says, and when the error queue tells that a packet left.
    fn set_header(&mut self, fd: i64, peer: Option<usize>, option: (String, String), args: &[Expr]) -> Tried {
        let o = &mut self.socket_at(fd)?.options;
        match option.1.as_str() {
            "SO_TIMESTAMPING" => {
                o.stages = Model::stages(args);
                if let Some(peer) = peer {
                    let peer = &mut self.world.peers[peer];
                    peer.errors.ask_stamps(peer.conn.info().bytes_acked.get());
                }
            }
            "IP_TOS" | "IPV6_TCLASS" => {
                let Some(tos) = service(args.get(3)) else {
                    return Err(Trouble::Nonsense(
                        "a type of service is a byte, or one by its name".to_owned(),
                    ));
                };
                o.tos = tos & !3;
                o.other.insert(option, i64::from(tos));
                if let Some(peer) = peer {
                    self.world.peers[peer].tos = tos & !3;
                }
            }
            _ => {
                o.hops = u8::try_from(int(args, 3)?).ok();
                let hops = o.hops.unwrap_or(HOPS);
                o.other.insert(option, i64::from(hops));
                if let Some(peer) = peer {
                    self.world.peers[peer].hops = hops;
                }
            }
        }
        Ok(Attempt::Done(0))
    }

    /// Bounds of timers, with Linux's errors for what is out of range: the two ticks of `TCP_TIMEOUT_MIN`, `TCP_RTO_MIN`,
    /// `TCP_DELACK_MAX` and `TCP_RTO_MAX_SEC`.
    fn set_timer_bounds(&mut self, fd: i64, peer: Option<usize>, name: &str, value: i64) -> Tried {
        let ms = name == "TCP_RTO_MAX_MS";
        let allowed = if ms { 1000..=120_000 } else { 2000..=200_000 };
        if !allowed.contains(&value) {
            return Ok(Attempt::Error("EINVAL"));
        }
        let value = value.unsigned_abs();
        let time = Some(if ms { Dur::from_millis(value) } else { Dur::from_micros(value) });
        let o = &mut self.socket_at(fd)?.options;
        match name {
            "TCP_RTO_MIN_US" => o.rto_min = time,
            "TCP_RTO_MAX_MS" => o.rto_max = time,
            _ => o.delay_max = time,
        }
        if let Some(peer) = peer {
            let options = o.clone();
            let cfg =
                config::config(self.profile, &self.host, &self.settings, &options, config::Open::Active)
                    .map_err(Trouble::Unsupported)?;
            let conn = &mut self.world.peers[peer].conn;
            conn.set_timer_bounds(cfg.rto.min, cfg.rto.max, cfg.delayed_ack.timeout);
        }
        Ok(Attempt::Done(0))
    }

    /// `TCP_CONGESTION`
    fn set_controller(&mut self, fd: i64, peer: Option<usize>, args: &[Expr]) -> Tried {
        let Some(text) = text(args.get(3)) else {
            return Err(Trouble::Nonsense("a controller is `[\"reno\"]` or `\"reno\"`".to_owned()));
        };
        let probe = Options { congestion: Some(text.to_owned()), ..Options::default() };
        let name = config::cc_name(self.profile, &self.host, &probe).to_owned();
        if tcpassay_cc::names().iter().all(|n| *n != name) {
            return unsupported(format!("the congestion controller `{text}`"));
        }
        let text = text.to_owned();
        self.socket_at(fd)?.options.congestion = Some(text);
        if let Some(peer) = peer {
            // DCTCP's marks are agreed on in the handshake.
            if name == "dctcp" {
                return unsupported("DCTCP on an open connection");
            }
            let options = self.socket_at(fd)?.options.clone();
            let cfg =
                config::config(self.profile, &self.host, &self.settings, &options, config::Open::Active)
                    .map_err(Trouble::Unsupported)?;
            let cc =
                config::controller(&cfg, self.profile, &self.host, &name).map_err(Trouble::Unsupported)?;
            self.world.peers[peer].conn.set_controller(cc);
        }
        Ok(Attempt::Done(0))
    }

    /// Gives a socket's options to its connection.
    fn refresh(&mut self, fd: i64, peer: usize, name: &str) -> Result<(), Trouble> {
        let options = self.socket_at(fd)?.options.clone();
        let keepalive = config::keepalive(&options, &self.host);
        let now = self.world.now;
        socket::update(&mut self.world.peers[peer].conn, now, name, &options, keepalive);
        self.world.flush(peer);
        Ok(())
    }

    pub(super) fn getsockopt(&mut self, args: &[Expr]) -> Tried {
        let fd = int(args, 0)?;
        let level = names(args, 1).join("|");
        let name = names(args, 2).join("|");
        let peer = self.socket_at(fd)?.peer();
        let o = self.socket_at(fd)?.options.clone();
        let sign = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let value = match name.as_str() {
            "SO_ERROR" => match peer {
                Some(peer) => self.take_error(fd, peer)?.map_or(0, number_of),
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
                (None, true) => sign(self.bsd_buffer(peer, "net.inet.tcp.sendspace", 32_768)),
                (None, false) => match peer {
                    Some(peer) => sign(self.world.peers[peer].conn.send_buffer().get()),
                    None => self
                        .host
                        .get("net.ipv4.tcp_wmem")
                        .and_then(|t| t.split_whitespace().nth(1)?.parse().ok())
                        .unwrap_or(16_384),
                },
            },
            "SO_RCVBUF" => match (o.rcvbuf, self.is_bsd()) {
                (Some(n), _) => sign(n),
                (None, true) => sign(self.bsd_buffer(peer, "net.inet.tcp.recvspace", 65_536)),
                (None, false) => {
                    let size = peer.and_then(|peer| self.world.peers[peer].conn.info().rcv_memory);
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
            "TCP_MAXSEG" => match peer {
                Some(peer) => sign(self.world.peers[peer].conn.info().mss.get()),
                None => sign(o.maxseg.unwrap_or(536)),
            },
            "TCP_USER_TIMEOUT" => sign(o.user_timeout.unwrap_or(0)),
            "TCP_LINGER2" => sign(o.fin_wait2.unwrap_or(60)),
            "TCP_NOTSENT_LOWAT" => sign(o.notsent_lowat.unwrap_or(0)),
            "TCP_INQ" => i64::from(o.inq),
            "TCP_CONGESTION" => {
                let live = config::cc_name(self.profile, &self.host, &o).to_owned();
                let live = if self.is_bsd() && live == "reno" { "newreno".to_owned() } else { live };
                if let Some(want) = text(args.get(3)).filter(|want| *want != "..." && *want != live) {
                    return Err(Trouble::Mismatch { expected: want.to_owned(), live });
                }
                return Ok(Attempt::Done(0));
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
        self.told = value;
        let wanted = match args.get(3) {
            // An error by its name.
            Some(Expr::List(items)) => match items.as_slice() {
                [Expr::Names(names)] if name == "SO_ERROR" => names.first().map(|n| number_of(n)),
                _ => int(args, 3).ok(),
            },
            _ => int(args, 3).ok(),
        };
        if let Some(want) = wanted
            && want != value
        {
            return Err(Trouble::Mismatch { expected: format!("[{want}]"), live: format!("[{value}]") });
        }
        Ok(Attempt::Done(0))
    }

    /// FreeBSD's size of a buffer: the sysctl's, and a whole number of segments once it is connected (`tcp_mss`).
    fn bsd_buffer(&self, peer: Option<usize>, sysctl: &str, default: u64) -> u64 {
        let size = self.host.number(sysctl).unwrap_or(default);
        let Some(conn) = peer.map(|p| &self.world.peers[p].conn) else { return size };
        let told = matches!(conn.state(), State::SynReceived) || conn.was_established();
        let mss = conn.segment_size().get().max(1);
        if told { size.next_multiple_of(mss) } else { size }
    }

    /// Seconds of an option of FreeBSD, or of the sysctl that gives its default in milliseconds.
    fn bsd_seconds(&self, set: Option<u64>, key: &str, default: u64) -> i64 {
        let sysctl = || self.host.number(&format!("net.inet.tcp.{key}")).map(|ms| ms / 1000);
        i64::try_from(set.or_else(sysctl).unwrap_or(default)).unwrap_or(i64::MAX)
    }

    /// The control message of `recvmsg` that the script expects: `TCP_CM_INQ`.
    pub(super) fn check_control(&mut self, call: &Call, peer: usize, inq: bool) -> Result<(), Trouble> {
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
            let conn = &self.world.peers[peer].conn;
            let there = conn.readable().get();
            // Linux `tcp_inq_hint`: the end of the stream shows as one byte.
            let live = if there == 0 && conn.peer_has_closed() { 1 } else { there };
            if i64::try_from(live) != Ok(*want) {
                return Err(Trouble::Mismatch {
                    expected: format!("cmsg_data={want}"),
                    live: format!("cmsg_data={live}"),
                });
            }
        }
        Ok(())
    }
}

/// A type of service: a number, or a name of `netinet/ip.h`.
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

/// Linux keeps twice what is asked, and never less than a minimum.
fn buffer(asked: u64, linux: bool, least: u64) -> u64 {
    if linux { asked.saturating_mul(2).max(least) } else { asked }
}

fn text(e: Option<&Expr>) -> Option<&str> {
    match e? {
        Expr::Text(t) => Some(t),
        Expr::List(items) => text(items.first()),
        Expr::Names(n) => n.first().map(String::as_str),
        _ => None,
    }
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

/// Linux's numbers, which a script may compare with.
fn number_of(errno: &str) -> i64 {
    match errno {
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
