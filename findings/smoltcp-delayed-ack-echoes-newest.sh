#!/bin/sh
# smoltcp 0.14.0: a delayed ACK echoes the timestamp of the newest segment, not that of the first one that it acknowledges.
#
# Expected by most: TS.Recent follows a segment only if the segment begins at or below the last ACK that was sent, so that
# an ACK of several segments echoes the earliest of them, and the peer's round-trip time includes the delay of the ACK
# (RFC 7323 sections 4.1 and 4.3). Seen: with two segments in one delayed ACK the echo is that of the second one, so that
# the peer's estimate lacks the delay, and with it its retransmission timeout.
# Needs: cargo.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src"
cat > "$work/Cargo.toml" <<'TOML'
[package]
name = "delayed-echo"
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

fn segment(control: TcpControl, seq: i32, ack: Option<TcpSeqNumber>, tsval: u32, payload: &[u8]) -> Vec<u8> {
    let tcp = TcpRepr {
        src_port: 50_000, dst_port: 80, control, seq_number: TcpSeqNumber(seq), ack_number: ack, window_len: 60_000,
        window_scale: None, max_seg_size: None, sack_permitted: false, sack_ranges: [None; 3],
        timestamp: Some(TcpTimestampRepr { tsval, tsecr: 0 }), payload,
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

fn main() {
    let mut wire = Wire::default();
    let mut now = Instant::from_millis(1);
    let mut host = Interface::new(Config::new(HardwareAddress::Ip), &mut wire, now);
    host.update_ip_addrs(|list| list.push(IpCidr::new(US.into(), 24)).unwrap());
    let mut sockets = SocketSet::new(vec![]);
    let buffer = || SocketBuffer::new(vec![0; 4096]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_ack_delay(Some(smoltcp::time::Duration::from_millis(10)));
    socket.set_tsval_generator(Some(|| 1));
    socket.listen(80).unwrap();
    sockets.add(socket);
    // The acknowledgement number and the echoed timestamp of the last packet that is sent.
    let mut exchange = |millis: u64, packet: Option<Vec<u8>>| {
        wire.arriving.extend(packet);
        now += smoltcp::time::Duration::from_millis(millis);
        host.poll(now, &mut wire, &mut sockets);
        let last = std::mem::take(&mut wire.sent).last().cloned();
        last.map(|p| {
            let t = TcpPacket::new_unchecked(&p[20..]);
            let made = TcpRepr::parse(&t, &US.into(), &THEM.into(), &ChecksumCapabilities::ignored()).unwrap();
            (t.seq_number(), t.ack_number(), made.timestamp.map(|one| one.tsecr))
        })
    };
    let (ours, _, _) = exchange(1, Some(segment(TcpControl::Syn, 999, None, 100, &[]))).unwrap();
    let ack = Some(ours + 1);
    exchange(50, Some(segment(TcpControl::None, 1000, ack, 150, &[])));
    let first = exchange(50, Some(segment(TcpControl::Psh, 1000, ack, 200, b"0123")));
    let second = exchange(4, Some(segment(TcpControl::Psh, 1004, ack, 204, b"4567")));
    let (_, told, echo) = exchange(20, None).unwrap();
    println!("ACKs at the arrivals: {} and {}", first.is_some(), second.is_some());
    println!("delayed ACK of {} octets: it echoes {:?}; the segments had 200 and 204", told.0 - 1000, echo);
}
RUST
seen=$(cd "$work" && CARGO_TARGET_DIR="$work/target" cargo run --quiet)
echo "$seen"
# RFC 7323 wants the echo 200.
[ "$seen" = "ACKs at the arrivals: false and false
delayed ACK of 8 octets: it echoes Some(204); the segments had 200 and 204" ]
