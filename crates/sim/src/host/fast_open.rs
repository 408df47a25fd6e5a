//! Fast Open (RFC 7413) between hosts: who has whose cookie, and the option that the segments of a run do not contain.

use super::endpoint::{FlowEntry, NONE};
use super::stacks::Stacks;
use tcpassay_tcp::{Connection, FastOpen, FastOpenAsk, FastOpenServe, is_cookie};
use tcpassay_units::Bytes;
use tcpassay_workload::ConnKey;

impl Stacks {
    /// A SYN or SYN-ACK is about to arrive. The Fast Open option is not part of the segment; the last option that the
    /// peer sent is used for this segment.
    #[cold]
    pub(super) fn process_fast_open(&mut self, c: u32) {
        let conn = self.conn_ref(c);
        let (key, flow) = (conn.key, self.recorder.flows[FlowEntry::place(conn.route.flow).0]);
        let server = conn.route.src == flow.server;
        let peer = flow.ends[usize::from(!server)];
        if peer == NONE {
            return;
        }
        let Some(option) = self.conn_ref(peer).tcp.sent_fast_open().cloned() else { return };
        if !server && is_cookie(&option.cookie) {
            self.cookies.insert((key.client.0, key.server.0));
        }
        self.conn(c).tcp.hear_fast_open(option);
    }

    /// Sets the Fast Open state of a new connection: the cookie it requests or presents.
    pub(super) fn offer_fast_open(&self, tcp: &mut Connection, key: ConnKey, server: bool) {
        // Bytes available for options (Linux `MAX_TCP_OPTION_SPACE`).
        const SPACE: u64 = 40;
        let pair = (key.client.0, key.server.0);
        let cookie: Vec<u8> = [pair.0.to_be_bytes(), pair.1.to_be_bytes()].concat();
        if server {
            tcp.serve_fast_open(FastOpenServe { cookies: vec![cookie], without_cookie: false });
            return;
        }
        let known = self.cookies.contains(&pair);
        let mss = self.hosts[key.client.0 as usize].settings.stack.mss.get();
        tcp.ask_fast_open(FastOpenAsk {
            option: Some(FastOpen { experimental: false, cookie: if known { cookie } else { Vec::new() } }),
            payload: Bytes::new(if known { mss.saturating_sub(SPACE) } else { 0 }),
        });
    }
}
