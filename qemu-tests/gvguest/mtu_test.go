package gvguest_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
)

// sweepMTUs are sizes at which stacks in user space were found to stall or to crawl,
// and ordinary ones. Above all a segment as large as a window.
func sweepMTUs() []int {
	if testing.Short() {
		return []int{1280, 20000, 65520}
	}
	return []int{1280, 1500, 9000, 20000, 48000, 64499, 65519, 65520}
}

const (
	fetchBytes = 100_000
	// firstByteWithin is from the connect of a client to the first byte of the answer.
	firstByteWithin = 20 * time.Millisecond * slowness
	// longestGap is the longest silence in a transfer that both ends want. It is below
	// the shortest retransmission timer, but for what a busy machine adds.
	longestGap = 500 * time.Millisecond * slowness
)

// TestEveryMTU lets the host fetch a file from a forwarded port, and moves more in both
// directions, at each MTU and with receive buffers of the guest that hold one segment
// of the largest, or two. The first byte comes at once, nothing ever pauses, and no
// timer has to help: a guest that waits for a second segment before it acknowledges,
// and a sender that waits for room for a whole one, would wait for each other.
func TestEveryMTU(t *testing.T) {
	for _, mtu := range sweepMTUs() {
		for i, rcvBuf := range []int{87380, 131072} {
			if i > 0 && testing.Short() {
				break
			}
			t.Run(fmt.Sprintf("%d, buffer %d", mtu, rcvBuf), func(t *testing.T) {
				s := linuxSetup
				s.memBytes = 64 << 20
				b := newBench(t, s, func(c *netstack.Config) { c.MTU = mtu })
				b.system = func(c *gvguest.Config) { c.RcvBufBytes = rcvBuf }
				b.boot()
				b.fetch()
				for _, r := range routes() {
					c := b.connector(r)
					b.transfer(c, 2, scaled(1<<20), scaled(1<<20))
					b.transfer(c, scaled(100), 20_000, 20_000)
					c.close()
				}
				if c := b.worker.Snapshot().TCP; c.Timeouts > 0 {
					t.Errorf("%d timeouts where nothing is lost", c.Timeouts)
				}
			})
		}
	}
}

// fetch asks for files on connections one after the other, over every route and in
// both directions. A machine that is busy may be late for one, but not for all.
func (b *bench) fetch() {
	b.Helper()
	for _, r := range routes() {
		c := b.connector(r)
		for _, server := range []string{"guest", "host"} {
			first, longest := time.Hour, time.Hour
			for range 5 {
				g, h, err := c.pair()
				b.must(err)
				from, to := end(guestEnd{g}), end(hostEnd{h})
				if server == "host" {
					from, to = to, from
				}
				f, l, err := fetchOne(from, to)
				b.must(errors.Join(err, g.Close(), h.Close()))
				first, longest = min(first, f), min(longest, l)
			}
			if first > firstByteWithin || longest > longestGap {
				b.Errorf("%v, served by the %s: first byte after %v, longest pause %v", r, server, first, longest)
			}
		}
		c.close()
	}
}

// fetchOne asks and reads the answer. It returns how long that took to come, and the
// longest pause in it.
func fetchOne(server, client end) (first, longest time.Duration, err error) {
	served := make(chan error, 1)
	go func() {
		var ask [1]byte
		_, err := io.ReadFull(server, ask[:])
		served <- errors.Join(err, send(server, 1, fetchBytes))
	}()
	start := time.Now()
	if _, err := client.Write([]byte{1}); err != nil {
		return 0, 0, err
	}
	buf, last := make([]byte, 64<<10), start
	for got := 0; got < fetchBytes; {
		n, err := client.Read(buf)
		if err != nil {
			return 0, 0, fmt.Errorf("after %d bytes: %w", got, err)
		}
		now := time.Now()
		if got == 0 {
			first = now.Sub(start)
		}
		longest = max(longest, now.Sub(last))
		got, last = got+n, now
	}
	return first, longest, <-served
}
