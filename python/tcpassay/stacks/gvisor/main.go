// gVisor's network stack as a process of tcpassay (docs/stacks.md). It is built by `tcpassay stack build gvisor`.
//
// The clock of the stack is virtual: the time of the request, and one nanosecond more for each reading, because a burst within
// one time stamp looks to RACK like a burst that was lost.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	module = "gvisor.dev/gvisor"
	nic    = 1
	// backlog is above 1: with less, every connection gets a SYN cookie.
	backlog  = 64
	maxBurst = 1 << 20
)

type socket struct {
	endpoint tcpip.Endpoint
	queue    *waiter.Queue
	// told is the last status, with a last byte of 1 after the first one.
	told [10]byte
	// released: the application does not use it any more.
	released bool
	// shown is the last state.
	shown state
}

type listener struct {
	endpoint tcpip.Endpoint
	port     uint16
}

type host struct {
	settings  map[string]string
	clock     *clock
	stack     *stack.Stack
	link      *channel.Endpoint
	sockets   []*socket
	listeners []listener
	random    *seeded
	// isn is that of the first connection if it is set, and not negative.
	isn int64
	// news are the sockets whose status the last request changed, and whether it accepted a connection.
	news     []uint32
	accepted bool
	// variables are where an endpoint keeps its variables; nil if they are not shown.
	variables *variables
}

// seeded is the source of secure random numbers. secret is the first of its results with 16 bytes.
type seeded struct {
	*rand.Rand
	secret []byte
}

func (s *seeded) Read(b []byte) (int, error) {
	n, err := s.Rand.Read(b)
	if s.secret == nil && len(b) == 16 {
		s.secret = append(s.secret, b...)
	}
	return n, err
}

// setISN lets the next connection have the initial sequence number of the settings. gVisor's is a hash of a secret, the addresses
// and the ports, plus the monotonic clock in units of 64 ns (generateSecureISN). The clock has another start: nobody has read a
// time from it yet that a later one is compared with.
func (h *host) setISN(remote []byte, local, port uint16) {
	if h.isn < 0 {
		return
	}
	own := parse(h.settings["address"])
	text := append(append(append([]byte{}, h.random.secret...), own[:]...), remote...)
	text = binary.LittleEndian.AppendUint16(text, local)
	text = binary.LittleEndian.AppendUint16(text, port)
	sum := sha256.Sum256(text)
	hash := binary.LittleEndian.Uint32(sum[:4])
	// A few readings, of a nanosecond each, do not reach the next unit.
	h.clock.start = int64(uint32(h.isn)-hash)<<6 + 8 - h.clock.reading()
	// The clock does not run backwards: 2^32 units later it gives the same number.
	for h.clock.start < 0 {
		h.clock.start += 1 << 38
	}
	h.isn = -1
}

func check(err tcpip.Error, doing string) {
	if err != nil {
		panic(fmt.Sprintf("%s: %s", doing, err))
	}
}

func begin(settings map[string]string) (*host, error) {
	seed, _ := strconv.ParseUint(settings["seed"], 10, 64)
	mtu, _ := strconv.ParseUint(settings["mtu"], 10, 32)
	h := &host{settings: settings, clock: &clock{}, random: &seeded{Rand: rand.New(rand.NewSource(int64(seed)))}, isn: -1}
	if isn, ok := h.number("isn"); ok {
		h.isn = isn
	}
	h.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
		Clock:              h.clock,
		SecureRNG:          h.random,
		RandSource:         rand.NewSource(int64(seed) + 1),
	})
	if settings["state"] == "1" {
		h.variables = find()
	}
	h.link = channel.New(1<<16, uint32(mtu), "")
	check(h.stack.CreateNIC(nic, h.link), "create a NIC")
	address := tcpip.AddrFrom4(parse(settings["address"]))
	check(h.stack.AddProtocolAddress(nic, tcpip.ProtocolAddress{
		Protocol:          header.IPv4ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{Address: address, PrefixLen: 8},
	}, stack.AddressProperties{}), "add an address")
	h.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nic}})
	if cc, ok := settings["cc"]; ok {
		option := tcpip.CongestionControlOption(cc)
		if err := h.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &option); err != nil {
			return nil, fmt.Errorf("the congestion controller %s: %s", cc, err)
		}
	}
	return h, nil
}

