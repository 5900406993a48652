package vhostuser

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
)

// u64 makes a reply of one word.
func u64(v uint64) ([]byte, error) {
	w := wire.U64(v)
	return wire.Encode(&w), nil
}

// decodeU64 reads a payload of one word.
func decodeU64(m *wire.Message) (uint64, error) {
	var w wire.U64
	err := wire.Decode(m.Payload, &w)
	return uint64(w), err
}

// refuse is the action of requests that are never carried out.
func (s *session) refuse(*wire.Message) ([]byte, error) { return nil, errRefused }

func (s *session) getFeatures(*wire.Message) ([]byte, error) {
	return u64(s.srv.features)
}

// setFeatures takes the driver's acknowledgement. Without the bit for protocol
// features there is no SET_VRING_ENABLE, and all rings count as enabled; with
// it, rings stay as they are, for frontends repeat this request at any time.
func (s *session) setFeatures(m *wire.Message) ([]byte, error) {
	acked, err := decodeU64(m)
	if err != nil {
		return nil, err
	}
	if bad := acked &^ s.srv.features; bad != 0 {
		return nil, fmt.Errorf("features %#x were not offered", bad)
	}
	if !s.negotiated || acked != s.features || !s.running() {
		if err := s.changeFeatures(acked); err != nil {
			return nil, err
		}
	}
	if acked&wire.FeatureProtocol == 0 {
		for i := range s.rings {
			s.enable(&s.rings[i], true)
		}
	}
	return nil, nil
}

// changeFeatures makes acked the features in force. A running ring may lie in
// the way: with frames passing it is the frontend's mistake; disabled, it was
// left behind by a frontend that never stops rings (UML) and now starts anew.
func (s *session) changeFeatures(acked uint64) error {
	for i := range s.rings {
		if r := &s.rings[i]; r.q != nil && r.enabled {
			return fmt.Errorf("features change from %#x to %#x while ring %d is running", s.features, acked, i)
		}
	}
	var err error
	s.park(func() {
		for i := range s.rings {
			if r := &s.rings[i]; r.q != nil {
				s.stop(r)
				r.unstart()
			}
		}
		err = s.srv.dev.SetFeatures(acked &^ wire.FeatureProtocol)
	})
	if err != nil {
		return fmt.Errorf("features %#x: %w", acked, err)
	}
	s.features, s.negotiated = acked, true
	return nil
}

// running reports whether the device has a ring.
func (s *session) running() bool {
	return slices.ContainsFunc(s.rings, func(r ring) bool { return r.q != nil })
}

func (s *session) setOwner(*wire.Message) ([]byte, error) {
	s.noteOrder(ownsFirst)
	return nil, nil
}

// resetOwner is deprecated; the specification asks to disable all rings.
func (s *session) resetOwner(*wire.Message) ([]byte, error) {
	for i := range s.rings {
		s.enable(&s.rings[i], false)
	}
	return nil, nil
}

func (s *session) getProtocolFeatures(*wire.Message) ([]byte, error) {
	s.noteOrder(negotiatesFirst)
	return u64(s.offeredProtocolFeatures())
}

// setProtocolFeatures accepts what this frontend was not shown too, as long as
// the server has it: a reconnecting cloud-hypervisor sets without asking first.
func (s *session) setProtocolFeatures(m *wire.Message) ([]byte, error) {
	acked, err := decodeU64(m)
	if err != nil {
		return nil, err
	}
	if bad := acked &^ s.srv.cfg.ProtocolFeatures; bad != 0 {
		return nil, fmt.Errorf("protocol features %#x were not offered", bad)
	}
	s.proto = acked
	return nil, nil
}

func (s *session) getQueueNum(*wire.Message) ([]byte, error) {
	return u64(s.queueNum())
}

// setBackendReqFD keeps the socket for requests to the frontend. None is sent.
func (s *session) setBackendReqFD(m *wire.Message) ([]byte, error) {
	closeFD(&s.backendReq)
	s.backendReq = m.TakeFD()
	return nil, nil
}

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
