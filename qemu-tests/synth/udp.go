package synth

import (
	"encoding/binary"
	"net/netip"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// SendDatagram sends n bytes of UDP payload, at most the MTU less 28, from
// localPort. It reports false if the ring is full. The datagram goes out with
// the next Poll.
func (g *Guest) SendDatagram(to netip.AddrPort, localPort uint16, n int) (bool, error) {
	b := g.tx.slot()
	if b == nil {
		return false, nil
	}
	m := &g.frames
	pseudo := m.put(b, word(to.Addr()), header.ProtoUDP, 8+n)
	u := b[l4At:][:8]
	binary.BigEndian.PutUint16(u, localPort)
	binary.BigEndian.PutUint16(u[2:], to.Port())
	binary.BigEndian.PutUint16(u[4:], uint16(8+n))
	binary.BigEndian.PutUint16(u[6:], 0)
	if m.csum {
		m.partial(b, header.UDPCsumOffset, pseudo)
	} else {
		sum := pseudo + g.payload.sum(0, n) + uint32(localPort) + uint32(to.Port()) + uint32(8+n)
		v := ^fold(sum)
		if v == 0 {
			v = 0xffff // 0 means that there is none (RFC 768)
		}
		binary.BigEndian.PutUint16(u[6:], v)
	}
	return true, g.send(udpHeaders, 0, n)
}

// udp takes a datagram; available is how much of it the packet can hold.
func (g *Guest) udp(src uint32, u []byte, available int) {
	n := int(binary.BigEndian.Uint16(u[4:]))
	if n < 8 || n > available {
		g.Counters.Ignored++
		return
	}
	g.Counters.Datagrams++
	g.Counters.DatagramBytes += uint64(n - 8)
	if g.cfg.Datagrams != nil {
		from := netip.AddrPortFrom(fromWord(src), binary.BigEndian.Uint16(u))
		g.cfg.Datagrams.Datagram(from, binary.BigEndian.Uint16(u[2:]), n-8)
	}
}
