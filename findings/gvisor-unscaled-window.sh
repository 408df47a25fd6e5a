#!/bin/sh
# gVisor v0.0.0-20260905035102-160fafc42237: the ACK of a repeated SYN announces 128 times the window that there is.
#
# Expected by most: the window of every segment but a SYN is scaled (RFC 7323 section 2.2), and a window that was
# announced stays (RFC 9293 section 3.8.6). Seen: a SYN that arrives a second time, because the network repeated it or
# because the SYN-ACK was slow, is answered by an ACK whose field has the window in bytes, as in the SYN-ACK. A peer
# that obeys it may send 3.7 MB to a receiver of 29 KB, until the next ACK takes the window back.
# Needs: Go 1.26 or newer.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/go.mod" <<'MOD'
module window

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

	// A segment size of 1460 and a shift of 7.
	options := []byte{2, 4, 5, 180, 1, 3, 3, 7}
	send(link, 1000, 0, header.TCPFlagSyn, options, "")
	syn := answer(link)
	shift := header.ParseSynOptions(syn.Options(), true).WS
	fmt.Printf("SYN-ACK:               window %d, shift %d for what follows\n", syn.WindowSize(), shift)
	send(link, 1000, 0, header.TCPFlagSyn, options, "")
	repeated := answer(link)
	fmt.Printf("ACK of the second SYN: field %d, so %d bytes\n", repeated.WindowSize(), int(repeated.WindowSize())<<shift)
	send(link, 1001, syn.SequenceNumber()+1, header.TCPFlagAck, nil, "")
	send(link, 1001, syn.SequenceNumber()+1, header.TCPFlagAck, nil, "first")
	data := answer(link)
	fmt.Printf("ACK of five bytes:     field %d, so %d bytes\n", data.WindowSize(), int(data.WindowSize())<<shift)
	if repeated.Flags() != header.TCPFlagAck || shift != 7 || repeated.WindowSize() != syn.WindowSize() ||
		data.WindowSize() != syn.WindowSize()>>shift-1 {
		fmt.Println("the behaviour has changed")
		os.Exit(1)
	}
}
GO
cd "$work"
GOFLAGS=-mod=mod go run .
