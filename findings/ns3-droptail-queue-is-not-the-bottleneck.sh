#!/bin/sh
# ns-3 3.37 (Debian 12): the DropTail queue of a link drops nothing; FqCoDel above it does, or nobody counts it.
#
# Expected by most: a link with DropTailQueue and MaxSize 20p is a bottleneck with a buffer of 20 packets, whose drops
# its counter and its trace "Drop" show. Seen: assigning an address installs FqCoDelQueueDisc above the device, with
# 10,240 packets; a full device stops it, so that up to 148 packets wait there, CoDel drops, and the device none.
# Without the disc (Uninstall after the address is assigned) the buffer has 20 packets, but the layer above sees the
# stopped device and drops the packets itself: the queue still counts no drop, and neither does its trace; only the
# trace TcDrop of TrafficControlLayer shows them. A sweep of MaxSize measures CoDel, and losses counted at the queue
# are always zero.
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
#include <algorithm>
#include <iostream>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

static uint32_t most, above;

static void Waiting(uint32_t, uint32_t now) { most = std::max(most, now); }
static void Dropped(Ptr<const Packet>) { ++above; }

static void Run(bool disc) {
    most = above = 0;
    NodeContainer nodes;
    nodes.Create(3);
    InternetStackHelper().Install(nodes);
    PointToPointHelper fast, slow;
    fast.SetDeviceAttribute("DataRate", StringValue("100Mbps"));
    slow.SetDeviceAttribute("DataRate", StringValue("10Mbps"));
    slow.SetChannelAttribute("Delay", StringValue("20ms"));
    slow.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("20p"));
    NetDeviceContainer access = fast.Install(nodes.Get(0), nodes.Get(1));
    NetDeviceContainer bottleneck = slow.Install(nodes.Get(1), nodes.Get(2));
    Ipv4AddressHelper("10.0.1.0", "255.255.255.0").Assign(access);
    Ipv4InterfaceContainer interfaces = Ipv4AddressHelper("10.0.2.0", "255.255.255.0").Assign(bottleneck);
    if (!disc) TrafficControlHelper().Uninstall(bottleneck);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    BulkSendHelper("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), 80)).Install(nodes.Get(0));
    PacketSinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 80)).Install(nodes.Get(2));
    Ptr<TrafficControlLayer> layer = nodes.Get(1)->GetObject<TrafficControlLayer>();
    layer->TraceConnectWithoutContext("TcDrop", MakeCallback(&Dropped));
    Ptr<QueueDisc> root = layer->GetRootQueueDiscOnDevice(bottleneck.Get(0));
    if (root) root->TraceConnectWithoutContext("PacketsInQueue", MakeCallback(&Waiting));
    Simulator::Stop(Seconds(20));
    Simulator::Run();
    Ptr<Queue<Packet>> queue = DynamicCast<PointToPointNetDevice>(bottleneck.Get(0))->GetQueue();
    std::cout << (root ? root->GetInstanceTypeId().GetName() : "no disc") << ": at most " << most
              << " packets in it; dropped there "
              << (root ? root->GetStats().nTotalDroppedPackets : 0) << ", by the layer " << above
              << ", by DropTail " << queue->GetTotalDroppedPackets() << "\n";
    Simulator::Destroy();
}

int main() {
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpLinuxReno"));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 22));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 22));
    Run(true);
    Run(false);
}
CC
libraries=$work/root/usr/lib/x86_64-linux-gnu
g++ -std=c++17 -I root/usr/include main.cc -o main -L "$libraries" -Wl,-rpath-link,"$libraries" \
    -lns3-applications -lns3-internet -lns3-point-to-point -lns3-traffic-control -lns3-network -lns3-core
seen=$(LD_LIBRARY_PATH="$libraries" ./main)
echo "$seen"
[ "$seen" = "ns3::FqCoDelQueueDisc: at most 148 packets in it; dropped there 22, by the layer 0, by DropTail 0
no disc: at most 0 packets in it; dropped there 0, by the layer 81, by DropTail 0" ]
