package reassembly

import (
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

func (s *set) waiting() bool { return s.state == open || s.state == poisoned }

func (s *set) start(k key, nowMs int64) {
	s.key, s.state, s.startMs = k, open, nowMs
	s.first, s.endKnown, s.got, s.end = false, false, 0, 0
	clear(s.have[:])
}

// add copies the n bytes of a fragment to their place, off bytes into the
// datagram. It returns false if they overlap what is there, or contradict it
// about the end.
func (s *set) add(f *link.Frame, off, n int) bool {
	p := &f.Packet
	if !p.FragMore {
		if s.endKnown {
			return false
		}
		s.endKnown, s.end = true, off+n
		if s.got > s.end || s.beyond(s.end) {
			return false
		}
	} else if s.endKnown && off+n > s.end {
		return false
	}
	if !s.mark(off/unitBytes, (off+n+unitBytes-1)/unitBytes) {
		return false
	}
	to := s.buf[frontBytes+off : frontBytes+off+n]
	if iov.CopyOut(to, f.Vecs, header.VnetLen+p.L4) != n {
		return false
	}
	s.got += n
	if off == 0 {
		s.first, s.head = true, *p
	}
	return true
}

// mark sets the bits of units from to end-1, and returns false if one was set.
func (s *set) mark(from, end int) bool {
	for u := from; u < end; {
		in := u % 64
		bits := min(64-in, end-u)
		mask := (^uint64(0) >> (64 - bits)) << in
		if s.have[u/64]&mask != 0 {
			return false
		}
		s.have[u/64] |= mask
		u += bits
	}
	return true
}

// beyond reports whether a byte at or after end is here.
func (s *set) beyond(end int) bool {
	u := (end + unitBytes - 1) / unitBytes
	if u/64 < len(s.have) && s.have[u/64]>>(u%64) != 0 {
		return true
	}
	for i := u/64 + 1; i < len(s.have); i++ {
		if s.have[i] != 0 {
			return true
		}
	}
	return false
}

// finish writes plain headers in front of the datagram and parses the result,
// which checks the transport header that no fragment could be asked for.
func (s *set) finish() bool {
	h := header.IP{
		Src: s.head.Src, Dst: s.head.Dst, Proto: s.head.Proto,
		TOS: s.head.TOS, TTL: s.head.TTL, FlowLabel: s.head.FlowLabel, ID: uint16(s.key.id),
	}
	start := frontBytes - h.Len() - header.EthLen
	vnet := s.buf[start-header.VnetLen : frontBytes+s.end]
	clear(vnet[:header.VnetLen])
	frame := vnet[header.VnetLen:]
	header.PutEth(frame, s.head.DstMAC, s.head.SrcMAC, h.EtherType())
	header.PutIP(frame[header.EthLen:], &h, s.end)

	s.vecs[0] = iov.Of(vnet)
	s.frame = link.Frame{Head: frame[:min(len(frame), header.MaxHeaders)], Vecs: s.vecs[:], Bytes: len(frame)}
	why := header.Parse(&s.frame.Packet, s.frame.Head, len(frame))
	s.frame.Packet.Reassembled = true
	return why == header.OK
}
