package tcp

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"syscall"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/netstack/link"
)

// openFiles counts the descriptors of the process.
func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// TestMemoryPerFlow: at most 256 bytes with all that grows with the number of
// flows.
func TestMemoryPerFlow(t *testing.T) {
	const flows, most = 100_000, 256
	t.Logf("struct of %d bytes", reflect.TypeFor[flow]().Size())
	x := newScript(t, setup{})
	x.h.cfg.MaxFlows = flows
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := range flows {
		k := x.key(1)
		k.LocalPort, k.RemotePort = uint16(n), uint16(n>>16)
		i, f := x.h.add(&k)
		f.state, f.rtoMs = established, firstRTOMs
		x.h.armRTO(i, f)
		x.h.oweAck(i, f)
		x.h.makeReady(i, f)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := float64(after.HeapAlloc-before.HeapAlloc) / flows
	t.Logf("%.0f bytes each", each)
	if each > most {
		t.Errorf("%.0f bytes each, want at most %d", each, most)
	}
	shrunk := 0
	x.h.cfg.Shrunk = func() { shrunk++ }
	for i := range uint32(flows) {
		x.h.release(i, x.h.flows.at(i))
	}
	x.h.Run()
	x.h.Run()
	if shrunk != 1 {
		t.Errorf("told %d times that memory was let go, want once", shrunk)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if left := int64(after.HeapAlloc) - int64(before.HeapAlloc); left > flows*most/20 {
		t.Errorf("%d bytes are kept when all flows are gone", left)
	}
}

// TestAllFlowsGoInOneBatch: the memory of the flows goes with the last one, but
// lists may still hold indices into it.
func TestAllFlowsGoInOneBatch(t *testing.T) {
	const flows = chunkFlows + 100
	x := newScript(t, setup{buffers: 1000, bufferBytes: 128})
	for n := 1; n <= flows; n++ {
		x.step(fmt.Sprintf("guest:%d > S 0 mss 1460 more", n))
		if n%100 == 0 || n == flows {
			x.h.EndBatch()
			x.settle()
			x.hostAcceptsAll()
			x.collect()
			x.got = nil
		}
	}
	for n := 1; n <= flows; n++ {
		x.step(fmt.Sprintf("guest:%d > . 1:11 ack 1 more", n))
		x.step(fmt.Sprintf("guest:%d > R 11 more", n))
	}
	x.h.EndBatch()
	x.settle()
	x.step("flows 0")
	if n := len(x.h.flows.chunks); n != 1 {
		t.Errorf("%d chunks are kept", n)
	}
	x.step("guest > S 0 mss 1460")
	x.step("backend < S. 0 ack 1 mss 1460")
}

// TestNoDescriptors: new connections are refused, old ones go on, listeners
// resume.
func TestNoDescriptors(t *testing.T) {
	x := newScript(t, setup{})
	x.openForward(forwardedTo)
	x.step("guest opens mss 1460 wscale 7")
	x.step("host:2 connects")
	x.step("backend:2 < S 0 mss 1460 wscale 7")

	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	// The client's socket takes the last descriptor.
	low := limit
	low.Cur = uint64(lastFile(t) + 1)
	held := fillFiles(t, &low)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	x.step("guest:3 > S 0 mss 1460")
	x.step("backend:3 < R. 0 ack 1")
	syscall.Close(held[len(held)-1])
	x.step("host:4 connects")
	x.step("backend silent")
	x.step("guest > P. 1:101 ack 1")
	x.step("host reads 100")
	x.step("host writes 10")
	x.step("backend < P. 1:11 ack 101")
	x.step("guest > . 101 ack 11")
	x.step("+1s") // timers run on
	x.step("backend:2 < S 0 mss 1460 wscale 7")
	if x.h.Counters.Limited == 0 {
		t.Error("nothing was limited")
	}
	for _, fd := range held[:len(held)-1] {
		syscall.Close(fd)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	x.step("+100ms")
	x.step("backend:4 < S 0 mss 1460 wscale 7")
	x.step("guest:3 > S 0 mss 1460")
	x.step("backend:3 < S. 0 ack 1 mss 1460")
}

// lastFile returns the highest descriptor in use.
func lastFile(t testing.TB) (last int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var n int
		if _, err := fmt.Sscan(e.Name(), &n); err == nil {
			last = max(last, n)
		}
	}
	return last
}

// fillFiles takes every descriptor below the limit that is free.
func fillFiles(t testing.TB, limit *syscall.Rlimit) (held []int) {
	t.Helper()
	for {
		fd, err := syscall.Dup(0)
		if err != nil {
			t.Fatal(err)
		}
		if uint64(fd) >= limit.Cur {
			limit.Cur = uint64(fd) + 1
			return append(held, fd)
		}
		held = append(held, fd)
	}
}

// TestDescriptorsAreClosed: whatever a connection dies of, its socket goes.
func TestDescriptorsAreClosed(t *testing.T) {
	x := newScript(t, setup{})
	start := openFiles(t)
	for n := range 60 {
		x.step("guest opens mss 1460 wscale 7")
		switch n % 6 {
		case 0:
			x.step("guest > R 1")
		case 1:
			x.step("host aborts")
			x.step("backend < R. 1")
		case 2:
			x.step("guest > F. 1 ack 1")
			x.step("host closes")
			x.step("backend < F. 1 ack 2")
			x.step("guest > . 2 ack 2")
		case 3:
			x.step("host closes")
			x.step("backend < F. 1 ack 1")
			x.step("guest > F. 1 ack 2")
			x.step("backend < . 2 ack 2")
		case 4:
			x.step("+3h")
			x.step("backend anything")
		case 5:
			x.step("guest > P. 1:101 ack 1")
			x.step("host closes") // with data unread
			x.step("backend < R. 1")
		}
		x.hosts[1].conn.Close()
	}
	x.step("flows 0")
	if n := openFiles(t); n > start {
		t.Errorf("%d descriptors, %d at the start", n, start)
	}
}

// TestCloseResetsHosts: the end of the daemon is an abort for the host's peers.
func TestCloseResetsHosts(t *testing.T) {
	x := newScript(t, setup{})
	start := openFiles(t)
	x.step("guest opens mss 1460 wscale 7")
	x.step("guest:2 > S 0 mss 1460")
	x.step("backend:2 < S. 0 ack 1 mss 1460")
	x.h.Close()
	x.hosts[1].readsEnd(x, syscall.ECONNRESET)
	x.hosts[1].conn.Close()
	if n := openFiles(t); n > start {
		t.Errorf("%d descriptors, %d at the start", n, start)
	}
}

// TestNoAllocations on the paths of a segment in both directions.
func TestNoAllocations(t *testing.T) {
	x := newScript(t, setup{features: allOffloads})
	x.step("guest opens mss 1460 wscale 7 win 65535")
	g, p := x.guest(1), x.hosts[1]
	raw := rawConn(t, p.conn)
	const n = 2000
	in, out := make([]byte, n), make([]byte, n)
	frames := x.preparedFrames(g, 64, n)
	at := 0
	var err error
	run := func() {
		// A segment of the guest, taken by the host's socket.
		x.h.FromGuest(&frames[at].frame)
		x.h.EndBatch()
		if _, err = syscall.Read(raw, in); err != nil {
			t.Fatal(err)
		}
		// A write of the host, delivered and acknowledged.
		if _, err = syscall.Write(raw, out); err != nil {
			t.Fatal(err)
		}
		for ready := x.poll.Wait(100); ready > 0; ready = x.poll.Wait(0) {
			for i := range ready {
				token, r, _ := x.poll.At(i)
				x.h.Event(token, r)
			}
		}
		x.h.EndBatch()
		x.h.Run()
		x.q.Flush()
		x.h.FromGuest(&frames[at].ack)
		x.h.EndBatch()
		x.h.Run()
		at++
	}
	for range 5 {
		run()
	}
	if a := testing.AllocsPerRun(40, run); a != 0 {
		t.Errorf("%v allocations, want 0", a)
	}
	f := x.h.flows.at(0)
	if want := uint32(46 * n); f.sndUna-g.backISN-1 != want || f.hostTaken-g.isn-1 != want {
		t.Errorf("%d bytes delivered to the guest, %d taken from it, want %d", f.sndUna-g.backISN-1, f.hostTaken-g.isn-1, want)
	}
}

func rawConn(t testing.TB, c syscall.Conn) (fd int) {
	t.Helper()
	r, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Control(func(p uintptr) { fd = int(p) }); err != nil {
		t.Fatal(err)
	}
	return fd
}

// exchange is a segment of the guest and the acknowledgement that it sends for
// what it got in return.
type exchange struct{ frame, ack link.Frame }

// preparedFrames makes the guest's part of count exchanges of n bytes each way.
func (x *script) preparedFrames(g *guestEnd, count, n int) []exchange {
	all := make([]exchange, count)
	for i := range all {
		at := uint32(1 + i*n)
		s := segment{flags: "P.", seq: at, end: at + uint32(n), ack: at, win: 65408, mss: -1, wscale: -1}
		all[i].frame = x.parsed(x.frame(g, 1, s))
		s = segment{flags: ".", seq: at + uint32(n), end: at + uint32(n), ack: at + uint32(n), win: 65408, mss: -1, wscale: -1}
		all[i].ack = x.parsed(x.frame(g, 1, s))
	}
	return all
}
