package synth

import (
	"encoding/binary"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// Where things lie in a slot: vnet header, Ethernet, IPv4, transport.
const (
	ipAt = header.VnetLen + header.EthLen
	l4At = ipAt + 20
	// tcpHeaders and udpHeaders are the bytes of all headers of a frame.
	tcpHeaders = l4At + header.TCPLen
	udpHeaders = l4At + 8
)

const (
	flagFin = 1
	flagSyn = 2
	flagRst = 4
	flagPsh = 8
	flagAck = 16
)

// frameMaker writes headers. What never changes is in the template.
type frameMaker struct {
	template [l4At]byte
	src      uint32
	ipSum    uint32 // of the constant fields of the IP header
	csum     bool   // the device completes checksums
	tso      bool
	mss      int // towards us
}

func (m *frameMaker) init(cfg *Config, features uint64) {
	m.src = word(cfg.Addr)
	m.csum = features&header.FeatureCsum != 0
	m.tso = m.csum && features&header.FeatureHostTSO4 != 0
	m.mss = cfg.MTU - 40
	eth := m.template[header.VnetLen:]
	copy(eth, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	copy(eth[6:], cfg.MAC[:])
	binary.BigEndian.PutUint16(eth[12:], header.EtherTypeIPv4)
	ip := m.template[ipAt:]
	ip[0], ip[6], ip[8] = 0x45, 0x40, 64 // version and length, don't fragment, TTL
	binary.BigEndian.PutUint32(ip[12:], m.src)
	m.ipSum = 0x4500 + 0x4000 + 64<<8 + m.src>>16 + m.src&0xffff
}

func (m *frameMaker) setGateway(mac []byte) { copy(m.template[header.VnetLen:], mac) }

// put writes everything before the transport header and returns the sum of the
// pseudo header. l4 is the length of the transport header and what follows.
func (m *frameMaker) put(b []byte, dst uint32, proto uint8, l4 int) uint32 {
	copy(b, m.template[:])
	ip := b[ipAt:l4At]
	total := uint32(20 + l4)
	ip[9] = proto
	binary.BigEndian.PutUint16(ip[2:], uint16(total))
	binary.BigEndian.PutUint32(ip[16:], dst)
	addrs := dst>>16 + dst&0xffff
	binary.BigEndian.PutUint16(ip[10:], ^fold(m.ipSum+total+uint32(proto)+addrs))
	return m.src>>16 + m.src&0xffff + addrs + uint32(proto) + uint32(l4)
}

// partial tells the device to complete the checksum at offset at of the
// transport header, over the sum of the pseudo header.
func (m *frameMaker) partial(b []byte, at int, pseudo uint32) {
	b[0] = header.VnetNeedsCsum
	binary.LittleEndian.PutUint16(b[6:], header.EthLen+20)
	binary.LittleEndian.PutUint16(b[8:], uint16(at))
	binary.BigEndian.PutUint16(b[l4At+at:], fold(pseudo))
}

// segment is what a TCP frame is made of.
type segment struct {
	dst              uint32
	srcPort, dstPort uint16
	seq, ack         uint32
	flags            uint8
	window           uint16
	mss              int // of the receiver: frames with more data are cut
	options          []byte
	place, n         int // payload, in the pattern
}

// tcp sends a segment. It reports false if the ring is full.
func (g *Guest) sendTCP(s *segment) (bool, error) {
	b := g.tx.slot()
	if b == nil {
		return false, nil
	}
	m := &g.frames
	l4 := header.TCPLen + len(s.options)
	pseudo := m.put(b, s.dst, header.ProtoTCP, l4+s.n)
	t := b[l4At:][:l4]
	binary.BigEndian.PutUint16(t, s.srcPort)
	binary.BigEndian.PutUint16(t[2:], s.dstPort)
	binary.BigEndian.PutUint32(t[4:], s.seq)
	binary.BigEndian.PutUint32(t[8:], s.ack)
	t[12], t[13] = uint8(l4<<2), s.flags
	binary.BigEndian.PutUint16(t[14:], s.window)
	binary.BigEndian.PutUint32(t[16:], 0)
	copy(t[header.TCPLen:], s.options)
	if m.csum {
		m.partial(b, header.TCPCsumOffset, pseudo)
		if s.n > s.mss {
			b[1] = header.GSOTCPv4
			binary.LittleEndian.PutUint16(b[2:], uint16(header.EthLen+20+l4))
			binary.LittleEndian.PutUint16(b[4:], uint16(s.mss))
		}
	} else {
		sum := pseudo + g.payload.sum(s.place, s.n)
		for i := 0; i < l4; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(t[i:]))
		}
		binary.BigEndian.PutUint16(t[header.TCPCsumOffset:], ^fold(sum))
	}
	return true, g.send(l4At+l4, s.place, s.n)
}
