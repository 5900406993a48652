// Package searchlist encodes lists of DNS search domains for the protocols
// that hand them to a guest: DHCPv4 option 119 (RFC 3397) and the router
// advertisement's DNSSL option (RFC 8106). Lists come from the host's
// resolver configuration, so nothing in them is an error: what cannot be
// encoded is left out, and what does not fit is cut between two names.
package searchlist

import "strings"

// RFC 1035 section 2.3.4.
const (
	maxLabelBytes = 63
	maxNameBytes  = 255 // on the wire, with length bytes and the root label
)

// maxNames bounds the work for a list; resolvers use far fewer.
const maxNames = 256

// maxPointer is the largest offset that a compression pointer can hold (RFC
// 1035 section 4.1.4).
const maxPointer = 0x3fff

// Clean returns the names of list that can be encoded, without a trailing dot,
// without repetitions (the case of letters does not count) and in the same
// order, at most 256.
func Clean(list []string) []string {
	var out []string
	seen := make(map[string]bool)
	for _, name := range list {
		name = strings.TrimSuffix(name, ".")
		key := strings.ToLower(name)
		if !valid(name) || seen[key] {
			continue
		}
		seen[key] = true
		out = append(out, name)
		if len(out) == maxNames {
			break
		}
	}
	return out
}

// WireBytes returns the uncompressed size of a name that Clean let through.
func WireBytes(name string) int { return len(name) + 2 }

// valid reports whether name is a sequence of labels of visible ASCII
// characters within the limits of RFC 1035.
func valid(name string) bool {
	if name == "" || WireBytes(name) > maxNameBytes {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabelBytes {
			return false
		}
		for i := range len(label) {
			if label[i] <= ' ' || label[i] > '~' {
				return false
			}
		}
	}
	return true
}

// Compress encodes names, which Clean must have let through, with the
// compression of RFC 1035 section 4.1.4; offsets count from the start of the
// result, as RFC 3397 section 2 asks. It stops before the first name with
// which the result would exceed maxBytes. ends holds the offset behind each
// encoded name.
//
// A pointer always leads to labels that are written out up to the root. Some
// clients cannot follow a pointer that leads to another one.
func Compress(names []string, maxBytes int) (data []byte, ends []int) {
	offsets := make(map[string]int) // of suffixes that are written out in full
	for _, name := range names {
		enc, literal := appendName(nil, name, offsets)
		if len(data)+len(enc) > maxBytes {
			break
		}
		if literal {
			remember(offsets, name, len(data))
		}
		data = append(data, enc...)
		ends = append(ends, len(data))
	}
	return data, ends
}

// appendName appends name to dst, the longest known suffix as a pointer.
// literal says that no pointer was used.
func appendName(dst []byte, name string, offsets map[string]int) (enc []byte, literal bool) {
	for rest := name; rest != ""; {
		if off, ok := offsets[strings.ToLower(rest)]; ok {
			return append(dst, 0xc0|byte(off>>8), byte(off)), false
		}
		label, tail, _ := strings.Cut(rest, ".")
		dst = append(dst, byte(len(label)))
		dst = append(dst, label...)
		rest = tail
	}
	return append(dst, 0), true
}

// remember records where each suffix of a name written at off begins.
func remember(offsets map[string]int, name string, off int) {
	for rest := strings.ToLower(name); rest != "" && off <= maxPointer; {
		if _, known := offsets[rest]; !known {
			offsets[rest] = off
		}
		label, tail, _ := strings.Cut(rest, ".")
		off += 1 + len(label)
		rest = tail
	}
}

// Split cuts data, as Compress returned it, into pieces of at most maxBytes
// for the option instances of RFC 3396, between two names wherever possible:
// a client that does not join the pieces then at least finds whole names.
func Split(data []byte, ends []int, maxBytes int) [][]byte {
	var out [][]byte
	for start, i := 0, 0; start < len(data); {
		end := min(start+maxBytes, len(data))
		for ; i < len(ends) && ends[i] <= start+maxBytes; i++ {
			end = ends[i]
		}
		out = append(out, data[start:end])
		start = end
	}
	return out
}
