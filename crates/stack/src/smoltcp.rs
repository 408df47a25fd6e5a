//! smoltcp (<https://github.com/smoltcp-rs/smoltcp>) as a [`Stack`], in this process.
//!
//! The version and the features are pinned in `Cargo.toml`, because they change the behaviour: with `socket-tcp-cubic`, for
//! example, another controller is the default. The controller is therefore always set.
//!
//! smoltcp has no accept queue: a listening socket becomes the connection. A port therefore always has one further socket
//! that listens. Its clock has microseconds.

use crate::{Description, Drained, Settings, SocketId, SocketStatus, Stack, StackError};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint};
use std::cell::Cell;
use std::net::{IpAddr, SocketAddrV4};
use tcpassay_units::{Dur, Time};

/// The version of smoltcp. A test compares it with `Cargo.toml`.
pub const VERSION: &str = "0.14.0";
/// The features that its TCP was built with.
pub const FEATURES: &str = "socket-tcp-reno, socket-tcp-cubic";
/// The congestion controllers that it has.
pub const CONTROLLERS: [&str; 3] = ["none", "reno", "cubic"];
/// Size of a socket buffer if the settings have none: the largest window without scaling.
const BUFFER: usize = 65_535;

thread_local! {
    /// The time of the call in milliseconds, for the timestamps option: smoltcp takes a function without arguments.
    static MILLISECONDS: Cell<u32> = const { Cell::new(0) };
}

/// One host with smoltcp.
pub struct SmolStack {
    settings: Settings,
    interface: Interface,
    link: Link,
    sockets: SocketSet<'static>,
    ends: Vec<End>,
    /// Listening ports, each with the socket that listens.
    ports: Vec<(u16, SocketHandle)>,
    accepted: Vec<(SocketId, u16, SocketAddrV4)>,
    changed: Vec<SocketId>,
    next: u32,
}

/// A socket that is or becomes a connection.
struct End {
    id: SocketId,
    handle: SocketHandle,
    /// The port at which it was accepted; `None` for a socket that connected.
    port: Option<u16>,
    /// The application knows it.
    known: bool,
    /// The application does not use it any more.
    released: bool,
    state: State,
    status: SocketStatus,
}

/// The network device: at most one packet in each call arrives.
struct Link {
    arrived: Vec<u8>,
    /// `arrived` is a packet that has not been processed.
    pending: bool,
    sent: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    mtu: usize,
}

struct Arrival<'a>(&'a [u8]);

struct Transmission<'a> {
    sent: &'a mut Vec<Vec<u8>>,
    spare: &'a mut Vec<Vec<u8>>,
}

impl RxToken for Arrival<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl TxToken for Transmission<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = self.spare.pop().unwrap_or_default();
        packet.clear();
        packet.resize(len, 0);
        let result = f(&mut packet);
        self.sent.push(packet);
        result
    }
}

impl Device for Link {
    type RxToken<'a> = Arrival<'a>;
    type TxToken<'a> = Transmission<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }

    fn receive(&mut self, _: Instant) -> Option<(Arrival<'_>, Transmission<'_>)> {
        std::mem::take(&mut self.pending).then(|| {
            let sending = Transmission { sent: &mut self.sent, spare: &mut self.spare };
            (Arrival(&self.arrived), sending)
        })
    }

    fn transmit(&mut self, _: Instant) -> Option<Transmission<'_>> {
        Some(Transmission { sent: &mut self.sent, spare: &mut self.spare })
    }
}

impl std::fmt::Debug for SmolStack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SmolStack").field("address", &self.settings.address).finish_non_exhaustive()
    }
}

