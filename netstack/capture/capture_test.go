package capture

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

// memFile is a file in memory, and what became of it.
type memFile struct {
	bytes.Buffer
	closed int
}

func (m *memFile) Close() error { m.closed++; return nil }

// packet is a frame as a reader of the file sees it.
type packet struct {
	data    string
	length  int
	dir     pcapgo.NgEpbFlag
	dropped uint64
}

// parse reads a capture with the library's reader.
func parse(t *testing.T, file []byte) (out []packet, r *pcapgo.NgReader) {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, ci, opts, err := r.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			return out, r
		}
		if err != nil {
			t.Fatal(err)
		}
		p := packet{data: string(data), length: ci.Length}
		if opts.Flags != nil {
			p.dir = opts.Flags.Direction
		}
		if opts.DropCount != nil {
			p.dropped = *opts.DropCount
		}
		if d := time.Since(ci.Timestamp); d < 0 || d > time.Minute {
			t.Errorf("time stamp %v is %v ago", ci.Timestamp, d)
		}
		out = append(out, p)
	}
}

// frame returns vectors of a vnet header and payload, in two pieces.
func frame(v header.Vnet, payload string) ([]iov.Vec, int) {
	b := make([]byte, header.VnetLen+len(payload))
	v.Put(b)
	copy(b[header.VnetLen:], payload)
	at := len(b) / 2
	return []iov.Vec{iov.Of(b[:at]), iov.Of(b[at:])}, len(b)
}

func newCapture(t *testing.T, cfg Config) *Capture {
	t.Helper()
	if cfg.SnapBytes == 0 {
		cfg.SnapBytes = MaxSnapBytes
	}
	c := New(cfg)
	if err := c.Begin(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFile(t *testing.T) {
	var f memFile
	c := newCapture(t, Config{File: &f, Interface: "guest0", SnapBytes: 20})
	a, b := c.Tap(), c.Tap()
	long := "a frame that is longer than what is kept of it"
	vecs, n := frame(header.Vnet{}, "to the guest")
	a.FrameToGuest(vecs, n)
	vecs, n = frame(header.Vnet{}, long)
	a.FrameFromGuest(vecs, n)
	vecs, n = frame(header.Vnet{}, "of another worker")
	b.FrameFromGuest(vecs, n)
	vecs, _ = frame(header.Vnet{}, "only a part of the buffers")
	b.FrameToGuest(vecs, header.VnetLen+4)
	b.FrameFromGuest(vecs, 3) // not even a vnet header
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	got, r := parse(t, f.Bytes())
	want := []packet{
		{"to the guest", 12, pcapgo.NgEpbFlagDirectionOutbound, 0},
		{long[:20], len(long), pcapgo.NgEpbFlagDirectionInbound, 0},
		{"of another worker", 17, pcapgo.NgEpbFlagDirectionInbound, 0},
		{"only", 4, pcapgo.NgEpbFlagDirectionOutbound, 0},
		{"", 0, pcapgo.NgEpbFlagDirectionInbound, 0},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(packet{})); d != "" {
		t.Errorf("packets (-want +got):\n%s", d)
	}
	in, err := r.Interface(0)
	if err != nil || in.Name != "guest0" || in.SnapLength != 20 {
		t.Errorf("interface %+v, %v", in, err)
	}
	if s := in.Statistics; s.PacketsReceived != 5 || s.PacketsDropped != 0 {
		t.Errorf("statistics %+v", s)
	}
	if f.closed != 1 {
		t.Errorf("closed %d times", f.closed)
	}
}

// TestChecksums: what the guest or the host was to complete is complete in the
// capture, and untouched in memory.
func TestChecksums(t *testing.T) {
	checksums(t, "hello")
	checksums(t, strings.Repeat("BIG TCP", 70_000))
}

func checksums(t *testing.T, payload string) {
	t.Helper()
	const udp = 34
	b := make([]byte, udp+8+len(payload))
	b[udp+7] = 0x42 // pseudo-header's part
	copy(b[udp+8:], payload)
	v := header.Vnet{Flags: header.VnetNeedsCsum, CsumStart: udp, CsumOffset: 6}
	want := bytes.Clone(b)
	header.Complete(want, udp, 6)
	for _, snap := range []int{len(b), len(b) - 1} {
		var f memFile
		c := newCapture(t, Config{File: &f, SnapBytes: snap})
		vecs, n := frame(v, string(b))
		c.Tap().FrameToGuest(vecs, n)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		got, _ := parse(t, f.Bytes())
		expect := want
		if snap < len(b) {
			expect = b[:snap]
		}
		if len(got) != 1 || got[0].data != string(expect) {
			t.Errorf("kept %d bytes: %d frames, want %d bytes", snap, len(got), len(expect))
		}
		mem := make([]byte, len(b))
		iov.CopyOut(mem, vecs, header.VnetLen)
		if !bytes.Equal(mem, b) {
			t.Error("guest memory was changed")
		}
	}
}

// TestNotBegun: a capture that did not come to begin leaves its file alone.
func TestNotBegun(t *testing.T) {
	var f memFile
	c := New(Config{File: &f, SnapBytes: MaxSnapBytes})
	vecs, n := frame(header.Vnet{}, "too early")
	c.Tap().FrameToGuest(vecs, n)
	if err := c.Close(); err != nil || f.Len() != 0 || f.closed != 1 {
		t.Errorf("error %v, %d bytes, closed %d times", err, f.Len(), f.closed)
	}
}

// TestSlowWriter: frames that find no room are counted, in the file too, at the
// place where they are missing.
func TestSlowWriter(t *testing.T) {
	gate := &gatedFile{open: make(chan struct{})}
	c := newCapture(t, Config{File: gate})
	gate.block()
	tap := c.tap(4096)
	vecs, n := frame(header.Vnet{}, string(make([]byte, 1000)))
	for range 10 {
		tap.FrameToGuest(vecs, n)
	}
	close(gate.open)
	for end := time.Now().Add(5 * time.Second); tap.tail.Load() != tap.head.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the tap is not emptied")
		}
	}
	for range 2 {
		tap.FrameToGuest(vecs, n)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	got, r := parse(t, gate.Bytes())
	var drops uint64
	for _, p := range got {
		drops += p.dropped
	}
	if len(got)+int(drops) != 12 || drops == 0 {
		t.Errorf("%d frames and %d drops, want 12 in all", len(got), drops)
	}
	in, _ := r.Interface(0)
	if s := in.Statistics; s.PacketsReceived != 12 || s.PacketsDropped != drops {
		t.Errorf("statistics %+v, want %d drops of 12", s, drops)
	}
}

// gatedFile blocks writers until it is opened.
type gatedFile struct {
	memFile
	mu   sync.Mutex
	shut bool
	open chan struct{}
}

func (g *gatedFile) block() { g.mu.Lock(); g.shut = true; g.mu.Unlock() }

func (g *gatedFile) Write(b []byte) (int, error) {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut {
		<-g.open
	}
	return g.memFile.Write(b)
}

func TestLimit(t *testing.T) {
	var f memFile
	ended := make(chan error, 1)
	const limit = 64 << 10
	c := newCapture(t, Config{File: &f, LimitBytes: limit, Ended: func(err error) { ended <- err }})
	tap := c.Tap()
	vecs, n := frame(header.Vnet{}, string(make([]byte, 5000)))
	for range 100 {
		tap.FrameToGuest(vecs, n)
	}
	if err := <-ended; !errors.Is(err, ErrLimit) {
		t.Errorf("ended with %v", err)
	}
	tap.FrameToGuest(vecs, n)
	if n := c.Missed(); n == 0 {
		t.Error("no frame was missed after the end")
	}
	if err := c.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	got, r := parse(t, f.Bytes())
	if f.Len() > limit || len(got) < 9 {
		t.Errorf("%d bytes with %d frames, limit %d", f.Len(), len(got), limit)
	}
	in, _ := r.Interface(0)
	if s := in.Statistics; s.PacketsReceived != 100 || s.PacketsDropped != 100-uint64(len(got)) {
		t.Errorf("statistics %+v, %d frames in the file", s, len(got))
	}
}

// TestFullDisk: the capture ends and says so once; frames go on.
func TestFullDisk(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	if err := New(Config{File: f, SnapBytes: 100}).Begin(); err == nil {
		t.Error("a capture began on a full disk")
	}
	f.Close()

	full := &fullFile{}
	ended := make(chan error, 2)
	c := newCapture(t, Config{File: full, Ended: func(err error) { ended <- err }})
	full.now()
	tap := c.Tap()
	vecs, n := frame(header.Vnet{}, "a frame")
	for range 10 {
		tap.FrameToGuest(vecs, n)
	}
	if err := <-ended; !errors.Is(err, errFull) {
		t.Errorf("ended with %v", err)
	}
	tap.FrameToGuest(vecs, n)
	if err := c.Close(); !errors.Is(err, errFull) {
		t.Errorf("close: %v", err)
	}
	if len(ended) != 0 {
		t.Error("told twice")
	}
}

var errFull = errors.New("disk full")

type fullFile struct {
	memFile
	mu   sync.Mutex
	full bool
}

func (f *fullFile) now() { f.mu.Lock(); f.full = true; f.mu.Unlock() }

func (f *fullFile) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return 0, errFull
	}
	return f.memFile.Write(b)
}

