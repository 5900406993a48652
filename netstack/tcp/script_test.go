package tcp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// A script tells what guest and host do and what the guest has to receive, a
// line each. Sequence numbers are relative: SYN is 0, the first byte 1. Windows
// are in bytes. Flows are numbered: "guest:2", "host:2"; 1 need not be said.
//
//	guest > S 0 win 65535 mss 1460 wscale 7    a segment of the guest
//	guest > . 1:1001 ack 1 more                with data; "more": the next one is of the same batch
//	backend < S. 0 ack 1 mss 1460              the next frame has to be this; what is not said may be anything,
//	                                           but there are no options and no data that are not said
//	backend < data 1:5001                      one or more frames of data without a gap
//	backend < icmp host                        a message of this kind
//	backend silent                             no frame comes
//	backend anything                           forget the frames that came
//	guest opens mss 1460 wscale 7 win 65535    handshake of a connection to the host, which accepts it
//	guest takes 5000                           the next bytes come, and are acknowledged as they come
//	host accepts                               a connection of the guest
//	host connects                              to the port that is forwarded to the guest
//	host writes 5000 | reads 5000 | ends | closes | aborts
//	host reads end | reset                     end of file, or ECONNRESET
//	host stops listening
//	+200ms                                     the clock moves
//	guest's ring is empty | is full | gets 1 | is gone | is new
//	guest appears                              its address becomes known
//	flows 0                                    how many there are, without those in TIME-WAIT
//
// Frames that no line has asked for are an error at the next step.
type script struct {
	*world
	line   int
	got    []segment
	guests map[int]*guestEnd
	hosts  map[int]*hostEnd
}

// guestEnd is the guest's end of a flow.
type guestEnd struct {
	port, peerPort uint16
	inbound        bool
	isn            uint32 // of the guest
	backISN        uint32
	backKnown      bool
	shift          int    // of the windows that the guest sends
	sent           uint32 // sequence number of the guest's next byte
	taken          uint32 // of the next byte that it wants; 0 before the first one
	backShift      int
	told           uint32 // right edge of the window that the guest was told
	toldKnown      bool
	// peer is where the guest sends, if that is not the gateway.
	peer netip.Addr
	// synAck is the last frame, if that was SYN-ACK: its own and the guest's number.
	synAck struct {
		isn, ack uint32
		is       bool
	}
}

const (
	guestPorts  = 40000 // plus the number of the flow
	forwardedTo = 8080
	// guestISN is near the end of sequence space, so that all that follows is
	// in the wrap-around.
	guestISN = 0xffffff00
)

func newScript(t testing.TB, s setup) *script {
	t.Helper()
	return &script{world: newWorld(t, s), guests: map[int]*guestEnd{}, hosts: map[int]*hostEnd{}}
}

// key is the name of flow n.
func (x *script) key(n int) flowtable.Key {
	g := x.guest(n)
	k := flowtable.Key{LocalPort: g.port, RemotePort: g.peerPort, Proto: header.ProtoTCP}
	k.Local, k.Remote = header.AddrFromNetip(guest4), header.AddrFromNetip(gateway4)
	if x.v6 {
		k.Local, k.Remote = header.AddrFromNetip(guest6), header.AddrFromNetip(gateway6)
	}
	if g.peer.IsValid() {
		k.Remote = header.AddrFromNetip(g.peer)
	}
	return k
}

// runScript runs a script in a world of its own.
func runScript(t *testing.T, s setup, text string) {
	t.Helper()
	x := newScript(t, s)
	if strings.Contains(text, "connects") {
		x.openForward(forwardedTo)
	}
	for i, line := range strings.Split(text, "\n") {
		x.line = i
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			x.step(line)
		}
	}
	x.noFrames()
	for _, p := range x.hosts {
		p.conn.Close()
	}
	x.close()
}

func (x *script) fail(format string, args ...any) {
	x.Helper()
	x.Fatalf("line %d: %s", x.line, fmt.Sprintf(format, args...))
}

