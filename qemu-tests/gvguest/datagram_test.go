package gvguest_test

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
)

// TestDatagrams sends datagrams of all sizes to a server that sends them back,
// in fragments where they are larger than the MTU, whatever the ring holds.
func TestDatagrams(t *testing.T) {
	for _, s := range setups() {
		t.Run(s.name, func(t *testing.T) {
			b := newBench(t, s).boot()
			sizes := []int{0, 1, 100, 1452, 1472, 1473, 3000, 9000, 65000}
			for _, f := range families() {
				b.echoDatagrams(f, sizes...)
			}
		})
	}
}

func (b *bench) echoDatagrams(f family, sizes ...int) {
	b.Helper()
	l, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(f.loopback, 0)))
	b.must(err)
	defer l.Close()
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := l.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = l.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
	c, err := b.guest.DialUDP(netip.AddrPortFrom(f.seen, l.LocalAddr().(*net.UDPAddr).AddrPort().Port()))
	b.must(err)
	defer c.Close()
	got := make([]byte, 1<<16)
	for _, n := range sizes {
		want := make([]byte, n)
		_, _ = stream(uint64(n)).Read(want)
		ok := false
		for range 3 { // nobody repeats a datagram
			_, err := c.Write(want)
			b.must(err)
			_ = c.SetReadDeadline(time.Now().Add(patience / 10))
			if k, err := c.Read(got); err == nil && bytes.Equal(got[:k], want) {
				ok = true
				break
			}
		}
		if !ok {
			b.Errorf("%s: datagram of %d bytes did not come back", f.name, n)
		}
	}
}

// TestDatagramImpaired: reassembly takes fragments in any order, and twice.
func TestDatagramImpaired(t *testing.T) {
	b := newBench(t, linuxSetup)
	b.nic.ToGuest = gvguest.Impairment{Reorder: 0.2, Duplicate: 0.1}
	b.nic.FromGuest = gvguest.Impairment{Reorder: 0.2, Duplicate: 0.1}
	b.boot()
	for _, f := range families() {
		for range 20 {
			b.echoDatagrams(f, 9000)
		}
	}
}
