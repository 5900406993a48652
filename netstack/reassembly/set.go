package reassembly

import (
	"bytes"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/netstack/link"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/iov"
)

func (s *set) waiting() bool { return s.state == open || s.state == poisoned }

func (s *set) start(k key, nowMs int64) {
	s.key, s.state, s.startMs = k, open, nowMs
	s.first, s.endKnown, s.got, s.end = false, false, 0, 0
	clear(s.have[:])
	clear(s.begins[:])
}

// repeats reports whether a fragment is an exact duplicate of one that is here:
// the same n bytes at the same offset, with the same to say about the end.
func (s *set) repeats(f *link.Frame, off, n int) bool {
	from, end := off/unitBytes, (off+n+unitBytes-1)/unitBytes
	last := s.endKnown && off+n == s.end
	switch {
	case !s.begins.has(from) || f.Packet.FragMore == last:
		return false
	case !last && s.have.has(end) && !s.begins.has(end):
		return false // the one that is here is longer
	case !s.have.all(from, end) || s.begins.any(from+1, end):
		return false // it is shorter
	}
	s.same = iov.AppendRange(s.same[:0], f.Vecs, header.VnetLen+f.Packet.L4, n)
	at := frontBytes + off
	for _, v := range s.same {
		b := v.Bytes()
		if !bytes.Equal(b, s.buf[at:at+len(b)]) {
			return false
		}
		at += len(b)
	}
	return true
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
		if s.got > s.end || s.have.any((s.end+unitBytes-1)/unitBytes, units) {
			return false
		}
	} else if s.endKnown && off+n > s.end {
		return false
	}
	from, end := off/unitBytes, (off+n+unitBytes-1)/unitBytes
	if s.have.any(from, end) {
		return false
	}
	s.have.set(from, end)
	s.begins.set(from, from+1)
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
