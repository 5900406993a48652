package arp

import "github.com/vhost-net-go/vhost-net-go/netstack/header"

// maxStations bounds what a guest can make us remember. More than one is only
// seen with nested guests behind a bridge.
const maxStations = 8

// station is one hardware address in the guest and the last IPv4 address that
// it used; the zero Addr if it has only probed. One address per hardware
// address is enough: a station asks nobody for its own addresses, and one that
// moved to a new address must be able to find the new owner of the old one.
type station struct {
	mac  header.MAC
	addr header.Addr
}

// stations are the most recent senders, newest first.
type stations struct {
	list [maxStations]station
	n    int
}

// learn moves the station with mac to the front. An unspecified addr leaves the
// known address as it is.
func (s *stations) learn(mac header.MAC, addr header.Addr) {
	st := station{mac: mac}
	i := 0
	for i < s.n && s.list[i].mac != mac {
		i++
	}
	switch {
	case i < s.n:
		st = s.list[i]
	case s.n < maxStations:
		s.n++
	default:
		i = maxStations - 1 // the oldest makes room
	}
	if !addr.IsUnspecified() {
		st.addr = addr
	}
	copy(s.list[1:i+1], s.list[:i])
	s.list[0] = st
}

// has reports whether some station uses addr.
func (s *stations) has(addr *header.Addr) bool {
	for i := range s.list[:s.n] {
		if s.list[i].addr == *addr {
			return true
		}
	}
	return false
}

func (s *stations) newest() (mac header.MAC, addr header.Addr, ok bool) {
	return s.list[0].mac, s.list[0].addr, s.n > 0
}
