#!/bin/sh
# tshark 4.0.17 (Wireshark): tcp.analysis.ack_rtt of segments that were sent twice or captured before TSO.
#
# Expected by most: what is drawn as round-trip time follows Karn's rule (RFC 6298 section 3: no sample of a segment
# that was sent again), or at least does not depend on offloads. Seen: the ACK of a segment that was sent again is
# measured from the first transmission, so that a loss is a "round trip" of RTO and more, and so is the SYN-ACK of a
# SYN that was sent again (1.05 s, while tcp.analysis.initial_rtt, in the next row, counts from the last SYN: 0.05 s).
# And only an ACK that ends exactly where a captured segment ends is measured: at a sender with TSO, where ten
# segments are one packet, ACKs of its parts have no time, and the only sample is the largest of all.
# Needs: apt-get and dpkg of Debian 12, amd64, with the libraries that its package tshark depends on, python3.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
version=4.0.17-0+deb12u3
apt-get download --quiet=2 tshark=$version libwireshark16=$version libwiretap13=$version libwsutil14=$version \
    2> /dev/null
for package in ./*.deb; do dpkg -x "$package" root; done
cat > write.py <<'PY'
import struct


def packet(to_server, seq, ack, flags, size=0, options=b""):
    ports = (1000, 80) if to_server else (80, 1000)
    tcp = struct.pack(">HHIIBBHHH", *ports, seq, ack, 5 + len(options) // 4 << 4, flags, 60000, 0, 0)
    tcp += options + bytes(size)
    hosts = bytes([10, 0, 0, 1, 10, 0, 0, 2] if to_server else [10, 0, 0, 2, 10, 0, 0, 1])
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0) + hosts + tcp


def write(name, rows):
    """A pcap file of raw IPv4 packets; times in milliseconds."""
    with open(name, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        for time, data in rows:
            micros = round(time * 1000)
            seconds = 1_700_000_000 + micros // 10**6
            file.write(struct.pack("<IIII", seconds, micros % 10**6, len(data), len(data)) + data)


SYN, PSH, ACK = 2, 8, 16
MSS = bytes([2, 4, 5, 180])

write("loss.pcap", [
    (0, packet(True, 0, 0, SYN, options=MSS)),
    (1000, packet(True, 0, 0, SYN, options=MSS)),
    (1050, packet(False, 0, 1, SYN | ACK, options=MSS)),
    (1050.1, packet(True, 1, 1, ACK)),
    (2000, packet(True, 1, 1, PSH | ACK, 1000)),
    (2300, packet(True, 1, 1, PSH | ACK, 1000)),
    (2350, packet(False, 1, 1001, ACK)),
])
# A super-segment, of which the bottleneck passes 2,000 bytes in 10 ms.
offload = [(0, packet(True, 1, 1, PSH | ACK, 10_000))]
offload += [(40 + 10 * n, packet(False, 1, 2000 * n + 1, ACK)) for n in range(1, 6)]
write("offload.pcap", offload)
PY
python3 write.py
fields() {
    WIRESHARK_CONFIG_DIR="$work" LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu" \
        "$work/root/usr/bin/tshark" -r "$1" -T fields -E separator=" " \
        -o tcp.relative_sequence_numbers:FALSE -e tcp.seq -e tcp.len -e tcp.ack -e tcp.analysis.ack_rtt \
        -e tcp.analysis.initial_rtt 2> /dev/null | sed 's/ *$//'
}
seen=$(for file in loss offload; do echo "$file:"; fields "$file.pcap"; done)
echo "sequence number, length, ACK, ack_rtt, initial_rtt"
echo "$seen"
[ "$seen" = "loss:
0 0 0
0 0 0
0 0 1 1.050000000
1 0 1 0.000100000 0.050100000
1 1000 1  0.050100000
1 1000 1  0.050100000
1 0 1001 0.350000000 0.050100000
offload:
1 10000 1
1 0 2001
1 0 4001
1 0 6001
1 0 8001
1 0 10001 0.090000000" ]
