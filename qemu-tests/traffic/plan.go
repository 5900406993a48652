package traffic

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
)

// mode is in which order the two directions of a stream are used.
type mode uint8

const (
	duplex      mode = iota // both at once
	answerLater             // the server sends when it has seen the client's end: a half-closed stream
	askLater                // the client sends when it has seen the server's end
	abort                   // the client resets the connection instead of ending
	modes
)

// plan is all about a stream, chosen by the client and sent to the server in front of everything.
type plan struct {
	seed     uint64 // of the bytes from the client; those from the server have the next one
	up, down int64  // bytes from the client, and from the server
	mode     mode
}

const (
	planBytes = 32
	planMagic = 0x736f616b // so that a misdirected stream is noticed
	maxBytes  = 16 << 20
)

// newPlan chooses sizes so that all orders of magnitude are as likely, and often none at all.
func newPlan(r *rand.Rand) plan {
	p := plan{seed: r.Uint64(), up: size(r), down: size(r)}
	if p.mode = mode(r.IntN(2 * int(modes))); p.mode >= modes {
		p.mode = duplex
	}
	if p.mode == abort {
		p.down = 0
	}
	return p
}

func size(r *rand.Rand) int64 {
	if r.IntN(8) == 0 {
		return 0
	}
	return int64(math.Exp(r.Float64() * math.Log(maxBytes)))
}

func (p plan) encode() []byte {
	b := make([]byte, planBytes)
	binary.BigEndian.PutUint32(b, planMagic)
	b[4] = byte(p.mode)
	binary.BigEndian.PutUint64(b[8:], p.seed)
	binary.BigEndian.PutUint64(b[16:], uint64(p.up))
	binary.BigEndian.PutUint64(b[24:], uint64(p.down))
	return b
}

func decodePlan(b []byte) (plan, error) {
	if len(b) != planBytes || binary.BigEndian.Uint32(b) != planMagic {
		return plan{}, fmt.Errorf("not the beginning of a stream: %x", b)
	}
	p := plan{
		mode: mode(b[4]), seed: binary.BigEndian.Uint64(b[8:]),
		up: int64(binary.BigEndian.Uint64(b[16:])), down: int64(binary.BigEndian.Uint64(b[24:])),
	}
	if p.mode >= modes || p.up < 0 || p.up > maxBytes || p.down < 0 || p.down > maxBytes {
		return plan{}, fmt.Errorf("an impossible plan: %+v", p)
	}
	return p, nil
}
