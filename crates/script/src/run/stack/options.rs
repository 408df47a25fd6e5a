//! Socket options and sysctls of a script as settings of a stack.
//!
//! A stack has one value of each for the whole host, and gets it before its first call. What a stack does not have is refused:
//! here, or by the stack when it begins.

use crate::ast::Expr;
use crate::host::ScriptHost;
use crate::run::model::args::{int, names, unsupported};
use crate::run::target::{ScriptError, SyscallResult};
use std::net::Ipv4Addr;
use tcpassay_stack::Settings;
use tcpassay_units::Dur;

/// The address of the stack under test.
pub(super) const LOCAL: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The source of its random numbers.
const SEED: u64 = 1;
/// Options without effect on a connection.
const INERT: [&str; 3] = ["SO_REUSEADDR", "SO_REUSEPORT", "SO_DEBUG"];
/// Sysctls without effect on a connection: the precision of FreeBSD's timers, and its memory of former connections.
const INERT_SYSCTLS: [&str; 2] = ["kern.timecounter.alloweddeviation", "net.inet.tcp.hostcache.purgenow"];
const CONTROLLER: &str = "net.ipv4.tcp_congestion_control";
const TIMESTAMPS: &str = "net.ipv4.tcp_timestamps";

/// The options of a socket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct SocketOptions {
    nodelay: bool,
    keepalive: bool,
    /// Seconds.
    keep_idle: Option<u64>,
    /// Milliseconds.
    user_timeout: Option<u64>,
    send_buffer: Option<u64>,
    receive_buffer: Option<u64>,
    controller: Option<String>,
    /// `SO_LINGER` with a time of 0: `close` resets the connection. It is the only one that each socket has for itself.
    pub aborts: bool,
}

impl SocketOptions {
    /// `setsockopt`.
    pub fn set(&mut self, args: &[Expr]) -> Result<SyscallResult, ScriptError> {
        let name = names(args, 2).join("|");
        let value = || int(args, 3).map(|value| u64::try_from(value).unwrap_or(0));
        match name.as_str() {
            "TCP_NODELAY" => self.nodelay = value()? != 0,
            "SO_KEEPALIVE" => self.keepalive = value()? != 0,
            "TCP_KEEPIDLE" => self.keep_idle = Some(value()?),
            "TCP_USER_TIMEOUT" => self.user_timeout = Some(value()?).filter(|&ms| ms > 0),
            "SO_SNDBUF" => self.send_buffer = Some(value()?),
            "SO_RCVBUF" => self.receive_buffer = Some(value()?),
            "TCP_CONGESTION" => match args.get(3) {
                Some(Expr::Text(name)) => self.controller = Some(name.clone()),
                _ => return unsupported("TCP_CONGESTION without the name of a controller"),
            },
            "SO_LINGER" => match linger(args.get(3)) {
                Some((1.., 0)) => self.aborts = true,
                Some((0, _)) => self.aborts = false,
                _ => return unsupported("SO_LINGER with a time other than 0"),
            },
            name if INERT.contains(&name) => {}
            _ => return unsupported(format!("the socket option {name}: there is no setting for it")),
        }
        Ok(SyscallResult::Done(0))
    }

    /// The settings of a stack.
    pub fn settings(&self, host: &ScriptHost, mtu: u16) -> Settings {
        let said = |name| host.beyond_defaults().find(|(key, _)| *key == name).map(|(_, value)| value);
        let size = |bytes: Option<u64>| bytes.and_then(|bytes| usize::try_from(bytes).ok());
        // Two hours: RFC 9293 section 3.8.4.
        let idle = self.keep_idle.unwrap_or(7200);
        Settings {
            address: LOCAL,
            mtu,
            seed: SEED,
            cc: self.controller.as_deref().or(said(CONTROLLER)).unwrap_or("reno").to_owned(),
            send_buffer: size(self.send_buffer),
            receive_buffer: size(self.receive_buffer),
            nagle: !self.nodelay,
            timestamps: said(TIMESTAMPS).map(|value| value != "0"),
            ack_delay: None,
            keepalive: self.keepalive.then(|| Dur::from_secs(idle)),
            user_timeout: self.user_timeout.map(Dur::from_millis),
            isn: None,
        }
    }

    /// An option with which the stack has not begun.
    pub fn difference(&self, other: &SocketOptions) -> Option<&'static str> {
        let idle = |options: &SocketOptions| options.keepalive.then_some(options.keep_idle);
        let all = [
            ("TCP_NODELAY", self.nodelay == other.nodelay),
            ("SO_KEEPALIVE", idle(self) == idle(other)),
            ("TCP_USER_TIMEOUT", self.user_timeout == other.user_timeout),
            ("SO_SNDBUF", self.send_buffer == other.send_buffer),
            ("SO_RCVBUF", self.receive_buffer == other.receive_buffer),
            ("TCP_CONGESTION", self.controller == other.controller),
        ];
        all.into_iter().find(|(_, same)| !same).map(|(name, _)| name)
    }
}

/// `{onoff=1, linger=0}`
fn linger(value: Option<&Expr>) -> Option<(i64, i64)> {
    let Some(Expr::Group(members)) = value else { return None };
    let number = |name: &str| {
        members.iter().find(|(member, _)| member.ends_with(name)).and_then(|(_, value)| match value {
            Expr::Int(n) => Some(*n),
            _ => None,
        })
    };
    Some((number("onoff")?, number("linger")?))
}

/// The first change of the host that no stack can follow.
pub(super) fn unheard(before: &ScriptHost, after: &ScriptHost, begun: bool) -> Option<String> {
    let sysctl = after
        .beyond_defaults()
        .filter(|(key, value)| before.get(key) != Some(value) && !INERT_SYSCTLS.contains(key))
        .find(|(key, _)| begun || ![CONTROLLER, TIMESTAMPS].contains(key));
    if let Some((key, value)) = sysctl {
        let when = if begun { " any more" } else { "" };
        return Some(format!("the sysctl {key}={value}: no setting of another TCP stands for it{when}"));
    }
    if before.route != after.route {
        return Some("attributes of the route: no setting of another TCP stands for them".to_owned());
    }
    (before.local_drop != after.local_drop).then(|| "a queue of the interface: there is none".to_owned())
}
