//! Datagrams in the background, which a host sends by a schedule.

use crate::engine::{Core, FlowLabel, HostId, Packet, TimerId};
use tcpassay_wire::Ecn;
use tcpassay_workload::UdpSource;

#[derive(Debug)]
pub(super) struct Datagrams {
    pub from: HostId,
    pub to: HostId,
    pub source: UdpSource,
    pub timer: Option<TimerId>,
}

impl Datagrams {
    pub fn start(&mut self, net: &mut Core, timer: TimerId) {
        self.timer = Some(timer);
        net.set_timer(timer, self.source.next());
    }

    /// Sends the next datagram, and sets the timer for the one after it.
    pub fn send(&mut self, net: &mut Core) {
        let payload = u32::try_from(UdpSource::PAYLOAD.get()).expect("1000");
        net.send(Packet::udp(self.from, self.to, FlowLabel(u32::MAX), payload, Ecn::NotEct));
        self.source.advance();
        net.set_timer(self.timer.expect("started"), self.source.next());
    }
}