// step executes a line.
func (x *script) step(line string) {
	x.Helper()
	words := strings.Fields(line)
	who, number, _ := strings.Cut(words[0], ":")
	n := 1
	if number != "" {
		n = x.number(number)
	}
	rest := words[1:]
	switch {
	case who == "guest" && rest[0] == ">":
		x.guestSends(n, rest[1:])
	case who == "guest" && rest[0] == "opens":
		x.guestOpens(n, rest[1:])
	case who == "guest" && rest[0] == "takes":
		x.guestTakes(n, x.number(rest[1]))
	case line == "guest appears":
		x.link.GuestMAC = guestMAC
		x.h.GuestAppeared()
		x.settle()
	case who == "guest's":
		x.guestRing(rest[len(rest)-1])
	case who == "backend":
		x.backend(n, rest)
	case who == "host":
		x.host(n, rest)
	case who[0] == '+':
		x.noFrames()
		d, err := time.ParseDuration(who[1:])
		if err != nil {
			x.fail("%v", err)
		}
		x.pass(d)
		x.collect()
	case who == "flows":
		x.settle()
		x.collect()
		if got := x.liveFlows(); got != x.number(rest[0]) {
			x.fail("%d flows, want %s", got, rest[0])
		}
	default:
		x.fail("what is %q?", line)
	}
}

func (x *script) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		x.fail("%v", err)
	}
	return n
}

// liveFlows counts the flows that are not in TIME-WAIT.
func (x *script) liveFlows() (n int) {
	for _, c := range x.h.flows.chunks {
		for j := range c {
			if s := c[j].state; s != free && s != timeWait {
				n++
			}
		}
	}
	return n
}

func (x *script) guestRing(word string) {
	switch word {
	case "empty":
		x.ring.empty()
	case "full":
		x.ring.full()
	case "gone": // as when the guest is off
		x.ring.empty()
		x.q.Detach()
		x.q.SetEnabled(false)
	case "new":
		x.ring = newGuestRing(x, x.q, !x.notMergeable, x.buffers*x.bufferBytes)
		x.ring.give(x.buffers, x.bufferBytes)
		x.h.Refilled()
		x.h.GuestAppeared()
	default:
		x.ring.some(x.number(word))
	}
	x.settle()
	x.collect()
}

// noFrames fails if frames have come that nobody expected.
func (x *script) noFrames() {
	x.Helper()
	x.collect()
	if len(x.got) > 0 {
		x.fail("unexpected: %v", x.got)
	}
}

func (x *script) guest(n int) *guestEnd {
	g := x.guests[n]
	if g == nil {
		g = &guestEnd{
			port: guestPorts + uint16(n), peerPort: portOf(x.listener.Addr()),
			isn: guestISN + uint32(n),
		}
		x.guests[n] = g
	}
	return g
}

// backend handles what is said of frames to the guest.
func (x *script) backend(n int, words []string) {
	x.Helper()
	switch {
	case words[0] == "silent":
		x.turn(3 * time.Millisecond)
		x.settle()
		x.noFrames()
		return
	case words[0] == "anything":
		x.turn(3 * time.Millisecond)
		x.settle()
		x.collect()
		x.got = nil
		return
	case words[0] != "<":
		x.fail("backend %v?", words)
	case words[1] == "data":
		x.data(n, words[2])
		return
	}
	got, ok := x.next(2 * time.Second)
	if !ok {
		x.fail("nothing came, want %v", words[1:])
	}
	if words[1] == "icmp" {
		if got.icmp != words[2] || got.flow != n {
			x.fail("flow %d: %v, want %v", got.flow, got, words[1:])
		}
		return
	}
	want, given, err := parseSegment(words[1:])
	if err != nil {
		x.fail("%v", err)
	}
	if why := got.differs(want, given); why != "" || got.flow != n {
		x.fail("flow %d: %v\nwant flow %d: %v (%s)", got.flow, got, n, strings.Join(words[1:], " "), why)
	}
}

// data takes frames of data off, as long as they follow each other.
func (x *script) data(n int, word string) {
	x.Helper()
	from, to, _ := strings.Cut(word, ":")
	at, end := uint32(x.number(from)), uint32(x.number(to))
	for at != end {
		got, ok := x.next(2 * time.Second)
		if !ok {
			x.fail("nothing came, want data from %d to %d", at, end)
		}
		if got.flow != n || got.seq != at || got.end == got.seq || before(end, got.end) {
			x.fail("flow %d: %v, want data of flow %d from %d to %d", got.flow, got, n, at, end)
		}
		at = got.end
	}
}

