package vhostuser_test

import (
	"math"
	"os"
	"testing"

	"github.com/u-root/u-root/pkg/uio"
	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// memfd makes a file of size bytes that stays open as long as the test runs.
func memfd(t testing.TB, size int64, flags int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC|flags)
	if err != nil {
		t.Skipf("memfd: %v", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Ftruncate(fd, size); err != nil {
		t.Skipf("memfd of %d bytes: %v", size, err)
	}
	return fd
}

// TestBadRegions: each is refused, alone and behind a good one, and leaves
// neither a mapping nor a descriptor.
func TestBadRegions(t *testing.T) {
	const size = 1 << 20
	good := wire.Region{GuestAddr: 1 << 30, Size: size, UserAddr: 1 << 40}
	for _, tc := range []struct {
		name string
		r    wire.Region
		pipe bool
	}{
		{name: "empty", r: wire.Region{}},
		{name: "longer than the file", r: wire.Region{Size: size + 4096}},
		{name: "behind the file", r: wire.Region{Size: 4096, MmapOffset: size}},
		{name: "offset overflow", r: wire.Region{Size: size, MmapOffset: math.MaxUint64 - 4095}},
		{name: "offset beyond a file", r: wire.Region{Size: size, MmapOffset: math.MaxInt64 - 4095}},
		{name: "size overflow", r: wire.Region{Size: math.MaxUint64}},
		{name: "guest address overflow", r: wire.Region{GuestAddr: math.MaxUint64 - 4095, Size: size}},
		{name: "user address overflow", r: wire.Region{UserAddr: math.MaxUint64 - 4095, Size: size}},
		{name: "overlap in guest addresses", r: wire.Region{GuestAddr: good.GuestAddr + size - 1, Size: size}},
		{name: "overlap in user addresses", r: wire.Region{UserAddr: good.UserAddr - 4096, Size: size}},
		{name: "same again", r: good},
		{name: "no file", r: wire.Region{Size: 4096}, pipe: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, vutest.QEMU)
			b.must(b.fe.Connect())
			fd := memfd(t, size, 0)
			bad := fd
			if tc.pipe {
				bad = eventfds(t, 1)[0]
			}
			before := measure(t)
			for _, overlaps := range []bool{false, true} {
				table := []wire.Region{good, tc.r}
				if err := b.fe.Do(wire.SetMemTable, &wire.MemTable{Regions: table}, fd, bad); err == nil {
					t.Errorf("table was accepted")
				}
				checkUsage(t, before)
				if !overlaps {
					b.must(b.fe.Do(wire.SetMemTable, &wire.MemTable{Regions: []wire.Region{good}}, fd))
					before = measure(t)
				}
				if err := b.fe.Do(wire.AddMemReg, &wire.SingleRegion{Region: tc.r}, bad); err == nil {
					t.Error("region was accepted")
				}
				checkUsage(t, before)
			}
		})
	}
}

// TestTableSize: UML 6.1 sends a table for two regions with one in it.
func TestTableSize(t *testing.T) {
	b := newBench(t, vutest.UML)
	b.must(b.fe.Connect())
	fd := memfd(t, 1<<20, 0)
	table := wire.Encode(&wire.MemTable{Regions: []wire.Region{{Size: 1 << 20}}})
	b.must(b.fe.Do(wire.SetMemTable, rawBytes(append(table, make([]byte, wire.RegionSize)...)), fd))
	table[0] = 3
	if err := b.fe.Do(wire.SetMemTable, rawBytes(append(table, make([]byte, wire.RegionSize)...)), fd, fd, fd); err == nil {
		t.Error("table that is shorter than announced was accepted")
	}
}

