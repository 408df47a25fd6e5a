#!/bin/sh
# dpkt 1.9.8, scapy 2.8.0 and the crate pcap-file 2.0.0: times of valid pcapng files that are wrong without a message.
#
# Expected by most: a reader of pcapng turns the times of all packets into seconds, since each interface states its
# clock (options if_tsresol and if_tsoffset of its description block; microseconds without them). Seen:
#   dpkt       measures the packets of all interfaces and sections by the clock of the first interface: a nanosecond
#              clock beside a microsecond clock gives times 1,000 times too late.
#   scapy      keeps the interfaces of the first section when a second one begins (files joined with `cat` are valid),
#              so that its packets get the clock of the first; and it ignores if_tsoffset.
#   pcap-file  takes every clock for one of nanoseconds, the default of microseconds, too, and ignores if_tsoffset.
# Round-trip times of such files are wrong by a factor of 1,000, or packets of one file lie 50,000 years apart.
# Needs: python3 with venv, cargo.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/write.py" <<'PY'
import struct
import sys

def block(kind, body):
    size = 12 + len(body)
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)

SECTION = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))

def interface(resolution=None, offset=None):
    options = b""
    if resolution is not None:
        options += struct.pack("<HHB3x", 9, 1, resolution)
    if offset is not None:
        options += struct.pack("<HHq", 14, 8, offset)
    return block(1, struct.pack("<HHI", 1, 0, 0) + options + (struct.pack("<HH", 0, 0) if options else b""))

def packet(number, ticks):
    frame = bytes(12) + b"\x88\xb5" + bytes(46)
    return block(6, struct.pack("<IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, 60, 60) + frame)

T = 1_700_000_000
FILES = {
    "microseconds": SECTION + interface() + packet(0, T * 10**6),
    "two-clocks": SECTION + interface() + interface(9) + packet(0, T * 10**6) + packet(1, T * 10**9),
    "two-sections": SECTION + interface() + packet(0, T * 10**6) + SECTION + interface(9) + packet(0, T * 10**9),
    "offset": SECTION + interface(6, T) + packet(0, 0),
}
for name, content in FILES.items():
    with open(f"{sys.argv[1]}/{name}.pcapng", "wb") as file:
        file.write(content)
PY
cat > "$work/read.py" <<'PY'
import logging
import sys

logging.disable(logging.CRITICAL)
import dpkt
from scapy.utils import rdpcap

for path in sys.argv[1:]:
    name = path.split("/")[-1].split(".")[0]
    with open(path, "rb") as file:
        print("dpkt", name, *(int(time) for time, _ in dpkt.pcapng.Reader(file)))
    print("scapy", name, *(int(packet.time) for packet in rdpcap(path)))
PY
mkdir -p "$work/src"
cat > "$work/Cargo.toml" <<'TOML'
[package]
name = "clocks"
version = "0.0.0"
edition = "2021"
[dependencies]
pcap-file = "=2.0.0"
TOML
cat > "$work/src/main.rs" <<'RUST'
use pcap_file::pcapng::{Block, PcapNgReader};
fn main() {
    for path in std::env::args().skip(1) {
        let mut reader = PcapNgReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        print!("pcap-file {}", path.rsplit('/').next().unwrap().trim_end_matches(".pcapng"));
        while let Some(block) = reader.next_block() {
            if let Block::EnhancedPacket(packet) = block.unwrap() {
                print!(" {}", packet.timestamp.as_secs());
            }
        }
        println!();
    }
}
RUST
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check dpkt==1.9.8 scapy==2.8.0
python3 "$work/write.py" "$work"
set -- "$work/microseconds.pcapng" "$work/two-clocks.pcapng" "$work/two-sections.pcapng" "$work/offset.pcapng"
seen=$("$work/venv/bin/python" "$work/read.py" "$@" | sort
    cd "$work" && CARGO_TARGET_DIR="$work/target" cargo run --quiet -- "$@")
echo "$seen"
# Every time should be 1700000000.
[ "$seen" = "dpkt microseconds 1700000000
dpkt offset 1700000000
dpkt two-clocks 1700000000 1700000000000
dpkt two-sections 1700000000 1700000000000
scapy microseconds 1700000000
scapy offset 0
scapy two-clocks 1700000000 1700000000
scapy two-sections 1700000000 1700000000000
pcap-file microseconds 1700000
pcap-file two-clocks 1700000 1700000000
pcap-file two-sections 1700000 1700000000
pcap-file offset 0" ]