func parse(text string) (address [4]byte) {
	fmt.Sscanf(text, "%d.%d.%d.%d", &address[0], &address[1], &address[2], &address[3])
	return address
}

func (h *host) number(name string) (int64, bool) {
	text, ok := h.settings[name]
	if !ok {
		return 0, false
	}
	value, _ := strconv.ParseInt(text, 10, 64)
	return value, true
}

// size sets the buffers of a socket. A connection that is accepted has those of its listener.
func (h *host) size(e tcpip.Endpoint) {
	options := e.SocketOptions()
	if size, ok := h.number("send_buffer"); ok {
		options.SetSendBufferSize(size, true)
	}
	if size, ok := h.number("receive_buffer"); ok {
		options.SetReceiveBufferSize(size, true)
	}
}

// configure sets the other options of a socket, which an application sets when it has connected or accepted.
func (h *host) configure(e tcpip.Endpoint) {
	options := e.SocketOptions()
	options.SetDelayOption(h.settings["nagle"] != "0")
	if idle, ok := h.number("keepalive_ns"); ok {
		first, next := tcpip.KeepaliveIdleOption(idle), tcpip.KeepaliveIntervalOption(idle/10)
		check(e.SetSockOpt(&first), "set the keepalive time")
		check(e.SetSockOpt(&next), "set the keepalive interval")
		options.SetKeepAlive(true)
	}
	if limit, ok := h.number("user_timeout_ns"); ok {
		option := tcpip.TCPUserTimeoutOption(limit)
		check(e.SetSockOpt(&option), "set the user timeout")
	}
}

func (h *host) open(queue *waiter.Queue) tcpip.Endpoint {
	e, err := h.stack.NewEndpoint(tcp.ProtocolNumber, header.IPv4ProtocolNumber, queue)
	check(err, "create a socket")
	h.size(e)
	h.configure(e)
	return e
}

// settle waits until no goroutine of the stack has anything to do, and fires the timers that are due.
func (h *host) settle(now int64) {
	for {
		h.stack.Pause()
		h.stack.Resume()
		due := h.clock.due(now)
		if due == nil {
			h.clock.advance(now)
			return
		}
		due.call()
	}
}

func (h *host) status(s *socket) (told [10]byte) {
	state := tcp.EndpointState(s.endpoint.State())
	flags := byte(0)
	ended := false
	switch state {
	case tcp.StateCloseWait, tcp.StateLastAck, tcp.StateClosing, tcp.StateTimeWait:
		ended = true
		flags |= 1
	case tcp.StateEstablished, tcp.StateFinWait1, tcp.StateFinWait2:
		flags |= 1
	case tcp.StateClose:
		flags |= 4
	case tcp.StateError:
		flags |= 4 | 8
	}
	readable, _ := s.endpoint.GetSockOptInt(tcpip.ReceiveQueueSizeOption)
	queued, _ := s.endpoint.GetSockOptInt(tcpip.SendQueueSizeOption)
	writable := 0
	if s.endpoint.Readiness(waiter.WritableEvents) != 0 && flags == 1 {
		writable = max(int(s.endpoint.SocketOptions().GetSendBufferSize())-queued, 1)
	}
	if ended && readable == 0 {
		flags |= 2
	}
	told[0] = flags | s.told[0]&1
	binary.LittleEndian.PutUint32(told[1:], uint32(readable))
	binary.LittleEndian.PutUint32(told[5:], uint32(writable))
	told[9] = 1
	return told
}

func item(answer []byte, kind byte, content []byte) []byte {
	answer = append(answer, kind)
	answer = binary.LittleEndian.AppendUint32(answer, uint32(len(content)))
	return append(answer, content...)
}

