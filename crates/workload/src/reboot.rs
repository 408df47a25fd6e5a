//! A host that stops and begins again (`app.reboot`).
//!
//! Everything that its applications had in progress has failed. When the host is back, its clients open their connections again, each from
//! the port of the one that it replaces, so that a server which knows nothing of the reboot sees a SYN of a connection that it has
//! (RFC 9293 section 3.5.1).

use crate::apps::Apps;
use crate::sockets::{SocketId, Sockets};
use crate::spec::Behaviour;
use crate::timer::AppTimer;
use tcpassay_units::{Dur, Time};

impl Apps {
    /// The host stops for `down`.
    pub(crate) fn halt(&mut self, now: Time, down: Dur, sockets: &mut impl Sockets) {
        sockets.halt();
        for client in &mut self.clients {
            (client.down, client.round) = (true, None);
            for slot in client.open.drain(..) {
                let key = self.ends[slot.0 as usize].key;
                client.lost.push((key.server, Some(key)));
            }
        }
        for slot in (0u32..).take(self.ends.len()) {
            let end = &mut self.ends[slot as usize];
            if end.live {
                end.fail(now, &mut self.done);
                self.vacate(SocketId(slot));
            }
        }
        self.at(now.saturating_add(down), AppTimer::Boot);
    }

    /// The host begins again: its clients, unless their time is over, open their connections.
    pub(crate) fn boot(&mut self, now: Time, sockets: &mut impl Sockets) {
        sockets.boot();
        for client in (0u32..).take(self.clients.len()) {
            let (state, spec) = self.client(client);
            state.down = false;
            let lost = std::mem::take(&mut state.lost);
            if state.stopped {
                continue;
            }
            let behaviour = spec.behaviour;
            let requests = if !behaviour.is_closed_loop() {
                0
            } else if spec.reuse {
                spec.concurrency
            } else {
                1
            };
            for (server, before) in lost {
                let slot = self.open_after(now, client, server, before, sockets);
                for _ in 0..requests {
                    self.issue(now, slot);
                }
                self.ready(now, slot, sockets);
            }
            if behaviour == Behaviour::Incast {
                self.round(now, client, sockets);
            }
        }
    }
}
