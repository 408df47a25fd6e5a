//! TCP Fast Open: data with the SYN (RFC 7413).
//!
//! The host stores cookies and passes the data of this connection: [`FastOpenAsk`] at a client,
//! [`FastOpenServe`] at a server. [`Connection::fast_open_answer`] returns the answer of the peer's SYN-ACK
//! for the cache of the host.
//!
//! A server that accepted the cookie transfers data in SYN-RECEIVED: the application may accept, read and
//! write (section 4.2.2). Until the SYN-ACK is acknowledged only the SYN-ACK is retransmitted
//! (`tcp_fastopen_synack_timer` of Linux).
//!
//! Sources: RFC 7413; `tcp_fastopen.c`, `tcp_send_syn_data` and `tcp_rcv_fastopen_synack` of Linux; `tcp_fastopen.c` of
//! FreeBSD. Known differences: no limit on pending requests (section 5.1); but with Linux's flavor, data of a SYN that the
//! peer did not accept are sent as new data.

use tcpassay_units::Bytes;

/// The Fast Open option (RFC 7413 section 4.1.1). It is passed beside the segment, because segments are copied often: see
/// [`Connection::sent_fast_open`] and [`Connection::hear_fast_open`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FastOpen {
    /// Kind 254 with magic 0xF989, as before the RFC, instead of kind 34.
    pub experimental: bool,
    /// The cookie; a valid one has 4 to 16 bytes, an empty one is a request.
    pub cookie: Vec<u8>,
}

/// The option and the data of a client's SYN.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FastOpenAsk {
    /// The option of the first SYN: a cookie, or the request for one. `None`: data without one, where both ends allow it.
    pub option: Option<FastOpen>,
    /// Largest number of bytes of data with the first SYN.
    pub payload: Bytes,
}

/// The requests that a server accepts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FastOpenServe {
    /// The cookies that this client may present; the server grants the first of them.
    pub cookies: Vec<Vec<u8>>,
    /// Data are also accepted without a cookie.
    pub without_cookie: bool,
}

/// The peer's answer to a client that used Fast Open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FastOpenAnswer {
    /// The SYN had an option; `true` in it: the experimental one.
    pub asked: Option<bool>,
    /// The option of the SYN-ACK, valid or not.
    pub option: Option<FastOpen>,
    /// Bytes of data that the SYN carried.
    pub sent: u64,
    /// The number of those bytes that the SYN-ACK acknowledged.
    pub acked: u64,
    /// The SYN had to be repeated, without data and option.
    pub repeated: bool,
}

/// Whether the length of a cookie is valid (RFC 7413 section 4.1.1).
pub fn is_cookie(cookie: &[u8]) -> bool {
    (4..=16).contains(&cookie.len()) && cookie.len().is_multiple_of(2)
}

/// The state of Fast Open in a connection.
#[derive(Clone, Debug, Default)]
pub(super) struct FastOpenState {
    pub ask: Option<FastOpenAsk>,
    pub serve: Option<FastOpenServe>,
    /// A client's outcome.
    pub answer: Option<FastOpenAnswer>,
    /// Bytes of data that the first SYN carried.
    pub carried: u64,
    /// A server's option for its SYN-ACK.
    pub grant: Option<FastOpen>,
    /// The option of the peer's SYN that is about to arrive.
    pub peer_option: Option<FastOpen>,
    /// The option of our SYN that left last.
    pub sent_option: Option<FastOpen>,
    /// The server took the data, or the cookie alone, before the handshake was done.
    pub taken: bool,
}

/// The decision of a server about a SYN.
pub(super) enum Decision {
    Ignore,
    Grant(FastOpen),
    Take(Option<FastOpen>),
}

impl FastOpenServe {
    pub(super) fn decide(&self, asked: Option<&FastOpen>, data: bool) -> Decision {
        let asked = asked.filter(|o| o.cookie.is_empty() || is_cookie(&o.cookie));
        if asked.is_none() && !data {
            return Decision::Ignore;
        }
        if self.without_cookie {
            return Decision::Take(None);
        }
        let Some(asked) = asked else { return Decision::Ignore };
        let fresh = || self.cookies.first().map(|c| FastOpen { cookie: c.clone(), ..asked.clone() });
        match self.cookies.iter().position(|c| *c == asked.cookie) {
            Some(0) => Decision::Take(None),
            // A cookie of the previous key is accepted and replaced.
            Some(_) => Decision::Take(fresh()),
            None => fresh().map_or(Decision::Ignore, Decision::Grant),
        }
    }
}
