package hostconf

import (
	"net/netip"
	"strings"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
)

// maxResolvConfBytes bounds what is looked at of a resolver file.
const maxResolvConfBytes = 64 << 10

// ParseResolvConf reads a resolver file's text. Up to 3 resolvers per address
// family and 6 search domains are kept, in order and without repetition; what
// cannot be read is left out. Of several search or domain lines the last one
// counts, and without any resolver it is 127.0.0.1 (resolv.conf(5)).
func ParseResolvConf(text []byte) (resolvers []netip.Addr, search []string) {
	if len(text) > maxResolvConfBytes {
		text = text[:maxResolvConfBytes]
	}
	for line := range strings.Lines(string(text)) {
		if line[0] == '#' || line[0] == ';' {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			resolvers = appendResolver(resolvers, fields[1])
		case "search", "domain":
			search = searchDomains(fields[1:])
		}
	}
	if len(resolvers) == 0 {
		resolvers = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	return resolvers, search
}

func appendResolver(list []netip.Addr, text string) []netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil || a.IsMulticast() {
		return list
	}
	a = a.Unmap()
	same := 0
	for _, b := range list {
		if a == b {
			return list
		}
		if a.Is4() == b.Is4() {
			same++
		}
	}
	if same >= options.MaxDNSPerFamily {
		return list
	}
	return append(list, a)
}

func searchDomains(names []string) []string {
	var out []string
	for _, n := range names {
		n = strings.TrimSuffix(n, ".")
		if !options.ValidDomain(n) || contains(out, n) {
			continue
		}
		if out = append(out, n); len(out) == options.MaxSearch {
			break
		}
	}
	return out
}

func contains(list []string, name string) bool {
	for _, s := range list {
		if strings.EqualFold(s, name) {
			return true
		}
	}
	return false
}
