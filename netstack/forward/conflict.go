package forward

import (
	"fmt"
	"net/netip"
)

// Conflict reports whether a and b ask for the same host port on the same
// address and interface, so that only one of them could be opened. Rules for
// different addresses, or for different interfaces, do not conflict, nor
// does a rule that takes what is left ("all") with one that names its ports.
func Conflict(a, b Rule) bool {
	if a.AnyPort() || b.AnyPort() {
		return false
	}
	return a.Proto == b.Proto && a.BestEffort == b.BestEffort &&
		a.FirstPort <= b.LastPort && b.FirstPort <= a.LastPort &&
		addrsMeet(a.ListenAddr, b.ListenAddr) &&
		(a.Interface == "" || b.Interface == "" || a.Interface == b.Interface)
}

// addrsMeet reports whether some local address is covered by both a and b.
func addrsMeet(a, b netip.Addr) bool {
	if !a.IsValid() || !b.IsValid() {
		return true
	}
	if a.Is4() != b.Is4() {
		return false
	}
	return a == b || a.IsUnspecified() || b.IsUnspecified()
}

// Check returns an error that names both rules when two of them conflict.
func Check(rules []Rule) error {
	for i, a := range rules {
		for _, b := range rules[:i] {
			if Conflict(a, b) {
				return fmt.Errorf("%q conflicts with %q: one host port can be forwarded only once per address and interface", a.String(), b.String())
			}
		}
	}
	return nil
}
