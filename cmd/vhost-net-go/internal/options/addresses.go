package options

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

var errNotAddr = errors.New("must be an IPv4 or IPv6 address")

// parseAddr reads an address without zone; IPv4 in IPv6 form becomes IPv4.
func parseAddr(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, errNotAddr
	}
	return a.Unmap(), nil
}

// anyUnicast refuses what can never be one station's address.
func anyUnicast(a netip.Addr) error {
	switch {
	case a.IsUnspecified():
		return errors.New("must be one particular address, not the unspecified one")
	case a.IsMulticast():
		return errors.New("must not be a multicast address")
	case a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return errors.New("must not be the broadcast address")
	}
	return nil
}

// unicastOnly also refuses loopback, which has no meaning on a wire (RFC 1122
// section 3.2.1.3 (g), RFC 4291 section 2.5.3).
func unicastOnly(a netip.Addr) error {
	if a.IsLoopback() {
		return errors.New("must not be a loopback address: it would mean the guest itself")
	}
	return anyUnicast(a)
}

// setPerFamily stores an address that passes check in the field of its family.
func setPerFamily(v4, v6 *netip.Addr, check func(netip.Addr) error) func(string) error {
	return func(text string) error {
		a, err := parseAddr(text)
		if err != nil {
			return err
		}
		if err := check(a); err != nil {
			return err
		}
		if a.Is4() {
			*v4 = a
		} else {
			*v6 = a
		}
		return nil
	}
}

// setMapped stores an address that stands for others; "none" takes it back.
func setMapped(v4, v6 *netip.Addr) func(string) error {
	set := setPerFamily(v4, v6, unicastOnly)
	return func(text string) error {
		if text == "none" {
			*v4, *v6 = netip.Addr{}, netip.Addr{}
			return nil
		}
		return set(text)
	}
}

// setDNSHost also takes a zone, as in fe80::1%eth0: the resolver is the
// host's, where zones have a meaning.
func setDNSHost(o *Options) func(string) error {
	return func(text string) error {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return errNotAddr
		}
		if err := anyUnicast(a); err != nil {
			return err
		}
		if a = a.Unmap(); a.Is4() {
			o.DNSHost4 = a
		} else {
			o.DNSHost6 = a
		}
		return nil
	}
}

func setGuestAddress(o *Options) func(string) error {
	return func(text string) error {
		addrText, lenText, hasLen := strings.Cut(text, "/")
		a, err := parseAddr(addrText)
		if err != nil {
			return err
		}
		if err := unicastOnly(a); err != nil {
			return err
		}
		if a.Is6() {
			return setGuestAddress6(o, a, lenText, hasLen)
		}
		if o.Addr4.IsValid() {
			return fmt.Errorf("a second IPv4 address; %s was given before", o.Addr4)
		}
		o.Addr4 = a
		if !hasLen {
			return nil
		}
		n, err := strconv.Atoi(lenText)
		if err != nil || n < 1 || n > 32 {
			return errors.New("the prefix length after the slash must be a number from 1 to 32")
		}
		o.addrLen4 = n
		return nil
	}
}

func setGuestAddress6(o *Options, a netip.Addr, lenText string, hasLen bool) error {
	if o.Addr6.IsValid() {
		return fmt.Errorf("a second IPv6 address; %s was given before", o.Addr6)
	}
	if a.IsLinkLocalUnicast() {
		return errors.New("must not be link-local: the guest makes that address itself")
	}
	if hasLen {
		if n, err := strconv.Atoi(lenText); err != nil || n < 1 || n > 128 {
			return errors.New("the prefix length after the slash must be a number from 1 to 128")
		}
	}
	o.Addr6 = a
	return nil
}
