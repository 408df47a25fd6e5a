#!/bin/sh
# scapy 2.8.0, gopacket v1.3.1 and tcpdump 4.99.3: packets above 64 KB (BIG TCP) are shortened or not read.
#
# Expected by most: what a reader of captures does not understand it refuses. A packet of BIG TCP (Linux 6.3) has no
# total length in IPv4 (the field is 0, as RFC 2675 does it for IPv6), and its length is that of the record. Of
# 100,000 bytes of payload, seen:
#   scapy     rdpcap cuts every packet at 65,535 bytes, with IPv6, too: 65,481 and 65,453 bytes. The packet does not
#             say that it is cut (wirelen is that of the record).
#   gopacket  takes the length modulo 65,536: 34,464 bytes (with IPv6, whose jumbo payload option has 32 bits, all).
#   tcpdump   prints "bad-len 0" and nothing of TCP.
# The bytes that are missing look like gaps of the sequence space, so that a clean transfer is taken for one with
# losses in each round.
# Needs: python3 with venv, Go 1.26 or newer, apt-get and dpkg of Debian 12, amd64.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
cat > write.py <<'PY'
import struct

SIZE = 100_000
tcp = struct.pack(">HHIIBBHHH", 1000, 5001, 1, 1, 0x50, 24, 60000, 0, 0) + bytes(SIZE)
four = struct.pack(">BBHHHBBH", 0x45, 0, 0, 0, 0x4000, 64, 6, 0) + bytes([10, 0, 0, 1, 10, 0, 0, 2])
# A hop-by-hop header with the jumbo payload option, whose length counts this header.
jumbo = struct.pack(">BBBBI", 6, 0, 0xC2, 4, 8 + len(tcp))
six = struct.pack(">IHBB", 6 << 28, 0, 0, 64) + bytes(15) + b"\1" + bytes(15) + b"\2" + jumbo
for name, kind, head in (("ipv4", 0x0800, four), ("ipv6", 0x86DD, six)):
    frame = bytes(12) + struct.pack(">H", kind) + head + tcp
    with open(f"{name}.pcap", "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        file.write(struct.pack("<IIII", 1_700_000_000, 0, len(frame), len(frame)) + frame)
PY
cat > read.py <<'PY'
import logging
import sys

logging.disable(logging.CRITICAL)
from scapy.layers.inet import TCP
from scapy.utils import rdpcap

for path in sys.argv[1:]:
    print(f"scapy {path}: {len(rdpcap(path)[0][TCP].payload)} bytes")
PY
cat > go.mod <<'MOD'
module big

go 1.26

require github.com/gopacket/gopacket v1.3.1
MOD
cat > main.go <<'GO'
package main

import (
	"fmt"
	"os"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

func main() {
	for _, path := range os.Args[1:] {
		file, _ := os.Open(path)
		reader, _ := pcapgo.NewReader(file)
		record, _, err := reader.ReadPacketData()
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		packet := gopacket.NewPacket(record, reader.LinkType(), gopacket.Default)
		tcp := packet.Layer(layers.LayerTypeTCP).(*layers.TCP)
		fmt.Printf("gopacket %s: %d bytes, error %v\n", path, len(tcp.Payload), packet.ErrorLayer())
	}
}
GO
python3 write.py
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check scapy==2.8.0
apt-get download --quiet=2 tcpdump=4.99.3-1 libpcap0.8=1.10.3-1 2> /dev/null
for package in ./*.deb; do dpkg -x "$package" root; done
seen=$(venv/bin/python read.py ipv4.pcap ipv6.pcap
    GOFLAGS=-mod=mod go run . ipv4.pcap ipv6.pcap
    for file in ipv4 ipv6; do
        printf 'tcpdump %s.pcap: ' "$file"
        LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu" \
            "$work/root/usr/bin/tcpdump" -nn -t -r "$file.pcap" 2> /dev/null
    done)
echo "$seen"
[ "$seen" = "scapy ipv4.pcap: 65481 bytes
scapy ipv6.pcap: 65453 bytes
gopacket ipv4.pcap: 34464 bytes, error <nil>
gopacket ipv6.pcap: 100000 bytes, error <nil>
tcpdump ipv4.pcap: IP bad-len 0
tcpdump ipv6.pcap: IP6 ::1 > ::2: HBH 1000 > 5001: Flags [P.], seq 1:100001, ack 1, win 60000, length 100000" ]
