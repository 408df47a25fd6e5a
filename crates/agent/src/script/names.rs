//! The numbers of the names in scripts on this kernel. Numbers that `libc` does not define have a comment with their header.

use std::borrow::Cow;
use tcpassay_script::ast::Expr;
use tcpassay_script::run::ScriptError;

#[expect(clippy::cast_possible_wrap, reason = "no request of ioctl(2) has its highest bit set")]
const fn plain(request: libc::c_ulong) -> i64 {
    request as i64
}

macro_rules! table {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name as i64)),*] };
}

const NUMBERS: &[(&str, i64)] = table! {
    SOL_SOCKET SOL_IP SOL_IPV6 IPPROTO_TCP IPPROTO_IP IPPROTO_IPV6
    AF_INET AF_INET6 SOCK_STREAM SOCK_NONBLOCK SOCK_CLOEXEC
    SO_REUSEADDR SO_REUSEPORT SO_ERROR SO_KEEPALIVE SO_LINGER SO_SNDBUF SO_RCVBUF SO_SNDBUFFORCE SO_RCVBUFFORCE
    SO_RCVLOWAT SO_RCVTIMEO SO_SNDTIMEO SO_OOBINLINE SO_PRIORITY SO_MARK SO_BINDTODEVICE SO_DEBUG SO_BROADCAST
    SO_TIMESTAMP SO_TIMESTAMPNS SO_TIMESTAMPING SO_ZEROCOPY SO_MAX_PACING_RATE SO_BUSY_POLL SO_NO_CHECK
    SO_INCOMING_CPU SO_TYPE SO_ACCEPTCONN SO_DONTROUTE
    IP_TOS IP_TTL IP_MTU_DISCOVER IP_MTU IP_RECVERR IP_FREEBIND IP_TRANSPARENT IP_BIND_ADDRESS_NO_PORT
    IP_PMTUDISC_DONT IP_PMTUDISC_WANT IP_PMTUDISC_DO IP_PMTUDISC_PROBE
    IPV6_TCLASS IPV6_UNICAST_HOPS IPV6_MTU_DISCOVER IPV6_V6ONLY IPV6_MTU
    TCP_NODELAY TCP_MAXSEG TCP_CORK TCP_KEEPIDLE TCP_KEEPINTVL TCP_KEEPCNT TCP_SYNCNT TCP_LINGER2 TCP_DEFER_ACCEPT
    TCP_WINDOW_CLAMP TCP_INFO TCP_QUICKACK TCP_CONGESTION TCP_USER_TIMEOUT TCP_FASTOPEN TCP_NOTSENT_LOWAT
    TCP_SAVE_SYN TCP_FASTOPEN_CONNECT TCP_FASTOPEN_KEY TCP_FASTOPEN_NO_COOKIE TCP_ZEROCOPY_RECEIVE TCP_INQ
    TCP_CM_INQ TCP_TIMESTAMP TCP_THIN_LINEAR_TIMEOUTS TCP_THIN_DUPACK TCP_REPAIR
    MSG_PEEK MSG_DONTWAIT MSG_WAITALL MSG_TRUNC MSG_NOSIGNAL MSG_MORE MSG_EOR MSG_OOB MSG_FASTOPEN MSG_ERRQUEUE
    MSG_ZEROCOPY MSG_CTRUNC
    F_GETFL F_SETFL O_RDWR O_RDONLY O_WRONLY O_NONBLOCK SHUT_RD SHUT_WR SHUT_RDWR
    SCM_TIMESTAMPING SO_EE_ORIGIN_NONE SO_EE_ORIGIN_LOCAL SO_EE_ORIGIN_ICMP SO_EE_ORIGIN_ICMP6
    SO_EE_ORIGIN_TIMESTAMPING
    SOF_TIMESTAMPING_TX_HARDWARE SOF_TIMESTAMPING_TX_SOFTWARE SOF_TIMESTAMPING_RX_SOFTWARE SOF_TIMESTAMPING_SOFTWARE
    SOF_TIMESTAMPING_TX_SCHED SOF_TIMESTAMPING_TX_ACK SOF_TIMESTAMPING_OPT_ID SOF_TIMESTAMPING_OPT_CMSG
    SOF_TIMESTAMPING_OPT_TSONLY SOF_TIMESTAMPING_OPT_STATS
    IPTOS_LOWDELAY IPTOS_THROUGHPUT IPTOS_RELIABILITY IPTOS_MINCOST
    SPLICE_F_MOVE SPLICE_F_NONBLOCK SPLICE_F_MORE
    SO_PROTOCOL SO_DOMAIN SO_COOKIE TCP_MD5SIG TCP_ULP TCP_SAVED_SYN IP_RECVTOS IP_RECVTTL
    POLLIN POLLOUT POLLERR POLLHUP POLLRDHUP POLLPRI POLLRDNORM POLLWRNORM POLLNVAL
    EPOLLIN EPOLLOUT EPOLLERR EPOLLHUP EPOLLRDHUP EPOLLPRI EPOLLRDNORM EPOLLWRNORM EPOLLONESHOT EPOLLEXCLUSIVE
    EPOLL_CTL_ADD EPOLL_CTL_MOD EPOLL_CTL_DEL
};

