#!/bin/sh
# smoltcp 0.14.0: a Cargo feature that only adds a congestion controller changes the default of every socket.
#
# Expected by most: `socket-tcp-cubic` makes CUBIC available, and a socket has it after `set_congestion_control`.
# Seen: with the feature each new socket has CUBIC with an initial window of 2,048 bytes; without it, none. Cargo unifies
# features, so that another crate of the same program that enables the feature changes the first flight of all sockets,
# here from 14,600 bytes (the window of the peer) to 2,048 bytes, without a change of the caller's code. The window is the
# same whatever the MSS is: RFC 6928 allows ten segments. Whoever measures smoltcp has to state its features.
# Needs: cargo.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src"
cat > "$work/src/main.rs" <<'RUST'
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Loopback, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

fn main() {
    let mut device = Loopback::new(Medium::Ip);
    let now = Instant::from_millis(1);
    let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut device, now);
    interface.update_ip_addrs(|list| list.push(IpCidr::new(IpAddress::v4(127, 0, 0, 1), 8)).unwrap());
    let mut sockets = SocketSet::new(vec![]);
    let buffer = |size| SocketBuffer::new(vec![0; size]);
    let server = sockets.add(Socket::new(buffer(14_600), buffer(14_600)));
    let client = sockets.add(Socket::new(buffer(65_535), buffer(65_535)));
    println!("default: {:?}", sockets.get::<Socket>(client).congestion_control());
    sockets.get_mut::<Socket>(server).listen(80).unwrap();
    let context = interface.context();
    sockets.get_mut::<Socket>(client).connect(context, (IpAddress::v4(127, 0, 0, 1), 80), 40_000).unwrap();
    for _ in 0..10 {
        interface.poll(now, &mut device, &mut sockets);
    }
    let written = sockets.get_mut::<Socket>(client).send_slice(&[0; 40_000]).unwrap();
    assert_eq!(written, 40_000);
    // One egress pass at one instant: what the client may send before any acknowledgment.
    interface.poll_egress(now, &mut device, &mut sockets);
    let mut sent = 0;
    while interface.poll_egress(now, &mut device, &mut sockets) != smoltcp::iface::PollResult::None {}
    while interface.poll_ingress_single(now, &mut device, &mut sockets) != smoltcp::iface::PollIngressSingleResult::None {
        sent = sockets.get::<Socket>(server).recv_queue();
    }
    println!("first flight: {sent} bytes");
}
RUST
try() {
    cat > "$work/Cargo.toml" <<TOML
[package]
name = "first-flight"
version = "0.0.0"
edition = "2021"
[dependencies]
smoltcp = { version = "=0.14.0", default-features = false, features = ["std", "medium-ip", "proto-ipv4", $1] }
TOML
    (cd "$work" && CARGO_TARGET_DIR="$work/target" cargo run --quiet)
}
plain=$(try '"socket-tcp"')
cubic=$(try '"socket-tcp", "socket-tcp-cubic"')
printf 'socket-tcp:\n%s\nsocket-tcp and socket-tcp-cubic:\n%s\n' "$plain" "$cubic"
[ "$plain" = "default: None
first flight: 14600 bytes" ]
[ "$cubic" = "default: Cubic
first flight: 2048 bytes" ]
