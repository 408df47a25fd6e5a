//! TCP Fast Open in a connection: contents and processing of SYN and SYN-ACK.
//!
//! Sources: RFC 7413; `tcp_send_syn_data`, `tcp_rcv_fastopen_synack` and `tcp_try_fastopen` of Linux; `tcp_fastopen.c` of FreeBSD.

use super::Connection;
use super::fastopen::{Decision, FastOpen, FastOpenAnswer, FastOpenAsk, FastOpenServe};
use crate::flavor::SynData;
use crate::recv::Arrival;
use tcpassay_units::{Bytes, Time};
use tcpassay_wire::{Ecn, Flags, Segment};

impl Connection {
    /// Sets whether the SYN, which was not sent yet, requests a cookie or presents one.
    pub fn ask_fast_open(&mut self, ask: FastOpenAsk) {
        self.open.use_fast().ask = Some(ask);
    }

    /// Enables Fast Open on a listening connection.
    pub fn serve_fast_open(&mut self, serve: FastOpenServe) {
        self.open.use_fast().serve = Some(serve);
    }

    /// The answer of the peer's SYN-ACK to a client that used Fast Open, once it arrived.
    pub fn fast_open_answer(&self) -> Option<&FastOpenAnswer> {
        self.open.fast()?.answer.as_ref()
    }

    /// A SYN carried data that were acknowledged (client) or accepted (server) (`TCPI_OPT_SYN_DATA`).
    pub fn used_syn_data(&self) -> bool {
        self.open.fast().is_some_and(|f| {
            f.taken && f.carried > 0 || f.answer.as_ref().is_some_and(|a| a.sent > 0 && a.acked == a.sent)
        })
    }

    /// Whether a server transfers data before the handshake is done, so that the application may accept the connection.
    pub fn is_fast_open_child(&self) -> bool {
        self.open.fast().is_some_and(|f| f.taken)
    }

    /// Number of further bytes that may be written to be sent with the SYN, before the SYN is sent.
    pub fn fast_open_room(&self) -> Bytes {
        let most = self.open.fast().and_then(|f| f.ask.as_ref()).map_or(0, |ask| ask.payload.get());
        Bytes::new(if self.open.syn().sent() == 0 { most.saturating_sub(self.send.unsent()) } else { 0 })
    }

    /// The option of the SYN or SYN-ACK that was sent last.
    pub fn sent_fast_open(&self) -> Option<&FastOpen> {
        self.open.fast()?.sent_option.as_ref()
    }

    /// The option of the peer's SYN or SYN-ACK that is passed to [`Connection::on_segment`] next.
    pub fn hear_fast_open(&mut self, option: FastOpen) {
        if let Some(fast) = self.open.fast_mut() {
            fast.peer_option = Some(option);
        }
    }

    /// Bytes of payload of a SYN or SYN-ACK that leaves now. [`Connection::sent_fast_open`] then returns its option.
    pub(super) fn fast_open_of_syn(&mut self, answer: bool) -> u64 {
        let first = self.open.syn().sent() == 1;
        let unsent = self.send.unsent();
        let Some(fast) = self.open.fast_mut() else { return 0 };
        if answer {
            fast.sent_option.clone_from(&fast.grant);
            return 0;
        }
        fast.sent_option = None;
        let Some(ask) = fast.ask.as_ref().filter(|_| first) else { return 0 };
        fast.carried = unsent.min(ask.payload.get());
        fast.sent_option.clone_from(&ask.option);
        fast.carried
    }

    /// The peer's SYN-ACK to our SYN, or a plain SYN: `acked` bytes of data are acknowledged.
    pub(super) fn fast_open_answered(&mut self, acked: u64) {
        let repeated = self.open.syn().is_repeated();
        let Some(fast) = self.open.fast_mut() else { return };
        if fast.ask.is_some() {
            fast.answer = Some(FastOpenAnswer {
                asked: fast.ask.as_ref().and_then(|ask| ask.option.as_ref()).map(|o| o.experimental),
                option: fast.peer_option.take(),
                sent: fast.carried,
                acked: acked.min(fast.carried),
                repeated,
            });
        }
    }

    /// A SYN arrived at a server. Returns whether the connection transfers data from now on.
    pub(super) fn fast_open_syn(&mut self, now: Time, segment: &Segment, ecn: Ecn) -> bool {
        let Some(fast) = self.open.fast_mut() else { return false };
        let peer_option = fast.peer_option.take();
        let Some(serve) = &fast.serve else { return false };
        let taken = match serve.decide(peer_option.as_ref(), segment.len > 0) {
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
                closing: false,
            };
            self.recv.data(now, &arrival, &mut self.log);
        }
        true
    }
}
