#!/bin/sh
# gVisor v0.0.0-20260905035102-160fafc42237: CUBIC does not grow on a long path.
#
# Expected by most: in congestion avoidance each ACK adds a fraction of a segment, (W_cubic(t + RTT) - cwnd) / cwnd,
# and cwnd follows W_cubic back to W_max within K seconds (RFC 9438 section 4.2; 4.9 s for a W_max of 160). Seen: the
# window is a whole number of packets, which the update of each ACK rounds down, so that the fraction is lost unless
# it is at least 1. With an RTT of 200 ms the window stays for ten seconds where the loss has put it. On short paths
# the Reno-friendly region hides this, as it sets the window without a sum. "CUBIC of gVisor is slower than Reno on
# long paths" is not a property of CUBIC. (Reno is the default of NewProtocol.)
# Needs: Go 1.26 or newer; it takes 15 s.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/go.mod" <<'MOD'
module cubic

go 1.26.3

require gvisor.dev/gvisor v0.0.0-20260905035102-160fafc42237

require (
	github.com/google/btree v1.1.2 // indirect
	golang.org/x/exp v0.0.0-20250711185948-6ae5c78190dc // indirect
	golang.org/x/sys v0.43.0 // indirect
	golang.org/x/time v0.15.0 // indirect
)
MOD
cat > "$work/main.go" <<'GO'
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const rtt = 200 * time.Millisecond

var us, them = tcpip.AddrFrom4([4]byte{10, 0, 0, 1}), tcpip.AddrFrom4([4]byte{10, 0, 0, 2})

// send delivers a segment without data of `them` to the stack of `us`.
func send(link *channel.Endpoint, seq, ack uint32, flags header.TCPFlags, options []byte) {
	packet := make([]byte, 40+len(options))
	ip, segment := header.IPv4(packet), header.TCP(packet[20:])
	ip.Encode(&header.IPv4Fields{TotalLength: uint16(len(packet)), TTL: 64, Protocol: 6, SrcAddr: them, DstAddr: us})
	ip.SetChecksum(^ip.CalculateChecksum())
	copy(segment[20:], options)
	segment.Encode(&header.TCPFields{SrcPort: 4000, DstPort: 80, SeqNum: seq, AckNum: ack,
		DataOffset: uint8(20 + len(options)), Flags: flags, WindowSize: 60000})
	sum := header.PseudoHeaderChecksum(header.TCPProtocolNumber, them, us, uint16(len(segment)))
	segment.SetChecksum(^checksum.Checksum(segment, sum))
	arrived := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(packet)})
	link.InjectInbound(header.IPv4ProtocolNumber, arrived)
	arrived.DecRef()
}

type due struct {
	at      time.Time
	ack     uint32
	options []byte
}

// sack is an option with one block: with one loss, all that waits is one.
func sack(next uint32, ahead map[uint32]uint32) []byte {
	if len(ahead) == 0 {
		return nil
	}
	low, high := next+1<<30, next
	for first, size := range ahead {
		low, high = min(low, first), max(high, first+size)
	}
	option := binary.BigEndian.AppendUint32([]byte{1, 1, 5, 10}, low)
	return binary.BigEndian.AppendUint32(option, high)
}

// windows are the congestion window at a loss of one packet, and each second from the second one after it.
func windows() []uint32 {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocolCUBIC},
	})
	// The smallest RTO of RFC 6298: a delay of this machine is no timeout.
	least := tcpip.TCPMinRTOOption(time.Second)
	s.SetTransportProtocolOption(tcp.ProtocolNumber, &least)
	link := channel.New(4096, 1500, "")
	s.CreateNIC(1, link)
	s.AddProtocolAddress(1, tcpip.ProtocolAddress{Protocol: header.IPv4ProtocolNumber,
		AddressWithPrefix: us.WithPrefix()}, stack.AddressProperties{})
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: 1}})
	listener, _ := s.NewEndpoint(tcp.ProtocolNumber, header.IPv4ProtocolNumber, &waiter.Queue{})
	listener.Bind(tcpip.FullAddress{Port: 80})
	listener.Listen(8)
	var connection tcpip.Endpoint
	// A segment size of 1460, a shift of 7, SACK.
	send(link, 1000, 0, header.TCPFlagSyn, []byte{2, 4, 5, 180, 1, 3, 3, 7, 1, 1, 4, 2})

	var answers []due
	var next uint32 // what the receiver expects
	ahead := map[uint32]uint32{}
	var lost time.Time
	var seen []uint32
	for len(seen) < 10 {
		now := time.Now()
		for packet := link.Read(); packet != nil; packet = link.Read() {
			segment := header.TCP(packet.ToView().AsSlice()[20:])
			first, size := segment.SequenceNumber(), uint32(len(segment.Payload()))
			packet.DecRef()
			switch {
			case segment.Flags().Contains(header.TCPFlagSyn):
				next = first + 1
			case size == 0:
				continue
			default:
				if lost.IsZero() && len(ahead) == 0 && window(connection) >= 100 {
					lost = now
					seen = append(seen, window(connection))
					continue
				}
				if first-next < 1<<30 {
					ahead[first] = size
				}
				for ahead[next] > 0 {
					done := next
					next += ahead[done]
					delete(ahead, done)
				}
			}
			answers = append(answers, due{now.Add(rtt), next, sack(next, ahead)})
		}
		for len(answers) > 0 && !answers[0].at.After(now) {
			send(link, 1001, answers[0].ack, header.TCPFlagAck, answers[0].options)
			answers = answers[1:]
		}
		if connection == nil {
			connection, _, _ = listener.Accept(nil)
		} else {
			for {
				if taken, _ := connection.Write(bytes.NewReader(make([]byte, 65536)), tcpip.WriteOptions{}); taken == 0 {
					break
				}
			}
		}
		if !lost.IsZero() && now.Sub(lost) > time.Duration(len(seen)+1)*time.Second {
			seen = append(seen, window(connection))
		}
		time.Sleep(time.Millisecond)
	}
	return seen
}

func window(connection tcpip.Endpoint) uint32 {
	var info tcpip.TCPInfoOption
	if connection == nil || connection.GetSockOpt(&info) != nil {
		return 0
	}
	return info.SndCwnd
}

func main() {
	seen := windows()
	most, after := float64(seen[0]), seen[1]
	fmt.Println("window at the loss, and 2, 3, ... 10 s later:", seen)
	fmt.Print("W_cubic of RFC 9438 at these times:")
	for t := 2.0; t <= 10; t++ {
		// The congestion avoidance stage begins when the recovery ends, about 0.4 s after the loss.
		fmt.Printf(" %.0f", 0.4*math.Pow(t-0.4-math.Cbrt(most*0.3/0.4), 3)+most)
	}
	fmt.Println()
	if after < 60 || float64(after) > 0.75*most || seen[len(seen)-1] > after+2 {
		fmt.Println("the behaviour has changed")
		os.Exit(1)
	}
}
GO
cd "$work"
GOFLAGS=-mod=mod go run .
