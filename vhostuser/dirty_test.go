package vhostuser_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// logRings are the rings on which the log is compared with the memory.
var logRings = []struct {
	name     string
	cfg      virtqtest.Config
	features uint64
}{
	{"split", virtqtest.Config{Size: 64, EventIdx: true, Indirect: true}, wanted},
	{"split plain", virtqtest.Config{Size: 64}, featureVersion1},
	{"packed", virtqtest.Config{Size: 64, Packed: true, EventIdx: true, Indirect: true}, wanted | featurePacked},
	{"packed in order", virtqtest.Config{Size: 64, Packed: true, InOrder: true}, featureVersion1 | featurePacked | featureInOrder},
}

func newLog(t testing.TB, m *vutest.Memory) *vutest.Log {
	t.Helper()
	l, err := vutest.NewLog(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// logRun sends frames through an echo device and watches the memory that this
// writes: receive buffers, and what the device has of the rings.
type logRun struct {
	*bench
	rnd           *rand.Rand
	inAddr, outAt uint64
	areas         []virtqtest.Buffer
	before        [][]byte
}

const logBuffers, logBufBytes = 16, 3 * vutest.PageSize

func newLogRun(b *bench, packed bool) *logRun {
	r := &logRun{bench: b, rnd: rand.New(rand.NewPCG(5, 6))}
	var err error
	r.inAddr, err = b.guest.Memory.Alloc(logBuffers*logBufBytes, vutest.PageSize)
	b.must(err)
	r.outAt, err = b.guest.Memory.Alloc(logBufBytes, vutest.PageSize)
	b.must(err)
	r.areas = []virtqtest.Buffer{{Addr: r.inAddr, Len: logBuffers * logBufBytes}}
	for _, q := range b.guest.Queues {
		desc, _, used := q.Addrs()
		if packed {
			r.areas = append(r.areas, virtqtest.Buffer{Addr: desc, Len: 64 * 16}, virtqtest.Buffer{Addr: used, Len: 4})
		} else {
			r.areas = append(r.areas, virtqtest.Buffer{Addr: used, Len: 6 + 8*64})
		}
	}
	r.before = make([][]byte, len(r.areas))
	return r
}

// frames sends n frames of random size and content, each to a random place.
func (r *logRun) frames(n int) {
	rx, tx := r.guest.Queues[0], r.guest.Queues[1]
	for range n {
		size := 1 + r.rnd.IntN(logBufBytes)
		out := r.guest.Memory.Bytes(r.outAt, uint64(size))
		for i := range out {
			out[i] = byte(r.rnd.Uint32())
		}
		at := r.inAddr + r.rnd.Uint64N(logBuffers*logBufBytes-uint64(size)+1)
		_, err := rx.Add(nil, []virtqtest.Buffer{{Addr: at, Len: uint32(size)}})
		r.must(err)
		r.must(rx.Kick())
		_, err = tx.Add([]virtqtest.Buffer{{Addr: r.outAt, Len: uint32(size)}}, nil)
		r.must(err)
		r.must(tx.Kick())
		for _, q := range []*vutest.Queue{tx, rx} {
			_, err := q.WaitUsed(patience)
			r.must(err)
		}
		if !bytes.Equal(r.guest.Memory.Bytes(at, uint64(size)), out) {
			r.t.Fatal("a frame came back as another")
		}
	}
}

// watch notes what is in memory now.
func (r *logRun) watch() {
	r.dev.with(func() {
		for i, a := range r.areas {
			r.before[i] = bytes.Clone(r.guest.Memory.Bytes(a.Addr, uint64(a.Len)))
		}
	})
}

// check compares what has changed since with the pages in the log.
func (r *logRun) check(what string, logged map[uint64]bool) {
	r.t.Helper()
	changed := 0
	r.dev.with(func() {
		for i, a := range r.areas {
			now := r.guest.Memory.Bytes(a.Addr, uint64(a.Len))
			for off := range now {
				if page := (a.Addr + uint64(off)) / vutest.PageSize; now[off] != r.before[i][off] {
					if changed++; !logged[page] {
						r.t.Fatalf("%s: page %#x has changed and is not in the log", what, page*vutest.PageSize)
					}
				}
			}
		}
	})
	if changed == 0 {
		r.t.Fatalf("%s: nothing has changed", what)
	}
	if len(logged) > 1+logBuffers*logBufBytes/vutest.PageSize+8 {
		r.t.Errorf("%s: %d pages are in the log", what, len(logged))
	}
}

// TestDirtyLog: whatever the device writes is in the log, over each kind of ring,
// also when the log is exchanged under traffic, and after it was off for a while.
func TestDirtyLog(t *testing.T) {
	for _, style := range []vutest.Style{vutest.QEMU, vutest.CloudHypervisor} {
		for _, tc := range logRings {
			t.Run(style.String()+" "+tc.name, func(t *testing.T) {
				b := newBench(t, style)
				b.guest, b.want = newGuest(t, tc.cfg), tc.features
				b.up()
				r := newLogRun(b, tc.cfg.Packed)
				log, logged := newLog(t, b.guest.Memory), map[uint64]bool{}
				r.frames(3)
				b.must(b.fe.StartLog(log))
				for round := range 6 {
					r.watch()
					log.Take(map[uint64]bool{})
					clear(logged)
					r.frames(5)
					if round%2 == 1 { // as cloud-hypervisor does to read it
						old := log
						log = newLog(t, b.guest.Memory)
						b.must(b.fe.SetLogBase(log))
						old.Take(logged)
						r.frames(5)
					}
					log.Take(logged)
					// What the device writes when it is done with a frame: it
					// stands still now, so nothing more comes.
					b.dev.with(func() { log.Take(logged) })
					r.check(fmt.Sprintf("round %d", round), logged)
				}
				b.must(b.fe.StopLog())
				clear(logged)
				log.Take(logged)
				clear(logged)
				r.frames(3)
				if b.dev.with(func() { log.Take(logged) }); len(logged) > 0 {
					t.Errorf("%d pages were marked after the end", len(logged))
				}
				r.watch()
				b.must(b.fe.StartLog(log))
				r.frames(5)
				b.must(b.fe.Stop()) // what is written when rings stop counts too
				log.Take(logged)
				r.check("once more", logged)
				if lines := b.log.lines(); len(lines) > 0 {
					t.Errorf("log: %q", lines)
				}
			})
		}
	}
}

// TestLogOfBuffersAlone: as long as no ring is to be logged, buffers are.
func TestLogOfBuffersAlone(t *testing.T) {
	b := newBench(t, vutest.QEMU).up()
	r := newLogRun(b, false)
	r.areas = r.areas[:1]
	log, logged := newLog(t, b.guest.Memory), map[uint64]bool{}
	b.must(b.fe.SetLogBase(log))
	b.must(b.fe.SetFeatures(b.want | wire.FeatureProtocol | wire.FeatureLogAll))
	r.watch()
	r.frames(5)
	b.dev.with(func() { log.Take(logged) })
	r.check("buffers", logged)
	_, _, used := b.guest.Queues[1].Addrs()
	if logged[used/vutest.PageSize] {
		t.Error("the ring is in the log")
	}
}

// TestLogBeforeRings: rings that are started while the log is wanted but not there
// wait for it (QEMU, when a driver comes up in a migration).
func TestLogBeforeRings(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	b.must(b.fe.Connect())
	for _, q := range b.guest.Queues {
		q.Logged = true
	}
	_, err := b.fe.Start(b.guest, b.want|wire.FeatureLogAll)
	b.must(err)
	r := newLogRun(b, false)
	for _, s := range b.dev.calls() {
		if strings.HasPrefix(s, "start") {
			t.Errorf("%s before there is a log", s)
		}
	}
	b.dev.with(func() {
		if b.dev.acked&wire.FeatureLogAll != 0 {
			t.Error("the device is told of the log")
		}
	})
	r.watch()
	log, logged := newLog(t, b.guest.Memory), map[uint64]bool{}
	b.must(b.fe.SetLogBase(log))
	r.frames(5)
	b.dev.with(func() { log.Take(logged) })
	r.check("after the log came", logged)
}

// TestLogTooSmall: a ring does not run with a log that cannot hold all that is
// written, and runs with a better one.
func TestLogTooSmall(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*bench, *wire.Log, *wire.VringAddr)
		want   string
	}{
		"for the memory":            {func(_ *bench, l *wire.Log, _ *wire.VringAddr) { l.Size -= 8 }, "too small for guest memory"},
		"for the ring":              {func(_ *bench, l *wire.Log, a *wire.VringAddr) { a.Log = l.Size * 8 * vutest.PageSize }, "too small for the used ring"},
		"for the end of the ring":   {func(_ *bench, l *wire.Log, a *wire.VringAddr) { a.Log = l.Size*8*vutest.PageSize - 8 }, "too small for the used ring"},
		"for an address that wraps": {func(_ *bench, _ *wire.Log, a *wire.VringAddr) { a.Log = ^uint64(0) - 3 }, "too small for the used ring"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, vutest.QEMU).up()
			b.echo(1)
			log := newLog(t, b.guest.Memory)
			l, addr := wire.Log{Size: log.Size()}, b.guest.Queues[1].Addr()
			addr.Flags, addr.Log = wire.VringLog, 0
			tc.change(b, &l, &addr)
			b.must(b.fe.DoAck(wire.SetLogBase, &l, log.FD))
			b.must(b.fe.Do(wire.SetFeatures, u64(b.want|wire.FeatureProtocol|wire.FeatureLogAll)))
			b.must(b.fe.Do(wire.SetVringAddr, &addr))
			if lines := strings.Join(b.log.lines(), ""); !strings.Contains(lines, tc.want) {
				t.Errorf("log says %q, want %q in it", lines, tc.want)
			}
			b.dev.with(func() {
				if b.dev.queues[1].q != nil {
					t.Error("the ring runs")
				}
			})
			b.must(b.fe.StartLog(log))
			b.echo(3)
		})
	}
}

