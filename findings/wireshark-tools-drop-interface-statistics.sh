#!/bin/sh
# Wireshark's tools 4.0.17: whatever rewrites a pcapng file removes the count of packets that the capture lost.
#
# Expected by most: a tool that sorts, cuts or copies packets keeps what the file says about the capture. Seen: the
# Interface Statistics Block (isb_ifdrop: packets that the kernel dropped as the reader was too slow), which dumpcap
# writes at the end, is in none of their files, even where nothing changes; the counts at packets (epb_dropcount)
# stay. A gap in the sequence numbers of the copy cannot be told from a loss of the network any more: look at the
# number of drops in the first file, before `reordercap`.
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


def block(kind, body):
    size = 12 + len(body)
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)


def option(code, value):
    return struct.pack("<HH", code, len(value)) + value


END = option(0, b"")
packet = struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, 0x4000, 64, 6, 0) + bytes([10, 0, 0, 1, 10, 0, 0, 2])
packet += struct.pack(">HHIIBBHHH", 1000, 80, 1, 1, 0x50, 16, 60000, 0, 0)
ticks = 1_700_000_000 * 10**6
content = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, struct.pack("<HHI", 101, 0, 0))
for n in (0, 1):
    # epb_dropcount: 7 packets were lost before this one.
    head = struct.pack("<IIIII", 0, ticks + n >> 32, ticks + n & 0xFFFFFFFF, len(packet), len(packet))
    content += block(6, head + packet + option(4, struct.pack("<Q", 7)) + END)
# isb_ifrecv: 1000 packets; isb_ifdrop: 250 packets.
counts = option(4, struct.pack("<Q", 1000)) + option(5, struct.pack("<Q", 250)) + END
content += block(5, struct.pack("<III", 0, ticks >> 32, ticks & 0xFFFFFFFF) + counts)
with open("taken.pcapng", "wb") as file:
    file.write(content)
PY
cat > count.py <<'PY'
"""What a pcapng file contains: its packets, the drops that they name, and those of its statistics."""
import struct
import sys

for path in sys.argv[1:]:
    with open(path, "rb") as file:
        content = file.read()
    place, packets, named, statistics = 0, 0, 0, "no statistics"
    while place < len(content):
        kind, size = struct.unpack_from("<II", content, place)
        packets += kind == 6
        named += kind == 6 and struct.pack("<HHQ", 4, 8, 7) in content[place : place + size]
        if kind == 5:
            value = content.index(struct.pack("<HH", 5, 8), place) + 4
            statistics = f"statistics: {struct.unpack_from('<Q', content, value)[0]} dropped"
        place += size
    print(f"{path}: {packets} packets, {named} with drops before them; {statistics}")
PY
python3 write.py
export WIRESHARK_CONFIG_DIR="$work" LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu"
bin=$work/root/usr/bin
{
    "$bin/reordercap" taken.pcapng reordercap.pcapng
    "$bin/editcap" taken.pcapng editcap.pcapng
    "$bin/mergecap" -w mergecap.pcapng taken.pcapng
    "$bin/tshark" -r taken.pcapng -w tshark.pcapng
} > /dev/null 2>&1
seen=$(python3 count.py taken.pcapng reordercap.pcapng editcap.pcapng mergecap.pcapng tshark.pcapng)
echo "$seen"
[ "$seen" = "taken.pcapng: 2 packets, 2 with drops before them; statistics: 250 dropped
reordercap.pcapng: 2 packets, 2 with drops before them; no statistics
editcap.pcapng: 2 packets, 2 with drops before them; no statistics
mergecap.pcapng: 2 packets, 2 with drops before them; no statistics
tshark.pcapng: 2 packets, 2 with drops before them; no statistics" ]
