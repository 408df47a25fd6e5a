#!/bin/sh
# tshark 4.0.17 (Wireshark): whether a segment is a retransmission depends on a bare ACK seconds earlier.
#
# Expected by most: a segment that fills a gap is told apart as retransmitted or as reordered by how late it comes,
# and the round-trip time to which its delay is compared is that of SYN and SYN-ACK. Seen: this time
# (tcp.analysis.initial_rtt) reaches to the ACK of the SYN-ACK, whichever segment has it. If the bare ACK is lost
# before the place of the capture, that is the first request of the client: two seconds of think time become the
# round-trip time, and every later retransmission that comes within two seconds is called out of order, on a path of
# 50 ms and 300 ms after the hole. The ACK's round-trip time (tcp.analysis.ack_rtt) is two seconds, too. Whoever
# counts tcp.analysis.retransmission to measure loss gets zero for such a connection. The rest of the two captures is
# the same.
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


def connection(*, bare_ack):
    yield 0, packet(True, 0, 0, SYN, options=MSS)
    yield 50, packet(False, 0, 1, SYN | ACK, options=MSS)
    if bare_ack:
        yield 50.1, packet(True, 1, 1, ACK)
    yield 2050, packet(True, 1, 1, PSH | ACK, 1000)
    yield 2050.1, packet(False, 1, 1001, ACK)
    # The capture is behind the place of the loss of bytes 1001 to 2000.
    yield 3000, packet(True, 2001, 1, PSH | ACK, 1000)
    yield 3000.1, packet(False, 1, 1001, ACK)
    yield 3300, packet(True, 1001, 1, PSH | ACK, 1000)
    yield 3300.1, packet(False, 1, 3001, ACK)


write("all.pcap", connection(bare_ack=True))
write("without.pcap", connection(bare_ack=False))
PY
python3 write.py
fields() {
    WIRESHARK_CONFIG_DIR="$work" LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu" \
        "$work/root/usr/bin/tshark" -r "$1" -T fields -E separator=" " \
        -Y tcp.seq==1001\&\&tcp.len==1000 -e tcp.analysis.initial_rtt -e tcp.analysis.retransmission \
        -e tcp.analysis.out_of_order -E header=y 2> /dev/null
}
seen=$(for file in all without; do echo "$file:"; fields "$file.pcap"; done)
echo "$seen"
[ "$seen" = "all:
tcp.analysis.initial_rtt tcp.analysis.retransmission tcp.analysis.out_of_order
0.050100000 1 
without:
tcp.analysis.initial_rtt tcp.analysis.retransmission tcp.analysis.out_of_order
2.050000000  1" ]
