#!/bin/sh
# editcap 4.0.17 (Wireshark): `-d` removes the duplicate ACKs of a host whose packets have no IP identification.
#
# Expected by most: `editcap -d`, meant for captures that see a packet twice (a mirror port of both directions,
# `tcpdump -i any`), removes copies only, since two packets of a host differ at least in the identification of IP.
# Seen: RFC 6864 section 4.1 lets a packet that is never fragmented have any number, and smoltcp and FreeBSD send 0:
# their duplicate ACKs without timestamps are equal byte by byte, and all four are removed from a capture without a
# single copy. What is left shows a fast retransmission without a cause. `-w` limits the age of a copy, which helps
# only if that is less than the time between two ACKs.
# Needs: apt-get and dpkg of Debian 12, amd64, with the libraries that its package wireshark-common depends on,
# python3.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
version=4.0.17-0+deb12u3
apt-get download --quiet=2 wireshark-common=$version libwireshark16=$version libwiretap13=$version \
    libwsutil14=$version tshark=$version 2> /dev/null
for package in ./*.deb; do dpkg -x "$package" root; done
cat > write.py <<'PY'
import struct


def packet(to_server, seq, ack, number, size=0):
    ports = (1000, 80) if to_server else (80, 1000)
    tcp = struct.pack(">HHIIBBHHH", *ports, seq, ack, 0x50, 0x18 if size else 0x10, 60000, 0, 0) + bytes(size)
    hosts = bytes([10, 0, 0, 1, 10, 0, 0, 2] if to_server else [10, 0, 0, 2, 10, 0, 0, 1])
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), number, 0x4000, 64, 6, 0) + hosts + tcp


def write(name, rows):
    with open(name, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        for micros, data in rows:
            file.write(struct.pack("<IIII", 1_700_000_000, micros, len(data), len(data)) + data)


for name, numbers in (("counted", range(1, 99)), ("zero", 99 * [0])):
    number = iter(numbers)
    # The first of five segments is lost; the others make four duplicate ACKs, 1 ms apart; then it comes again.
    rows = [(0, packet(False, 1, 1, next(number)))]
    for n in range(1, 5):
        rows.append((1000 * n, packet(True, 1 + 1000 * n, 1, n, 1000)))
        rows.append((1000 * n + 10, packet(False, 1, 1, next(number))))
    rows.append((50_000, packet(True, 1, 1, 5, 1000)))
    rows.append((50_010, packet(False, 1, 5001, next(number))))
    write(f"{name}.pcap", rows)
PY
python3 write.py
export WIRESHARK_CONFIG_DIR="$work" LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu"
duplicates() { "$work/root/usr/bin/tshark" -r "$1" -Y "tcp.ack == 1 and tcp.srcport == 80" 2> /dev/null | wc -l; }
seen=$(for file in counted zero; do
    "$work/root/usr/bin/editcap" -d "$file.pcap" "$file-d.pcap" 2> /dev/null
    echo "$file: $(($(duplicates "$file.pcap") - 1)) duplicate ACKs," \
        "$(($(duplicates "$file-d.pcap") - 1)) after editcap -d"
done)
echo "$seen"
[ "$seen" = "counted: 4 duplicate ACKs, 4 after editcap -d
zero: 4 duplicate ACKs, 0 after editcap -d" ]
