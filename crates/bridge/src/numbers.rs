//! Numbers of Linux's system calls as the names that the model's socket calls take.

use tcpassay_script::ast::Expr;

fn names(list: &[&str]) -> Expr {
    Expr::Names(list.iter().map(|name| (*name).to_owned()).collect())
}

/// Flags that are set, by name; what is left over as a number, which no call knows.
fn flags(mut word: i32, known: &[(i32, &str)]) -> Expr {
    let mut list = Vec::new();
    for (bit, name) in known {
        if word & bit != 0 {
            word &= !bit;
            list.push((*name).to_owned());
        }
    }
    if word != 0 {
        list.push(format!("{word:#x}"));
    }
    if list.is_empty() { Expr::Int(0) } else { Expr::Names(list) }
}

/// The type of a socket.
pub fn kind(kind: i32) -> Expr {
    let nonblocking = kind & libc::SOCK_NONBLOCK != 0;
    match kind & 0xf {
        libc::SOCK_STREAM if nonblocking => names(&["SOCK_STREAM", "SOCK_NONBLOCK"]),
        libc::SOCK_STREAM => names(&["SOCK_STREAM"]),
        other => names(&[&format!("type {other}")]),
    }
}

/// Its protocol.
pub fn protocol(protocol: i32) -> Expr {
    match protocol {
        0 => Expr::Int(0),
        libc::IPPROTO_TCP => names(&["IPPROTO_TCP"]),
        other => names(&[&format!("protocol {other}")]),
    }
}

/// Flags of the calls that send and receive.
pub fn message_flags(word: i32) -> Expr {
    flags(
        word,
        &[
            (libc::MSG_PEEK, "MSG_PEEK"),
            (libc::MSG_DONTWAIT, "MSG_DONTWAIT"),
            (libc::MSG_WAITALL, "MSG_WAITALL"),
            (libc::MSG_TRUNC, "MSG_TRUNC"),
            (libc::MSG_NOSIGNAL, "MSG_NOSIGNAL"),
            (libc::MSG_MORE, "MSG_MORE"),
            (libc::MSG_EOR, "MSG_EOR"),
            (libc::MSG_OOB, "MSG_OOB"),
            (libc::MSG_FASTOPEN, "MSG_FASTOPEN"),
            (libc::MSG_ZEROCOPY, "MSG_ZEROCOPY"),
            (libc::MSG_ERRQUEUE, "MSG_ERRQUEUE"),
        ],
    )
}

/// How to shut down.
pub fn how(how: i32) -> Expr {
    names(&[match how {
        libc::SHUT_RD => "SHUT_RD",
        libc::SHUT_WR => "SHUT_WR",
        libc::SHUT_RDWR => "SHUT_RDWR",
        _ => "no way",
    }])
}

/// A command of `fcntl` and its argument.
pub fn file_control(command: i32, argument: usize) -> [Expr; 2] {
    match command {
        libc::F_GETFL => [names(&["F_GETFL"]), Expr::Int(0)],
        libc::F_SETFL => {
            let nonblocking = argument & libc::O_NONBLOCK as usize != 0;
            let set = if nonblocking { names(&["O_RDWR", "O_NONBLOCK"]) } else { names(&["O_RDWR"]) };
            [names(&["F_SETFL"]), set]
        }
        other => [names(&[&format!("command {other}")]), Expr::Int(0)],
    }
}

/// A request of `ioctl` that writes an int.
pub fn request(request: libc::c_ulong) -> Expr {
    const SIOCOUTQNSD: libc::c_ulong = 0x894b; // linux/sockios.h
    let name = match request {
        libc::FIONREAD => "SIOCINQ".to_owned(),
        libc::TIOCOUTQ => "SIOCOUTQ".to_owned(),
        SIOCOUTQNSD => "SIOCOUTQNSD".to_owned(),
        other => format!("request {other:#x}"),
    };
    names(&[&name])
}

