package vhostuser_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/u-root/u-root/pkg/uio"
	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/vhostuser"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

func u64(v uint64) uio.Marshaler {
	w := wire.U64(v)
	return &w
}

func state(i, n uint32) uio.Marshaler { return &wire.VringState{Index: i, Num: n} }

// bytes is a payload of arbitrary bytes.
type rawBytes []byte

func (b rawBytes) Marshal(l *uio.Lexer) { l.WriteBytes(b) }

// reqCase is a request whose answer is an acknowledgement.
type reqCase struct {
	name    string
	req     wire.Request
	payload uio.Marshaler
	fds     int    // eventfds beside it
	fail    bool   // nonzero acknowledgement
	then    string // part of the log line that a failure leaves
}

// ackCases holds good and bad forms of each request that is acknowledged, as
// sent after a complete start of a guest with 2 rings.
func ackCases() []reqCase {
	return []reqCase{
		{name: "features repeated", req: wire.SetFeatures, payload: u64(wanted | wire.FeatureProtocol)},
		{name: "features not offered", req: wire.SetFeatures, payload: u64(1 << 63), fail: true, then: "not offered"},
		{name: "features changed on the run", req: wire.SetFeatures, payload: u64(featureVersion1 | wire.FeatureProtocol), fail: true, then: "is running"},
		{name: "features short", req: wire.SetFeatures, payload: rawBytes(make([]byte, 7)), fail: true, then: "7 bytes long, want 8"},
		{name: "features long", req: wire.SetFeatures, payload: rawBytes(make([]byte, 9)), fail: true},
		{name: "owner", req: wire.SetOwner},
		{name: "owner with payload", req: wire.SetOwner, payload: u64(0), fail: true},
		{name: "reset owner", req: wire.ResetOwner},
		{name: "num zero", req: wire.SetVringNum, payload: state(0, 0), fail: true, then: "size 0"},
		{name: "num odd", req: wire.SetVringNum, payload: state(0, 100), fail: true},
		{name: "num huge", req: wire.SetVringNum, payload: state(0, 65536), fail: true},
		{name: "num max", req: wire.SetVringNum, payload: state(0, 32768)},
		{name: "num index", req: wire.SetVringNum, payload: state(2, 64), fail: true, then: "ring 2"},
		{name: "base", req: wire.SetVringBase, payload: state(0, 65535)},
		{name: "base huge", req: wire.SetVringBase, payload: state(0, 65536), fail: true},
		{name: "base index", req: wire.SetVringBase, payload: state(1<<31, 0), fail: true},
		{name: "addr index", req: wire.SetVringAddr, payload: &wire.VringAddr{Index: 2}, fail: true},
		{name: "addr short", req: wire.SetVringAddr, payload: u64(0), fail: true},
		{name: "enable", req: wire.SetVringEnable, payload: state(0, 1)},
		{name: "enable 2", req: wire.SetVringEnable, payload: state(0, 2), fail: true},
		{name: "enable index", req: wire.SetVringEnable, payload: state(2, 1), fail: true},
		{name: "kick", req: wire.SetVringKick, payload: u64(0), fds: 1},
		{name: "kick poll", req: wire.SetVringKick, payload: u64(0x100)},
		{name: "kick without", req: wire.SetVringKick, payload: u64(0), fail: true, then: "0 file descriptors"},
		{name: "kick both", req: wire.SetVringKick, payload: u64(0x100), fds: 1, fail: true},
		{name: "kick two", req: wire.SetVringKick, payload: u64(0), fds: 2, fail: true, then: "want 0 to 1"},
		{name: "kick index", req: wire.SetVringKick, payload: u64(2), fds: 1, fail: true},
		{name: "kick bits", req: wire.SetVringKick, payload: u64(0x200), fds: 1, fail: true},
		{name: "call", req: wire.SetVringCall, payload: u64(1), fds: 1},
		{name: "call none", req: wire.SetVringCall, payload: u64(0x101)},
		{name: "call index", req: wire.SetVringCall, payload: u64(255), fds: 1, fail: true},
		{name: "err", req: wire.SetVringErr, payload: u64(1), fds: 1},
		{name: "err none", req: wire.SetVringErr, payload: u64(0x101)},
		{name: "protocol features", req: wire.SetProtocolFeatures, payload: u64(wire.ProtocolReplyAck)},
		{name: "protocol features not offered", req: wire.SetProtocolFeatures, payload: u64(wire.ProtocolInband), fail: true},
		{name: "rarp", req: wire.SendRARP, payload: u64(0x0605040302_01)},
		{name: "rarp short", req: wire.SendRARP, payload: rawBytes{1, 2, 3, 4, 5, 6}, fail: true},
		{name: "mtu", req: wire.NetSetMTU, payload: u64(9000)},
		{name: "mtu small", req: wire.NetSetMTU, payload: u64(67), fail: true},
		{name: "mtu large", req: wire.NetSetMTU, payload: u64(65536), fail: true},
		{name: "backend request socket", req: wire.SetBackendReqFD, fds: 1},
		{name: "backend request socket missing", req: wire.SetBackendReqFD, fail: true},
		{name: "config not negotiated", req: wire.SetConfig, payload: &wire.Config{Size: 1, Data: []byte{1}}, fail: true, then: "not negotiated"},
		{name: "reset device", req: wire.ResetDevice},
		{name: "status", req: wire.SetStatus, payload: u64(0xf)},
		{name: "status 0", req: wire.SetStatus, payload: u64(0)},
		{name: "status wide", req: wire.SetStatus, payload: u64(0x100), fail: true},
		{name: "in-band kick", req: wire.VringKick, payload: state(0, 0), fail: true, then: "refused"},
		{name: "endian", req: wire.SetVringEndian, payload: state(0, 0), fail: true},
		{name: "mem table short", req: wire.SetMemTable, payload: &wire.MemTable{}, fail: true},
		{name: "mem table without files", req: wire.SetMemTable, payload: &wire.MemTable{Regions: make([]wire.Region, 1)}, fail: true},
		{name: "mem table of eventfds", req: wire.SetMemTable, payload: &wire.MemTable{Regions: []wire.Region{{Size: 4096}}}, fds: 1, fail: true, then: "regular file"},
		{name: "mem table fewer files", req: wire.SetMemTable, payload: &wire.MemTable{Regions: make([]wire.Region, 2)}, fds: 1, fail: true},
		{name: "mem region without file", req: wire.AddMemReg, payload: &wire.SingleRegion{}, fail: true},
		{name: "mem region unknown", req: wire.RemMemReg, payload: &wire.SingleRegion{}, fail: true, then: "no such region"},
		{name: "mem region unknown with file", req: wire.RemMemReg, payload: &wire.SingleRegion{}, fds: 1, fail: true, then: "no such region"},
		{name: "log base", req: wire.SetLogBase, payload: rawBytes(make([]byte, 16)), fds: 1, fail: true, then: "size is zero"},
		{name: "log base of an eventfd", req: wire.SetLogBase, payload: &wire.Log{Size: 4096}, fds: 1, fail: true, then: "regular file"},
		{name: "log base overflow", req: wire.SetLogBase, payload: &wire.Log{Size: 4096, Offset: ^uint64(0) - 99}, fds: 1, fail: true, then: "overflow"},
		{name: "log base without file", req: wire.SetLogBase, payload: &wire.Log{Size: 4096}, fail: true},
		{name: "log base as a word", req: wire.SetLogBase, payload: u64(0), fds: 1, fail: true},
		{name: "log fd", req: wire.SetLogFD, fds: 1},
		{name: "log fd with a word", req: wire.SetLogFD, payload: u64(0), fds: 1},
		{name: "log fd without file", req: wire.SetLogFD, fail: true},
		{name: "iotlb", req: wire.IOTLBMsg, payload: rawBytes(make([]byte, 32)), fail: true},
		{name: "postcopy", req: wire.PostcopyListen, fail: true},
		{name: "inflight", req: wire.SetInflightFD, payload: rawBytes(make([]byte, 24)), fds: 1, fail: true},
		{name: "device state", req: wire.CheckDeviceState, fail: true},
		{name: "unknown", req: 99, fail: true, then: "request 99"},
		{name: "unknown huge", req: 1 << 31, payload: rawBytes(make([]byte, 4096)), fds: 8, fail: true},
		{name: "zero", req: 0, fail: true},
	}
}

