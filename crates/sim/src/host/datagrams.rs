//! Datagrams in the background, which a host sends by a schedule.

use super::stacks::{Stacks, TimerOwner};
use crate::engine::{Core, FlowLabel, HostId, Packet, TimerId};
use tcpassay_units::Time;
use tcpassay_wire::Ecn;
use tcpassay_workload::UdpSource;

#[derive(Debug)]
pub(super) struct Datagrams {
    pub from: HostId,
    pub to: HostId,
    pub source: UdpSource,
    pub timer: Option<TimerId>,
}

impl Stacks {
    pub fn start_datagrams(&mut self, net: &mut Core) {
        if self.datagrams.is_some() {
            let timer = self.add_timer(net, TimerOwner::Datagrams);
            let d = self.datagrams.as_mut().expect("there are some");
            d.timer = Some(timer);
            net.set_timer(timer, d.source.next());
        }
    }

    pub fn has_datagrams(&self) -> bool {
        self.datagrams.is_some()
    }

    pub fn send_datagram(&mut self, net: &mut Core) {
        let d = self.datagrams.as_mut().expect("a timer of datagrams");
        let payload = u32::try_from(UdpSource::PAYLOAD.get()).expect("1000");
        net.send(Packet::udp(d.from, d.to, FlowLabel(u32::MAX), payload, Ecn::NotEct));
        self.recorder.state.datagrams_sent += 1;
        d.source.advance();
        net.set_timer(d.timer.expect("started"), d.source.next());
    }

    pub fn datagram_in(&mut self, _packet: &Packet, _now: Time) {
        self.recorder.state.datagrams_received += 1;
    }
}
