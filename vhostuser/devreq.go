package vhostuser

import (
	"errors"
	"fmt"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

func (s *session) setStatus(m *wire.Message) ([]byte, error) {
	v, err := decodeU64(m)
	if err != nil {
		return nil, err
	}
	if v > 0xff {
		return nil, fmt.Errorf("device status %#x does not fit a byte", v)
	}
	if v == 0 {
		// The driver is gone or paused: no ring may be touched any more. But
		// QEMU before 8.1 asks for the rings' indices only after this.
		s.haltAll()
	}
	s.status = uint8(v)
	return nil, nil
}

func (s *session) getStatus(*wire.Message) ([]byte, error) {
	return u64(uint64(s.status))
}

// resetDevice brings the device back to the state after SET_PROTOCOL_FEATURES.
// Call and error descriptors stay: QEMU sends the latter only when it connects.
func (s *session) resetDevice(*wire.Message) ([]byte, error) {
	s.park(func() {
		for i := range s.rings {
			s.stop(&s.rings[i])
			s.rings[i].reset()
		}
		s.srv.dev.Reset()
	})
	s.status = 0
	return nil, nil
}

// mtuMin is the smallest MTU of IPv4, RFC 791 section 3.2.
const mtuMin = 68

func (s *session) netSetMTU(m *wire.Message) ([]byte, error) {
	v, err := decodeU64(m)
	if err != nil {
		return nil, err
	}
	if v < mtuMin || v > 0xffff {
		return nil, fmt.Errorf("MTU %d is out of range", v)
	}
	return nil, s.srv.dev.SetMTU(uint16(v))
}

func (s *session) sendRARP(m *wire.Message) ([]byte, error) {
	if len(m.Payload) < 6 {
		return nil, errors.New("no MAC address")
	}
	s.srv.dev.SendRARP([6]byte(m.Payload)) // the low bytes of the word, in memory order
	return nil, nil
}

// configMax is the size of the largest configuration space, as in QEMU.
const configMax = 256

// getConfig answers with a piece of the configuration space. The sign for
// failure is an empty payload.
func (s *session) getConfig(m *wire.Message) ([]byte, error) {
	var c wire.Config
	if err := wire.Decode(m.Payload, &c); err != nil {
		return nil, err
	}
	if uint64(c.Offset)+uint64(c.Size) > configMax {
		return nil, nil
	}
	var space [configMax]byte
	copy(space[:], s.srv.dev.ConfigSpace())
	c.Data = space[c.Offset:][:c.Size]
	return wire.Encode(&c), nil
}