// guestTakes takes n bytes of data, acknowledging each burst.
func (x *script) guestTakes(n, bytes int) {
	x.Helper()
	g := x.guest(n)
	g.taken = max(g.taken, 1)
	for end := g.taken + uint32(bytes); g.taken != end; {
		got, ok := x.next(2 * time.Second)
		if !ok {
			x.fail("nothing came, want data from %d to %d", g.taken, end)
		}
		if got.flow != n || got.seq != g.taken || before(end, got.end) {
			x.fail("flow %d: %v, want data of flow %d from %d to %d", got.flow, got, n, g.taken, end)
		}
		if g.taken = got.end; len(x.got) == 0 {
			x.step(fmt.Sprintf("guest:%d > . %d ack %d", n, g.sent, g.taken))
		}
	}
}

// next waits for the next frame.
func (x *script) next(wait time.Duration) (segment, bool) {
	deadline := time.Now().Add(wait)
	x.collect()
	for len(x.got) == 0 {
		if time.Now().After(deadline) {
			return segment{}, false
		}
		x.turn(time.Millisecond)
		x.settle()
		x.collect()
	}
	s := x.got[0]
	x.got = x.got[1:]
	return s, true
}

// guestOpens makes the handshake of flow n, with the host's end accepted.
func (x *script) guestOpens(n int, options []string) {
	x.Helper()
	win := "win 65535"
	opt := strings.Join(options, " ")
	if strings.Contains(opt, "win") {
		win = ""
	}
	x.step(fmt.Sprintf("guest:%d > S 0 %s %s", n, win, opt))
	s, ok := x.next(2 * time.Second)
	if !ok || s.flags != "S." {
		x.fail("no SYN-ACK: %v", s)
	}
	g := x.guest(n)
	scaled := (65535 >> g.shift) << g.shift
	if i := strings.Index(opt, "win "); i >= 0 {
		scaled = x.number(strings.Fields(opt[i:])[1])
	}
	x.step(fmt.Sprintf("guest:%d > . 1 ack 1 win %d", n, scaled))
	x.host(n, []string{"accepts"})
	x.noFrames()
}

// guestSends makes a segment of the guest and hands it to the handler.
func (x *script) guestSends(n int, words []string) {
	x.Helper()
	x.noFrames()
	s, given, err := parseSegment(words)
	if err != nil {
		x.fail("%v", err)
	}
	g := x.guest(n)
	if strings.Contains(s.flags, "S") {
		g.shift = max(s.wscale, 0)
	}
	g.sent = max(g.sent, s.end)
	if strings.ContainsAny(s.flags, "SF") {
		g.sent = max(g.sent, s.end+1)
	}
	x.fromGuest(x.frame(g, n, s))
	if !given["more"] {
		x.h.EndBatch()
		x.settle()
		x.collect()
	}
}

// frame builds the frame of segment s of flow n.
func (x *script) frame(g *guestEnd, n int, s segment) []byte {
	k := x.key(n)
	ip := header.IP{Src: k.Local, Dst: k.Remote, Proto: header.ProtoTCP, TTL: 64}
	var opts []byte
	if s.mss >= 0 {
		opts = append(opts, 2, 4, byte(s.mss>>8), byte(s.mss))
	}
	if s.wscale >= 0 {
		opts = append(opts, 1, 3, 3, byte(s.wscale))
	}
	if s.sackOK {
		opts = append(opts, 1, 1, 4, 2)
	}
	if len(s.sack) > 0 {
		opts = append(opts, 1, 1, 5, byte(2+8*len(s.sack)))
		for _, r := range s.sack {
			opts = binary.BigEndian.AppendUint32(opts, g.backISN+r[0])
			opts = binary.BigEndian.AppendUint32(opts, g.backISN+r[1])
		}
	}
	opts = append(opts, s.opts...)
	if s.win < 0 {
		s.win = 65535
	}
	win := s.win >> g.shift
	if strings.Contains(s.flags, "S") {
		win = s.win
	}
	dataBytes := int(s.end - s.seq)
	b := make([]byte, 128+dataBytes)
	at := header.PutEth(b, ourMAC, guestMAC, ip.EtherType())
	at += header.PutIP(b[at:], &ip, header.TCPLen+len(opts)+dataBytes)
	t := header.TCPFields{
		SrcPort: g.port, DstPort: g.peerPort, Seq: g.isn + s.seq, Ack: g.backISN + s.ack,
		Flags: flagsOf(s.flags), Window: uint16(min(win, 0xffff)),
	}
	l4 := at
	at += header.PutTCP(b[at:], &t, len(opts))
	at += copy(b[at:], opts)
	for i := range dataBytes {
		b[at+i] = pattern(n, 'g', s.seq+uint32(i))
	}
	b = b[:at+dataBytes]
	header.SetChecksum(b[l4:], &ip.Src, &ip.Dst, header.ProtoTCP)
	return b
}

