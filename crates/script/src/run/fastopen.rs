//! TCP Fast Open on the host's side: cookies that were given and received, and the socket calls (RFC 7413 section 4).
//!
//! Sources: `tcp_fastopen.c`, `tcp_sendmsg_fastopen` and `tcp_fastopen_cache_set` of Linux; `tcp_fastopen.c` of FreeBSD.
//! There is one peer, and so one entry of the cache. FreeBSD's server makes its cookies from a key of its own, which
//! scripts cannot know.

use super::calls::{Attempt, Tried, unsupported};
use super::config::Open;
use super::model::{Model, Target};
use super::packet::hex;
use super::socket::{Role, Socket};
use super::stack::Trouble;
use crate::settings::{IpVersion, Settings};
use crate::siphash::siphash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tcpassay_tcp::{FastOpen, FastOpenAsk, FastOpenServe, State, is_cookie};
use tcpassay_units::{Bytes, Dur, Time};
use tcpassay_wire::Segment;

/// Bits of Linux's `tcp_fastopen`.
const CLIENT: u64 = 1;
const SERVER: u64 = 2;
const CLIENT_NO_COOKIE: u64 = 4;
const SERVER_NO_COOKIE: u64 = 0x200;
const SERVER_WITHOUT_OPTION: u64 = 0x400;
/// `MAX_TCP_OPTION_SPACE`: what Linux leaves for options in a SYN with data.
const OPTION_SPACE: u64 = 40;
/// `net.inet.tcp.fastopen.path_disable_time`
const DISABLED_FOR: Dur = Dur::from_secs(900);

/// What the host remembers of the peer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Cache {
    cookie: Option<FastOpen>,
    mss: Option<u16>,
    /// Linux: ask with the experimental option (1) next time, or not any more (2).
    try_exp: u8,
    /// FreeBSD: no Fast Open since then.
    disabled: Option<Time>,
}

/// Cookies that a server with these keys gives to this client.
fn cookies(keys: &[[u64; 2]], settings: &Settings) -> Vec<Vec<u8>> {
    let (remote, local) = addresses(settings);
    let path: Vec<u8> = match (remote, local) {
        (IpAddr::V4(r), IpAddr::V4(l)) => [r.octets(), l.octets()].concat(),
        (IpAddr::V6(r), IpAddr::V6(l)) => [r.octets(), l.octets()].concat(),
        _ => Vec::new(),
    };
    keys.iter().map(|key| siphash(*key, &path).to_le_bytes().to_vec()).collect()
}

/// The peer's address and ours: the original's defaults, unless the command line says otherwise.
fn addresses(settings: &Settings) -> (IpAddr, IpAddr) {
    let said = |name: &str| settings.addresses.iter().rev().find(|(n, _)| n == name).map(|(_, ip)| *ip);
    let v6 = |parts: [u16; 8]| IpAddr::V6(Ipv6Addr::from(parts));
    let (remote, local) = match settings.ip_version {
        IpVersion::V4 | IpVersion::V4MappedV6 => {
            (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)))
        }
        IpVersion::V6 => {
            (v6([0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1]), v6([0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 1]))
        }
    };
    (said("remote_ip").unwrap_or(remote), said("local_ip").unwrap_or(local))
}

/// `a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4`, or 32 hexadecimal digits; several joined by commas.
pub(super) fn keys(text: &str) -> Option<Vec<[u64; 2]>> {
    let key = |text: &str| {
        let words: Option<Vec<u32>> = if text.contains('-') {
            text.split('-').map(|w| u32::from_str_radix(w, 16).ok()).collect()
        } else {
            return None;
        };
        let [a, b, c, d] = words?.try_into().ok()?;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        Some([pair(a, b), pair(c, d)])
    };
    text.split(',').map(|t| key(t.trim())).collect()
}