// TestLogRefused: a log that is of no use is refused, leaves nothing behind, and
// the one before it stays.
func TestLogRefused(t *testing.T) {
	b := newBench(t, vutest.QEMU).up()
	r := newLogRun(b, false)
	log := newLog(t, b.guest.Memory)
	b.must(b.fe.StartLog(log))
	readOnly, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", log.FD), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	b.must(err)
	defer unix.Close(readOnly)
	sealed := memfd(t, 1<<16, unix.MFD_ALLOW_SEALING)
	_, err = unix.FcntlInt(uintptr(sealed), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
	b.must(err)
	before := measure(t)
	for name, tc := range map[string]struct {
		log wire.Log
		fd  int
	}{
		"read-only":   {wire.Log{Size: log.Size()}, readOnly},
		"sealed":      {wire.Log{Size: 4096}, sealed},
		"not aligned": {wire.Log{Size: log.Size() - 2, Offset: 2}, log.FD},
		"too long":    {wire.Log{Size: log.Size() + 1}, log.FD},
		"overflow":    {wire.Log{Size: ^uint64(0), Offset: 4096}, log.FD},
		"empty":       {wire.Log{}, log.FD},
	} {
		if err := b.fe.DoAck(wire.SetLogBase, &tc.log, tc.fd); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := b.fe.DoAck(wire.SetFeatures, u64(b.want|wire.FeatureProtocol|wire.FeatureLogAll|1<<15)); err == nil {
		t.Error("other features change with the log while rings run")
	}
	if now := measure(t); now.maps != before.maps || now.fds != before.fds {
		t.Errorf("usage is %+v, was %+v before", now, before)
	}
	logged := map[uint64]bool{}
	r.watch()
	r.frames(3)
	b.dev.with(func() { log.Take(logged) })
	r.check("with the old log", logged)
}

// TestLogNeedsSharing: who has not negotiated how to share a log gets none.
func TestLogNeedsSharing(t *testing.T) {
	b := newBench(t, vutest.DPDK).up()
	if err := b.fe.DoAck(wire.SetFeatures, u64(b.want|wire.FeatureProtocol|wire.FeatureLogAll)); err == nil {
		t.Error("no error")
	}
	b.echo(1)
}

// TestLogStaysWhole: the file of a log cannot be cut short, where that can be
// forbidden.
func TestLogStaysWhole(t *testing.T) {
	b := newBench(t, vutest.QEMU).up()
	fd := memfd(t, 1<<20, unix.MFD_ALLOW_SEALING)
	b.must(b.fe.DoAck(wire.SetLogBase, &wire.Log{Size: 1 << 20}, fd))
	if err := unix.Ftruncate(fd, 0); err == nil {
		t.Error("the log was cut short")
	}
}

// TestLogLeavesNothing: a connection that ends in the middle of a migration leaves
// no mapping and no descriptor.
func TestLogLeavesNothing(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	b.disconnect()
	log := newLog(t, b.guest.Memory)
	before := measure(t)
	for range 5 {
		b.connect(vutest.QEMU)
		b.up()
		b.must(b.fe.StartLog(log))
		b.must(b.fe.SetLogBase(log))
		b.must(b.fe.DoAck(wire.SetLogFD, nil, eventfds(t, 1)[0]))
		before.fds++ // the test's own
		b.echo(1)
		b.disconnect()
		for _, q := range b.guest.Queues {
			q.Logged = false
		}
	}
	checkUsage(t, before)
}
