package tcp

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

// segment is one segment, its numbers relative to where each stream begins, so
// that SYN is 0 and the first byte is 1.
type segment struct {
	flow     int
	flags    string // of S, F, R, P and . (ACK), in this order
	seq, end uint32 // end: behind the last byte of data
	ack      uint32
	win      int // bytes; -1: not given
	mss      int // -1: no option
	wscale   int // -1: no option
	sackOK   bool
	sack     [][2]uint32 // ranges that the sender holds
	gso      int         // segment size of a frame of several
	icmp     string      // an ICMP message about the flow instead
	partial  bool        // the checksum is left to the guest
	nudge    bool        // the old byte that follows a first big frame
	option   bool        // there is a hop-by-hop header
	opts     []byte      // further TCP options, as they are sent
}

func (s segment) String() string {
	if s.icmp != "" {
		return "icmp " + s.icmp
	}
	b := fmt.Sprintf("%s %d", s.flags, int32(s.seq))
	if s.end != s.seq {
		b += fmt.Sprintf(":%d", s.end)
	}
	if strings.Contains(s.flags, ".") {
		b += fmt.Sprintf(" ack %d", int32(s.ack))
	}
	b += fmt.Sprintf(" win %d", s.win)
	if s.mss >= 0 {
		b += fmt.Sprintf(" mss %d", s.mss)
	}
	if s.wscale >= 0 {
		b += fmt.Sprintf(" wscale %d", s.wscale)
	}
	if s.sackOK {
		b += " sackok"
	}
	for _, r := range s.sack {
		b += fmt.Sprintf(" sack %d:%d", r[0], r[1])
	}
	if s.gso > 0 {
		b += fmt.Sprintf(" gso %d", s.gso)
	}
	return b
}

// flagLetters are the letters of flags, in their order.
var flagLetters = []struct {
	letter string
	bit    uint8
}{
	{"S", header.TCPSyn},
	{"F", header.TCPFin},
	{"R", header.TCPRst},
	{"P", header.TCPPsh},
	{"U", header.TCPUrg},
	{"E", header.TCPEce},
	{"W", header.TCPCwr},
	{".", header.TCPAck},
}

func flagsOf(s string) (bits uint8) {
	for _, f := range flagLetters {
		if strings.Contains(s, f.letter) {
			bits |= f.bit
		}
	}
	return bits
}

func flagNames(bits uint8) (s string) {
	for _, f := range flagLetters {
		if bits&f.bit != 0 {
			s += f.letter
		}
	}
	return s
}

// parseSegment reads FLAGS SEQ[:END] [ack N] [win N] [mss N] [wscale N]
// [sackok] [sack FROM:TO,…] [gso N] [opts HEX] and says which of them were given.
func parseSegment(words []string) (s segment, given map[string]bool, err error) {
	s = segment{win: -1, mss: -1, wscale: -1}
	given = map[string]bool{}
	if len(words) < 2 {
		return s, nil, fmt.Errorf("segment of %d words", len(words))
	}
	s.flags = words[0]
	from, to, ranged := strings.Cut(words[1], ":")
	seq, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		return s, nil, err
	}
	s.seq, s.end = uint32(seq), uint32(seq)
	if ranged {
		end, err := strconv.ParseInt(to, 10, 64)
		if err != nil {
			return s, nil, err
		}
		s.end = uint32(end)
	}
	for i := 2; i < len(words); i++ {
		given[words[i]] = true
		switch words[i] {
		case "sackok":
			s.sackOK = true
			continue
		case "sack":
			if i++; i < len(words) {
				s.sack, err = parseRanges(words[i])
			}
			if err != nil {
				return s, nil, err
			}
			continue
		case "more", "partial", "full":
			s.partial = words[i] == "partial"
			continue
		}
		if i+1 == len(words) {
			return s, nil, fmt.Errorf("%s of what?", words[i])
		}
		if words[i] == "opts" {
			i++
			if s.opts, err = hex.DecodeString(words[i]); err != nil {
				return s, nil, err
			}
			continue
		}
		n, err := strconv.Atoi(words[i+1])
		if err != nil {
			return s, nil, err
		}
		switch words[i] {
		case "ack":
			s.ack = uint32(n)
		case "win":
			s.win = n
		case "mss":
			s.mss = n
		case "wscale":
			s.wscale = n
		case "gso":
			s.gso = n
		default:
			return s, nil, fmt.Errorf("unknown word %s", words[i])
		}
		i++
	}
	return s, given, nil
}

// parseRanges reads FROM:TO,FROM:TO.
func parseRanges(word string) (all [][2]uint32, err error) {
	for _, r := range strings.Split(word, ",") {
		var from, to uint32
		if _, err := fmt.Sscanf(r, "%d:%d", &from, &to); err != nil {
			return nil, fmt.Errorf("range %q: %w", r, err)
		}
		all = append(all, [2]uint32{from, to})
	}
	return all, nil
}

// differs compares a segment with what a script wants of it, and says how it
// differs. PSH does not count unless it is wanted. What is not given and is
// asked of every segment (no options, no GSO) is checked as well.
func (s segment) differs(want segment, given map[string]bool) string {
	flags := s.flags
	if !strings.Contains(want.flags, "P") {
		flags = strings.ReplaceAll(flags, "P", "")
	}
	switch {
	case s.icmp != "":
		return "an ICMP message"
	case flags != want.flags:
		return "flags"
	case s.seq != want.seq:
		return "sequence number"
	case s.end != want.end:
		return "length"
	case given["ack"] && s.ack != want.ack:
		return "acknowledgement"
	case given["win"] && s.win != want.win:
		return "window"
	case s.mss != want.mss:
		return "MSS"
	case s.wscale != want.wscale:
		return "window scale"
	case given["sackok"] && !s.sackOK:
		return "SACK-permitted"
	case !slices.Equal(s.sack, want.sack):
		return "ranges held"
	case given["gso"] && s.gso != want.gso:
		return "GSO size"
	case given["partial"] && !s.partial, given["full"] && s.partial:
		return "checksum"
	}
	return ""
}
