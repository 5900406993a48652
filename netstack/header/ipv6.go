package header

// maxExtHeaders bounds the walk over IPv6 extension headers.
const maxExtHeaders = 8

// Jumbo payload option (RFC 2675 section 2).
const (
	optPad1     = 0
	optJumbo    = 0xc2
	optJumboLen = 4
)

func parseIPv6(p *Packet, hdr []byte) Verdict {
	if len(hdr) < EthLen+IPv6Len {
		return short(p, hdr)
	}
	b := hdr[EthLen:]
	if b[0]>>4 != 6 {
		return BadVersion
	}
	p.V6 = true
	word := be.Uint32(b[0:4])
	p.TOS, p.FlowLabel = uint8(word>>20), word&0xfffff
	p.TTL = b[7]
	p.Src, p.Dst = Addr(b[8:24]), Addr(b[24:40])
	if p.Src.Is4() || p.Dst.Is4() {
		// Taken further it would pass for an IPv4 packet.
		return BadAddress
	}
	p.L4 = EthLen + IPv6Len
	length := int(be.Uint16(b[4:6]))
	if length > p.End-p.L4 {
		return BadLength
	}
	// A length of 0 is settled after the walk: only a jumbo option or TCP in
	// an oversize frame give it another meaning.
	big := length == 0 && p.End-p.L4 > maxIPLen
	if !big {
		p.End = p.L4 + length
	}
	jumbo, why := walkExtHeaders(p, hdr, b[6], big)
	if why != OK {
		return why
	}
	if big && !jumbo && p.Proto != ProtoTCP {
		return BadLength
	}
	if p.IsFragment() {
		if big {
			return BadFragment // RFC 2675 section 3
		}
		return checkFragment(p)
	}
	return ParseTransport(p, hdr)
}

// walkExtHeaders moves p.L4 behind the extension headers and sets p.Proto and
// the fragment fields. next is the type of the header at p.L4. It stops at a
// fragment header that belongs to a real fragment: what follows is not at hand.
func walkExtHeaders(p *Packet, hdr []byte, next uint8, big bool) (jumbo bool, why Verdict) {
	if len(hdr) > p.End {
		hdr = hdr[:p.End]
	}
	for i := 0; ; i++ {
		switch next {
		case ProtoHopByHop, ProtoRouting, ProtoFragment, ProtoDestOpts:
		default:
			p.Proto = next
			return jumbo, OK
		}
		if i == maxExtHeaders {
			return false, BadExtHeader
		}
		if len(hdr) < p.L4+8 {
			return false, short(p, hdr)
		}
		b := hdr[p.L4:]
		n := 8
		if next != ProtoFragment {
			n += int(b[1]) * 8
			if len(b) < n {
				return false, short(p, hdr)
			}
		}
		switch next {
		case ProtoHopByHop:
			if i != 0 {
				return false, BadExtHeader // RFC 8200 section 4.1
			}
			if jumbo, why = hopByHop(p, b[2:n], big); why != OK {
				return false, why
			}
		case ProtoRouting:
			if b[3] != 0 { // segments left: nobody here to route by them
				return false, BadExtHeader
			}
		case ProtoFragment:
			if p.FragID != 0 || p.IsFragment() {
				return false, BadExtHeader
			}
			off := be.Uint16(b[2:4])
			p.FragOff, p.FragMore = off&^7, off&1 != 0
			p.FragID = be.Uint32(b[4:8])
		}
		next = b[0]
		p.L4 += n
		if p.IsFragment() {
			p.Proto = next
			return jumbo, OK
		}
	}
}

// hopByHop walks the options of a hop-by-hop header (RFC 8200 section 4.2).
// Unknown options are skipped if their type allows it.
func hopByHop(p *Packet, opts []byte, big bool) (jumbo bool, why Verdict) {
	for len(opts) > 0 {
		if opts[0] == optPad1 {
			opts = opts[1:]
			continue
		}
		if len(opts) < 2 || len(opts) < 2+int(opts[1]) {
			return false, BadExtHeader
		}
		n := int(opts[1])
		switch {
		case opts[0] == optJumbo:
			if !big || jumbo || n != optJumboLen {
				return false, BadExtHeader
			}
			length := be.Uint32(opts[2:6])
			if length <= maxIPLen || uint64(length) > uint64(p.End-EthLen-IPv6Len) {
				return false, BadLength
			}
			p.End = EthLen + IPv6Len + int(length)
			jumbo = true
		case opts[0]&0xc0 != 0:
			return false, BadExtHeader
		}
		opts = opts[2+n:]
	}
	return jumbo, OK
}