const SOCKET: &[(i32, &str)] = &[
    (libc::SO_REUSEADDR, "SO_REUSEADDR"),
    (libc::SO_REUSEPORT, "SO_REUSEPORT"),
    (libc::SO_ERROR, "SO_ERROR"),
    (libc::SO_KEEPALIVE, "SO_KEEPALIVE"),
    (libc::SO_LINGER, "SO_LINGER"),
    (libc::SO_SNDBUF, "SO_SNDBUF"),
    (libc::SO_RCVBUF, "SO_RCVBUF"),
    (libc::SO_SNDBUFFORCE, "SO_SNDBUFFORCE"),
    (libc::SO_RCVBUFFORCE, "SO_RCVBUFFORCE"),
    (libc::SO_RCVLOWAT, "SO_RCVLOWAT"),
    (libc::SO_PRIORITY, "SO_PRIORITY"),
    (libc::SO_MARK, "SO_MARK"),
    (libc::SO_OOBINLINE, "SO_OOBINLINE"),
];

const TCP: &[(i32, &str)] = &[
    (libc::TCP_NODELAY, "TCP_NODELAY"),
    (libc::TCP_MAXSEG, "TCP_MAXSEG"),
    (libc::TCP_CORK, "TCP_CORK"),
    (libc::TCP_KEEPIDLE, "TCP_KEEPIDLE"),
    (libc::TCP_KEEPINTVL, "TCP_KEEPINTVL"),
    (libc::TCP_KEEPCNT, "TCP_KEEPCNT"),
    (libc::TCP_SYNCNT, "TCP_SYNCNT"),
    (libc::TCP_LINGER2, "TCP_LINGER2"),
    (libc::TCP_DEFER_ACCEPT, "TCP_DEFER_ACCEPT"),
    (libc::TCP_WINDOW_CLAMP, "TCP_WINDOW_CLAMP"),
    (libc::TCP_INFO, "TCP_INFO"),
    (libc::TCP_QUICKACK, "TCP_QUICKACK"),
    (libc::TCP_CONGESTION, "TCP_CONGESTION"),
    (libc::TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT"),
    (libc::TCP_FASTOPEN, "TCP_FASTOPEN"),
    (libc::TCP_NOTSENT_LOWAT, "TCP_NOTSENT_LOWAT"),
    (libc::TCP_SAVE_SYN, "TCP_SAVE_SYN"),
    (libc::TCP_INQ, "TCP_INQ"),
];

const IP: &[(i32, &str)] = &[
    (libc::IP_TOS, "IP_TOS"),
    (libc::IP_TTL, "IP_TTL"),
    (libc::IP_MTU_DISCOVER, "IP_MTU_DISCOVER"),
    (libc::IP_RECVERR, "IP_RECVERR"),
    (libc::IP_FREEBIND, "IP_FREEBIND"),
];

/// Level and name of a socket option.
pub fn option(level: i32, option: i32) -> [Expr; 2] {
    let (level, known) = match level {
        libc::SOL_SOCKET => ("SOL_SOCKET", SOCKET),
        libc::IPPROTO_TCP => ("SOL_TCP", TCP),
        libc::IPPROTO_IP => ("SOL_IP", IP),
        _ => ("another level", &[][..]),
    };
    let found = known.iter().find(|(number, _)| *number == option);
    let name = found.map_or_else(|| format!("option {option}"), |(_, name)| (*name).to_owned());
    [names(&[level]), names(&[&name])]
}

const ERRORS: &[(i32, &str)] = &[
    (libc::EAGAIN, "EAGAIN"),
    (libc::EALREADY, "EALREADY"),
    (libc::EACCES, "EACCES"),
    (libc::EBADF, "EBADF"),
    (libc::ECONNABORTED, "ECONNABORTED"),
    (libc::ECONNREFUSED, "ECONNREFUSED"),
    (libc::ECONNRESET, "ECONNRESET"),
    (libc::EHOSTDOWN, "EHOSTDOWN"),
    (libc::EHOSTUNREACH, "EHOSTUNREACH"),
    (libc::EINPROGRESS, "EINPROGRESS"),
    (libc::EINVAL, "EINVAL"),
    (libc::EISCONN, "EISCONN"),
    (libc::EMSGSIZE, "EMSGSIZE"),
    (libc::ENETUNREACH, "ENETUNREACH"),
    (libc::ENONET, "ENONET"),
    (libc::ENOPROTOOPT, "ENOPROTOOPT"),
    (libc::ENOTCONN, "ENOTCONN"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::EPIPE, "EPIPE"),
    (libc::EPROTO, "EPROTO"),
    (libc::ETIMEDOUT, "ETIMEDOUT"),
];

/// The number of an `errno`; one without is `EIO`.
pub fn error(name: &str) -> i32 {
    ERRORS.iter().find(|(_, known)| *known == name).map_or(libc::EIO, |(number, _)| *number)
}
