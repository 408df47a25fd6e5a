#!/bin/sh
# ns-3 3.37 (Debian 12): TcpCubic has no Reno-friendly region, and TcpNewReno is not the Reno of Linux.
#
# Expected by most: CUBIC is never slower than Reno, since it takes the larger of the cubic function and of W_est (RFC
# 9438 section 4.3), which decides at short round-trip times. Seen: TcpCubic of this version has no W_est. With an RTT
# of 5 ms, 100 Mbit/s and a random loss of 0.1 % it has a fifth of the goodput of Reno (TcpLinuxReno). Reno itself
# exists twice: TcpNewReno grows by an ACK, so that delayed ACKs halve its growth, and TcpLinuxReno by what is
# acknowledged (RFC 3465). A result "CUBIC loses against Reno in a data centre", or fairness between the two, is an
# artefact of this version.
# Needs: apt-get and dpkg of Debian 12, amd64, g++.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
chmod 755 .
apt-get download --quiet=2 libns3-dev=3.37-2 libns3.37=3.37-2 libgsl27=2.7.1+dfsg-5+deb12u1 \
    libgslcblas0=2.7.1+dfsg-5+deb12u1 2> /dev/null
for package in ./*.deb; do dpkg -x "$package" root; done
cat > main.cc <<'CC'
#include <cmath>
#include <iostream>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

static long Goodput(const std::string& controller) {
    const double seconds = 20;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::" + controller));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 22));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 22));
    NodeContainer nodes;
    nodes.Create(2);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", StringValue("100Mbps"));
    link.SetChannelAttribute("Delay", StringValue("2.5ms"));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000p"));
    NetDeviceContainer devices = link.Install(nodes);
    InternetStackHelper().Install(nodes);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
    Ptr<RateErrorModel> losses = CreateObject<RateErrorModel>();
    losses->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
    losses->SetRate(0.001);
    losses->AssignStreams(1);
    devices.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(losses));
    BulkSendHelper("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), 80)).Install(nodes.Get(0));
    PacketSinkHelper sinks("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 80));
    ApplicationContainer sink = sinks.Install(nodes.Get(1));
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    long rate = std::lround(DynamicCast<PacketSink>(sink.Get(0))->GetTotalRx() * 8 / seconds / 1e6);
    Simulator::Destroy();
    return rate;
}

int main() {
    for (const char* controller : {"TcpLinuxReno", "TcpNewReno", "TcpCubic"})
        std::cout << controller << ": " << Goodput(controller) << " Mbit/s\n";
    TypeId::AttributeInformation attribute;
    bool friendly = TypeId::LookupByName("ns3::TcpCubic").LookupAttributeByName("TcpFriendliness", &attribute);
    std::cout << "TcpCubic has the attribute TcpFriendliness: " << (friendly ? "yes" : "no") << "\n";
}
CC
libraries=$work/root/usr/lib/x86_64-linux-gnu
g++ -std=c++17 -I root/usr/include main.cc -o main -L "$libraries" -Wl,-rpath-link,"$libraries" \
    -lns3-applications -lns3-internet -lns3-point-to-point -lns3-network -lns3-core
seen=$(LD_LIBRARY_PATH="$libraries" ./main)
echo "$seen"
[ "$seen" = "TcpLinuxReno: 85 Mbit/s
TcpNewReno: 60 Mbit/s
TcpCubic: 17 Mbit/s
TcpCubic has the attribute TcpFriendliness: no" ]
