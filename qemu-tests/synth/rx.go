package synth

import (
	"encoding/binary"
	"fmt"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// rxTurn bounds the buffers taken in one turn, so that answers go out in
// between; refillAt is how many empty buffers are worth a new index.
const (
	rxTurn   = 256
	refillAt = 32
)

// rxRing is the receive ring. Each of its buffers is one descriptor.
type rxRing struct {
	q    *vutest.Queue
	addr uint64 // of buffer 0
	mem  []byte // of all
	size int    // of one
	buf  []uint16
	free int // buffers added and not published
	one  [1]virtqtest.Buffer

	// The frame being put together.
	head  []byte // its first buffer
	first uint16 // the number of that
	left  int    // buffers still to come
	bytes int
}

func (r *rxRing) init(g *Guest, q *vutest.Queue) (err error) {
	r.q, r.size = q, g.cfg.RxBufBytes
	n := uint64(g.cfg.RingSize) * uint64(r.size)
	if r.addr, err = g.mem.Alloc(n, 4096); err != nil {
		return err
	}
	r.mem = g.mem.Bytes(r.addr, n)
	r.buf = make([]uint16, g.cfg.RingSize)
	return nil
}

// fill gives the device all buffers.
func (r *rxRing) fill() error {
	for i := range r.buf {
		if err := r.add(uint16(i)); err != nil {
			return err
		}
	}
	r.q.DisableCalls()
	r.free = 0
	return r.q.Kick()
}

// add gives buffer b to the device, at the next publishing.
func (r *rxRing) add(b uint16) error {
	r.one[0] = virtqtest.Buffer{Addr: r.addr + uint64(b)*uint64(r.size), Len: uint32(r.size)}
	head, err := r.q.Add(nil, r.one[:])
	if err != nil {
		return fmt.Errorf("add a receive buffer: %w", err)
	}
	r.buf[head] = b
	r.free++
	return nil
}

// receive handles the frames that have arrived, up to a turn's share.
func (g *Guest) receive() (n int, err error) {
	r := &g.rx
	for n < rxTurn {
		u, ok, err := r.q.Reap()
		if err != nil {
			return n, err
		}
		if !ok {
			break
		}
		n++
		if err := g.buffer(r.buf[u.Head], int(u.Len)); err != nil {
			return n, err
		}
	}
	if r.free >= refillAt {
		r.free = 0
		if err := g.kick(r.q); err != nil {
			return n, err
		}
	}
	return n, nil
}

// buffer takes one received buffer: a frame, or a part of one.
func (g *Guest) buffer(b uint16, n int) error {
	r := &g.rx
	if r.left == 0 {
		r.head = r.mem[int(b)*r.size:][:n]
		if n < header.VnetLen+header.EthLen {
			return fmt.Errorf("received %d bytes, too few for a frame", n)
		}
		r.first, r.bytes = b, 0
		r.left = int(binary.LittleEndian.Uint16(r.head[10:]))
		if r.left == 0 || r.left > len(r.buf) {
			return fmt.Errorf("received a frame of %d buffers", r.left)
		}
	}
	r.bytes += n
	r.left--
	if r.left == 0 {
		g.Counters.FramesReceived++
		g.frame(r.head, r.bytes)
		if err := r.add(r.first); err != nil {
			return err
		}
	}
	if b != r.first {
		return r.add(b)
	}
	return nil
}

// frame handles a frame of total bytes, of which b is the first buffer.
func (g *Guest) frame(b []byte, total int) {
	eth := b[header.VnetLen:]
	switch binary.BigEndian.Uint16(eth[12:]) {
	case header.EtherTypeARP:
		g.arp(eth[header.EthLen:])
	case header.EtherTypeIPv4:
		g.ipv4(eth[header.EthLen:], total-header.VnetLen-header.EthLen)
	default:
		g.Counters.Ignored++
	}
}

// ipv4 handles a packet; its headers are in b, available is how much of it the
// frame can hold.
func (g *Guest) ipv4(b []byte, available int) {
	if len(b) < 20 || b[0]>>4 != 4 || binary.BigEndian.Uint32(b[16:]) != g.frames.src {
		g.Counters.Ignored++
		return
	}
	ihl := int(b[0]&15) * 4
	total := int(binary.BigEndian.Uint16(b[2:]))
	if total == 0 {
		total = available // longer than the field can say
	}
	if ihl < 20 || total > available || len(b) < ihl+8 {
		g.Counters.Ignored++
		return
	}
	src := binary.BigEndian.Uint32(b[12:])
	switch l4 := b[ihl:]; {
	case b[9] == header.ProtoTCP && len(l4) >= 20:
		g.tcp(src, l4, total-ihl)
	case b[9] == header.ProtoUDP:
		g.udp(src, l4, total-ihl)
	case b[9] == header.ProtoICMP:
		g.Counters.ICMP++
	default:
		g.Counters.Ignored++
	}
}