func (h *host) request(content []byte) []byte {
	now := int64(binary.LittleEndian.Uint64(content[1:]))
	rest := content[9:]
	// Timers before this time fire at their own time. Without one, nothing has happened since the last answer.
	if uint64(now) < h.clock.deadline() {
		h.clock.advance(now)
	} else {
		h.settle(now)
	}
	var result uint32
	var items []byte
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(rest[at:]) }
	half := func(at int) uint16 { return binary.LittleEndian.Uint16(rest[at:]) }
	switch kind := content[0]; kind {
	case 1:
		// A SYN: the ports are behind the IP header, whose length is in words.
		if at := int(rest[0]&15) * 4; len(rest) >= at+20 && rest[at+13]&0x12 == 2 {
			h.setISN(rest[12:16], binary.BigEndian.Uint16(rest[at+2:]), binary.BigEndian.Uint16(rest[at:]))
		}
		packet := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(rest)})
		h.link.InjectInbound(header.IPv4ProtocolNumber, packet)
		packet.DecRef()
	case 2:
	case 3:
		e := h.open(&waiter.Queue{})
		check(e.Bind(tcpip.FullAddress{Port: half(0)}), "bind")
		check(e.Listen(backlog), "listen")
		h.listeners = append(h.listeners, listener{e, half(0)})
	case 4:
		s := &socket{queue: &waiter.Queue{}}
		s.endpoint = h.open(s.queue)
		check(s.endpoint.Bind(tcpip.FullAddress{Port: half(0)}), "bind")
		h.setISN(rest[2:6], half(0), half(6))
		to := tcpip.FullAddress{Addr: tcpip.AddrFrom4([4]byte(rest[2:6])), Port: half(6)}
		if err := s.endpoint.Connect(to); err != nil {
			if _, started := err.(*tcpip.ErrConnectStarted); !started {
				check(err, "connect")
			}
		}
		result = uint32(len(h.sockets))
		h.sockets = append(h.sockets, s)
	default:
		s := h.sockets[word(0)]
		switch kind {
		case 5:
			taken, _ := s.endpoint.Write(bytes.NewReader(rest[4:]), tcpip.WriteOptions{})
			result = uint32(taken)
		case 6:
			data := bytes.Buffer{}
			limited := tcpip.LimitedWriter{W: &data, N: int64(word(4))}
			for limited.N > 0 {
				read, err := s.endpoint.Read(&limited, tcpip.ReadOptions{})
				if err != nil || read.Count == 0 {
					break
				}
				s.endpoint.ModerateRecvBuf(read.Count)
			}
			items = item(items, 4, data.Bytes())
		case 7:
			s.endpoint.Shutdown(tcpip.ShutdownWrite)
		case 8:
			s.endpoint.Close()
			s.released = true
		case 9:
			s.endpoint.Abort()
			s.released = true
		}
	}
	h.settle(now)
	for _, l := range h.listeners {
		for {
			e, queue, err := l.endpoint.Accept(nil)
			if err != nil {
				break
			}
			h.configure(e)
			h.accepted = true
			remote, _ := e.GetRemoteAddress()
			number := uint32(len(h.sockets))
			h.sockets = append(h.sockets, &socket{endpoint: e, queue: queue})
			items = binary.LittleEndian.AppendUint32(append(items, 2), number)
			items = binary.LittleEndian.AppendUint16(items, l.port)
			address := remote.Addr.As4()
			items = binary.LittleEndian.AppendUint16(append(items, address[:]...), remote.Port)
			h.settle(now)
		}
	}
	for packet := h.link.Read(); packet != nil; packet = h.link.Read() {
		view := packet.ToView()
		items = item(items, 1, view.AsSlice())
		view.Release()
		packet.DecRef()
	}
	for number, s := range h.sockets {
		if h.variables != nil {
			if shown := h.show(s); shown.mask != 0 && shown != s.shown {
				s.shown = shown
				items = shown.append(binary.LittleEndian.AppendUint32(append(items, 6), uint32(number)))
			}
		}
		if s.released {
			continue
		}
		if told := h.status(s); told != s.told {
			s.told = told
			h.news = append(h.news, uint32(number))
			items = binary.LittleEndian.AppendUint32(append(items, 3), uint32(number))
			items = append(items, told[:9]...)
		}
	}
	answer := binary.LittleEndian.AppendUint64(nil, h.clock.deadline())
	answer = binary.LittleEndian.AppendUint32(answer, result)
	return append(answer, items...)
}

