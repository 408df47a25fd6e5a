//! `app.background = udp:<rate>`: datagrams at equal intervals from the first pair's sender to its receiver, as in the model.

use crate::netns::build::NetnsSet;
use crate::netns::topology::NetnsTopology;
use crate::system::Failure;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};
use tcpassay_case::Case;
use tcpassay_linux::sys;
use tcpassay_measure::pcapng::host_address;
use tcpassay_units::Time;
use tcpassay_workload::{BackgroundTraffic, UdpSource};

/// The discard port (RFC 863).
const DISCARD_PORT: u16 = 9;

/// A sender of datagrams, and a receiver that discards them. On a testbed each is on the machine of its host.
pub struct UdpBackground {
    source: UdpSource,
    /// `None` if the sender is on another machine.
    socket: Option<OwnedFd>,
    to: SocketAddrV4,
    /// This socket is never read. Its filter drops the datagrams, so that the kernel sends no ICMP message.
    _receiver: Option<OwnedFd>,
    /// The number of datagrams that the kernel accepted.
    pub sent: u64,
}

impl UdpBackground {
    /// The background traffic of a case; `None` if the case has none.
    pub fn of(
        case: &Case,
        topology: &NetnsTopology,
        namespaces: &mut NetnsSet,
    ) -> Result<Option<UdpBackground>, Failure> {
        let BackgroundTraffic::Udp(rate) = &case.network.background else { return Ok(None) };
        let wrong = |e: std::io::Error| format!("app.background: {e}");
        let (sender, receiver) = case.net.flows[0];
        let mut open = |host: usize| -> Result<Option<OwnedFd>, Failure> {
            if !topology.has_host(host) {
                return Ok(None);
            }
            namespaces.enter(host)?;
            let socket = sys::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0);
            socket.map(Some).map_err(wrong)
        };
        let (socket, sink) = (open(sender)?, open(receiver)?);
        let to = SocketAddrV4::new(host_address(u32::try_from(receiver).expect("few hosts")), DISCARD_PORT);
        if let Some(sink) = &sink {
            sys::attach_filter(sink.as_fd(), &sys::DROP_ALL).map_err(wrong)?;
            sys::bind(sink.as_fd(), to).map_err(wrong)?;
        }
        if let Some(socket) = &socket {
            sys::connect(socket.as_fd(), to).map_err(wrong)?;
        }
        Ok(Some(UdpBackground {
            source: UdpSource::new(*rate, Time::ZERO),
            socket,
            to,
            _receiver: sink,
            sent: 0,
        }))
    }

    /// Time of the next datagram; [`Time::MAX`] if another machine sends them.
    pub fn next(&self) -> Time {
        if self.socket.is_some() { self.source.next() } else { Time::MAX }
    }

    /// Sends the datagrams that are due. A datagram for which the host's queue has no room is lost, as anywhere on the path.
    pub fn send(&mut self, now: Time) {
        let Some(socket) = &self.socket else { return };
        let payload = vec![0; usize::try_from(UdpSource::PAYLOAD.get()).expect("a packet")];
        while self.source.next() <= now {
            self.sent += u64::from(sys::send_to(socket.as_fd(), &payload, self.to).is_ok());
            self.source.advance();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};
    use tcpassay_units::{Dur, Rate};

    #[test]
    fn datagrams_that_are_due_are_sent_and_the_next_one_follows_after_the_interval() {
        let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let std::net::SocketAddr::V4(to) = receiver.local_addr().unwrap() else { panic!("IPv4") };
        let open = || Some(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().into());
        let source = UdpSource::new(Rate::from_mbit(8), Time::ZERO);
        let mut udp = UdpBackground { source, socket: open(), to, _receiver: open(), sent: 0 };
        // A payload of 1000 bytes at 8 Mbit/s takes 1 ms: one at 0, 1, 2 and 3 ms.
        udp.send(Time::ZERO + Dur::from_micros(3500));
        assert_eq!((udp.sent, udp.next()), (4, Time::ZERO + Dur::from_millis(4)));
        let mut buffer = [0; 2000];
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 1000);
        // The machine of the receiver sends nothing.
        udp.socket = None;
        udp.send(Time::ZERO + Dur::from_millis(9));
        assert_eq!((udp.sent, udp.next()), (4, Time::MAX));
    }
}
