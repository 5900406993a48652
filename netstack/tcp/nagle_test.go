package tcp

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// unacked is how many segments of the host's peer its kernel waits to have
// acknowledged.
func (p *hostEnd) unacked(x *script) uint32 {
	x.Helper()
	raw, err := p.conn.SyscallConn()
	x.try(err)
	var n uint32
	x.try(raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		x.try(err)
		n = info.Unacked
	}))
	return n
}

// TestNagleHostIsNotHeldUp: a sender that waits for the acknowledgement of what it
// sent before (Nagle's algorithm, on by default) gets it as soon as the guest has
// the data, as it would from a program that reads.
func TestNagleHostIsNotHeldUp(t *testing.T) {
	for _, size := range []int{2048, 5000, 16384, 40000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			x := newScript(t, setup{features: allOffloads})
			x.step("guest opens mss 1460 wscale 7")
			x.try(x.hosts[1].conn.SetNoDelay(false))
			late := 0
			for i := range 60 { // the kernel acknowledges at once in a connection's first moments
				x.step(fmt.Sprintf("host writes %d", size))
				x.step(fmt.Sprintf("guest takes %d", size))
				x.settle()
				if x.hosts[1].unacked(x) > 0 {
					late++
					if late == 1 {
						t.Logf("message %d is the first one that is not acknowledged", i)
					}
				}
			}
			if late > 0 {
				t.Errorf("%d of 60 messages had to wait for a timer of the kernel", late)
			}
		})
	}
}

// TestNagleSmallMessages: a host that sends small messages and waits for
// acknowledgements is found out by its pace, and then served at once.
func TestNagleSmallMessages(t *testing.T) {
	x := newScript(t, setup{features: allOffloads})
	x.step("guest opens mss 1460 wscale 7")
	x.try(x.hosts[1].conn.SetNoDelay(false))
	late := 0
	for range 200 {
		x.step("host writes 100")
		x.step("guest takes 100")
		x.settle()
		if x.hosts[1].unacked(x) > 0 {
			late++
			x.pass(40e6) // the kernel's timer, which is why the next message is late
		}
	}
	if late > 1 {
		t.Errorf("%d of 200 messages had to wait for a timer of the kernel, want the first one", late)
	}
}

// TestQuickMessagesAreNotDroppedOneByOne: request and response in quick succession
// cost no call for dropping each.
func TestQuickMessagesAreNotDroppedOneByOne(t *testing.T) {
	x := newScript(t, setup{features: allOffloads})
	x.step("guest opens mss 1460 wscale 7")
	f := x.h.flows.at(0)
	drops := 0
	// A slow beginning is no reason either: an answer carries what the kernel has
	// to acknowledge.
	x.pass(promptGapMs * 1e6)
	x.step("host writes 1")
	x.step("backend anything")
	x.step("guest > . 1 ack 2")
	for i := range 100 {
		x.step(fmt.Sprintf("guest > P. %d:%d ack %d", 1+i, 2+i, 2+i))
		x.step("host reads 1")
		head := f.headSeq
		x.step("host writes 1")
		x.step("backend anything")
		x.step(fmt.Sprintf("guest > . %d ack %d", 2+i, 3+i))
		if f.headSeq != head {
			drops++
		}
	}
	if drops > 100/discardPeeks+1 {
		t.Errorf("%d of 100 responses were dropped by themselves", drops)
	}
}
