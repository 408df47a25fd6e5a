//! A host that stops and begins again (`app.reboot`).
//!
//! Its connections vanish without a segment, and with them what the host knew of paths and Fast Open cookies. Its peer keeps its ends. A
//! connection that is opened again has the same ports: its SYN reaches the end that the peer still has (RFC 9293 section 3.5.1). Both have
//! flows of their own in the recording.

use super::endpoint::FlowEntry;
use super::stacks::Stacks;
use crate::engine::{Core, HostId};
use tcpassay_measure::reason::AppCall;
use tcpassay_workload::ConnKey;

impl Stacks {
    /// Whether the host has stopped.
    #[cold]
    pub fn is_down(&self, host: HostId) -> bool {
        self.hosts[usize::from(host.0)].down
    }

    /// The host stops.
    pub fn halt(&mut self, net: &mut Core, host: usize) {
        self.hosts[host].down = true;
        let number = u32::try_from(host).expect("few hosts");
        self.cookies.retain(|(client, _)| *client != number);
        self.path_mtus.retain(|(at, _), _| *at != host);
        for c in (0u32..).take(self.conns.len()) {
            let Some(conn) = self.conns[c as usize].as_ref().filter(|conn| conn.host == host) else {
                continue;
            };
            let (place, _) = FlowEntry::place(conn.route.flow);
            let is_client = conn.key.client.0 == number;
            self.recorder.flows[place].kept = is_client && conn.slot.is_some();
            self.log_application(c, net.now(), AppCall::Reboot, None, None);
            self.detach(c);
            self.remove(net, c);
        }
    }

    /// Opens a connection from the port of `before`, which vanished. The server accepts it when its end of that one is gone.
    pub fn connect_again(&mut self, net: &mut Core, key: ConnKey, before: ConnKey) -> u32 {
        let kept = self.recorder.flows.iter().position(|flow| flow.kept && flow.key == before);
        let place = kept.expect("the host has stopped");
        let now = net.now();
        let out = [self.add_record(key, false, now), self.add_record(key, true, now)];
        let flow = &mut self.recorder.flows[place];
        *flow = FlowEntry { key, out, accepted: false, kept: false, ..*flow };
        self.open(net, place, false)
    }
}
