//! TCP Fast Open: data with the SYN (RFC 7413).
//!
//! The host keeps cookies and hands in what concerns this connection: a client's [`FastOpenAsk`], a server's
//! [`FastOpenServe`]. What the peer's SYN-ACK said is in [`Connection::fast_open_answer`], for the host's cache.
//!
//! A server that took the cookie is in SYN-RECEIVED and streams all the same: it may be accepted, read and written
//! (section 4.2.2). Until its SYN-ACK is acknowledged only that is retransmitted (`tcp_fastopen_synack_timer` of Linux).
//!
//! Sources: RFC 7413; `tcp_fastopen.c`, `tcp_send_syn_data` and `tcp_rcv_fastopen_synack` of Linux; `tcp_fastopen.c` of
//! FreeBSD. Known differences: no limit on pending requests (section 5.1); but with Linux's flavor, data of a SYN that the
//! peer did not take are sent as if they had never been.

use super::Connection;
use crate::flavor::SynData;
use crate::recv::Arrival;
use tcpassay_units::{Bytes, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

/// The Fast Open option (RFC 7413 section 4.1.1). It goes beside the segment, which is copied too often to carry it: see
/// [`Connection::sent_fast_open`] and [`Connection::hear_fast_open`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FastOpen {
    /// Kind 254 with magic 0xF989, as before the RFC, instead of kind 34.
    pub experimental: bool,
    /// The cookie, of 4 to 16 bytes where it is valid; empty asks for one.
    pub cookie: Vec<u8>,
}

/// What a client's SYN asks and carries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FastOpenAsk {
    /// The option of the first SYN: a cookie, or the request for one. `None`: data without one, where both ends allow it.
    pub option: Option<FastOpen>,
    /// Most bytes of data with the first SYN.
    pub payload: Bytes,
}

/// What a server takes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FastOpenServe {
    /// The cookies that this client may present; the first is what it is given.
    pub cookies: Vec<Vec<u8>>,
    /// Data are taken without a cookie, too.
    pub without_cookie: bool,
}

/// What the peer's SYN-ACK said to a client that had asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FastOpenAnswer {
    /// The SYN had an option; `true` in it: the experimental one.
    pub asked: Option<bool>,
    /// Its option, valid or not.
    pub option: Option<FastOpen>,
    /// Bytes of data that the SYN carried, and how many of them it acknowledged.
    pub sent: u64,
    /// See `sent`.
    pub acked: u64,
    /// The SYN had to be repeated, without data and option.
    pub repeated: bool,
}

/// Whether a cookie of this length is one (RFC 7413 section 4.1.1).
pub fn is_cookie(cookie: &[u8]) -> bool {
    (4..=16).contains(&cookie.len()) && cookie.len().is_multiple_of(2)
}

/// The state of a connection that has to do with Fast Open.
#[derive(Clone, Debug, Default)]
pub(super) struct Fast {
    pub ask: Option<FastOpenAsk>,
    pub serve: Option<FastOpenServe>,
    /// A client's outcome.
    pub answer: Option<FastOpenAnswer>,
    /// Bytes of data that the first SYN carried.
    pub carried: u64,
    /// A server's option for its SYN-ACK.
    pub grant: Option<FastOpen>,
    /// The option of the peer's SYN that is about to arrive.
    pub heard: Option<FastOpen>,
    /// The option of our SYN that left last.
    pub told: Option<FastOpen>,
    /// The server took the data, or the cookie alone, before the handshake was done.
    pub taken: bool,
}

/// What a server does with a SYN.
enum Decision {
    Ignore,
    Grant(FastOpen),
    Take(Option<FastOpen>),
}

impl FastOpenServe {
    fn decide(&self, asked: Option<&FastOpen>, data: bool) -> Decision {
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
            // A cookie of the key before this one: it is taken, and replaced.
            Some(_) => Decision::Take(fresh()),
            None => fresh().map_or(Decision::Ignore, Decision::Grant),
        }
    }
}

impl Connection {
    /// The SYN, which has not left yet, asks for Fast Open or uses it.
    pub fn ask_fast_open(&mut self, ask: FastOpenAsk) {
        self.open.fast.get_or_insert_default().ask = Some(ask);
    }

    /// A listening connection takes Fast Open.
    pub fn serve_fast_open(&mut self, serve: FastOpenServe) {
        self.open.fast.get_or_insert_default().serve = Some(serve);
    }