impl SmolStack {
    /// Creates a host.
    ///
    /// # Errors
    /// A congestion controller that smoltcp does not have.
    pub fn new(settings: Settings) -> Result<(SmolStack, Description), StackError> {
        if !CONTROLLERS.contains(&settings.cc.as_str()) {
            return Err(StackError::broken(format!(
                "smoltcp has no congestion controller `{}`; it has {}",
                settings.cc,
                CONTROLLERS.join(", ")
            )));
        }
        let mut link = Link {
            arrived: Vec::new(),
            pending: false,
            sent: Vec::new(),
            spare: Vec::new(),
            mtu: settings.mtu.into(),
        };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = settings.isn.map_or(settings.seed, |isn| seed_of(isn, settings.seed));
        let mut interface = Interface::new(config, &mut link, Instant::ZERO);
        // Every other host has an address of 10.0.0.0/8, too.
        interface.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(IpAddress::Ipv4(settings.address), 8)).expect("it has room for two");
        });
        let made = SmolStack {
            settings,
            interface,
            link,
            sockets: SocketSet::new(Vec::new()),
            ends: Vec::new(),
            ports: Vec::new(),
            accepted: Vec::new(),
            changed: Vec::new(),
            next: 0,
        };
        Ok((made, description()))
    }

    fn socket(&mut self) -> SocketHandle {
        let buffer = |size: Option<usize>| SocketBuffer::new(vec![0; size.unwrap_or(BUFFER)]);
        let settings = &self.settings;
        let mut socket = Socket::new(buffer(settings.receive_buffer), buffer(settings.send_buffer));
        let span = |d: Dur| Duration::from_micros(d.as_micros());
        socket.set_congestion_control(match settings.cc.as_str() {
            "reno" => CongestionControl::Reno,
            "cubic" => CongestionControl::Cubic,
            _ => CongestionControl::None,
        });
        socket.set_nagle_enabled(settings.nagle);
        if settings.timestamps == Some(true) {
            socket.set_tsval_generator(Some(|| MILLISECONDS.get()));
        }
        if let Some(delay) = settings.ack_delay {
            socket.set_ack_delay((!delay.is_zero()).then(|| span(delay)));
        }
        socket.set_keep_alive(settings.keepalive.map(span));
        socket.set_timeout(settings.user_timeout.map(span));
        self.sockets.add(socket)
    }

    fn number(&mut self) -> SocketId {
        self.next += 1;
        SocketId(self.next - 1)
    }

    fn end(&self, socket: SocketId) -> Result<SocketHandle, StackError> {
        let place = self.ends.binary_search_by_key(&socket, |end| end.id);
        let end = place.map(|place| &self.ends[place]).ok().filter(|end| !end.released);
        end.map(|end| end.handle)
            .ok_or_else(|| StackError::broken(format!("socket {} is not open", socket.0)))
    }

    fn tcp(&mut self, socket: SocketId) -> Result<&mut Socket<'static>, StackError> {
        let handle = self.end(socket)?;
        Ok(self.sockets.get_mut(handle))
    }

    /// Lets smoltcp do everything that is due, and notes what has changed for applications.
    fn poll(&mut self, now: Time) {
        let instant = instant(now);
        let milliseconds = u32::try_from((now.as_nanos() / 1_000_000) & u64::from(u32::MAX));
        MILLISECONDS.set(milliseconds.expect("32 bits"));
        self.interface.poll(instant, &mut self.link, &mut self.sockets);
        self.accept();
        let mut over = false;
        for end in &mut self.ends {
            let socket = self.sockets.get::<Socket<'_>>(end.handle);
            let status = end.observe(socket);
            if status != end.status {
                end.status = status;
                if end.known && !end.released {
                    self.changed.push(end.id);
                }
            }
            if end.port.is_some() && !end.known && status.established {
                end.known = true;
                let (local, remote) = (socket.local_endpoint(), socket.remote_endpoint());
                if let (Some(local), Some(remote)) = (local, remote.and_then(v4)) {
                    self.accepted.push((end.id, local.port, remote));
                    self.changed.push(end.id);
                }
            }
            // A socket that was aborted still has to send its reset: it has an address until then.
            over |= end.is_over(socket);
        }
        if over {
            let sockets = &mut self.sockets;
            self.ends.retain(|end| {
                let over = end.is_over(sockets.get(end.handle));
                if over {
                    sockets.remove(end.handle);
                }
                !over
            });
        }
    }

    /// Gives each port another socket that listens if a SYN took the last one.
    fn accept(&mut self) {
        for place in 0..self.ports.len() {
            let (port, handle) = self.ports[place];
            let state = self.sockets.get::<Socket<'_>>(handle).state();
            if state == State::Listen {
                continue;
            }
            let id = self.number();
            let status = SocketStatus::default();
            self.ends.push(End {
                id,
                handle,
                port: Some(port),
                known: false,
                released: false,
                state,
                status,
            });
            let next = self.socket();
            let socket = self.sockets.get_mut::<Socket<'_>>(next);
            socket.listen(port).expect("a new socket and a port");
            self.ports[place].1 = next;
        }
    }
}

