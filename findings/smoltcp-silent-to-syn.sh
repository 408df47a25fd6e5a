#!/bin/sh
# smoltcp 0.14.0: a SYN for an open connection gets no answer, so that a peer that lost its state cannot come back.
#
# Expected by most: a SYN in a synchronized state is answered by an ACK, whatever its number (RFC 9293 section
# 3.10.7.4, RFC 5961 section 4.2). A peer that has rebooted answers this ACK with a reset, and its next SYN opens a new
# connection. Seen: such a SYN is dropped in silence, inside and outside the window, and so is a repeated SYN of this
# connection; only data outside the window are answered. The peer cannot use its port until smoltcp gives up the
# connection, which an idle socket without keepalive probes never does.
# Needs: cargo.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src"
cat > "$work/Cargo.toml" <<'TOML'
[package]
name = "second-syn"
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

/// What an open connection answers: the number that the ACK acknowledges, from 1000, if there is one.
fn answered(control: TcpControl, seq: i32, acks: bool, payload: &[u8]) -> Option<i32> {
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
        // Two seconds: longer than every limit of the rate of such answers.
        for _ in 0..2 {
            now += smoltcp::time::Duration::from_secs(1);
            host.poll(now, &mut wire, &mut sockets);
        }
        let sent = std::mem::take(&mut wire.sent);
        let last = sent.last().cloned();
        last.map(|p| { let t = TcpPacket::new_unchecked(p[20..].to_vec()); (t.seq_number(), t.ack_number()) })
    };
    let (ours, _) = exchange(segment(TcpControl::Syn, 999, None, &[])).unwrap();
    let ack = Some(ours + 1);
    exchange(segment(TcpControl::None, 1000, ack, b"0123")).unwrap();
    exchange(segment(control, seq, if acks { ack } else { None }, payload)).map(|(_, told)| told.0 - 1000)
}

fn main() {
    println!("data far outside the window: {:?}", answered(TcpControl::Psh, 900_000, true, b"x"));
    println!("SYN far outside the window:  {:?}", answered(TcpControl::Syn, 900_000, false, b""));
    println!("SYN inside the window:       {:?}", answered(TcpControl::Syn, 1500, false, b""));
    println!("SYN of this connection:      {:?}", answered(TcpControl::Syn, 999, false, b""));
}
RUST
seen=$(cd "$work" && CARGO_TARGET_DIR="$work/target" cargo run --quiet)
echo "$seen"
# With answers as in RFC 5961, each line would say Some(4).
[ "$seen" = "data far outside the window: Some(4)
SYN far outside the window:  None
SYN inside the window:       None
SYN of this connection:      None" ]
