#!/bin/sh
# libpcap 1.10.3 (with tcpdump 4.99.3): two interfaces of raw IP packets in a pcapng file are said to differ in type.
#
# Expected by most: libpcap refuses interfaces of different link types, and reads two of the same type. Seen: two
# Ethernet interfaces are read; of two interfaces with LINKTYPE_RAW (101), as taken at two tunnels, only the packets
# before the second description are, then "an interface has a type 101 different from the type of the first
# interface". The first type was translated to DLT_RAW (12), the second was not, so that every link type whose two
# numbers differ is affected.
# Needs: apt-get and dpkg of Debian 12, amd64, python3.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
apt-get download --quiet=2 tcpdump=4.99.3-1 libpcap0.8=1.10.3-1 2> /dev/null
for package in ./*.deb; do dpkg -x "$package" root; done
cat > write.py <<'PY'
import struct
import sys

def block(kind, body):
    size = 12 + len(body)
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)

kind, link = int(sys.argv[1]), bytes.fromhex(sys.argv[2])
packet = link + bytes.fromhex("450000280000400040060000") + bytes([10, 0, 0, 1, 10, 0, 0, 2])
packet += struct.pack(">HHIIBBHHH", 40000, 80, 1, 0, 0x50, 2, 1000, 0, 0)
interface = block(1, struct.pack("<HHI", kind, 0, 0))
packet += bytes(-len(packet) % 4)
sent = [block(6, struct.pack("<IIIII", n, 0, n, len(packet), len(packet)) + packet) for n in (0, 1)]
section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
sys.stdout.buffer.write(section + interface + sent[0] + interface + sent[1])
PY
python3 write.py 1 "0000000000000000000000000800" > ethernet.pcapng
python3 write.py 101 "" > raw.pcapng
read_by() {
    LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu" "$work/root/usr/bin/tcpdump" -nn -r "$1" 2>&1 |
        sed -n '/ > /s/.*\(IP .* >\).*/\1/p; s/^tcpdump: //p'
}
seen=$(for file in ethernet raw; do echo "$file:"; read_by "$file.pcapng"; done)
echo "$seen"
[ "$seen" = "ethernet:
IP 10.0.0.1.40000 >
IP 10.0.0.1.40000 >
raw:
IP 10.0.0.1.40000 >
pcap_loop: an interface has a type 101 different from the type of the first interface" ]
