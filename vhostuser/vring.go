package vhostuser

import (
	"fmt"

	"github.com/vhost-net-go/vhost-net-go/vhostuser/wire"
	"github.com/vhost-net-go/vhost-net-go/virtqueue"
)

// ring returns the ring with the index that a frontend gave.
func (s *session) ring(index uint64) (*ring, error) {
	if index >= uint64(len(s.rings)) {
		return nil, fmt.Errorf("ring %d, the device has %d: start the frontend with fewer queues", index, len(s.rings))
	}
	return &s.rings[index], nil
}

// decodeState reads a payload that gives one number to one ring.
func (s *session) decodeState(m *wire.Message) (*ring, uint32, error) {
	var st wire.VringState
	if err := wire.Decode(m.Payload, &st); err != nil {
		return nil, 0, err
	}
	r, err := s.ring(uint64(st.Index))
	return r, st.Num, err
}

func (s *session) setVringNum(m *wire.Message) ([]byte, error) {
	r, num, err := s.decodeState(m)
	if err != nil {
		return nil, err
	}
	if err := virtqueue.CheckSize(s.mayBePacked(), num); err != nil {
		return nil, fmt.Errorf("ring %d: %w", r.index, err)
	}
	if num == r.num && r.q != nil && r.enabled {
		return nil, nil
	}
	if r.q != nil || r.remnant {
		s.halt(r)
		r.placed = false
	}
	r.num, r.lost = num, false
	return nil, nil
}

func (s *session) setVringBase(m *wire.Message) ([]byte, error) {
	r, base, err := s.decodeState(m)
	if err != nil {
		return nil, err
	}
	if base > 0xffff && !s.mayBePacked() {
		return nil, fmt.Errorf("ring %d: index %#x has more than 16 bits", r.index, base)
	}
	s.restart(r)
	r.base, r.resumes = base, false
	return nil, nil
}

// mayBePacked reports whether rings are packed, or may turn out to be: features
// may come after sizes and indices. In this case newQueue checks what is left.
func (s *session) mayBePacked() bool {
	features := s.features
	if !s.negotiated {
		features = s.srv.features
	}
	return features&featureRingPacked != 0
}

func (s *session) setVringAddr(m *wire.Message) ([]byte, error) {
	var a wire.VringAddr
	if err := wire.Decode(m.Payload, &a); err != nil {
		return nil, err
	}
	r, err := s.ring(uint64(a.Index))
	if err != nil {
		return nil, err
	}
	if r.placed && a.Desc == r.addr.Desc && a.Avail == r.addr.Avail && a.Used == r.addr.Used {
		if a.Flags != r.addr.Flags || a.Log != r.addr.Log {
			s.relog(s.rings[a.Index:a.Index+1], func() { r.addr = a })
		}
		return nil, nil
	}
	s.restart(r)
	// A ring that the driver does not use has its table at address 0.
	r.addr, r.placed, r.lost = a, a.Desc != 0, false
	r.resumes = false
	return nil, nil
}

// restart takes a running ring back, for settle to hand it out again.
func (s *session) restart(r *ring) {
	if r.q != nil {
		s.park(func() { s.stop(r) })
	}
}

// getVringBase stops the ring. Its descriptors are dropped, as the specification
// wants; the frontend sends new ones with the next start.
func (s *session) getVringBase(m *wire.Message) ([]byte, error) {
	r, _, err := s.decodeState(m)
	if err != nil {
		return nil, err
	}
	s.halt(r)
	r.call.set(-1)
	return wire.Encode(&wire.VringState{Index: uint32(r.index), Num: r.base}), nil
}

func (s *session) setVringEnable(m *wire.Message) ([]byte, error) {
	r, on, err := s.decodeState(m)
	if err != nil {
		return nil, err
	}
	if on > 1 {
		return nil, fmt.Errorf("ring %d: enable is %d, want 0 or 1", r.index, on)
	}
	s.enable(r, on == 1)
	return nil, nil
}

// takeVringFD reads the payload of SET_VRING_KICK, CALL and ERR, and takes the
// descriptor, which is -1 if the frontend says that there is none.
func (s *session) takeVringFD(m *wire.Message) (*ring, int, error) {
	v, err := decodeU64(m)
	if err != nil {
		return nil, -1, err
	}
	none := wire.U64(v)&wire.VringNoFD != 0
	if rest := wire.U64(v) &^ (wire.VringIndexMask | wire.VringNoFD); rest != 0 {
		return nil, -1, fmt.Errorf("unknown bits %#x", uint64(rest))
	}
	r, err := s.ring(v & uint64(wire.VringIndexMask))
	if err != nil {
		return nil, -1, err
	}
	if none != (len(m.FDs) == 0) {
		return nil, -1, fmt.Errorf("ring %d: %d file descriptors do not fit payload %#x", r.index, len(m.FDs), v)
	}
	if none {
		return r, -1, nil
	}
	if err := makeSignal(m.FDs[0]); err != nil {
		return nil, -1, fmt.Errorf("ring %d: %w", r.index, err)
	}
	return r, m.TakeFD(), nil
}

// setVringKick starts the ring.
func (s *session) setVringKick(m *wire.Message) ([]byte, error) {
	r, fd, err := s.takeVringFD(m)
	if err != nil {
		return nil, err
	}
	s.restart(r)
	closeFD(&r.kick)
	r.kick = fd
	r.started, r.broken, r.lost, r.remnant = true, false, false, false
	return nil, nil
}

// setVringCall replaces the call descriptor. The new one is signalled once, for
// completions that the old one may have missed.
func (s *session) setVringCall(m *wire.Message) ([]byte, error) {
	r, fd, err := s.takeVringFD(m)
	if err != nil {
		return nil, err
	}
	if r.q == nil {
		r.call.set(fd)
		return nil, nil
	}
	s.park(func() { r.call.set(fd) })
	r.call.Call()
	return nil, nil
}

func (s *session) setVringErr(m *wire.Message) ([]byte, error) {
	r, fd, err := s.takeVringFD(m)
	if err != nil {
		return nil, err
	}
	closeFD(&r.err)
	r.err = fd
	return nil, nil
}