impl End {
    /// Nobody uses it any more, and it has nothing to send.
    fn is_over(&self, socket: &Socket<'_>) -> bool {
        // A reset returns a socket that has not been accepted to the state in which it listens.
        let back = !self.known && self.port.is_some() && socket.state() == State::Listen;
        back || (self.released || !self.known && self.port.is_some())
            && socket.state() == State::Closed
            && socket.remote_endpoint().is_none()
    }

    fn observe(&mut self, socket: &Socket<'_>) -> SocketStatus {
        use State::{CloseWait, Closed, Closing, Established, FinWait1, FinWait2, LastAck, Listen, TimeWait};
        let (before, state) = (self.state, socket.state());
        self.state = state;
        let readable = socket.recv_queue();
        let ended = matches!(state, CloseWait | LastAck | Closing | TimeWait);
        // Both directions were closed in order if it was in one of these states; a reset or a timeout ends all others.
        let in_order = matches!(before, LastAck | Closing | TimeWait | Listen);
        let closed = state == Closed;
        SocketStatus {
            established: self.status.established
                || matches!(state, Established | FinWait1 | FinWait2)
                || ended,
            readable,
            writable: if socket.may_send() { socket.send_capacity() - socket.send_queue() } else { 0 },
            end_of_stream: (self.status.end_of_stream || ended) && readable == 0,
            closed,
            failed: closed && (self.status.failed || before != Closed && !in_order),
        }
    }
}

/// A seed with which the first connection of smoltcp has the initial sequence number `isn`. `other` selects one of them.
///
/// Its random numbers are those of a linear congruential generator of 64 bits, which can be run backwards: the output is 32 bits of the
/// state from bit 29 on if the upper three are zero. The first number of a host is the identification of its IP packets, the
/// second one is the ISN.
fn seed_of(isn: u32, other: u64) -> u64 {
    const FACTOR: u64 = 0xbb2e_fcec_3c39_611d;
    const TERM: u64 = 0x7590_ef39;
    // The inverse of an odd number modulo 2^64: each step of Newton's method doubles the bits that are right.
    let inverse = (0..6).fold(FACTOR, |x, _| x.wrapping_mul(2_u64.wrapping_sub(FACTOR.wrapping_mul(x))));
    let before = |state: u64| state.wrapping_sub(TERM).wrapping_mul(inverse);
    before(before(u64::from(isn) << 29 | other & ((1 << 29) - 1)))
}

/// The name, version and features of the smoltcp in this process.
pub fn description() -> Description {
    Description {
        name: "smoltcp".to_owned(),
        version: format!("{VERSION} ({FEATURES})"),
        granularity: Dur::from_micros(1),
        shows: Vec::new(),
    }
}

fn instant(now: Time) -> Instant {
    Instant::from_micros(i64::try_from(now.as_nanos() / 1000).expect("fewer than 292,000 years"))
}

fn v4(endpoint: IpEndpoint) -> Option<SocketAddrV4> {
    match IpAddr::from(endpoint.addr) {
        IpAddr::V4(address) => Some(SocketAddrV4::new(address, endpoint.port)),
        IpAddr::V6(_) => None,
    }
}

impl Stack for SmolStack {
    fn input(&mut self, now: Time, packet: &[u8]) -> Result<(), StackError> {
        self.link.arrived.clear();
        self.link.arrived.extend_from_slice(packet);
        self.link.pending = true;
        self.poll(now);
        Ok(())
    }

    fn advance(&mut self, now: Time) -> Result<(), StackError> {
        self.poll(now);
        Ok(())
    }

    fn deadline(&mut self, now: Time) -> Option<Time> {
        let due = self.interface.poll_at(instant(now), &self.sockets)?;
        Some(Time::from_nanos(u64::try_from(due.total_micros()).unwrap_or(0) * 1000))
    }

    fn listen(&mut self, _: Time, port: u16) -> Result<(), StackError> {
        let handle = self.socket();
        let listening = self.sockets.get_mut::<Socket<'_>>(handle).listen(port);
        listening.map_err(|why| StackError::broken(format!("it cannot listen at port {port}: {why}")))?;
        self.ports.push((port, handle));
        Ok(())
    }