/// Names that `libc` does not define, or defines with another name or type.
const OTHERS: &[(&str, i64)] = &[
    ("SOL_TCP", libc::IPPROTO_TCP as i64),
    ("FIONREAD", plain(libc::FIONREAD)),
    ("TIOCOUTQ", plain(libc::TIOCOUTQ)),
    ("SIOCINQ", plain(libc::FIONREAD)),
    ("SIOCOUTQ", plain(libc::TIOCOUTQ)),
    ("SIOCOUTQNSD", 0x894b), // linux/sockios.h
    // A negative int in `libc`.
    ("EPOLLET", 0x8000_0000),
    ("SIOCATMARK", 0x8905),
    ("SO_EE_ORIGIN_ZEROCOPY", 5), // linux/errqueue.h
    ("SO_EE_CODE_ZEROCOPY_COPIED", 1),
    ("SCM_TSTAMP_SND", 0),
    ("SCM_TSTAMP_SCHED", 1),
    ("SCM_TSTAMP_ACK", 2),
    ("TCP_TX_DELAY", 37), // linux/tcp.h
    ("TCP_RTO_MAX_MS", 44),
    ("TCP_RTO_MIN_US", 45),
    ("TCP_DELACK_MAX_US", 46),
    ("IP_LOCAL_PORT_RANGE", 51),
    ("NULL", 0),
    ("SO_TXREHASH", 74),  // asm-generic/socket.h
    ("TCP_IS_MPTCP", 43), // linux/tcp.h
    ("IPV6_RECVERR", 25),
];

macro_rules! errors {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name)),*] };
}

const ERRORS: &[(&str, i32)] = errors! {
    EPERM ENOENT EINTR EIO EBADF EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST EINVAL EMFILE ENOTTY EPIPE EDOM ERANGE
    ENOSYS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT EOPNOTSUPP EAFNOSUPPORT EADDRINUSE
    EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETIMEDOUT
    ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ENONET EPROTO EBADMSG EOVERFLOW ENODEV ENOMSG ESPIPE
    E2BIG ECHILD ENOTDIR EISDIR ENFILE EFBIG ENOSPC EROFS ESTALE ECANCELED ENOKEY EPFNOSUPPORT ESOCKTNOSUPPORT
};

/// The name of an `errno`.
pub fn error(errno: i32) -> Cow<'static, str> {
    let known = ERRORS.iter().find(|(_, n)| *n == errno);
    known.map_or_else(|| Cow::Owned(format!("E{errno}")), |(name, _)| Cow::Borrowed(*name))
}

/// The number of a name.
pub fn number(name: &str) -> Result<i64, ScriptError> {
    let known = NUMBERS.iter().chain(OTHERS).find(|(known, _)| *known == name);
    let error = || ERRORS.iter().find(|(known, _)| *known == name).map(|(_, n)| i64::from(*n));
    known
        .map(|(_, n)| *n)
        .or_else(error)
        .ok_or_else(|| ScriptError::Unsupported(format!("the name `{name}`")))
}

/// The value of a number or of names joined by `|`. `None` for `...` and for an absent argument.
pub fn word(e: Option<&Expr>) -> Result<Option<i64>, ScriptError> {
    match e {
        None | Some(Expr::Any) => Ok(None),
        Some(Expr::Int(n)) => Ok(Some(*n)),
        Some(Expr::List(items)) if items.len() == 1 => word(items.first()),
        Some(Expr::Names(names)) => {
            let mut sum = 0;
            for name in names {
                sum |= if let Ok(n) = name.parse() { n } else { number(name)? };
            }
            Ok(Some(sum))
        }
        Some(_) => Err(ScriptError::Invalid("expected a number or names joined by `|`".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbers_of_the_kernels_headers() {
        assert_eq!(number("TCP_NOTSENT_LOWAT"), Ok(25));
        let joined = Expr::Names(vec!["POLLIN".to_owned(), "POLLOUT".to_owned()]);
        assert_eq!(word(Some(&joined)), Ok(Some(5)));
        let edge = Expr::Names(vec!["EPOLLIN".to_owned(), "EPOLLET".to_owned()]);
        assert_eq!(word(Some(&edge)), Ok(Some(0x8000_0001)));
        assert_eq!(number("ECONNREFUSED"), Ok(111));
        assert_eq!(error(libc::EINPROGRESS), "EINPROGRESS");
        assert_eq!(number("SO_NOTHING"), Err(ScriptError::Unsupported("the name `SO_NOTHING`".to_owned())));
    }
}
