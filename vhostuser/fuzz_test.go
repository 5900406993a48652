package vhostuser_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/vhost-net-go/vhost-net-go/vhostuser"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// seeds returns one valid message of each kind, and a whole start.
func seeds() [][]byte {
	region := wire.Region{GuestAddr: 0x1000, Size: 1 << 20, UserAddr: 0x1000}
	addr := &wire.VringAddr{Desc: 0x2000, Avail: 0x3000, Used: 0x4000}
	cases := append([]reqCase{
		{req: wire.GetFeatures},
		{req: wire.GetProtocolFeatures},
		{req: wire.GetQueueNum},
		{req: wire.GetMaxMemSlots},
		{req: wire.GetStatus},
		{req: wire.GetVringBase, payload: state(0, 0)},
		{req: wire.GetConfig, payload: &wire.Config{Size: 6, Data: make([]byte, 6)}},
		{req: wire.SetMemTable, payload: &wire.MemTable{Regions: []wire.Region{region}}, fds: 1},
		{req: wire.AddMemReg, payload: &wire.SingleRegion{Region: region}, fds: 1},
		{req: wire.RemMemReg, payload: &wire.SingleRegion{Region: region}},
		{req: wire.SetVringAddr, payload: addr},
	}, ackCases()...)
	start := []reqCase{
		{req: wire.SetFeatures, payload: u64(wanted)},
		{req: wire.SetMemTable, payload: &wire.MemTable{Regions: []wire.Region{region}}},
		{req: wire.SetVringNum, payload: state(0, 16)},
		{req: wire.SetVringAddr, payload: addr},
		{req: wire.SetVringKick, payload: u64(0)},
		{req: wire.GetVringBase, payload: state(0, 0)},
	}
	var out [][]byte
	for _, c := range cases {
		out = append(out, encode(c, 0x9))
	}
	var all []byte
	for _, c := range start {
		all = append(all, encode(c, 0x1)...)
	}
	return append(out, all)
}

func encode(c reqCase, flags uint32) []byte {
	var payload []byte
	if c.payload != nil {
		payload = wire.Encode(c.payload)
	}
	return append(header(c.req, flags, uint32(len(payload))), payload...)
}

// FuzzMessages sends arbitrary bytes with descriptors beside each of the first
// pieces: fds tells in its bits which are eventfds and which are memory, and
// cut where the bytes are split. After it nothing may be left of the connection.
func FuzzMessages(f *testing.F) {
	for i, s := range seeds() {
		f.Add(s, uint8(i), uint8(12))
		f.Add(s, uint8(0x80|i), uint8(len(s)))
	}
	dev := newEchoDevice(f, 2)
	srv, err := vhostuser.New(vhostuser.Config{Device: dev, Logger: hclog.NewNullLogger()})
	if err != nil {
		f.Fatal(err)
	}
	mem := memfd(f, 1<<20, 0)
	event := eventfds(f, 1)[0]
	f.Fuzz(func(t *testing.T, data []byte, fds, cut uint8) {
		before := measure(t)
		fe, end, err := vutest.Pair(vutest.QEMU)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { // takes the replies
			for {
				m, err := fe.Conn.Receive()
				if err != nil {
					return
				}
				m.Close()
			}
		})
		wg.Go(func() {
			defer fe.Close()
			chosen := slices.Repeat([]int{event}, int(fds&7))
			if fds&0x80 != 0 {
				chosen = append(chosen, mem)
			}
			for rest := data; len(rest) > 0; {
				n := min(len(rest), max(int(cut), 1))
				if fe.Conn.SendRaw(rest[:n], chosen) != nil {
					return
				}
				rest = rest[n:]
			}
		})
		start := time.Now()
		srv.ServeConn(context.Background(), end)
		wg.Wait()
		if d := time.Since(start); d > patience {
			t.Errorf("took %v", d)
		}
		dev.calls()
		checkUsage(t, before)
	})
}
