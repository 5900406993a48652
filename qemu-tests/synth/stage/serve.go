package stage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// server is a peer, seen from inside.
type server struct {
	first  uint16
	page   []byte
	totals [numCounters]atomic.Int64
	file   int // what sources send
}

const (
	chunkBytes = 1 << 20 // of a source's write
	echoBytes  = 64 << 10
	backlog    = 65535
)

// add counts, and shows the count to the other process.
func (s *server) add(c counter, n int) { s.store(c, uint64(s.totals[c].Add(int64(n)))) }

func (s *server) store(c counter, v uint64) { binary.NativeEndian.PutUint64(s.page[int(c)*64:], v) }

func (s *server) start() (err error) {
	if s.file, err = unix.MemfdCreate("payload", unix.MFD_CLOEXEC); err != nil {
		return fmt.Errorf("make what is sent: %w", err)
	}
	if _, err := unix.Write(s.file, make([]byte, chunkBytes)); err != nil {
		return fmt.Errorf("make what is sent: %w", err)
	}
	if err := s.startEcho(); err != nil {
		return err
	}
	for role, serve := range map[uint16]func(int){SinkPort: s.sink, SourcePort: s.source} {
		fd, err := s.listen(role, 0)
		if err != nil {
			return err
		}
		go s.acceptEach(fd, serve)
	}
	for role, serve := range map[uint16]func(int){
		DatagramEcho: s.datagramEcho, DatagramSink: s.datagramSink, DatagramSource: s.datagramSource,
	} {
		fd, err := s.bind(unix.SOCK_DGRAM, role)
		if err != nil {
			return err
		}
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20)
		go serve(fd)
	}
	return nil
}

func (s *server) bind(kind int, role uint16) (fd int, err error) {
	at := netip.AddrPortFrom(PeerAddr, s.first+role)
	if fd, err = unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0); err == nil {
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.Bind(fd, sockaddr(at)),
		)
	}
	if err != nil {
		return -1, fmt.Errorf("bind to %v: %w", at, err)
	}
	return fd, nil
}

func (s *server) listen(role uint16, flags int) (fd int, err error) {
	if fd, err = s.bind(unix.SOCK_STREAM|flags, role); err == nil {
		if err = unix.Listen(fd, backlog); err != nil {
			err = fmt.Errorf("listen: %w", err)
		}
	}
	return fd, err
}

// acceptEach serves each connection in a goroutine of its own, which blocks.
func (s *server) acceptEach(listener int, serve func(int)) {
	for {
		fd, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
		if err != nil {
			continue
		}
		s.add(accepted, 1)
		s.add(open, 1)
		go func() {
			serve(fd)
			unix.Close(fd)
			s.add(open, -1)
		}()
	}
}

// sink drops what comes, inside of the kernel (MSG_TRUNC, tcp(7)).
func (s *server) sink(fd int) {
	b := make([]byte, chunkBytes)
	for {
		n, _, err := unix.Recvfrom(fd, b, unix.MSG_TRUNC)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			s.add(failed, 1)
			return
		case n == 0:
			return
		default:
			s.add(bytesIn, n)
		}
	}
}

// source sends until the other side has enough. The pages of its file go out
// without being copied.
func (s *server) source(fd int) {
	for {
		var from int64
		n, err := unix.Sendfile(fd, s.file, &from, chunkBytes)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return // the client is done
		default:
			s.add(bytesOut, n)
		}
	}
}