// TestRequests sends each case with NEED_REPLY, which is answered and leaves
// the connection in use, and without, which ends the connection at a failure.
func TestRequests(t *testing.T) {
	for _, tc := range ackCases() {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, vutest.QEMU).up()
			fds := eventfds(t, tc.fds)
			b.log.lines()
			err := b.fe.DoAck(tc.req, tc.payload, fds...)
			if ack, failed := errors.AsType[*vutest.AckError](err); failed != tc.fail || err != nil && ack == nil {
				t.Fatalf("acknowledgement: %v, want failure: %v", err, tc.fail)
			}
			if lines := strings.Join(b.log.lines(), ""); tc.fail && !strings.Contains(lines, tc.then) {
				t.Errorf("log says %q, want %q in it", lines, tc.then)
			}
			if _, err := b.fe.GetU64(wire.GetFeatures); err != nil {
				t.Fatalf("connection is of no use afterwards: %v", err)
			}
			b.disconnect()

			b.connect(vutest.QEMU)
			b.up()
			b.must(b.fe.Send(tc.req, 0, tc.payload, fds...))
			_, err = b.fe.GetU64(wire.GetFeatures)
			ignored := tc.req == wire.VringKick || tc.req == wire.SetVringEndian
			if ended := err != nil; ended != (tc.fail && !ignored) {
				t.Errorf("without NEED_REPLY: %v, want the end: %v", err, tc.fail)
			}
		})
	}
}

