package vhostuser_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// header returns the bytes of a message's head.
func header(req wire.Request, flags, size uint32) []byte {
	return wire.Encode(&wire.Header{Request: req, Flags: flags, Size: size})
}

// TestSurplusFDs sends every request there is, and some that are not, with
// numbers of descriptors that fit none, and checks that nothing of them stays.
func TestSurplusFDs(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	b.disconnect()
	fd := eventfds(t, 1)[0]
	before := measure(t)
	for req := range wire.LastRequest + 3 {
		for _, n := range []int{0, 1, 8, 33, 253} {
			for _, size := range []int{0, 8, 40, 72, 300} {
				b.connect(vutest.QEMU)
				msg := append(header(req, 0x9, uint32(size)), make([]byte, size)...)
				fds := slices.Repeat([]int{fd}, n)
				b.must(b.fe.Conn.SendRaw(msg, fds))
				if n <= wire.MaxFDs { // more end the connection
					_ = b.fe.Send(wire.GetFeatures, 0, nil)
				}
				b.disconnect()
			}
		}
	}
	checkUsage(t, before)
}

// TestIndexRange sends every request that has a ring index with indices that
// are out of range.
func TestIndexRange(t *testing.T) {
	b := newBench(t, vutest.QEMU).up()
	fd := eventfds(t, 1)[0]
	var indices []uint32
	for i := uint32(2); i < 65536; i += 1 + i/7 {
		indices = append(indices, i)
	}
	indices = append(indices, 255, 256, 257, 511, 512, 65535, 65536, math.MaxUint32)
	for _, i := range indices {
		for _, req := range []wire.Request{wire.SetVringNum, wire.SetVringBase, wire.SetVringEnable} {
			if err := b.fe.Do(req, state(i, 1)); err == nil {
				t.Errorf("%v accepted ring %d", req, i)
			}
		}
		if err := b.fe.Do(wire.SetVringAddr, &wire.VringAddr{Index: i}); err == nil {
			t.Errorf("SET_VRING_ADDR accepted ring %d", i)
		}
		if i&0x100 != 0 {
			continue // the bit for "no descriptor"
		}
		for _, req := range []wire.Request{wire.SetVringKick, wire.SetVringCall, wire.SetVringErr} {
			if err := b.fe.Do(req, u64(uint64(i)), fd); err == nil {
				t.Errorf("%v accepted ring %d", req, i)
			}
		}
	}
	b.echo(3)
	if err := b.fe.Get(wire.GetVringBase, state(2, 0), new(wire.VringState)); err == nil {
		t.Error("GET_VRING_BASE accepted ring 2")
	}
	b.wait()
}

// TestBadFrames: what is no message ends the connection at once.
func TestBadFrames(t *testing.T) {
	for name, frame := range map[string][]byte{
		"payload of 4 GiB":       header(wire.SetMemTable, 0x9, math.MaxUint32),
		"payload over the limit": header(wire.GetConfig, 0x1, wire.MaxPayload+1),
		"version 0":              header(wire.GetFeatures, 0, 0),
		"version 2":              header(wire.GetFeatures, 2, 0),
		"reply":                  header(wire.GetFeatures, 5, 0),
		"other byte order":       {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, vutest.QEMU)
			b.must(b.fe.Conn.SendRaw(frame, nil))
			b.wait()
			if lines := b.log.lines(); len(lines) != 1 {
				t.Errorf("log: %q", lines)
			}
		})
	}
}

// TestHalfMessage: a frontend that stops in the middle of a message holds up
// neither the end of its connection nor a shutdown.
func TestHalfMessage(t *testing.T) {
	msg := append(header(wire.SetFeatures, 0x9, 8), make([]byte, 8)...)
	for n := 1; n < len(msg); n++ {
		for _, shutdown := range []bool{false, true} {
			b := newBench(t, vutest.QEMU)
			b.must(b.fe.Conn.SendRaw(msg[:n], eventfds(t, 1)))
			if shutdown {
				b.cancel()
				b.wait()
			}
			b.disconnect()
		}
	}
}

// TestDribble: a message may come byte by byte.
func TestDribble(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	for _, c := range header(wire.GetFeatures, 0x1, 0) {
		b.must(b.fe.Conn.SendRaw([]byte{c}, nil))
		time.Sleep(time.Millisecond)
	}
	if _, err := b.fe.Conn.Receive(); err != nil {
		t.Error(err)
	}
}

// TestDeafFrontend: one that takes no replies ends a shutdown no later.
func TestDeafFrontend(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	go func() {
		for b.fe.Send(wire.GetFeatures, 0, nil) == nil {
		}
	}()
	time.Sleep(50 * time.Millisecond)
	b.cancel()
	b.wait()
}

// TestLogLimit: a frontend that comes and fails over and over does not fill the
// log.
func TestLogLimit(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	for range 200 {
		b.must(b.fe.Conn.SendRaw(header(99, 1, 0), nil))
		b.disconnect()
		b.connect(vutest.QEMU)
	}
	if n := len(b.log.lines()); n == 0 || n > 40 {
		t.Errorf("%d lines", n)
	}
}
