//! `app.background = udp:<rate>`: datagrams in equal gaps from the first pair's sender to its receiver, as the model sends them.

use crate::system::Failure;
use crate::traffic::runtime::TrafficRuntime;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};
use tcpassay_case::Case;
use tcpassay_linux::sys;
use tcpassay_measure::pcapng::host_address;
use tcpassay_units::Time;
use tcpassay_workload::{BackgroundTraffic, UdpSource};

/// The discard port.
const PORT: u16 = 9;

/// A sender of datagrams, and a receiver that throws them away.
pub struct UdpBackground {
    source: UdpSource,
    from: OwnedFd,
    to: SocketAddrV4,
    /// Nobody reads it: a filter lets nothing in, so that the datagrams end there without an ICMP answer.
    _sink: OwnedFd,
    /// Those that left the sender's socket.
    pub sent: u64,
}

impl UdpBackground {
    /// Of a case that asks for them.
    pub fn of(case: &Case, runtime: &mut TrafficRuntime) -> Result<Option<UdpBackground>, Failure> {
        let BackgroundTraffic::Udp(rate) = &case.background else { return Ok(None) };
        let wrong = |e: std::io::Error| format!("app.background: {e}");
        let (sender, receiver) = case.net.flows[0];
        let address = |host: usize| host_address(u32::try_from(host).expect("few hosts"));
        let mut socket = |host: usize| -> Result<OwnedFd, Failure> {
            runtime.enter(host)?;
            sys::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0).map_err(wrong)
        };
        let (from, sink) = (socket(sender)?, socket(receiver)?);
        let to = SocketAddrV4::new(address(receiver), PORT);
        sys::attach_filter(sink.as_fd(), &[(0x06, 0, 0, 0)]).map_err(wrong)?;
        sys::bind(sink.as_fd(), to).map_err(wrong)?;
        sys::connect(from.as_fd(), to).map_err(wrong)?;
        Ok(Some(UdpBackground { source: UdpSource::new(*rate, Time::ZERO), from, to, _sink: sink, sent: 0 }))
    }

    /// When the next one leaves.
    pub fn next(&self) -> Time {
        self.source.next()
    }

    /// Sends what is due. What the host's own queue has no room for is lost, as anywhere else on the path.
    pub fn send(&mut self, now: Time) {
        let payload = vec![0; usize::try_from(UdpSource::PAYLOAD.get()).expect("a packet")];
        while self.source.next() <= now {
            self.sent += u64::from(sys::send_to(self.from.as_fd(), &payload, self.to).is_ok());
            self.source.advance();
        }
    }
}