// batch answers the requests of a batch as far as they apply (docs/stacks.md): a call is what the application does if the request before it
// changed the status of its socket alone.
func (h *host) batch(content []byte) (all []byte) {
	due := ^uint64(0)
	h.news, h.accepted = nil, false
	for rest := content[9:]; len(rest) > 0; {
		length := binary.LittleEndian.Uint32(rest)
		one := rest[4 : 4+length]
		rest = rest[4+length:]
		now, isCall := binary.LittleEndian.Uint64(one[1:]), one[0] == 5 || one[0] == 6
		changed := h.accepted || len(h.news) > 0
		if due < now || changed && !isCall {
			break
		}
		if isCall && !changed {
			all = binary.LittleEndian.AppendUint32(all, 0)
			continue
		}
		if isCall {
			number := binary.LittleEndian.Uint32(one[9:])
			if h.accepted || len(h.news) != 1 || h.news[0] != number {
				break
			}
			told := h.sockets[number].told
			readable, writable := binary.LittleEndian.Uint32(told[1:]), binary.LittleEndian.Uint32(told[5:])
			if told[0]&8 != 0 || (one[0] == 6) != (readable > 0) {
				break
			}
			if one[0] == 5 {
				if writable == 0 || int(writable) > len(one)-13 {
					break
				}
				one = one[:13+writable]
			}
		}
		h.news, h.accepted = nil, false
		answer := h.request(one)
		due = max(binary.LittleEndian.Uint64(answer), now)
		all = binary.LittleEndian.AppendUint32(all, uint32(len(answer)))
		all = append(all, answer...)
	}
	return all
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				return dependency.Version
			}
		}
	}
	return "unknown"
}

// descriptor is a file that is read and written by system calls of which Go's scheduler knows nothing: while the process waits for a
// request, nothing else of it runs, and no other thread has to be woken.
type descriptor int

func (d descriptor) Read(b []byte) (int, error) {
	n, err := d.call(syscall.SYS_READ, b)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func (d descriptor) Write(b []byte) (int, error) {
	for done := 0; done < len(b); {
		n, err := d.call(syscall.SYS_WRITE, b[done:])
		if err != nil {
			return done, err
		}
		done += n
	}
	return len(b), nil
}

func (d descriptor) call(number uintptr, b []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(number, uintptr(d), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

func main() {
	runtime.GOMAXPROCS(1)
	// A run is short: less time for the collector, for a few megabytes more.
	debug.SetGCPercent(400)
	in, out := bufio.NewReaderSize(descriptor(0), maxBurst), bufio.NewWriterSize(descriptor(1), maxBurst)
	receive := func() []byte {
		var head [4]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			os.Exit(0)
		}
		content := make([]byte, binary.LittleEndian.Uint32(head[:]))
		if _, err := io.ReadFull(in, content); err != nil {
			os.Exit(0)
		}
		return content
	}
	send := func(content []byte) {
		var head [4]byte
		binary.LittleEndian.PutUint32(head[:], uint32(len(content)))
		out.Write(head[:])
		out.Write(content)
		if err := out.Flush(); err != nil {
			os.Exit(0)
		}
	}
	settings := map[string]string{}
	for _, line := range strings.Split(string(receive()[9:]), "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			settings[name] = value
		}
	}
	h, err := begin(settings)
	if err != nil {
		send([]byte("error=" + err.Error()))
		return
	}
	shows := ""
	if h.variables != nil {
		shows = "\nshows=snd_una,snd_nxt,snd_wnd,rcv_nxt,rcv_wnd,cwnd,ssthresh,srtt,rto,timer"
	}
	send([]byte("name=gvisor\nversion=" + version() + "\ngranularity_ns=1\n" +
		"options=cc,send_buffer,receive_buffer,nagle,keepalive_ns,user_timeout_ns,isn\nbatch=1" + shows))
	for {
		if content := receive(); content[0] == 10 {
			send(h.batch(content))
		} else {
			h.news = h.news[:0]
			send(h.request(content))
		}
	}
}