func eventfds(t testing.TB, n int) (fds []int) {
	t.Helper()
	for range n {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		fds = append(fds, fd)
	}
	return fds
}

// TestAnswers checks the requests that have an answer of their own.
func TestAnswers(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	b.must(b.fe.Connect())
	const proto = 0x1a03f // bits 0, 1, 2, 3, 4, 5, 13, 15 and 16: no CONFIG for QEMU
	for _, tc := range []struct {
		req  wire.Request
		want uint64
	}{
		{wire.GetFeatures, b.dev.features | wire.FeatureProtocol | wire.FeatureLogAll},
		{wire.GetProtocolFeatures, proto},
		{wire.GetQueueNum, 1}, // pairs
		{wire.GetMaxMemSlots, 509},
		{wire.GetStatus, 0},
	} {
		if got, err := b.fe.GetU64(tc.req); err != nil || got != tc.want {
			t.Errorf("%v: got %#x, %v, want %#x", tc.req, got, err, tc.want)
		}
	}
	b.must(b.fe.Do(wire.SetStatus, u64(0xb)))
	if got, err := b.fe.GetU64(wire.GetStatus); err != nil || got != 0xb {
		t.Errorf("status: got %#x, %v", got, err)
	}
	b.must(b.fe.Do(wire.NetSetMTU, u64(1400)))
	b.must(b.fe.Do(wire.SendRARP, rawBytes{2, 3, 4, 5, 6, 7, 0, 0}))
	b.dev.with(func() {
		if want := [6]byte{2, 3, 4, 5, 6, 7}; b.dev.mtu != 1400 || b.dev.rarp != want {
			t.Errorf("device got MTU %d and MAC %x", b.dev.mtu, b.dev.rarp)
		}
	})
}

