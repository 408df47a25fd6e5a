#!/bin/sh
# gVisor v0.0.0-20260905035102-160fafc42237: two segments carry timestamps of an earlier one.
#
# Expected by most: TSval is the clock when a segment is sent, also when it is repeated, and TSecr is TS.Recent,
# which every segment in order sets (RFC 7323 sections 3.2 and 4.3). Seen: the SYN-ACK that the timer repeats
# after a second has the TSval of the first one, and the ACK of a FIN echoes the segment before the FIN, while
# an ACK of data echoes the data. A peer that measures round trips by echoes takes the time that the connection
# was idle before its FIN for a round trip.
# Needs: Go 1.26 or newer.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/go.mod" <<'MOD'
module stale

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
	"context"
	"encoding/binary"
	"fmt"
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

var us, them = tcpip.AddrFrom4([4]byte{10, 0, 0, 1}), tcpip.AddrFrom4([4]byte{10, 0, 0, 2})

// send delivers a segment of `them` to the stack of `us`.
func send(link *channel.Endpoint, seq, ack uint32, flags header.TCPFlags, options []byte, data string) {
	packet := make([]byte, 40+len(options)+len(data))
	ip, segment := header.IPv4(packet), header.TCP(packet[20:])
	ip.Encode(&header.IPv4Fields{TotalLength: uint16(len(packet)), TTL: 64, Protocol: 6, SrcAddr: them, DstAddr: us})
	ip.SetChecksum(^ip.CalculateChecksum())
	copy(segment[20:], options)
	copy(segment[20+len(options):], data)
	segment.Encode(&header.TCPFields{SrcPort: 4000, DstPort: 80, SeqNum: seq, AckNum: ack,
		DataOffset: uint8(20 + len(options)), Flags: flags, WindowSize: 60000})
	sum := header.PseudoHeaderChecksum(header.TCPProtocolNumber, them, us, uint16(len(segment)))
	segment.SetChecksum(^checksum.Checksum(segment, sum))
	arrived := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(packet)})
	link.InjectInbound(header.IPv4ProtocolNumber, arrived)
	arrived.DecRef()
}

// answer is the next segment of the stack.
func answer(link *channel.Endpoint) header.TCP {
	limit, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	packet := link.ReadContext(limit)
	if packet == nil {
		fmt.Println("no answer within four seconds")
		os.Exit(1)
	}
	return header.TCP(packet.ToView().AsSlice()[20:])
}

func stamp(value, echo uint32) []byte {
	option := binary.BigEndian.AppendUint32([]byte{1, 1, 8, 10}, value)
	return binary.BigEndian.AppendUint32(option, echo)
}

func main() {
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	link := channel.New(64, 1500, "")
	s.CreateNIC(1, link)
	s.AddProtocolAddress(1, tcpip.ProtocolAddress{Protocol: header.IPv4ProtocolNumber,
		AddressWithPrefix: us.WithPrefix()}, stack.AddressProperties{})
	s.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: 1}})
	listener, _ := s.NewEndpoint(tcp.ProtocolNumber, header.IPv4ProtocolNumber, &waiter.Queue{})
	listener.Bind(tcpip.FullAddress{Port: 80})
	listener.Listen(8)

	send(link, 1000, 0, header.TCPFlagSyn, append([]byte{2, 4, 5, 180}, stamp(1_000_000, 0)...), "")
	first := answer(link)
	repeated := answer(link)
	if !first.ParsedOptions().TS || repeated.Flags() != header.TCPFlagSyn|header.TCPFlagAck {
		fmt.Println("this test needs a SYN-ACK with timestamps and a second one")
		os.Exit(1)
	}
	later := repeated.ParsedOptions().TSVal - first.ParsedOptions().TSVal
	fmt.Printf("second SYN-ACK, a second later: TSval %d ms later; the clock would give about 1000\n", later)

	echo, ack := repeated.ParsedOptions().TSVal, first.SequenceNumber()+1
	send(link, 1001, ack, header.TCPFlagAck, stamp(1_001_000, echo), "")
	send(link, 1001, ack, header.TCPFlagAck, stamp(1_001_100, echo), "first")
	data := answer(link).ParsedOptions().TSEcr
	fmt.Printf("data with TSval 1001100: the ACK echoes %d\n", data)
	send(link, 1006, ack, header.TCPFlagAck|header.TCPFlagFin, stamp(1_005_000, echo), "")
	end := answer(link)
	fmt.Printf("FIN with TSval 1005000:  its ACK (of %d bytes and the FIN) echoes %d\n",
		end.AckNumber()-1002, end.ParsedOptions().TSEcr)
	if later != 0 || data != 1_001_100 || end.AckNumber() != 1007 || end.ParsedOptions().TSEcr != 1_001_100 {
		fmt.Println("the behaviour has changed")
		os.Exit(1)
	}
}
GO
cd "$work"
GOFLAGS=-mod=mod go run .