// pattern is the byte at a sequence number of a stream.
func pattern(flow int, from byte, seq uint32) byte {
	return byte(seq) ^ byte(seq>>8) ^ byte(seq>>16) ^ byte(flow*31) ^ from
}

// collect takes the frames that have reached the guest and checks what holds
// of each of them.
func (x *script) collect() {
	x.Helper()
	x.ring.receive(func(v header.Vnet, frame []byte) {
		x.got = append(x.got, x.received(v, frame))
	})
}

func (x *script) received(v header.Vnet, frame []byte) segment {
	x.Helper()
	var p header.Packet
	if why := header.Parse(&p, frame[:min(len(frame), header.MaxHeaders)], len(frame)); why != header.OK {
		x.fail("frame to the guest: %v", why)
	}
	s := segment{win: -1, mss: -1, wscale: -1, partial: v.Flags&header.VnetNeedsCsum != 0}
	if s.partial {
		if !x.link.Has(header.FeatureGuestCsum) || !header.Complete(frame, int(v.CsumStart), int(v.CsumOffset)) {
			x.fail("checksum is left to a guest that does not make it: %+v", v)
		}
	}
	if !header.ChecksumOK(frame[p.L4:p.End], &p.Src, &p.Dst, p.Proto) {
		x.fail("bad checksum")
	}
	if p.DstMAC != x.link.GuestMAC || p.SrcMAC != ourMAC {
		x.fail("frame from %v to %v", p.SrcMAC, p.DstMAC)
	}
	if p.Proto != header.ProtoTCP {
		x.aboutFlow(&s, &p, frame)
		return s
	}
	x.tcpReceived(&s, &p, v, frame)
	return s
}

// aboutFlow reads an ICMP message.
func (x *script) aboutFlow(s *segment, p *header.Packet, frame []byte) {
	x.Helper()
	icmp := frame[p.L4:]
	s.icmp = fmt.Sprintf("type %d code %d", icmp[0], icmp[1])
	kinds := map[[2]byte]string{{3, 0}: "net", {3, 1}: "host", {3, 13}: "prohibited"}
	quoted := frame[p.L4+header.ICMPLen:]
	ipBytes := header.IPv4Len
	if p.V6 {
		kinds = map[[2]byte]string{{1, 0}: "net", {1, 3}: "host", {1, 1}: "prohibited"}
		ipBytes = header.IPv6Len
	}
	if k := kinds[[2]byte(icmp[:2])]; k != "" {
		s.icmp = k
	}
	port := binary.BigEndian.Uint16(quoted[ipBytes:])
	seq := binary.BigEndian.Uint32(quoted[ipBytes+4:])
	s.flow = x.flowOf(port, binary.BigEndian.Uint16(quoted[ipBytes+2:]))
	if g := x.guests[s.flow]; g == nil || seq != g.isn {
		x.fail("ICMP message quotes port %d, sequence number %d", port, seq)
	}
}

// flowOf finds the number of a flow by the guest's port and its peer's.
func (x *script) flowOf(port, peerPort uint16) int {
	for n, g := range x.guests {
		if g.port == port && g.peerPort == peerPort {
			return n
		}
	}
	return 0
}

func (x *script) tcpReceived(s *segment, p *header.Packet, v header.Vnet, frame []byte) {
	x.Helper()
	t := header.TCP(frame[p.L4:p.Payload])
	s.flow = x.flowOf(p.DstPort, p.SrcPort)
	g := x.guests[s.flow]
	if g == nil {
		x.fail("frame for ports %d, %d", p.DstPort, p.SrcPort)
	}
	flags := t.Flags()
	s.flags = flagNames(flags)
	x.checkEnvelope(s.flow, p, t)
	x.checkRepeated(g, t)
	if flags&header.TCPSyn != 0 {
		g.backISN, g.backKnown, g.toldKnown = t.Seq(), true, false
	}
	var o header.TCPOptions
	t.ParseOptions(&o)
	if o.MSS != 0 {
		s.mss = int(o.MSS)
	}
	if o.HasWScale {
		s.wscale = int(o.WScale)
		g.backShift = s.wscale
	}
	s.sackOK = o.SACKPermitted
	for _, r := range o.SACK[:o.NumSACK] {
		s.sack = append(s.sack, [2]uint32{r.Left - g.isn, r.Right - g.isn})
	}
	s.option = p.V6 && frame[header.EthLen+6] == header.ProtoHopByHop
	s.seq = t.Seq()
	if g.backKnown {
		s.seq -= g.backISN
	}
	data := frame[p.Payload:p.End]
	s.end = s.seq + uint32(len(data))
	s.win = int(t.Window())
	if flags&header.TCPSyn == 0 {
		s.win <<= g.backShift
	}
	if flags&header.TCPAck != 0 {
		s.ack = t.Ack() - g.isn
	} else if flags&(header.TCPSyn|header.TCPRst) == 0 {
		x.fail("segment without ACK: %v", s)
	}
	if s.nudge = x.isNudge(s, data); !s.nudge {
		x.checkData(s, v, data)
	}
	if flags&(header.TCPRst|header.TCPAck) == header.TCPAck {
		x.checkWindow(g, s)
	}
}

