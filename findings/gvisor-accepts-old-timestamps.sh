#!/bin/sh
# gVisor v0.0.0-20260905035102-160fafc42237: data with an old timestamp are accepted, although timestamps were agreed on.
#
# Expected by most: a TCP that agrees on timestamps protects itself against wrapped sequence numbers with them (PAWS, RFC 7323
# section 5.3): a segment whose TSval is older than TS.Recent is answered by an ACK and dropped. Seen: the netstack of gVisor
# takes its data and acknowledges them; timestamps are used to measure round-trip times only.
# Needs: Go 1.26 or newer.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/go.mod" <<'MOD'
module paws

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
	limit, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	packet := link.ReadContext(limit)
	if packet == nil {
		fmt.Println("no answer within two seconds")
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
	syn := answer(link)
	if !syn.ParsedOptions().TS {
		fmt.Println("the SYN-ACK has no timestamps: this test needs them")
		os.Exit(1)
	}
	echo, ack := syn.ParsedOptions().TSVal, syn.SequenceNumber()+1
	send(link, 1001, ack, header.TCPFlagAck, stamp(1_000_001, echo), "")
	send(link, 1001, ack, header.TCPFlagAck, stamp(1_000_002, echo), "first")
	fmt.Printf("data with TSval 1000002: ACK of %d bytes\n", answer(link).AckNumber()-1001)
	send(link, 1006, ack, header.TCPFlagAck, stamp(7, echo), "older")
	taken := answer(link).AckNumber() - 1001
	fmt.Printf("data with TSval 7:       ACK of %d bytes; PAWS would leave it at 5\n", taken)
	if taken != 10 {
		fmt.Println("the behaviour has changed")
		os.Exit(1)
	}
}
GO
cd "$work"
GOFLAGS=-mod=mod go run .