/// Keys as `TCP_FASTOPEN_KEY` has them: bytes, which scripts write as text with `\x` before two digits.
pub(super) fn key_of_text(text: &str) -> Option<Vec<[u64; 2]>> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(digits) = rest.strip_prefix("\\x").and_then(|r| r.get(..2)) {
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &rest[4..];
        } else {
            bytes.push(u8::try_from(c).ok()?);
            rest = &rest[c.len_utf8()..];
        }
    }
    if let Some(keys) = keys(text) {
        return Some(keys);
    }
    let (whole, rest) = bytes.as_chunks::<16>();
    let word = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));
    (rest.is_empty() && (1..=2).contains(&whole.len()))
        .then(|| whole.iter().map(|k| [word(&k[..8]), word(&k[8..])]).collect())
}

/// Words of scripts that stand for something of the host, when the command line does not define them: the cookies of the
/// usual keys.
pub(super) fn words(settings: &Settings) -> Vec<(String, String)> {
    let usual = keys("a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4").expect("a key");
    let v6 = settings.ip_version == IpVersion::V6;
    let mut words = vec![
        ("TFO_COOKIE".to_owned(), hex(&cookies(&usual, settings)[0])),
        ("TFO_COOKIE_ZERO".to_owned(), hex(&cookies(&[[0, 0]], settings)[0])),
    ];
    let (level, kind) = if v6 { ("SOL_IPV6", "IPV6_RECVERR") } else { ("SOL_IP", "IP_RECVERR") };
    words.push(("CMSG_LEVEL_IP".to_owned(), level.to_owned()));
    words.push(("CMSG_TYPE_RECVERR".to_owned(), kind.to_owned()));
    words
}

impl Model {
    fn fast_open_bits(&self) -> u64 {
        self.host.number("net.ipv4.tcp_fastopen").unwrap_or(CLIENT)
    }

    /// What a listening socket's child takes.
    pub(super) fn fast_open_serve(&self, socket: &Socket) -> Option<FastOpenServe> {
        if self.is_bsd() {
            let on = self.host.number("net.inet.tcp.fastopen.server_enable") == Some(1);
            let asked = socket.options.fast_open.is_some_and(|n| n > 0);
            return (on && asked).then(FastOpenServe::default);
        }
        let bits = self.fast_open_bits();
        let asked = socket.options.fast_open.map_or(bits & SERVER_WITHOUT_OPTION != 0, |n| n > 0);
        if bits & SERVER == 0 || !asked {
            return None;
        }
        let given = socket.options.fast_open_key.clone();
        let set = || self.host.get("net.ipv4.tcp_fastopen_key").and_then(keys);
        let keys = given.or_else(set).unwrap_or_else(|| vec![[0, 0]]);
        let without_cookie = bits & SERVER_NO_COOKIE != 0 || socket.options.fast_open_no_cookie;
        Some(FastOpenServe { cookies: cookies(&keys, &self.settings), without_cookie })
    }

    /// What a client's SYN asks; `None`: no Fast Open.
    fn fast_open_ask(&mut self, socket: &Socket) -> Option<FastOpenAsk> {
        let mtu = u64::from(self.settings.mtu.unwrap_or(1500));
        let headers = if self.settings.ip_version == IpVersion::V6 { 60 } else { 40 };
        let ours = mtu - headers;
        let bsd = self.is_bsd();
        let now = self.world.now;
        let cache = &mut self.fast_open;
        let most = socket.options.maxseg.unwrap_or(ours).min(ours);
        let mss = cache.mss.map_or(most, u64::from).min(most);
        let payload = Bytes::new(if bsd { mss } else { mss.saturating_sub(OPTION_SPACE) });
        if bsd {
            if cache.disabled.is_some_and(|at| now.since(at) < DISABLED_FOR) {
                return None;
            }
            cache.disabled = None;
        } else if self.host.number("net.ipv4.tcp_fastopen").unwrap_or(CLIENT) & CLIENT_NO_COOKIE != 0
            || socket.options.fast_open_no_cookie
        {
            return Some(FastOpenAsk { option: None, payload });
        }
        Some(match &cache.cookie {
            Some(cookie) => FastOpenAsk { option: Some(cookie.clone()), payload },
            None => FastOpenAsk {
                option: Some(FastOpen { experimental: cache.try_exp == 1, cookie: Vec::new() }),
                payload: Bytes::ZERO,
            },
        })
    }

