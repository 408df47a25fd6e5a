#!/bin/sh
# smoltcp 0.14.0: a FIN that arrives before the data in front of it is dropped, although such data are kept.
#
# Expected by most: a receiver that keeps segments beyond a hole keeps their FIN, too (RFC 9293 SHLD-31 and section
# 3.10.7.4), so that the ACK of the data that fill the hole covers the FIN. Seen: data beyond the hole are kept, a FIN beyond
# it is not, with data or without. The peer has to send the FIN again, after its retransmission timeout. One reordered
# packet at the end of a transfer therefore costs a second or more.
# Needs: cargo.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src"
cat > "$work/Cargo.toml" <<'TOML'
[package]
name = "early-fin"
version = "0.0.0"
edition = "2021"
[dependencies]
smoltcp = { version = "=0.14.0", default-features = false, features = ["std", "medium-ip", "proto-ipv4", "socket-tcp"] }
TOML
cat > "$work/src/main.rs" <<'RUST'
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::*;
use std::collections::VecDeque;

const US: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const THEM: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);

#[derive(Default)]
struct Wire { arriving: VecDeque<Vec<u8>>, sent: Vec<Vec<u8>> }
struct Arrival(Vec<u8>);
struct Departure<'a>(&'a mut Vec<Vec<u8>>);
impl RxToken for Arrival {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R { f(&self.0) }
}
impl TxToken for Departure<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let made = f(&mut packet);
        self.0.push(packet);
        made
    }
}
impl Device for Wire {
    type RxToken<'a> = Arrival;
    type TxToken<'a> = Departure<'a>;
    fn capabilities(&self) -> DeviceCapabilities {
        let mut made = DeviceCapabilities::default();
        made.medium = Medium::Ip;
        made.max_transmission_unit = 1500;
        made
    }
    fn receive(&mut self, _: Instant) -> Option<(Arrival, Departure<'_>)> {
        let packet = self.arriving.pop_front()?;
        Some((Arrival(packet), Departure(&mut self.sent)))
    }
    fn transmit(&mut self, _: Instant) -> Option<Departure<'_>> { Some(Departure(&mut self.sent)) }
}

fn segment(control: TcpControl, seq: i32, ack: Option<TcpSeqNumber>, payload: &[u8]) -> Vec<u8> {
    let tcp = TcpRepr {
        src_port: 50_000, dst_port: 80, control, seq_number: TcpSeqNumber(seq), ack_number: ack, window_len: 60_000,
        window_scale: None, max_seg_size: None, sack_permitted: false, sack_ranges: [None; 3], timestamp: None, payload,
    };
    let ip = Ipv4Repr {
        src_addr: THEM, dst_addr: US, next_header: IpProtocol::Tcp, payload_len: tcp.buffer_len(), hop_limit: 64,
    };
    let mut bytes = vec![0; ip.buffer_len() + tcp.buffer_len()];
    let all = ChecksumCapabilities::default();
    ip.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[..]), &all);
    tcp.emit(&mut TcpPacket::new_unchecked(&mut bytes[20..]), &THEM.into(), &US.into(), &all);
    bytes
}

/// The acknowledged octets after the hole is filled: those of the data are 0 to 7, the FIN is the ninth.
fn acknowledged(beyond: &[u8], control: TcpControl) -> i32 {
    let mut wire = Wire::default();
    let mut now = Instant::from_millis(1);
    let mut host = Interface::new(Config::new(HardwareAddress::Ip), &mut wire, now);
    host.update_ip_addrs(|list| list.push(IpCidr::new(US.into(), 24)).unwrap());
    let mut sockets = SocketSet::new(vec![]);
    let buffer = || SocketBuffer::new(vec![0; 4096]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_ack_delay(None);
    socket.listen(80).unwrap();
    sockets.add(socket);
    let mut exchange = |packet: Vec<u8>| {
        wire.arriving.push_back(packet);
        now += smoltcp::time::Duration::from_millis(10);
        host.poll(now, &mut wire, &mut sockets);
        let sent = std::mem::take(&mut wire.sent);
        let last = sent.last().cloned();
        last.map(|p| { let t = TcpPacket::new_unchecked(p[20..].to_vec()); (t.seq_number(), t.ack_number()) })
    };
    let (ours, _) = exchange(segment(TcpControl::Syn, 999, None, &[])).unwrap();
    let ack = Some(ours + 1);
    exchange(segment(TcpControl::None, 1000, ack, &[]));
    exchange(segment(control, 1004, ack, beyond));
    let (_, told) = exchange(segment(TcpControl::None, 1000, ack, b"0123")).unwrap();
    told.0 - 1000
}

fn main() {
    println!("data beyond the hole: {} octets acknowledged", acknowledged(b"4567", TcpControl::Psh));
    println!("data and FIN beyond the hole: {} octets acknowledged", acknowledged(b"4567", TcpControl::Fin));
    println!("FIN beyond the hole: {} octets acknowledged", acknowledged(b"", TcpControl::Fin));
}
RUST
seen=$(cd "$work" && CARGO_TARGET_DIR="$work/target" cargo run --quiet)
echo "$seen"
# With the FIN kept, the last two lines would say 9 and 5.
[ "$seen" = "data beyond the hole: 8 octets acknowledged
data and FIN beyond the hole: 8 octets acknowledged
FIN beyond the hole: 4 octets acknowledged" ]
