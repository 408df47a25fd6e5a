//! System calls and packets that concern TCP Fast Open (RFC 7413 section 4).

use super::args::unsupported;
use super::fast_open::{Cache, cookies, keys};
use super::socket::{OpenMode, Role, Socket};
use super::state::{Model, SocketUnderTest};
use crate::run::target::{ScriptError, SyscallResult};
use crate::settings::IpVersion;
use tcpassay_tcp::State;
use tcpassay_tcp::{FastOpen, FastOpenAsk, FastOpenServe, is_cookie};
use tcpassay_units::{Bytes, Dur};
use tcpassay_wire::Segment;

/// Bits of the sysctl `tcp_fastopen` of Linux.
const CLIENT: u64 = 1;
const SERVER: u64 = 2;
const CLIENT_NO_COOKIE: u64 = 4;
const SERVER_NO_COOKIE: u64 = 0x200;
const SERVER_WITHOUT_OPTION: u64 = 0x400;
/// `MAX_TCP_OPTION_SPACE`: the bytes that Linux reserves for options in a SYN with data.
const OPTION_SPACE: u64 = 40;
/// `net.inet.tcp.fastopen.path_disable_time`
const DISABLED_FOR: Dur = Dur::from_secs(900);

impl Model {
    pub(super) fn fast_open_bits(&self) -> u64 {
        self.host.number("net.ipv4.tcp_fastopen").unwrap_or(CLIENT)
    }

    /// The Fast Open settings of a connection that `socket` accepts; `None` if Fast Open is off.
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

