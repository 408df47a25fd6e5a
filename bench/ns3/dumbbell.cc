// The project's speed scenarios in ns-3, for `make bench` to print beside the model's own figures.
//
// Built against Debian's libns3-dev at the user's desk, never linked into or shipped with tcpassay. The work is not
// equal: ns-3 serialises headers, routes and computes checksums where asked; quote the figures with that.
//
// One line of JSON: data packets of `segment` bytes delivered, user CPU seconds of the run loop alone, and the ratio.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>
#include <string>
#include <sys/resource.h>
#include <vector>

using namespace ns3;

namespace
{

double
UserCpuSeconds()
{
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec) + static_cast<double>(usage.ru_utime.tv_usec) / 1e6;
}

} // namespace

int
main(int argc, char** argv)
{
    uint32_t flows = 1;
    std::string rate = "1Gbps";
    std::string rtt = "10ms";
    std::string cc = "TcpCubic";
    uint32_t buffer = 1'250'000; // bytes in the bottleneck queue
    uint32_t threshold = 0;      // step marking in packets; 0 for drop-tail
    double duration = 1.0;
    const uint32_t segment = 1448;

    CommandLine cmd(__FILE__);
    cmd.AddValue("flows", "senders and receivers", flows);
    cmd.AddValue("rate", "bottleneck rate", rate);
    cmd.AddValue("rtt", "round-trip propagation delay", rtt);
    cmd.AddValue("cc", "congestion control type", cc);
    cmd.AddValue("buffer", "bottleneck buffer in bytes", buffer);
    cmd.AddValue("threshold", "step-marking threshold in packets, 0 for none", threshold);
    cmd.AddValue("duration", "simulated seconds", duration);
    cmd.Parse(argc, argv);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::" + cc));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1U << 26));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1U << 26));
    if (threshold > 0)
    {
        Config::SetDefault("ns3::TcpSocketBase::UseEcn", StringValue("On"));
        Config::SetDefault("ns3::RedQueueDisc::UseEcn", BooleanValue(true));
        Config::SetDefault("ns3::RedQueueDisc::UseHardDrop", BooleanValue(false));
        Config::SetDefault("ns3::RedQueueDisc::QW", DoubleValue(1));
        Config::SetDefault("ns3::RedQueueDisc::MinTh", DoubleValue(threshold));
        Config::SetDefault("ns3::RedQueueDisc::MaxTh", DoubleValue(threshold));
    }

    NodeContainer routers;
    NodeContainer left;
    NodeContainer right;
    routers.Create(2);
    left.Create(flows);
    right.Create(flows);

    // A quarter of the propagation on each access link and half on the bottleneck, one way.
    const Time oneWay = Time(rtt) / 2;
    PointToPointHelper edge;
    edge.SetDeviceAttribute("DataRate", DataRateValue(DataRate(DataRate(rate).GetBitRate() * 4)));
    edge.SetChannelAttribute("Delay", TimeValue(oneWay / 4));
    edge.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("100000p"));
    PointToPointHelper core;
    core.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate)));
    core.SetChannelAttribute("Delay", TimeValue(oneWay / 2));
    core.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue(threshold > 0 ? "1p" : std::to_string(buffer) + "B"));

    InternetStackHelper().InstallAll();
    Ipv4AddressHelper address;
    TrafficControlHelper discs;
    if (threshold > 0)
    {
        discs.SetRootQueueDisc("ns3::RedQueueDisc",
                               "MaxSize",
                               StringValue(std::to_string(buffer) + "B"),
                               "LinkBandwidth",
                               StringValue(rate),
                               "MeanPktSize",
                               UintegerValue(1500));
    }
    NetDeviceContainer trunk = core.Install(routers);
    if (threshold > 0)
    {
        discs.Install(trunk.Get(0));
    }
    address.SetBase("10.0.0.0", "255.255.255.0");
    address.Assign(trunk);

    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t i = 0; i < flows; ++i)
    {
        const std::string net = std::to_string(i / 250) + "." + std::to_string(i % 250);
        NetDeviceContainer a = edge.Install(left.Get(i), routers.Get(0));
        address.SetBase(("11." + net + ".0").c_str(), "255.255.255.0");
        address.Assign(a);
        NetDeviceContainer b = edge.Install(routers.Get(1), right.Get(i));
        address.SetBase(("12." + net + ".0").c_str(), "255.255.255.0");
        Ipv4InterfaceContainer at = address.Assign(b);

        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 9));
        ApplicationContainer receiver = sink.Install(right.Get(i));
        sinks.push_back(DynamicCast<PacketSink>(receiver.Get(0)));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(at.GetAddress(1), 9));
        source.SetAttribute("SendSize", UintegerValue(64 * 1024));
        source.Install(left.Get(i)).Start(MicroSeconds(i));
    }
    if (threshold == 0)
    {
        // An address installs FqCoDel, with which the queue of the device would drop nothing.
        discs.Uninstall(trunk);
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    Simulator::Stop(Seconds(duration));
    const double before = UserCpuSeconds();
    Simulator::Run();
    const double cpu = UserCpuSeconds() - before;
    uint64_t bytes = 0;
    for (const auto& sink : sinks)
    {
        bytes += sink->GetTotalRx();
    }
    const double packets = static_cast<double>(bytes) / segment;
    std::printf("{\"packets\": %.0f, \"cpu_seconds\": %.3f, \"packets_per_cpu_second\": %.0f}\n",
                packets,
                cpu,
                cpu > 0 ? packets / cpu : 0.0);
    Simulator::Destroy();
    return 0;
}