// checkEnvelope checks that a frame comes from whom the guest talks to, and that
// its options are those that every guest knows.
func (x *script) checkEnvelope(n int, p *header.Packet, t header.TCP) {
	x.Helper()
	if k := x.key(n); p.Src != k.Remote || p.Dst != k.Local {
		x.fail("frame from %v to %v, want %v to %v", p.Src, p.Dst, k.Remote, k.Local)
	}
	for o := t[header.TCPLen:]; len(o) > 0 && o[0] != 0; {
		if o[0] == 1 {
			o = o[1:]
			continue
		}
		if o[0] > 5 || len(o) < 2 || o[1] < 2 || int(o[1]) > len(o) {
			x.fail("options % x", o)
		}
		o = o[o[1]:]
	}
}

// checkRepeated checks that SYN-ACK is repeated as it was.
func (x *script) checkRepeated(g *guestEnd, t header.TCP) {
	x.Helper()
	was := g.synAck
	g.synAck.isn, g.synAck.ack = t.Seq(), t.Ack()
	g.synAck.is = t.Flags()&(header.TCPSyn|header.TCPAck) == header.TCPSyn|header.TCPAck
	if was.is && g.synAck.is && was.ack == t.Ack() && was.isn != t.Seq() {
		x.fail("SYN-ACK begins at %d, and at %d before", t.Seq(), was.isn)
	}
}

// isNudge recognises the byte that follows the first big frame of a flow. Its value
// means nothing, since the guest has acknowledged that byte.
func (x *script) isNudge(s *segment, data []byte) bool {
	x.Helper()
	if len(data) != 1 || data[0] != 0 || x.bigBytes == 0 {
		return false
	}
	k := x.key(s.flow)
	i, ok := x.h.table.Lookup(&k)
	return ok && before(s.seq, x.h.flows.at(i).sndUna-x.guests[s.flow].backISN)
}

// checkData checks the content of a frame, and that the guest can take it.
func (x *script) checkData(s *segment, v header.Vnet, data []byte) {
	x.Helper()
	for i, b := range data {
		if want := pattern(s.flow, 'h', s.seq+uint32(i)); b != want {
			x.fail("byte %d is %#x, want %#x", s.seq+uint32(i), b, want)
		}
	}
	if v.GSOType == header.GSONone {
		if most := x.mtu - header.IPv4Len - header.TCPLen; len(data) > most {
			x.fail("segment of %d bytes, MTU %d", len(data), x.mtu)
		}
		return
	}
	s.gso = int(v.GSOSize)
	want, feature := uint8(header.GSOTCPv4), uint64(header.FeatureGuestTSO4)
	if x.v6 {
		want, feature = header.GSOTCPv6, header.FeatureGuestTSO6
	}
	if v.GSOType != want || !x.link.Has(feature) || !s.partial || s.gso == 0 || s.gso >= len(data) {
		x.fail("frame of %d bytes with vnet header %+v", len(data), v)
	}
}

// checkWindow checks that the window's right edge does not move back, but for
// what the scale cuts off (RFC 7323 section 2.4).
func (x *script) checkWindow(g *guestEnd, s *segment) {
	x.Helper()
	edge := s.ack + uint32(s.win)
	if g.toldKnown && before(edge+1<<g.backShift, g.told+1) {
		x.fail("window shrinks: its edge was %d and is %d", g.told, edge)
	}
	g.told, g.toldKnown = edge, true
}
