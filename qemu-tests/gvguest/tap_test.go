package gvguest_test

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// tap remembers the last segments that passed the device, to be told when a test
// has failed.
type tap struct {
	mu    sync.Mutex
	begin time.Time
	next  int
	last  [200]seen
}

// seen is a frame of long ago: its head.
type seen struct {
	at        time.Duration
	fromGuest bool
	bytes     int
	head      [90]byte
}

func (p *tap) frame(fromGuest bool, frame []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begin.IsZero() {
		p.begin = time.Now()
	}
	s := &p.last[p.next%len(p.last)]
	*s = seen{at: time.Since(p.begin), fromGuest: fromGuest, bytes: len(frame)}
	copy(s.head[:], frame)
	p.next++
}

// String lists the frames, oldest first.
func (p *tap) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "now %v\n", time.Since(p.begin).Round(time.Millisecond))
	for i := max(p.next-len(p.last), 0); i < p.next; i++ {
		s := &p.last[i%len(p.last)]
		fmt.Fprintf(&b, "%10v %s %v\n", s.at.Round(time.Microsecond), map[bool]string{true: "from guest", false: "to guest  "}[s.fromGuest], s)
	}
	return b.String()
}

// String tells what the frame is.
func (s *seen) String() string {
	var p header.Packet
	if why := header.Parse(&p, s.head[:min(s.bytes, len(s.head))], s.bytes); why != header.OK || !p.IsIP() || p.Proto != header.ProtoTCP {
		return fmt.Sprintf("%d bytes: EtherType %#x, protocol %d", s.bytes, p.EtherType, p.Proto)
	}
	t := header.TCP(s.head[p.L4:])
	return fmt.Sprintf("%v %d > %d flags %#x seq %d:%d ack %d win %d",
		p.Dst, p.SrcPort, p.DstPort, t.Flags(), t.Seq(), t.Seq()+uint32(p.End-p.Payload), t.Ack(), t.Window())
}