    /// The Fast Open request of a client; `None` if Fast Open is off.
    pub(super) fn fast_open_ask(&mut self, socket: &Socket) -> Option<FastOpenAsk> {
        let mtu = u64::from(self.settings.mtu.unwrap_or(1500));
        let headers = if self.settings.ip_version == IpVersion::V6 { 60 } else { 40 };
        let ours = mtu - headers;
        let bsd = self.is_bsd();
        let now = self.table.now;
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

    /// Returns true if a SYN may carry data now.
    pub(super) fn has_cookie(&self, socket: &Socket) -> bool {
        self.fast_open.cookie.is_some()
            || self.fast_open_bits() & CLIENT_NO_COOKIE != 0
            || socket.options.fast_open_no_cookie
    }

    /// FreeBSD clears the cookie cache when the client side is disabled.
    pub(super) fn fast_open_switched(&mut self) {
        if self.host.number("net.inet.tcp.fastopen.client_enable") == Some(0) {
            self.fast_open = Cache::default();
        }
    }

    /// Opens a connection with Fast Open. The SYN carries up to `n` bytes. Returns the connection and the number of bytes written.
    pub(super) fn open_fast(&mut self, fd: i64, n: u64) -> Result<(usize, u64), ScriptError> {
        let socket = self.socket_at(fd)?.clone();
        let ask = self.fast_open_ask(&socket);
        let room = ask.as_ref().map_or(0, |ask| ask.payload.get());
        let index = self.new_connection(&socket, OpenMode::Active)?;
        let bsd = self.is_bsd();
        let conn = &mut self.table.connections[index].conn;
        if let Some(ask) = ask {
            conn.ask_fast_open(ask);
        }
        // Data beyond the SYN stay in the socket buffer on FreeBSD. On Linux the caller writes them again.
        let keep = if bsd { n } else { n.min(room) };
        let written = conn.write(self.table.now, Bytes::new(keep)).get();
        self.socket_at(fd)?.role = Role::Connected(index);
        self.socket_under_test = SocketUnderTest::Connection(index);
        self.table.flush(index);
        Ok((index, written))
    }

    /// `connect` with `TCP_FASTOPEN_CONNECT`. With a cookie it returns at once, and the first write opens the connection.
    pub(super) fn connect_fast(&mut self, fd: i64) -> Result<Option<SyscallResult>, ScriptError> {
        let socket = self.socket_at(fd)?.clone();
        if socket.deferred {
            return Ok(Some(SyscallResult::errno("EISCONN")));
        }
        if !socket.options.fast_open_connect || self.is_bsd() || self.fast_open_bits() & CLIENT == 0 {
            return Ok(None);
        }
        if self.has_cookie(&socket) {
            self.socket_at(fd)?.deferred = true;
            return Ok(Some(SyscallResult::Done(0)));
        }
        self.open_fast(fd, 0)?;
        Ok(Some(if socket.nonblocking { SyscallResult::errno("EINPROGRESS") } else { SyscallResult::Blocks }))
    }

    /// A write of `n` bytes that opens a connection; `None` if this write does not.
    pub(super) fn send_fast(
        &mut self,
        fd: i64,
        n: u64,
        flags: &[&str],
    ) -> Result<Option<SyscallResult>, ScriptError> {
        let socket = self.socket_at(fd)?.clone();
        let bsd = self.is_bsd();
        let asked = flags.contains(&"MSG_FASTOPEN");
        let implied = bsd && socket.options.fast_open.is_some_and(|n| n > 0);
        if self.fast_call || !(asked || socket.deferred || implied) {
            return Ok(None);
        }
        if asked && self.fast_open_bits() & CLIENT == 0 {
            return Ok(Some(SyscallResult::errno("EOPNOTSUPP")));
        }
        match socket.role {
            Role::Fresh => {}
            Role::Connected(_) if implied => return Ok(None),
            Role::Connected(index) => {
                let opening =
                    matches!(self.table.connections[index].conn.state(), State::SynSent | State::SynReceived);
                if !opening
                    && !socket.connect_reported
                    && self.table.connections[index].conn.error().is_none()
                {
                    // The first call after the handshake succeeds and writes.
                    self.socket_at(fd)?.connect_reported = true;
                    return Ok(None);
                }
                return Ok(asked.then_some(SyscallResult::errno(if opening {
                    "EALREADY"
                } else {
                    "EISCONN"
                })));
            }
            Role::Listening(_) => return Ok(Some(SyscallResult::errno("EISCONN"))),
        }
        self.fast_call = true;
        let (_, written) = self.open_fast(fd, n)?;
        self.written = written;
        let opened = self.socket_at(fd)?;
        opened.deferred = false;
        let nonblocking = opened.nonblocking || flags.contains(&"MSG_DONTWAIT");
        let done = |n: u64| SyscallResult::Done(i64::try_from(n).unwrap_or(i64::MAX));
        Ok(Some(if bsd || (nonblocking && written > 0) {
            done(written)
        } else if nonblocking {
            SyscallResult::errno("EINPROGRESS")
        } else {
            if written < n {
                self.hold_ack(fd)?;
            }
            self.socket_at(fd)?.connect_reported = true;
            SyscallResult::Blocks
        }))
    }

    /// Delays the last ACK of the handshake, because a waiting write may send it with data.
    pub(super) fn hold_ack(&mut self, fd: i64) -> Result<(), ScriptError> {
        if let Some(index) = self.socket_at(fd)?.connection() {
            self.table.connections[index].conn.hold_handshake_ack(true);
        }
        Ok(())
    }

    /// Updates the cookie cache from the peer's SYN-ACK.
    pub(super) fn learn_fast_open(&mut self, index: usize, segment: &Segment) {
        let Some(answer) = self.table.connections[index].conn.fast_open_answer().cloned() else { return };
        let bsd = self.is_bsd();
        let now = self.table.now;
        let cache = &mut self.fast_open;
        let has_option = answer.option.is_some();
        // Linux ignores a cookie that it did not request.
        let heard = bsd || answer.asked.is_some();
        let cookie = answer.option.filter(|o| heard && is_cookie(&o.cookie));
        cache.mss = segment.options.mss.or(cache.mss);
        match cookie {
            Some(cookie) => {
                cache.cookie = Some(cookie);
                cache.disabled = None;
            }
            None if bsd => {
                // FreeBSD takes a missing or invalid cookie as a sign that the path drops the option.
                let had = cache.cookie.is_some() && !has_option;
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

    /// `setsockopt` of the Fast Open options, with the errors of Linux.
    pub(super) fn set_fast_open(
        &mut self,
        fd: i64,
        name: &str,
        value: i64,
    ) -> Result<SyscallResult, ScriptError> {
        let client = self.fast_open_bits() & CLIENT != 0;
        let bsd = self.is_bsd();
        let socket = self.socket_at(fd)?;
        let fresh = socket.role == Role::Fresh;
        let early = fresh || matches!(socket.role, Role::Listening(_));
        let options = &mut socket.options;
        match name {
            _ if bsd => {}
            "TCP_FASTOPEN_CONNECT" if !client && (value == 0 || value == 1) => {
                return Ok(SyscallResult::errno("EOPNOTSUPP"));
            }
            "TCP_FASTOPEN_CONNECT" if !fresh || !(0..=1).contains(&value) => {
                return Ok(SyscallResult::errno("EINVAL"));
            }
            "TCP_FASTOPEN_NO_COOKIE" if !early || !(0..=1).contains(&value) => {
                return Ok(SyscallResult::errno("EINVAL"));
            }
            "TCP_FASTOPEN" if !early || value < 0 => return Ok(SyscallResult::errno("EINVAL")),
            _ => {}
        }
        match name {
            "TCP_FASTOPEN" => options.fast_open = Some(value),
            "TCP_FASTOPEN_CONNECT" => options.fast_open_connect = value != 0,
            "TCP_FASTOPEN_NO_COOKIE" => options.fast_open_no_cookie = value != 0,
            _ => return unsupported(format!("the socket option {name}")),
        }
        Ok(SyscallResult::Done(0))
    }
}
