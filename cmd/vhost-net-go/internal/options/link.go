package options

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
)

func setInterface(dst *string) func(string) error {
	return func(text string) error {
		if !forward.ValidInterface(text) {
			return errors.New("an interface name has 1 to 15 characters, without spaces and slashes")
		}
		*dst = text
		return nil
	}
}

func setMTU(o *Options) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > MaxMTU || (n > 0 && n < MinMTU4) {
			return fmt.Errorf("must be 0 (do not announce) or a number from %d to %d", MinMTU4, MaxMTU)
		}
		o.MTU, o.MTUSet = n, true
		return nil
	}
}

func setMAC(dst *[6]byte) func(string) error {
	return func(text string) error {
		mac, err := net.ParseMAC(text)
		if err != nil || len(mac) != 6 {
			return errors.New("must be six hexadecimal bytes as in 9a:55:9a:55:9a:55")
		}
		if mac[0]&1 != 0 {
			return errors.New("is a group address; it must be that of one station (first byte even)")
		}
		if [6]byte(mac) == ([6]byte{}) {
			return errors.New("must not be all zero")
		}
		*dst = [6]byte(mac)
		return nil
	}
}

// setNetmask reads 255.255.255.0 or 24.
func setNetmask(dst *int) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil {
			mask, perr := netip.ParseAddr(text)
			if perr != nil || !mask.Is4() {
				return errors.New("must be an IPv4 mask as 255.255.255.0 or a length from 1 to 32")
			}
			ones, bits := net.IPMask(mask.AsSlice()).Size()
			if bits == 0 {
				return errors.New("is no mask: its ones must stand before its zeros")
			}
			n = ones
		}
		if n < 1 || n > 32 {
			return errors.New("must be an IPv4 mask as 255.255.255.0 or a length from 1 to 32")
		}
		*dst = n
		return nil
	}
}

func setForward(fwd *forwardState, proto forward.Proto) func(string) error {
	return func(text string) error {
		rules, err := forward.ParseSpec(proto, text)
		if err != nil {
			return err
		}
		if (text == forward.None && len(fwd.rules[proto]) > 0) || (text != forward.None && fwd.none[proto]) {
			return errors.New(`"none" cannot be combined with ports`)
		}
		if text == forward.None {
			fwd.none[proto] = true
		}
		fwd.rules[proto] = append(fwd.rules[proto], rules...)
		return nil
	}
}