// TestManyRegions adds as many regions as are offered, uses memory in the first
// and in the last, and takes all away again.
func TestManyRegions(t *testing.T) {
	const slots = 509
	const size = 64 << 10
	var spans []vutest.Span
	for i := range uint64(slots) {
		spans = append(spans, vutest.Span{GuestAddr: i * 2 * size, Size: size})
	}
	b := newBench(t, vutest.QEMU)
	before := measure(t)
	mem, err := vutest.NewMemory(spans...)
	b.must(err)
	b.guest, err = vutest.NewGuest(mem, 2, virtqtest.Config{Size: 16})
	b.must(err)
	b.up()
	if b.fe.MemSlots != slots {
		t.Errorf("%d slots offered", b.fe.MemSlots)
	}
	b.echo(3)
	// Buffers in the last region.
	addr, err := mem.AllocIn(slots-1, 64, 64)
	b.must(err)
	p := &pump{g: b.guest, addr: addr}
	b.must(p.run(50))

	extra, err := vutest.NewMemory(vutest.Span{GuestAddr: 1 << 50, Size: 4096})
	b.must(err)
	if err := b.fe.AddMemRegion(extra, 0); err == nil {
		t.Error("one region more than offered was accepted")
	}
	b.must(b.fe.RemMemRegion(mem, 7))
	b.must(b.fe.AddMemRegion(extra, 0))
	b.must(b.fe.RemMemRegion(extra, 0))
	b.must(b.fe.AddMemRegion(mem, 7))
	b.must(p.run(50))
	for i := range slots {
		b.must(b.fe.RemMemRegion(mem, i))
	}
	if calls := b.dev.calls(); calls[len(calls)-1] != "stop 1" {
		t.Errorf("rings run without memory: %q", calls[len(calls)-3:])
	}
	b.must(b.guest.Close())
	b.must(mem.Close())
	b.must(extra.Close())
	if now := measure(t); now.maps != before.maps {
		t.Errorf("%d regions are mapped, were %d before", now.maps, before.maps)
	}
}

// TestOddOffset: a region that begins in the middle of a page of its file.
func TestOddOffset(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	b.must(b.fe.Connect())
	fd := memfd(t, 1<<20, 0)
	b.must(b.fe.Do(wire.AddMemReg, &wire.SingleRegion{Region: wire.Region{Size: 4096, MmapOffset: 2048}}, fd))
}

// TestHugePages: mappings of huge pages are aligned to them.
func TestHugePages(t *testing.T) {
	const huge = 2 << 20
	fd := memfd(t, 2*huge, unix.MFD_HUGETLB)
	b := newBench(t, vutest.QEMU)
	b.must(b.fe.Connect())
	before := measure(t)
	r := &wire.SingleRegion{Region: wire.Region{GuestAddr: 4096, Size: huge, UserAddr: 4096, MmapOffset: 4096}}
	b.must(b.fe.Do(wire.AddMemReg, r, fd))
	b.must(b.fe.Do(wire.RemMemReg, r))
	checkUsage(t, before)
}

// TestSeal: a frontend that uses a sealable file cannot cut it short any more.
func TestSeal(t *testing.T) {
	b := newBench(t, vutest.QEMU).up()
	if err := unix.Ftruncate(b.guest.Memory.FDs()[0], 0); err == nil {
		t.Error("memory was cut short")
	}
}

// TestCutShort: memory whose file is cut short makes rings fail, not the process.
func TestCutShort(t *testing.T) {
	f, err := os.CreateTemp("/dev/shm", "vhostuser-test")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	defer os.Remove(f.Name())
	if err := f.Truncate(1 << 20); err != nil {
		t.Skip(err)
	}
	b := newBench(t, vutest.QEMU)
	b.must(b.fe.Connect())
	b.must(b.fe.Do(wire.AddMemReg, &wire.SingleRegion{Region: wire.Region{Size: 1 << 20}}, int(f.Fd())))
	b.must(f.Truncate(0))
	for _, m := range []struct {
		req     wire.Request
		payload uio.Marshaler
		fds     []int
	}{
		{wire.SetFeatures, u64(wanted), nil},
		{wire.SetVringNum, state(0, 16), nil},
		{wire.SetVringAddr, &wire.VringAddr{Desc: 4096, Avail: 8192, Used: 16384}, nil},
		{wire.SetVringEnable, state(0, 1), nil},
		{wire.SetVringKick, u64(0), eventfds(t, 1)},
	} {
		b.must(b.fe.Do(m.req, m.payload, m.fds...))
	}
	if lines := b.log.lines(); len(lines) != 1 {
		t.Errorf("log: %q", lines)
	}
	for _, c := range b.dev.calls() {
		if c == "start 0" {
			t.Error("ring was started")
		}
	}
}
