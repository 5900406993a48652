package options

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ValidDomain reports whether name is a domain or host name that can be
// encoded: labels of 1 to 63 letters, digits, hyphens and underscores, 253
// characters in all (RFC 1035 section 2.3.4). One dot at the end is allowed.
func ValidDomain(name string) bool {
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			letter := c|0x20 >= 'a' && c|0x20 <= 'z'
			if !letter && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

func setHostname(dst *string) func(string) error {
	return func(text string) error {
		if !ValidDomain(text) || strings.HasSuffix(text, ".") {
			return errors.New("must be a host name: labels of 1 to 63 letters, digits and hyphens, joined by dots")
		}
		*dst = text
		return nil
	}
}

// setDNS collects resolvers; "none" forgets those given before it, as a later
// address revokes "none".
func setDNS(o *Options) func(string) error {
	return func(text string) error {
		if text == "none" || text == "" {
			o.DNS, o.NoDNS = nil, true
			return nil
		}
		a, err := parseAddr(text)
		if err != nil {
			return fmt.Errorf("%w or none", err)
		}
		if a.IsLoopback() {
			return errors.New("must not be a loopback address: it would mean the guest itself; see --dns-forward and --dns-host")
		}
		if err := unicastOnly(a); err != nil {
			return err
		}
		if countFamily(o.DNS, a) >= MaxDNSPerFamily {
			return fmt.Errorf("at most %d resolvers per address family", MaxDNSPerFamily)
		}
		o.DNS, o.NoDNS = append(o.DNS, a), false
		return nil
	}
}

func countFamily(list []netip.Addr, like netip.Addr) int {
	n := 0
	for _, a := range list {
		if a.Is4() == like.Is4() {
			n++
		}
	}
	return n
}

// setSearch collects names, several in one option too.
func setSearch(o *Options) func(string) error {
	return func(text string) error {
		if text == "none" || strings.TrimSpace(text) == "" {
			o.Search, o.NoSearch = nil, true
			return nil
		}
		for name := range strings.FieldsSeq(strings.ReplaceAll(text, ",", " ")) {
			if !ValidDomain(name) {
				return fmt.Errorf("%q is no domain name: labels of 1 to 63 letters, digits and hyphens, joined by dots", name)
			}
			if len(o.Search) >= MaxSearch {
				return fmt.Errorf("at most %d search domains", MaxSearch)
			}
			o.Search, o.NoSearch = append(o.Search, strings.TrimSuffix(name, ".")), false
		}
		return nil
	}
}

// maxBootFile is what fits into the field of the message that old clients look
// at (RFC 2131 section 2), with a NUL behind it.
const maxBootFile = 127

// setBoot reads FILE[,ADDR], as dnsmasq has it without the server's name.
func setBoot(o *Options) func(string) error {
	return func(text string) error {
		file, server, given := strings.Cut(text, ",")
		if file == "" || len(file) > maxBootFile {
			return fmt.Errorf("must begin with a file name or an URL of 1 to %d characters", maxBootFile)
		}
		for _, c := range []byte(file) {
			if c <= ' ' || c > '~' {
				return fmt.Errorf("%q holds a character that does not belong in a file name or an URL", file)
			}
		}
		var addr netip.Addr
		if given {
			var err error
			if addr, err = netip.ParseAddr(server); err != nil || !addr.Is4() {
				return fmt.Errorf("%q is no IPv4 address", server)
			}
			if err := unicastOnly(addr); err != nil {
				return err
			}
		}
		o.BootFile, o.BootServer = file, addr
		return nil
	}
}