    fn connect(&mut self, now: Time, port: u16, to: SocketAddrV4) -> Result<SocketId, StackError> {
        let handle = self.socket();
        let socket = self.sockets.get_mut::<Socket<'_>>(handle);
        let remote = (IpAddress::Ipv4(*to.ip()), to.port());
        socket
            .connect(self.interface.context(), remote, port)
            .map_err(|why| StackError::broken(format!("it cannot connect to {to}: {why}")))?;
        let id = self.number();
        let status = SocketStatus::default();
        let state = State::SynSent;
        self.ends.push(End { id, handle, port: None, known: true, released: false, state, status });
        self.poll(now);
        Ok(id)
    }

    fn write(&mut self, now: Time, socket: SocketId, bytes: &[u8]) -> Result<usize, StackError> {
        let taken = self.tcp(socket)?.send_slice(bytes).unwrap_or(0);
        if taken > 0 {
            self.poll(now);
        }
        Ok(taken)
    }

    fn read(&mut self, now: Time, socket: SocketId, into: &mut [u8]) -> Result<usize, StackError> {
        let taken = self.tcp(socket)?.recv_slice(into).unwrap_or(0);
        if taken > 0 {
            self.poll(now);
        }
        Ok(taken)
    }

    fn shutdown(&mut self, now: Time, socket: SocketId) -> Result<(), StackError> {
        self.tcp(socket)?.close();
        self.poll(now);
        Ok(())
    }

    fn close(&mut self, now: Time, socket: SocketId) -> Result<(), StackError> {
        self.tcp(socket)?.close();
        self.release(socket);
        self.poll(now);
        Ok(())
    }

    fn abort(&mut self, now: Time, socket: SocketId) -> Result<(), StackError> {
        self.tcp(socket)?.abort();
        self.release(socket);
        self.poll(now);
        Ok(())
    }

    fn drain(&mut self, into: &mut Drained) {
        into.packets.append(&mut self.link.sent);
        into.accepted.append(&mut self.accepted);
        for id in self.changed.drain(..) {
            if let Ok(place) = self.ends.binary_search_by_key(&id, |end| end.id) {
                into.changed.push((id, self.ends[place].status));
            }
        }
    }

    fn recycle(&mut self, packet: Vec<u8>) {
        if self.link.spare.len() < 64 {
            self.link.spare.push(packet);
        }
    }
}

impl SmolStack {
    fn release(&mut self, socket: SocketId) {
        if let Ok(place) = self.ends.binary_search_by_key(&socket, |end| end.id) {
            self.ends[place].released = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(isn: Option<u32>, seed: u64) -> Settings {
        Settings {
            address: std::net::Ipv4Addr::new(10, 0, 0, 1),
            mtu: 1500,
            seed,
            cc: "reno".to_owned(),
            send_buffer: None,
            receive_buffer: None,
            nagle: true,
            timestamps: None,
            ack_delay: None,
            keepalive: None,
            user_timeout: None,
            isn,
        }
    }

    #[test]
    fn the_first_connection_has_the_initial_sequence_number_of_the_settings_and_the_next_another() {
        for seed in 0..100 {
            let (mut stack, _) = SmolStack::new(settings(Some(4_294_900_000), seed)).expect("a controller");
            let peer = SocketAddrV4::new(std::net::Ipv4Addr::new(10, 0, 0, 2), 5001);
            stack.connect(Time::ZERO, 40_000, peer).expect("a new port");
            stack.connect(Time::ZERO, 40_001, peer).expect("a new port");
            let mut done = Drained::default();
            stack.drain(&mut done);
            let isn =
                |at: usize| u32::from_be_bytes(done.packets[at][24..28].try_into().expect("four bytes"));
            assert_eq!(isn(0), 4_294_900_000, "{seed}");
            assert_ne!(isn(1), 4_294_900_000, "{seed}");
        }
    }

    #[test]
    fn the_version_and_the_features_are_those_that_the_workspace_pins() {
        let manifest = include_str!("../../../Cargo.toml");
        let line = manifest.lines().find(|line| line.starts_with("smoltcp = ")).expect("a dependency");
        assert!(line.contains(&format!("version = \"={VERSION}\"")), "{line}");
        let of_tcp = line.split('"').filter(|word| word.starts_with("socket-tcp-"));
        assert_eq!(of_tcp.collect::<Vec<_>>().join(", "), FEATURES);
    }
}