    /// Whether data could go with a SYN now.
    fn has_cookie(&self, socket: &Socket) -> bool {
        self.fast_open.cookie.is_some()
            || self.fast_open_bits() & CLIENT_NO_COOKIE != 0
            || socket.options.fast_open_no_cookie
    }

    /// The sysctl that turns the client on or off was written: FreeBSD forgets its cache.
    pub(super) fn fast_open_switched(&mut self) {
        if self.host.number("net.inet.tcp.fastopen.client_enable") == Some(0) {
            self.fast_open = Cache::default();
        }
    }

    /// A connection that asks for Fast Open; up to `n` bytes go with its SYN. Gives how many were written.
    fn open_fast(&mut self, fd: i64, n: u64) -> Result<(usize, u64), Trouble> {
        let socket = self.socket_at(fd)?.clone();
        let ask = self.fast_open_ask(&socket);
        let room = ask.as_ref().map_or(0, |ask| ask.payload.get());
        let peer = self.make(&socket, Open::Active)?;
        let bsd = self.is_bsd();
        let conn = &mut self.world.peers[peer].conn;
        if let Some(ask) = ask {
            conn.ask_fast_open(ask);
        }
        // FreeBSD keeps what does not go with the SYN in the socket; Linux leaves it to the caller.
        let keep = if bsd { n } else { n.min(room) };
        let written = conn.write(self.world.now, Bytes::new(keep)).get();
        self.socket_at(fd)?.role = Role::Connected(peer);
        self.target = Target::Peer(peer);
        self.world.flush(peer);
        Ok((peer, written))
    }

    /// `connect` with `TCP_FASTOPEN_CONNECT`: with a cookie it returns at once, and the first write opens.
    pub(super) fn connect_fast(&mut self, fd: i64) -> Result<Option<Attempt>, Trouble> {
        let socket = self.socket_at(fd)?.clone();
        if socket.deferred {
            return Ok(Some(Attempt::Error("EISCONN")));
        }
        if !socket.options.fast_open_connect || self.is_bsd() || self.fast_open_bits() & CLIENT == 0 {
            return Ok(None);
        }
        if self.has_cookie(&socket) {
            self.socket_at(fd)?.deferred = true;
            return Ok(Some(Attempt::Done(0)));
        }
        self.open_fast(fd, 0)?;
        Ok(Some(if socket.nonblocking { Attempt::Error("EINPROGRESS") } else { Attempt::Blocks }))
    }

    /// A write of `n` bytes that opens a connection, where this is one.
    pub(super) fn send_fast(&mut self, fd: i64, n: u64, flags: &[&str]) -> Result<Option<Attempt>, Trouble> {
        let socket = self.socket_at(fd)?.clone();
        let bsd = self.is_bsd();
        let asked = flags.contains(&"MSG_FASTOPEN");
        let implied = bsd && socket.options.fast_open.is_some_and(|n| n > 0);
        if self.fast_call || !(asked || socket.deferred || implied) {
            return Ok(None);
        }
        if asked && self.fast_open_bits() & CLIENT == 0 {
            return Ok(Some(Attempt::Error("EOPNOTSUPP")));
        }
        match socket.role {
            Role::Fresh => {}
            Role::Connected(_) if implied => return Ok(None),
            Role::Connected(peer) => {
                let opening =
                    matches!(self.world.peers[peer].conn.state(), State::SynSent | State::SynReceived);
                if !opening && !socket.connect_told && self.world.peers[peer].conn.error().is_none() {
                    // The first call after the handshake finds it done, and writes.
                    self.socket_at(fd)?.connect_told = true;
                    return Ok(None);
                }
                return Ok(asked.then_some(Attempt::Error(if opening { "EALREADY" } else { "EISCONN" })));
            }
            Role::Listening(_) => return Ok(Some(Attempt::Error("EISCONN"))),
        }
        self.fast_call = true;
        let (_, written) = self.open_fast(fd, n)?;
        self.written = written;
        let opened = self.socket_at(fd)?;
        opened.deferred = false;
        let nonblocking = opened.nonblocking || flags.contains(&"MSG_DONTWAIT");
        let done = |n: u64| Attempt::Done(i64::try_from(n).unwrap_or(i64::MAX));
        Ok(Some(if bsd || (nonblocking && written > 0) {
            done(written)
        } else if nonblocking {
            Attempt::Error("EINPROGRESS")
        } else {
            if written < n {
                self.hold_ack(fd)?;
            }
            self.socket_at(fd)?.connect_told = true;
            Attempt::Blocks
        }))
    }