    /// What the peer's SYN-ACK said, once it came, to a client that had asked.
    pub fn fast_open_answer(&self) -> Option<&FastOpenAnswer> {
        self.open.fast.as_ref()?.answer.as_ref()
    }

    /// Data went with a SYN and were acknowledged or taken (`TCPI_OPT_SYN_DATA`).
    pub fn used_syn_data(&self) -> bool {
        self.open.fast.as_ref().is_some_and(|f| {
            f.taken && f.carried > 0 || f.answer.as_ref().is_some_and(|a| a.sent > 0 && a.acked == a.sent)
        })
    }

    /// A server that streams although the handshake is not done: the application may accept it.
    pub fn is_fast_open_child(&self) -> bool {
        self.open.fast.as_ref().is_some_and(|f| f.taken)
    }

    /// How many bytes more may be written to go with the SYN, before it has left.
    pub fn fast_open_room(&self) -> Bytes {
        let most = self.open.fast.as_ref().and_then(|f| f.ask.as_ref()).map_or(0, |ask| ask.payload.get());
        Bytes::new(if self.open.sent == 0 { most.saturating_sub(self.send.unsent()) } else { 0 })
    }

    /// The option that the SYN or SYN-ACK carries which left last.
    pub fn sent_fast_open(&self) -> Option<&FastOpen> {
        self.open.fast.as_ref()?.told.as_ref()
    }

    /// The peer's SYN or SYN-ACK, which is handed in next, carries this option.
    pub fn hear_fast_open(&mut self, option: FastOpen) {
        if let Some(fast) = &mut self.open.fast {
            fast.heard = Some(option);
        }
    }

    /// Payload of a SYN or SYN-ACK, whose option is told.
    pub(super) fn fast_open_of_syn(&mut self, answer: bool) -> u64 {
        let first = self.open.sent == 1;
        let unsent = self.send.unsent();
        let Some(fast) = &mut self.open.fast else { return 0 };
        if answer {
            fast.told.clone_from(&fast.grant);
            return 0;
        }
        fast.told = None;
        let Some(ask) = fast.ask.as_ref().filter(|_| first) else { return 0 };
        fast.carried = unsent.min(ask.payload.get());
        fast.told.clone_from(&ask.option);
        fast.carried
    }

    /// The peer's SYN-ACK to our SYN, or a plain SYN: `acked` bytes of data are acknowledged.
    pub(super) fn fast_open_answered(&mut self, acked: u64) {
        let repeated = self.open.repeats();
        let Some(fast) = &mut self.open.fast else { return };
        if fast.ask.is_some() {
            fast.answer = Some(FastOpenAnswer {
                asked: fast.ask.as_ref().and_then(|ask| ask.option.as_ref()).map(|o| o.experimental),
                option: fast.heard.take(),
                sent: fast.carried,
                acked: acked.min(fast.carried),
                repeated,
            });
        }
    }

    /// A SYN for a server. Gives whether the connection streams from now on.
    pub(super) fn fast_open_syn(&mut self, now: Time, segment: &Segment, ecn: Ecn) -> bool {
        let Some(fast) = &mut self.open.fast else { return false };
        let heard = fast.heard.take();
        let Some(serve) = &fast.serve else { return false };
        let taken = match serve.decide(heard.as_ref(), segment.len > 0) {
            Decision::Ignore => return false,
            Decision::Grant(option) => {
                fast.grant = Some(option);
                return false;
            }
            Decision::Take(option) => option,
        };
        fast.grant = taken;
        fast.taken = true;
        fast.carried = u64::from(segment.len);
        let fast_len = fast.carried;
        self.agree(now, Ecn::NotEct, None, 0);
        let fin = segment.flags.has(Flags::FIN) && self.rules.takes_fin_of_syn;
        if self.rules.syn_data == SynData::FastOpenOnly {
            self.recv.data_of_syn(fast_len, u64::from(segment.header_len()));
        } else if segment.len > 0 || fin {
            let arrival = Arrival {
                span: 1..1 + u64::from(segment.len),
                fin,
                push: segment.flags.has(Flags::PSH),
                cwr: false,
                ecn,
                rtt: None,
                rto: self.send.rto(),
                header: segment.header_len(),
            };
            self.recv.data(now, &arrival, &mut self.log);
        }
        true
    }
}
