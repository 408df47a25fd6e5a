#!/bin/sh
# quinn-proto 0.11.19: BBR starts with 200 packets, is in PROBE_RTT at once, and nothing uses its pacing rate.
#
# Expected by most: BBR (draft-cardwell-iccrg-bbr-congestion-control-00, sections 4.2 and 4.3) starts with the initial
# window of the transport, 10 packets (RFC 9002 section 7.2), leaves STARTUP for DRAIN, comes to PROBE_RTT after ten
# seconds without a new minimum, and sends at its pacing rate, so that the window of two BDPs is rarely filled and the
# queue stays short. Seen, on a path of 50 ms and 20 Mbit/s with a buffer that never overflows: the first window is
# 240,000 bytes; the first ACK of a full flight starts PROBE_RTT, and the window falls to 4,800 bytes and stays below
# a BDP until 364 ms; from then on the smoothed RTT is 102 ms, one BDP of queue. The pacer of quinn sends at 1.25
# windows a round trip whatever the controller says; `pacing_rate` is in its metrics only, and its gains of 1.25 and
# 0.75 change nothing. Whoever compares "BBR" of QUIC and TCP over this path compares the window limit of BBR with
# BBR.
# Needs: cargo.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/src"
cat > "$work/Cargo.toml" <<'TOML'
[package]
name = "paced"
version = "0.0.0"
edition = "2021"
[dependencies]
bytes = "=1.12.2"
quinn-proto = { version = "=0.11.19", default-features = false, features = ["rustls-ring"] }
rcgen = { version = "=0.14.10", default-features = false, features = ["ring"] }
rustls = { version = "=0.23.46", default-features = false, features = ["ring", "std"] }
TOML
cat > "$work/src/main.rs" <<'RUST'
use bytes::BytesMut;
use quinn_proto::congestion::BbrConfig;
use quinn_proto::*;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ONE_WAY: Duration = Duration::from_millis(25);
const BITS_PER_SECOND: u64 = 20_000_000;
/// Bytes that the path holds in 50 ms.
const BDP: u64 = BITS_PER_SECOND / 8 / 20;

/// One end of the path, with the datagrams on their way to it and the time when the link to it is free.
struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    arriving: VecDeque<(Instant, BytesMut)>,
    free: Instant,
    peer: SocketAddr,
}

/// What arrives for an end is processed, and what it sends is returned.
fn turn(end: &mut End, now: Instant, upload: &mut Option<StreamId>, client: bool) -> Vec<BytesMut> {
    let mut sent = vec![];
    while end.arriving.front().is_some_and(|(at, _)| *at <= now) {
        let (at, datagram) = end.arriving.pop_front().unwrap();
        let mut buffer = vec![];
        match end.endpoint.handle(at, end.peer, None, None, datagram, &mut buffer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => end.connection.as_mut().unwrap().1.handle_event(event),
            Some(DatagramEvent::NewConnection(incoming)) => {
                end.connection = end.endpoint.accept(incoming, at, &mut buffer, None).ok();
            }
            _ => {}
        }
    }
    let Some((handle, connection)) = end.connection.as_mut() else { return sent };
    if connection.poll_timeout().is_some_and(|at| at <= now) {
        connection.handle_timeout(now);
    }
    while let Some(event) = connection.poll_endpoint_events() {
        if let Some(answer) = end.endpoint.handle_event(*handle, event) {
            connection.handle_event(answer);
        }
    }
    while let Some(event) = connection.poll() {
        if client && matches!(event, Event::Connected) {
            *upload = connection.streams().open(Dir::Uni);
        }
    }
    if client {
        if let Some(id) = *upload {
            while connection.send_stream(id).write(&[0; 65536]).is_ok() {}
        }
    } else if let Some(id) = *upload {
        connection.streams().accept(Dir::Uni);
        let mut stream = connection.recv_stream(id);
        if let Ok(mut chunks) = stream.read(true) {
            while let Ok(Some(_)) = chunks.next(usize::MAX) {}
            let _ = chunks.finalize();
        };
    }
    let mut buffer = vec![];
    while let Some(transmit) = connection.poll_transmit(now, 1, &mut buffer) {
        sent.push(BytesMut::from(&buffer[..transmit.size]));
        buffer.clear();
    }
    sent
}

fn main() {
    let key = rcgen::generate_simple_self_signed(vec!["server".into()]).unwrap();
    let certificate = key.cert.der().clone();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(Arc::new(BbrConfig::default())).mtu_discovery_config(None);
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    client.transport_config(Arc::new(transport));
    let private = rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let server = ServerConfig::with_single_cert(vec![certificate], private.into()).unwrap();

    let start = Instant::now();
    let addresses: [SocketAddr; 2] = ["10.0.0.1:1".parse().unwrap(), "10.0.0.2:2".parse().unwrap()];
    let end = |config: Option<Arc<ServerConfig>>, peer| End {
        endpoint: Endpoint::new(Arc::default(), config, false, None),
        connection: None,
        arriving: VecDeque::new(),
        free: start,
        peer,
    };
    let mut ends = [end(None, addresses[1]), end(Some(Arc::new(server)), addresses[0])];
    ends[0].connection = Some(ends[0].endpoint.connect(start, client, addresses[1], "server").unwrap());
    let first = ends[0].connection.as_ref().unwrap().1.congestion_state().window();

    let mut upload = None;
    let mut now = start;
    let mut smallest = u64::MAX;
    let mut rounds = vec![];
    let mut rates = vec![];
    while now < start + Duration::from_secs(3) {
        for one in 0..2 {
            let sent = turn(&mut ends[one], now, &mut upload, one == 0);
            let other = &mut ends[1 - one];
            for datagram in sent {
                let bits = 8 * (datagram.len() as u64 + 28);
                other.free = other.free.max(now) + Duration::from_nanos(bits * 1_000_000_000 / BITS_PER_SECOND);
                other.arriving.push_back((other.free + ONE_WAY, datagram));
            }
        }
        let connection = &ends[0].connection.as_ref().unwrap().1;
        if now < start + Duration::from_millis(400) {
            smallest = smallest.min(connection.congestion_state().window());
        } else if now > start + Duration::from_secs(1) {
            rounds.push(connection.rtt().as_millis());
            rates.push(connection.congestion_state().metrics().pacing_rate.unwrap());
        }
        let next = ends.iter_mut().flat_map(|end| {
            let timer = end.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
            [end.arriving.front().map(|(at, _)| *at), timer]
        });
        now = next.flatten().min().unwrap().max(now + Duration::from_micros(10));
    }
    let (low, high) = (rounds.iter().min().unwrap(), rounds.iter().max().unwrap());
    let slow = rates.iter().min().unwrap();
    eprintln!("smallest window until 400 ms: {smallest}; RTT later: {low} to {high} ms; slowest pacing rate {slow}");
    println!("first window: {first} bytes");
    println!("window below a BDP ({BDP} bytes) within 400 ms: {}", smallest < BDP);
    println!("smoothed RTT from 1 s to 3 s between 95 and 110 ms: {}", *low >= 95 && *high <= 110);
    println!("pacing rate of 0.75 of the path in that time: {}", *slow < BITS_PER_SECOND * 3 / 4);
}
RUST
seen=$(cd "$work" && CARGO_TARGET_DIR="$work/target" cargo run --quiet)
echo "$seen"
[ "$seen" = "first window: 240000 bytes
window below a BDP (125000 bytes) within 400 ms: true
smoothed RTT from 1 s to 3 s between 95 and 110 ms: true
pacing rate of 0.75 of the path in that time: true" ]
