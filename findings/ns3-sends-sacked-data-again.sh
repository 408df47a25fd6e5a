#!/bin/sh
# ns-3 3.37 (Debian 12): the sender repeats data that SACK has reported, five times as much as is lost.
#
# Expected by most: with SACK a sender repeats what is missing (RFC 6675 section 4: NextSeg never returns what a block
# covers), so that in a simulation without reordering each retransmission is a lost packet. Seen: in the first
# recovery of two losses the ACKs report two blocks with one hole between them, and the sender repeats segments inside
# of the blocks, first every second one. Of 50 retransmissions, for nine losses, 41 repeat data that a SACK block had
# reported before. Counts of retransmissions, and what a flow sends in its recovery, are therefore no measure of the
# controllers that are compared.
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
#include <iostream>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

static int lost;

static void Lost(Ptr<const Packet>) { ++lost; }

int main() {
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpLinuxReno"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    NodeContainer nodes;
    nodes.Create(2);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("10Mbps"));
    link.SetChannelAttribute("Delay", StringValue("20ms"));
    NetDeviceContainer devices = link.Install(nodes);
    InternetStackHelper().Install(nodes);
    Ipv4InterfaceContainer interfaces = Ipv4AddressHelper("10.0.0.0", "255.255.255.0").Assign(devices);
    Ptr<RateErrorModel> losses = CreateObject<RateErrorModel>();
    losses->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
    losses->SetRate(0.005);
    losses->AssignStreams(1);
    devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(losses));
    devices.Get(1)->TraceConnectWithoutContext("PhyRxDrop", MakeCallback(&Lost));
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), 80));
    bulk.SetAttribute("MaxBytes", UintegerValue(2'000'000));
    bulk.Install(nodes.Get(0));
    PacketSinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 80)).Install(nodes.Get(1));
    link.EnablePcap("sender", devices.Get(0));
    Simulator::Stop(Seconds(20));
    Simulator::Run();
    Simulator::Destroy();
    std::cout << "lost: " << lost << " packets\n";
}
CC
cat > count.py <<'PY'
"""Retransmissions of the pcap file (PPP link layer) of the sender, and those of data that SACK blocks had reported."""
import struct

with open("sender-0-0.pcap", "rb") as file:
    content = file.read()
place, highest, again, needless, blocks = 24, 0, 0, 0, []
while place < len(content):
    size = struct.unpack_from("<I", content, place + 8)[0]
    ip = content[place + 18 : place + 16 + size]
    place += 16 + size
    tcp = ip[20:]
    seq, ack = struct.unpack_from(">II", tcp, 4)
    length = struct.unpack_from(">H", ip, 2)[0] - 20 - (tcp[12] >> 4) * 4
    if ip[15] == 1 and length:
        if seq < highest:
            again += 1
            needless += any(low <= seq and seq + length <= high for low, high in blocks)
        highest = max(highest, seq + length)
    elif ip[15] == 2:
        options = tcp[20 : (tcp[12] >> 4) * 4]
        while options and options[0] != 0:
            if options[0] == 5:
                blocks += [struct.unpack_from(">II", options, n) for n in range(2, options[1], 8)]
            options = options[1:] if options[0] == 1 else options[options[1] :]
print(f"sent again: {again} segments, {needless} of them after a SACK block had reported them")
PY
libraries=$work/root/usr/lib/x86_64-linux-gnu
g++ -std=c++17 -I root/usr/include main.cc -o main -L "$libraries" -Wl,-rpath-link,"$libraries" \
    -lns3-applications -lns3-internet -lns3-point-to-point -lns3-network -lns3-core
seen=$(LD_LIBRARY_PATH="$libraries" ./main && python3 count.py)
echo "$seen"
[ "$seen" = "lost: 9 packets
sent again: 50 segments, 41 of them after a SACK block had reported them" ]
