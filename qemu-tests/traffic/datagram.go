package traffic

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/pattern"
)

const (
	// echoWait is how long an echo may take before it counts as lost.
	echoWait = time.Second
	// maxDatagram is more than a frame of a link with an MTU of 9000, so that some are fragmented.
	maxDatagram = 12_000
)

// Echo sends numbered datagrams to an echo server until ctx is done, and checks what returns. A datagram may be lost, but not one
// after another for StallLimit, and none may be altered.
func (t *Traffic) Echo(ctx context.Context, conn net.Conn) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 4))
	seed, last := r.Uint64(), time.Now()
	for n := uint64(1); ctx.Err() == nil; n++ {
		b := pattern.Bytes(seed+n, 8+r.IntN(maxDatagram-8))
		if r.IntN(2) == 0 {
			b = b[:min(len(b), 8+r.IntN(1400))]
		}
		binary.BigEndian.PutUint64(b, n)
		err := echo(conn, b)
		switch {
		case err == nil:
			t.Datagrams.Add(1)
			last = time.Now()
		case errors.Is(err, errAltered):
			t.Report(err)
		default:
			t.DatagramsLost.Add(1)
			if time.Since(last) > StallLimit {
				t.Report(fmt.Errorf("no datagram came back for %v: %w", time.Since(last), err))
				last = time.Now()
			}
		}
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
	}
}

var errAltered = errors.New("a datagram was altered")

// echo sends one datagram and waits for it. Late ones that belong to earlier calls are passed over.
func echo(conn net.Conn, b []byte) error {
	if _, err := conn.Write(b); err != nil {
		time.Sleep(100 * time.Millisecond) // the path's MTU was just learned, or nobody listens
		return err
	}
	_ = conn.SetReadDeadline(time.Now().Add(echoWait))
	got := make([]byte, maxDatagram+1)
	for {
		n, err := conn.Read(got)
		if err != nil {
			return err
		}
		if n >= 8 && binary.BigEndian.Uint64(got) < binary.BigEndian.Uint64(b) {
			continue
		}
		if !bytes.Equal(got[:n], b) {
			return fmt.Errorf("%w: %d bytes in place of %d", errAltered, n, len(b))
		}
		return nil
	}
}

// ServeEcho sends datagrams back until c is closed.
func ServeEcho(c net.PacketConn) {
	b := make([]byte, 1<<16)
	for {
		n, from, err := c.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = c.WriteTo(b[:n], from)
		}
	}
}