// TestNeedReplyOnAnswers: a request with an answer of its own gets just that.
func TestNeedReplyOnAnswers(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	b.must(b.fe.Send(wire.GetFeatures, wire.FlagNeedReply, nil))
	for range 2 {
		m, err := b.fe.Conn.Receive()
		b.must(err)
		if m.Flags != 0x5 || len(m.Payload) != 8 {
			t.Fatalf("answer %+v", m)
		}
		b.must(b.fe.Send(wire.GetProtocolFeatures, 0, nil))
	}
}

// TestOwnFirst: frontends other than QEMU see the configuration space, and the
// number of virtqueues instead of pairs.
func TestOwnFirst(t *testing.T) {
	b := newBench(t, vutest.UML)
	b.dev.with(func() { b.dev.config = []byte{1, 2, 3, 4, 5, 6, 1, 0} })
	b.must(b.fe.Connect())
	if b.fe.OfferedProtocol&wire.ProtocolConfig == 0 || b.fe.QueueNum != 2 {
		t.Errorf("protocol features %#x, %d queues", b.fe.OfferedProtocol, b.fe.QueueNum)
	}
	for _, tc := range []struct {
		offset, size uint32
		want         []byte // nil: failure
	}{
		{0, 6, []byte{1, 2, 3, 4, 5, 6}},
		{6, 4, []byte{1, 0, 0, 0}},
		{0, 256, append([]byte{1, 2, 3, 4, 5, 6, 1, 0}, make([]byte, 248)...)},
		{1, 256, nil},
		{1 << 31, 1 << 31, nil},
	} {
		b.must(b.fe.Send(wire.GetConfig, 0, &wire.Config{Offset: tc.offset, Size: tc.size, Data: make([]byte, min(tc.size, 256))}))
		m, err := b.fe.Conn.Receive()
		b.must(err)
		if tc.want == nil {
			if len(m.Payload) != 0 {
				t.Errorf("config %d+%d: %d bytes, want failure", tc.offset, tc.size, len(m.Payload))
			}
			continue
		}
		var got wire.Config
		b.must(wire.Decode(m.Payload, &got))
		if diff := cmp.Diff(wire.Config{Offset: tc.offset, Size: tc.size, Data: tc.want}, got); diff != "" {
			t.Errorf("config %d+%d: %s", tc.offset, tc.size, diff)
		}
	}
}

// TestProtocolFeaturesStay: QEMU negotiates once more for each queue pair, after
// it has become the owner, and must see the same.
func TestProtocolFeaturesStay(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	b.must(b.fe.Connect())
	got, err := b.fe.GetU64(wire.GetProtocolFeatures)
	if err != nil || got != b.fe.OfferedProtocol {
		t.Errorf("second time: %#x, %v, first time %#x", got, err, b.fe.OfferedProtocol)
	}
}

// TestDeviceRefuses: what the device does not want fails.
func TestDeviceRefuses(t *testing.T) {
	b := newBench(t, vutest.QEMU)
	b.must(b.fe.Connect())
	b.dev.with(func() { b.dev.refuse = errors.New("no") })
	for req, payload := range map[wire.Request]uio.Marshaler{
		wire.SetFeatures: u64(wanted), wire.NetSetMTU: u64(1500),
	} {
		if err := b.fe.Do(req, payload); err == nil {
			t.Errorf("%v succeeded", req)
		}
	}
}

// TestFrontendServed: features that need a control queue are shown to QEMU, which
// serves it, and not to UML, whose driver would give up.
func TestFrontendServed(t *testing.T) {
	const featureMQ = 1 << 22
	for style, want := range map[vutest.Style]uint64{vutest.QEMU: featureMQ, vutest.UML: 0, vutest.DPDK: 0} {
		b := newBench(t, style, func(c *vhostuser.Config) {
			c.Device.(*echoDevice).features |= featureMQ
			c.FrontendServed = featureMQ
		})
		b.must(b.fe.Connect())
		if got, err := b.fe.GetU64(wire.GetFeatures); err != nil || got&featureMQ != want {
			t.Errorf("%v: features %#x, %v", style, got, err)
		}
	}
}
