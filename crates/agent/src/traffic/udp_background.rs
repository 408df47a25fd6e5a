//! `app.background = udp:<rate>`: datagrams at equal intervals from the first pair's sender to its receiver, as in the model.

use crate::netns::build::NetnsSet;
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
/// A classic BPF program that drops every packet: `BPF_RET | BPF_K` of 0 (`linux/filter.h`).
const DROP_ALL: [(u16, u8, u8, u32); 1] = [(0x06, 0, 0, 0)];

/// A sender of datagrams, and a receiver that discards them.
pub struct UdpBackground {
    source: UdpSource,
    socket: OwnedFd,
    to: SocketAddrV4,
    /// This socket is never read. Its filter drops the datagrams, so that the kernel sends no ICMP message.
    _receiver: OwnedFd,
    /// The number of datagrams that the kernel accepted.
    pub sent: u64,
}

impl UdpBackground {
    /// The background traffic of a case; `None` if the case has none.
    pub fn of(case: &Case, namespaces: &mut NetnsSet) -> Result<Option<UdpBackground>, Failure> {
        let BackgroundTraffic::Udp(rate) = &case.network.background else { return Ok(None) };
        let wrong = |e: std::io::Error| format!("app.background: {e}");
        let (sender, receiver) = case.net.flows[0];
        let mut open = |host: usize| -> Result<OwnedFd, Failure> {
            namespaces.enter(host)?;
            sys::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0).map_err(wrong)
        };
        let (socket, sink) = (open(sender)?, open(receiver)?);
        let to = SocketAddrV4::new(host_address(u32::try_from(receiver).expect("few hosts")), DISCARD_PORT);
        sys::attach_filter(sink.as_fd(), &DROP_ALL).map_err(wrong)?;
        sys::bind(sink.as_fd(), to).map_err(wrong)?;
        sys::connect(socket.as_fd(), to).map_err(wrong)?;
        Ok(Some(UdpBackground {
            source: UdpSource::new(*rate, Time::ZERO),
            socket,
            to,
            _receiver: sink,
            sent: 0,
        }))
    }

    /// Time of the next datagram.
    pub fn next(&self) -> Time {
        self.source.next()
    }

    /// Sends the datagrams that are due. A datagram for which the host's queue has no room is lost, as anywhere on the path.
    pub fn send(&mut self, now: Time) {
        let payload = vec![0; usize::try_from(UdpSource::PAYLOAD.get()).expect("a packet")];
        while self.source.next() <= now {
            self.sent += u64::from(sys::send_to(self.socket.as_fd(), &payload, self.to).is_ok());
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
        let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().into();
        let source = UdpSource::new(Rate::from_mbit(8), Time::ZERO);
        let mut udp = UdpBackground { source, socket: open(), to, _receiver: open(), sent: 0 };
        // A payload of 1000 bytes at 8 Mbit/s takes 1 ms: one at 0, 1, 2 and 3 ms.
        udp.send(Time::ZERO + Dur::from_micros(3500));
        assert_eq!((udp.sent, udp.next()), (4, Time::ZERO + Dur::from_millis(4)));
        let mut buffer = [0; 2000];
        assert_eq!(receiver.recv(&mut buffer).unwrap(), 1000);
    }
}