    /// Somebody waits to write: the third segment of the handshake may carry it.
    pub(super) fn hold_ack(&mut self, fd: i64) -> Result<(), Trouble> {
        if let Some(peer) = self.socket_at(fd)?.peer() {
            self.world.peers[peer].conn.hold_handshake_ack(true);
        }
        Ok(())
    }

    /// After the peer's SYN-ACK arrived: what the host learns from it.
    pub(super) fn learn_fast_open(&mut self, peer: usize, segment: &Segment) {
        let Some(answer) = self.world.peers[peer].conn.fast_open_answer().cloned() else { return };
        let bsd = self.is_bsd();
        let now = self.world.now;
        let cache = &mut self.fast_open;
        let told = answer.option.is_some();
        // Linux ignores a cookie that it has not asked for.
        let heard = bsd || answer.asked.is_some();
        let cookie = answer.option.filter(|o| heard && is_cookie(&o.cookie));
        cache.mss = segment.options.mss.or(cache.mss);
        match cookie {
            Some(cookie) => {
                cache.cookie = Some(cookie);
                cache.disabled = None;
            }
            None if bsd => {
                // No cookie, or an invalid one, is taken for a path that drops the option.
                let had = cache.cookie.is_some() && !told;
                if !(had && answer.acked > 0) {
                    cache.disabled = Some(now);
                    cache.cookie = None;
                }
            }
            None if heard && !answer.repeated && answer.sent == 0 && cache.cookie.is_none() => {
                cache.try_exp = cache.try_exp.max(if answer.asked == Some(true) { 2 } else { 1 });
            }
            None => {}
        }
    }

    /// `setsockopt` of the options of Fast Open, with the errors of Linux.
    pub(super) fn set_fast_open(&mut self, fd: i64, name: &str, value: i64) -> Tried {
        let client = self.fast_open_bits() & CLIENT != 0;
        let bsd = self.is_bsd();
        let socket = self.socket_at(fd)?;
        let fresh = socket.role == Role::Fresh;
        let early = fresh || matches!(socket.role, Role::Listening(_));
        let options = &mut socket.options;
        match name {
            _ if bsd => {}
            "TCP_FASTOPEN_CONNECT" if !client && (value == 0 || value == 1) => {
                return Ok(Attempt::Error("EOPNOTSUPP"));
            }
            "TCP_FASTOPEN_CONNECT" if !fresh || !(0..=1).contains(&value) => {
                return Ok(Attempt::Error("EINVAL"));
            }
            "TCP_FASTOPEN_NO_COOKIE" if !early || !(0..=1).contains(&value) => {
                return Ok(Attempt::Error("EINVAL"));
            }
            "TCP_FASTOPEN" if !early || value < 0 => return Ok(Attempt::Error("EINVAL")),
            _ => {}
        }
        match name {
            "TCP_FASTOPEN" => options.fast_open = Some(value),
            "TCP_FASTOPEN_CONNECT" => options.fast_open_connect = value != 0,
            "TCP_FASTOPEN_NO_COOKIE" => options.fast_open_no_cookie = value != 0,
            _ => return unsupported(format!("the socket option {name}")),
        }
        Ok(Attempt::Done(0))
    }
}
