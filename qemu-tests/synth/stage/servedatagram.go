package stage

import "golang.org/x/sys/unix"

// maxDatagram is the most that a UDP datagram carries (RFC 768, over IPv4).
const maxDatagram = 65507

func (s *server) datagramEcho(fd int) {
	b := make([]byte, maxDatagram)
	for {
		n, from, err := unix.Recvfrom(fd, b, 0)
		if err != nil {
			continue
		}
		s.add(datagramsIn, 1)
		if unix.Sendto(fd, b[:n], 0, from) == nil {
			s.add(datagramsOut, 1)
		}
	}
}

func (s *server) datagramSink(fd int) {
	b := make([]byte, 1)
	for {
		n, _, err := unix.Recvfrom(fd, b, unix.MSG_TRUNC)
		if err == nil {
			s.add(datagramsIn, 1)
			s.add(bytesIn, n)
		}
	}
}

// datagramSource sends to the last one who asked, as fast as it can.
func (s *server) datagramSource(fd int) {
	b := make([]byte, maxDatagram)
	size, to := 0, unix.Sockaddr(nil)
	for {
		flags := unix.MSG_DONTWAIT
		if size == 0 {
			flags = 0
		}
		// Asked now and then only, so that it costs little.
		for range 64 {
			if size > 0 && unix.Sendto(fd, b[:size], 0, to) == nil {
				s.add(datagramsOut, 1)
			}
		}
		if n, from, err := unix.Recvfrom(fd, b, flags); err == nil {
			size, to = n, from
		}
	}
}
