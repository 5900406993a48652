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

// getFeatures shows what this frontend may take; see Config.FrontendServed.
func (s *session) getFeatures(*wire.Message) ([]byte, error) {
	if s.order == ownsFirst {
		return u64(s.srv.features &^ s.srv.cfg.FrontendServed)
	}
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
	if acked&wire.FeatureLogAll != 0 && s.proto&wire.ProtocolLogShmFD == 0 {
		return nil, errors.New("a dirty log is wanted, but no way to share it was negotiated (LOG_SHMFD)")
	}
	switch {
	case s.negotiated && acked^s.features == wire.FeatureLogAll:
		s.relog(s.rings, func() { s.features = acked })
	case !s.negotiated || acked != s.features || !s.running():
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
		err = s.srv.dev.SetFeatures(acked &^ (wire.FeatureProtocol | wire.FeatureLogAll))
	})
	if err != nil {
		return fmt.Errorf("features %#x: %w", acked, err)
	}
	if (acked^s.features)&featureRingPacked != 0 {
		for i := range s.rings {
			s.rings[i].resumes = false // the index is one of the other format
		}
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
