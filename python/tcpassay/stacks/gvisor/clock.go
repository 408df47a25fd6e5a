package main

import (
	"container/heap"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
)

// clock is a tcpip.Clock that knows its next deadline. The stack uses it from several goroutines.
type clock struct {
	mu     sync.Mutex
	now    int64
	last   int64
	number uint64
	timers timers
	// start is what the monotonic clock showed at the begin of the run.
	start int64
}

type timer struct {
	clock  *clock
	at     int64
	number uint64
	call   func()
	place  int
}

type timers []*timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].number < t[j].number
}
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i, j
}
func (t *timers) Push(x any) {
	added := x.(*timer)
	added.place = len(*t)
	*t = append(*t, added)
}
func (t *timers) Pop() any {
	old := *t
	removed := old[len(old)-1]
	*t = old[:len(old)-1]
	removed.place = -1
	return removed
}

func (c *clock) reading() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last+1, c.now)
	return c.last
}

func (c *clock) Now() time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(c.reading()))
}

func (c *clock) NowMonotonic() tcpip.MonotonicTime {
	var zero tcpip.MonotonicTime
	return zero.Add(time.Duration(c.reading() + c.start))
}

func (c *clock) AfterFunc(d time.Duration, call func()) tcpip.Timer {
	made := &timer{clock: c, call: call, place: -1}
	made.Reset(d)
	return made
}

func (t *timer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	if t.place < 0 {
		return false
	}
	heap.Remove(&t.clock.timers, t.place)
	return true
}

func (t *timer) Reset(d time.Duration) {
	c := t.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.place >= 0 {
		heap.Remove(&c.timers, t.place)
	}
	c.number++
	t.number, t.at = c.number, c.now+max(int64(d), 0)
	heap.Push(&c.timers, t)
}

// due removes and returns the first timer that is due at `now`.
func (c *clock) due(now int64) *timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.timers) == 0 || c.timers[0].at > now {
		return nil
	}
	first := heap.Pop(&c.timers).(*timer)
	c.now = max(c.now, first.at)
	return first
}

func (c *clock) deadline() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.timers) == 0 {
		return ^uint64(0)
	}
	return uint64(c.timers[0].at)
}

func (c *clock) advance(now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = max(c.now, now)
}
