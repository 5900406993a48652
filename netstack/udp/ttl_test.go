package udp

import (
	"golang.org/x/net/ipv4"

	"github.com/vhost-net-go/vhost-net-go/netstack/flowtable"
)

type flowKey = flowtable.Key

// wantTTL makes the socket report the TTL of what it receives.
func (s *host) wantTTL() error {
	s.ip = ipv4.NewPacketConn(s.UDPConn)
	return s.ip.SetControlMessage(ipv4.FlagTTL, true)
}

func (s *host) readTTL() int {
	s.t.Helper()
	_, cm, _, err := s.ip.ReadFrom(make([]byte, 100))
	if err != nil {
		s.t.Fatal(err)
	}
	return cm.TTL
}