// TestWrap drives a small tap around many times, with a reader beside it.
func TestWrap(t *testing.T) {
	var f memFile
	c := newCapture(t, Config{File: &f})
	tap := c.tap(1 << 14)
	text := make([]byte, 3000)
	for i := range text {
		text[i] = byte(i)
	}
	const frames = 3000
	for i := range frames {
		vecs, n := frame(header.Vnet{}, string(text[:1+i*7%3000]))
		for tap.head.Load()-tap.tail.Load() > 1<<13 { // so that none is lost
			time.Sleep(10 * time.Microsecond)
		}
		tap.FrameFromGuest(vecs, n)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	got, _ := parse(t, f.Bytes())
	if len(got) != frames {
		t.Fatalf("%d frames, want %d", len(got), frames)
	}
	for i, p := range got {
		if want := string(text[:1+i*7%3000]); p.data != want {
			t.Fatalf("frame %d has %d bytes, want %d", i, len(p.data), len(want))
		}
	}
}

func TestNothingToCapture(t *testing.T) {
	var c *Capture
	tap := c.Tap()
	vecs, n := frame(header.Vnet{}, "x")
	tap.FrameToGuest(vecs, n)
	tap.FrameFromGuest(vecs, n)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestTapAllocatesNothing(t *testing.T) {
	var f memFile
	c := newCapture(t, Config{File: &f, SnapBytes: 64})
	tap := c.Tap()
	c.on.Store(false) // the writer's own allocations are not the worker's
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c.on.Store(true)
	vecs, n := frame(header.Vnet{}, "a frame of some length")
	if got := testing.AllocsPerRun(1000, func() { tap.FrameToGuest(vecs, n) }); got != 0 {
		t.Errorf("%v allocations a frame", got)
	}
}
