package stage

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// plainEnv tells a process that it is a plain program, and the peer's first
// port.
const plainEnv = "VHOST_NET_GO_PLAIN"

// plainBytes is the size of its reads and writes.
const plainBytes = 256 << 10

// StartPlain starts an ordinary program on VM, one thread for each direction,
// that sends to and receives from a peer as fast as a loop of send or recv can:
// what the machine can do without a guest. send and recv say which it does; what
// it receives is in its counters, what it sends in the peer's.
func (s *Stage) StartPlain(ctx context.Context, peer *Peer, send, recv bool) (*Peer, error) {
	// Both ports in one number: they follow each other.
	first := peer.FirstPort + SinkPort
	mode := 0
	if send {
		mode |= 1
	}
	if recv {
		mode |= 2
	}
	return startSelf(ctx, s.VM, fmt.Sprintf("%s=%d", plainEnv, int(first)<<2|mode), first)
}

// servePlain is the plain program.
func servePlain(portsAndMode uint64) error {
	page, err := mapCounters(3)
	if err != nil {
		return fmt.Errorf("map the counters: %w", err)
	}
	s := &server{page: page}
	sink := uint16(portsAndMode >> 2)
	for _, way := range []struct {
		on   bool
		port uint16
		loop func(fd int, b []byte) error
	}{
		{portsAndMode&1 != 0, sink, sendLoop},
		{portsAndMode&2 != 0, sink + SourcePort - SinkPort, s.recvLoop},
	} {
		if !way.on {
			continue
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, sockaddr(netip.AddrPortFrom(PeerAddr, way.port)))
		}
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		go func() {
			_ = way.loop(fd, make([]byte, plainBytes)) // it ends with the process
		}()
	}
	s.store(ready, 1)
	select {}
}

func sendLoop(fd int, b []byte) error {
	for {
		if _, err := unix.Write(fd, b); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (s *server) recvLoop(fd int, b []byte) error {
	for {
		n, err := unix.Read(fd, b)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		s.add(bytesIn, max(n, 0))
	}
}
