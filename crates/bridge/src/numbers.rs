//! The numbers in the arguments of system calls of Linux, as the names that the calls of the model take.
//!
//! A number without a name becomes a name that no call knows, so that the call fails.

use tcpassay_script::ast::Expr;

fn names(list: &[&str]) -> Expr {
    Expr::Names(list.iter().map(|name| (*name).to_owned()).collect())
}

/// The names of the flags that are set. Unknown bits become one hexadecimal number.
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

/// The protocol of a socket.
pub fn protocol(protocol: i32) -> Expr {
    match protocol {
        0 => Expr::Int(0),
        libc::IPPROTO_TCP => names(&["IPPROTO_TCP"]),
        other => names(&[&format!("protocol {other}")]),
    }
}

/// The flags of send(2) and recv(2).
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

/// The second argument of shutdown(2).
pub fn how(how: i32) -> Expr {
    names(&[match how {
        libc::SHUT_RD => "SHUT_RD",
        libc::SHUT_WR => "SHUT_WR",
        libc::SHUT_RDWR => "SHUT_RDWR",
        _ => "unknown",
    }])
}

/// The command and the argument of fcntl(2).
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

/// The request of ioctl(2) that writes an int.
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

/// The level and the name of a socket option.
pub fn option(level: i32, option: i32) -> [Expr; 2] {
    let (level, known) = match level {
        libc::SOL_SOCKET => ("SOL_SOCKET", SOCKET),
        libc::IPPROTO_TCP => ("SOL_TCP", TCP),
        libc::IPPROTO_IP => ("SOL_IP", IP),
        _ => ("unknown level", &[][..]),
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

/// The number of an `errno` by its name; `EIO` if the name is unknown.
pub fn error(name: &str) -> i32 {
    ERRORS.iter().find(|(_, known)| *known == name).map_or(libc::EIO, |(number, _)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(list: &[&str]) -> Expr {
        Expr::Names(list.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn flags_have_their_names_and_unknown_bits_a_hexadecimal_number() {
        // include/linux/socket.h: MSG_PEEK 2, MSG_DONTWAIT 0x40, MSG_NOSIGNAL 0x4000.
        assert_eq!(message_flags(0x42), named(&["MSG_PEEK", "MSG_DONTWAIT"]));
        assert_eq!(message_flags(0), Expr::Int(0));
        assert_eq!(message_flags(0x4000 | 0x0100_0000), named(&["MSG_NOSIGNAL", "0x1000000"]));
    }

    #[test]
    fn sockets_are_streams_with_or_without_blocking() {
        // SOCK_STREAM 1, SOCK_DGRAM 2, SOCK_NONBLOCK 0o4000, SOCK_CLOEXEC 0o2000000.
        assert_eq!(kind(1), named(&["SOCK_STREAM"]));
        assert_eq!(kind(1 | 0o4000), named(&["SOCK_STREAM", "SOCK_NONBLOCK"]));
        assert_eq!(kind(1 | 0o2_000_000), named(&["SOCK_STREAM"]));
        assert_eq!(kind(2), named(&["type 2"]));
        assert_eq!(
            (protocol(0), protocol(6), protocol(17)),
            (Expr::Int(0), named(&["IPPROTO_TCP"]), named(&["protocol 17"]))
        );
    }

    #[test]
    fn socket_options_have_the_numbers_of_the_headers() {
        // asm-generic/socket.h: SOL_SOCKET 1, SO_REUSEADDR 2. linux/tcp.h: TCP_NODELAY 1, TCP_NOTSENT_LOWAT 25.
        assert_eq!(option(1, 2), [named(&["SOL_SOCKET"]), named(&["SO_REUSEADDR"])]);
        assert_eq!(option(6, 25), [named(&["SOL_TCP"]), named(&["TCP_NOTSENT_LOWAT"])]);
        assert_eq!(option(6, 999), [named(&["SOL_TCP"]), named(&["option 999"])]);
        assert_eq!(option(41, 1), [named(&["unknown level"]), named(&["option 1"])]);
    }

    #[test]
    fn requests_commands_and_ways_to_shut_down_have_their_names() {
        // asm-generic/ioctls.h: FIONREAD 0x541b, TIOCOUTQ 0x5411. linux/sockios.h: SIOCOUTQNSD 0x894b.
        let requests = [0x541b, 0x5411, 0x894b, 7].map(request);
        assert_eq!(
            requests,
            [["SIOCINQ"], ["SIOCOUTQ"], ["SIOCOUTQNSD"], ["request 0x7"]].map(|one| named(&one))
        );
        // asm-generic/fcntl.h: F_GETFL 3, F_SETFL 4, O_NONBLOCK 0o4000.
        assert_eq!(file_control(4, 0o4002), [named(&["F_SETFL"]), named(&["O_RDWR", "O_NONBLOCK"])]);
        assert_eq!(file_control(4, 2), [named(&["F_SETFL"]), named(&["O_RDWR"])]);
        assert_eq!(file_control(3, 0o4002), [named(&["F_GETFL"]), Expr::Int(0)]);
        assert_eq!([0, 1, 2].map(how), [["SHUT_RD"], ["SHUT_WR"], ["SHUT_RDWR"]].map(|one| named(&one)));
    }

    #[test]
    fn errors_have_the_numbers_of_linux() {
        // asm-generic/errno.h.
        assert_eq!(
            ["EAGAIN", "EINPROGRESS", "ECONNREFUSED", "ETIMEDOUT", "ENONSENSE"].map(error),
            [11, 115, 111, 110, 5]
        );
    }
}
