package main

import (
	"encoding/binary"
	"reflect"
	"unsafe"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// variables are the offsets of what an endpoint does not publish: its probe (tcp.NewProtocolProbe) is called for arriving segments only,
// and reads the clock, which would change the run.
type variables struct {
	sender, receiver                      uintptr
	senderState, receiverState            uintptr
	rtt                                   uintptr
	zeroWindowProbing                     uintptr
	resendTimer, probeTimer, reorderTimer uintptr
	timerState, timerTarget               uintptr
}

// enabled is the state of a running timer (timerStateEnabled).
const enabled = 2

// find returns nil if this version has other variables.
func find() *variables {
	found := true
	var none reflect.Type
	field := func(of reflect.Type, name string, is reflect.Type) (uintptr, reflect.Type) {
		if of != none && of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of == none || of.Kind() != reflect.Struct {
			found = false
			return 0, none
		}
		one, ok := of.FieldByName(name)
		found = found && ok && len(one.Index) == 1 && (is == none || one.Type == is)
		return one.Offset, one.Type
	}
	made := &variables{}
	var sender, receiver, rtt, timer reflect.Type
	made.sender, sender = field(reflect.TypeFor[tcp.Endpoint](), "snd", none)
	made.receiver, receiver = field(reflect.TypeFor[tcp.Endpoint](), "rcv", none)
	made.senderState, _ = field(sender, "TCPSenderState", reflect.TypeFor[tcp.TCPSenderState]())
	made.receiverState, _ = field(receiver, "TCPReceiverState", reflect.TypeFor[tcp.TCPReceiverState]())
	outer, rtt := field(sender, "rtt", none)
	inner, _ := field(rtt, "TCPRTTState", reflect.TypeFor[tcp.TCPRTTState]())
	made.rtt = outer + inner
	made.zeroWindowProbing, _ = field(sender, "zeroWindowProbing", reflect.TypeFor[bool]())
	made.resendTimer, timer = field(sender, "resendTimer", none)
	made.probeTimer, _ = field(sender, "probeTimer", timer)
	made.reorderTimer, _ = field(sender, "reorderTimer", timer)
	state, kind := field(timer, "state", none)
	made.timerState = state
	made.timerTarget, _ = field(timer, "target", reflect.TypeFor[tcpip.MonotonicTime]())
	if !found || kind.Kind() != reflect.Int {
		return nil
	}
	return made
}

// state is what an item of state contains, without the number of the socket: a mask, and the fields.
type state struct {
	mask  uint16
	words [7]uint32
	longs [3]uint64
}

// show reads the variables of a connection; its mask is 0 if it has none.
func (h *host) show(s *socket) (shown state) {
	e, ok := s.endpoint.(*tcp.Endpoint)
	if !ok {
		return shown
	}
	v, at := h.variables, unsafe.Pointer(e)
	sender, receiver := *(*unsafe.Pointer)(unsafe.Add(at, v.sender)), *(*unsafe.Pointer)(unsafe.Add(at, v.receiver))
	switch tcp.EndpointState(e.State()) {
	case tcp.StateEstablished, tcp.StateCloseWait, tcp.StateFinWait1, tcp.StateFinWait2, tcp.StateLastAck, tcp.StateClosing:
	default:
		return shown
	}
	if sender == nil || receiver == nil {
		return shown
	}
	snd, rcv := (*tcp.TCPSenderState)(unsafe.Add(sender, v.senderState)), (*tcp.TCPReceiverState)(unsafe.Add(receiver, v.receiverState))
	rtt := (*tcp.TCPRTTState)(unsafe.Add(sender, v.rtt))
	// Windows are counted in packets of this size.
	size := snd.MaxPayloadSize
	shown.mask = 0b11_0011_1111
	shown.words = [7]uint32{uint32(snd.SndUna), uint32(snd.SndNxt), uint32(snd.SndWnd), uint32(rcv.RcvNxt), uint32(rcv.RcvAcc) - uint32(rcv.RcvNxt), uint32(snd.SndCwnd * size)}
	if snd.Ssthresh < 1<<31/max(size, 1) {
		shown.mask |= 1 << 6
		shown.words[6] = uint32(snd.Ssthresh * size)
	}
	if rtt.SRTTInited {
		shown.mask |= 1 << 7
		shown.longs[0] = uint64(rtt.SRTT)
	}
	shown.longs[1] = uint64(snd.RTO)
	running := func(offset uintptr) bool {
		return *(*int)(unsafe.Add(sender, offset+v.timerState)) == enabled
	}
	resends := running(v.resendTimer)
	switch {
	case resends && !*(*bool)(unsafe.Add(sender, v.zeroWindowProbing)):
		target := *(*tcpip.MonotonicTime)(unsafe.Add(sender, v.resendTimer+v.timerTarget))
		shown.longs[2] = uint64(int64(target.Sub(tcpip.MonotonicTime{})) - h.clock.start)
	case resends || running(v.probeTimer) || running(v.reorderTimer):
		shown.longs[2] = ^uint64(0) - 2
	default:
		shown.longs[2] = ^uint64(0)
	}
	return shown
}

func (s *state) append(answer []byte) []byte {
	answer = binary.LittleEndian.AppendUint16(answer, s.mask)
	for bit, word := range s.words {
		if s.mask>>bit&1 != 0 {
			answer = binary.LittleEndian.AppendUint32(answer, word)
		}
	}
	for bit, long := range s.longs {
		if s.mask>>(bit+len(s.words))&1 != 0 {
			answer = binary.LittleEndian.AppendUint64(answer, long)
		}
	}
	return answer
}
