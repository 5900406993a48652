package dhcp4

import (
	"math"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"github.com/vhost-net-go/vhost-net-go/netstack/searchlist"
)

// Flags of option 81 (RFC 4702 section 2.1).
const (
	fqdnServerUpdates = 1 << 0 // S
	fqdnOverridden    = 1 << 1 // O
	fqdnWireForm      = 1 << 2 // E
	fqdnNoUpdates     = 1 << 3 // N
	fqdnRcode         = 255    // of both obsolete fields, section 2.2
)

// maxFile is what fits into the field 'file' with a NUL behind it.
const maxFile = sizeHeader - offFile - 1

// httpClass is how HTTP boot clients begin their class, and what they look for
// in an answer.
const httpClass = "HTTPClient"

// setNames adds the names: the search list, the guest's full name, and the
// domain that old clients ask for.
func (s *Server) setNames(c *Config) {
	if s.search = searchlist.Clean(c.Search); len(s.search) > 0 {
		s.params = append(s.params, option{code: codeSearch}) // data depends on the room
	}
	domain := ""
	if name := searchlist.Clean([]string{c.FQDN}); len(name) > 0 {
		s.fqdn = name[0]
		_, domain, _ = strings.Cut(s.fqdn, ".")
		// The form depends on the client; this one is the longest.
		s.params = append(s.params, option{code: codeFQDN, data: s.fqdnData(nil)})
	}
	if domain == "" && len(s.search) > 0 {
		domain = s.search[0]
	}
	if domain != "" {
		s.params = append(s.params, option{code: codeDomain, data: []byte(domain), asked: true})
	}
	if s.boot.File != "" {
		s.params = append(
			s.params,
			option{code: codeBootServer, data: []byte(s.boot.Server.String()), asked: true},
			option{code: codeBootFile, data: []byte(s.boot.File), asked: true},
		)
	}
}

// fqdnData is option 81 for the client of r, in the form that it uses itself;
// in wire form without one. We enter no names into any DNS, and say so; a client
// that asked for it is told that it was overridden (RFC 4702 section 4).
func (s *Server) fqdnData(r *request) []byte {
	flags := byte(fqdnNoUpdates | fqdnWireForm)
	if r != nil {
		if v := r.msg.Options.Get(dhcpv4.OptionFQDN); len(v) > 0 {
			flags = fqdnNoUpdates | v[0]&fqdnWireForm
			if v[0]&fqdnServerUpdates != 0 {
				flags |= fqdnOverridden
			}
		}
	}
	data := []byte{flags, fqdnRcode, fqdnRcode}
	if flags&fqdnWireForm == 0 {
		return append(data, s.fqdn...)
	}
	return append(data, (&rfc1035label.Labels{Labels: []string{s.fqdn}}).ToBytes()...)
}

// chop cuts data into option instances (RFC 3396).
func chop(data []byte) (pieces [][]byte) {
	for len(data) > math.MaxUint8 {
		pieces = append(pieces, data[:math.MaxUint8])
		data = data[math.MaxUint8:]
	}
	return append(pieces, data)
}

// setBoot fills in the fields of the boot file.
func (s *Server) setBoot(m *dhcpv4.DHCPv4) {
	if s.boot.File == "" {
		return
	}
	m.ServerIPAddr = s.boot.Server.AsSlice()
	m.BootFileName = s.boot.File
}

// addClass answers an HTTP boot client, which takes no other offers.
func (s *Server) addClass(f *field, r *request) {
	if strings.HasPrefix(r.msg.ClassIdentifier(), httpClass) && strings.Contains(s.boot.File, "://") {
		f.add(codeClass, []byte(httpClass))
	}
}
