#!/bin/sh
# ns-3 3.37 (Debian 12): a SYN has no MSS option, and a sender ignores what its peer can take.
#
# Expected by most: a TCP announces its MSS (RFC 9293 section 3.7.1: SHOULD in every SYN unless it is 536, MUST-14 to
# MUST-16) and sends no segment above that of its peer, without the option no more than 536 bytes. Seen: the options
# of SYN and SYN-ACK are window scale, SACK permitted and timestamps; each end sends segments of its own attribute
# SegmentSize, 1448 bytes to a peer with 536. Two ends with different values do not agree, a middlebox model that
# clamps the MSS has nothing to clamp, and a real TCP at the other end (emulation, TapBridge) sends 536 bytes a
# segment, so that its window in bytes and its goodput are a third of what was expected. All checksums are 0 unless
# the global value ChecksumEnabled is set.
# Needs: apt-get and dpkg of Debian 12, amd64, g++, python3.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
apt-get download --quiet=2 libns3-dev=3.37-2 libns3.37=3.37-2 libgsl27=2.7.1+dfsg-5+deb12u1 \
    libgslcblas0=2.7.1+dfsg-5+deb12u1 2> /dev/null
for package in ./*.deb; do dpkg -x "$package" root; done
cat > main.cc <<'CC'
#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

int main() {
    NodeContainer nodes;
    nodes.Create(2);
    PointToPointHelper link;
    NetDeviceContainer devices = link.Install(nodes);
    InternetStackHelper().Install(nodes);
    Ipv4InterfaceContainer interfaces = Ipv4AddressHelper("10.0.0.0", "255.255.255.0").Assign(devices);
    // A socket is made when its application starts. The receiver has the default, 536 bytes.
    PacketSinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 80)).Install(nodes.Get(1));
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), 80));
    bulk.SetAttribute("MaxBytes", UintegerValue(100'000));
    bulk.Install(nodes.Get(0)).Start(Seconds(1));
    Simulator::Schedule(Seconds(0.5), [] { Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448)); });
    link.EnablePcap("sender", devices.Get(0));
    Simulator::Stop(Seconds(20));
    Simulator::Run();
    Simulator::Destroy();
}
CC
cat > show.py <<'PY'
"""Options of the SYNs, the largest segment and the checksums in a pcap file with PPP link layer."""
import struct

NAMES = {2: "MSS", 3: "window scale", 4: "SACK permitted", 8: "timestamps"}
with open("sender-0-0.pcap", "rb") as file:
    content = file.read()
place, largest, checksums = 24, 0, set()
while place < len(content):
    size = struct.unpack_from("<I", content, place + 8)[0]
    ip = content[place + 18 : place + 16 + size]
    place += 16 + size
    tcp = ip[20:]
    head = (tcp[12] >> 4) * 4
    largest = max(largest, struct.unpack_from(">H", ip, 2)[0] - 20 - head)
    checksums |= {tcp[16:18].hex(), ip[10:12].hex()}
    if tcp[13] & 2:
        options, names = tcp[20:head], set()
        while options and options[0]:
            if options[0] != 1:
                names.add(NAMES[options[0]])
            options = options[1:] if options[0] == 1 else options[options[1] :]
        print("SYN-ACK:" if tcp[13] & 16 else "SYN:", ", ".join(sorted(names)))
print(f"largest segment: {largest} bytes; checksums of IP and TCP: {sorted(checksums)}")
PY
libraries=$work/root/usr/lib/x86_64-linux-gnu
g++ -std=c++17 -I root/usr/include main.cc -o main -L "$libraries" -Wl,-rpath-link,"$libraries" \
    -lns3-applications -lns3-internet -lns3-point-to-point -lns3-network -lns3-core
LD_LIBRARY_PATH="$libraries" ./main
seen=$(python3 show.py)
echo "$seen"
[ "$seen" = "SYN: SACK permitted, timestamps, window scale
SYN-ACK: SACK permitted, timestamps, window scale
largest segment: 1448 bytes; checksums of IP and TCP: ['0000']" ]
