package dhcp6

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/insomniacslk/dhcp/dhcpv6"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
)

const (
	advertise = dhcpv6.MessageTypeAdvertise
	replied   = dhcpv6.MessageTypeReply
)

// TestClientLife goes through all that a client does, with its own encoder.
func TestClientLife(t *testing.T) {
	s := newServer(t, nil)
	adv := ask(t, s, solicit(t))
	if adv == nil || adv.MessageType != advertise || adv.Options.Preference() != 255 || s.Committed() {
		t.Fatalf("RFC 8415 18.3.1 Solicit: %v", adv)
	}
	req, err := dhcpv6.NewRequestFromAdvertise(adv)
	if err != nil {
		t.Fatal(err)
	}
	rep := ask(t, s, req)
	if rep == nil || rep.MessageType != replied || !s.Committed() {
		t.Fatalf("RFC 8415 18.3.2 Request: %v", rep)
	}
	ia := rep.Options.OneIANA()
	a := ia.Options.OneAddress()
	got := []string{a.IPv6Addr.String(), a.PreferredLifetime.String(), a.ValidLifetime.String(), ia.T1.String(), ia.T2.String()}
	if diff := cmp.Diff([]string{"2001:db8::5", "24h0m0s", "48h0m0s", "12h0m0s", "19h12m0s"}, got); diff != "" {
		t.Errorf("lease (-want +got):\n%s", diff)
	}
	if ia.IaId != req.Options.OneIANA().IaId || !rep.Options.ClientID().Equal(req.Options.ClientID()) {
		t.Error("the client's identifiers changed")
	}
	if dns := fmt.Sprint(rep.Options.DNS()); dns != "[2001:db8::53 fe80::1]" {
		t.Errorf("RFC 3646 3 resolvers %s", dns)
	}
	if names := rep.Options.DomainSearchList(); names == nil || fmt.Sprint(names.Labels) != "[a.example b.example]" {
		t.Errorf("RFC 3646 4 search list %v", names)
	}
	want := Counters{Advertises: 1, Leases: 1}
	if diff := cmp.Diff(want, s.Counters()); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
}

// TestAnswers is RFC 8415 sections 16 and 18.3 and 18.4 as a table.
func TestAnswers(t *testing.T) {
	const (
		none    = dhcpv6.MessageTypeNone
		foreign = "2001:db8:bad::7"
		on      = "2001:db8::77"
		right   = "2001:db8::5"
	)
	tests := []struct {
		name   string
		kind   dhcpv6.MessageType
		server bool     // with our identifier
		addrs  []string // of the IA_NA; "" makes one without an address
		to     netip.Addr
		want   dhcpv6.MessageType
		status string
		ias    []string
	}{
		{"18.3.1 solicit", dhcpv6.MessageTypeSolicit, false, []string{""}, allServers, advertise, "", []string{"NA 2001:db8::5 "}},
		{"18.3.1 solicit with a wish", dhcpv6.MessageTypeSolicit, false, []string{foreign}, allServers, advertise, "", []string{"NA 2001:db8::5 "}},
		{"16.2 solicit with a server", dhcpv6.MessageTypeSolicit, true, []string{""}, allServers, none, "", nil},
		{"18.4 solicit by unicast", dhcpv6.MessageTypeSolicit, false, []string{""}, ourLL, none, "", nil},
		{"18.3.2 request", dhcpv6.MessageTypeRequest, true, []string{right}, allServers, replied, "", []string{"NA 2001:db8::5 "}},
		{"18.3.2 request of a foreign address", dhcpv6.MessageTypeRequest, true, []string{foreign}, allServers, replied, "", []string{"NA NotOnLink"}},
		{"18.3.2 request of another address", dhcpv6.MessageTypeRequest, true, []string{on}, allServers, replied, "", []string{"NA 2001:db8::5 -2001:db8::77 "}},
		{"request of the unspecified address", dhcpv6.MessageTypeRequest, true, []string{"::"}, allServers, replied, "", []string{"NA 2001:db8::5 "}},
		{"16.4 request without a server", dhcpv6.MessageTypeRequest, false, []string{right}, allServers, none, "", nil},
		{"18.4 request by unicast", dhcpv6.MessageTypeRequest, true, []string{right}, ourLL, replied, "UseMulticast", nil},
		{"18.3.3 confirm", dhcpv6.MessageTypeConfirm, false, []string{right}, allServers, replied, "Success", nil},
		{"18.3.3 confirm in the prefix", dhcpv6.MessageTypeConfirm, false, []string{on}, allServers, replied, "Success", nil},
		{"18.3.3 confirm elsewhere", dhcpv6.MessageTypeConfirm, false, []string{right, foreign}, allServers, replied, "NotOnLink", nil},
		{"18.3.3 confirm nothing", dhcpv6.MessageTypeConfirm, false, []string{""}, allServers, none, "", nil},
		{"16.5 confirm with a server", dhcpv6.MessageTypeConfirm, true, []string{right}, allServers, none, "", nil},
		{"18.3.4 renew", dhcpv6.MessageTypeRenew, true, []string{right}, allServers, replied, "", []string{"NA 2001:db8::5 "}},
		{"18.3.4 renew a foreign address", dhcpv6.MessageTypeRenew, true, []string{foreign}, allServers, replied, "", []string{"NA 2001:db8::5 -2001:db8:bad::7 "}},
		{"16.6 renew without a server", dhcpv6.MessageTypeRenew, false, []string{right}, allServers, none, "", nil},
		{"18.3.5 rebind", dhcpv6.MessageTypeRebind, false, []string{right}, allServers, replied, "", []string{"NA 2001:db8::5 "}},
		{"16.7 rebind with a server", dhcpv6.MessageTypeRebind, true, []string{right}, allServers, none, "", nil},
		{"18.3.6 information", dhcpv6.MessageTypeInformationRequest, false, nil, allServers, replied, "", nil},
		{"16.12 information with an IA", dhcpv6.MessageTypeInformationRequest, false, []string{right}, allServers, none, "", nil},
		{"18.3.7 release", dhcpv6.MessageTypeRelease, true, []string{right}, allServers, replied, "Success", nil},
		{"16.9 release without a server", dhcpv6.MessageTypeRelease, false, []string{right}, allServers, none, "", nil},
		{"18.3.8 decline", dhcpv6.MessageTypeDecline, true, []string{right}, allServers, replied, "Success", nil},
		{"16.3 a server's message", advertise, true, []string{right}, allServers, none, "", nil},
		{"16.13 relayed", dhcpv6.MessageTypeRelayForward, false, nil, allServers, none, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, nil)
			r := askAt(t, s, tt.to, message(t, s, tt.kind, tt.server, tt.addrs...))
			if r == nil {
				if tt.want != none {
					t.Error("no answer")
				}
				return
			}
			status := ""
			if st := r.Options.Status(); st != nil {
				status = st.StatusCode.String()
			}
			if r.MessageType != tt.want || status != tt.status {
				t.Errorf("got %v with status %q", r.MessageType, status)
			}
			if diff := cmp.Diff(tt.ias, grants(r), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("associations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRapidCommit(t *testing.T) {
	s := newServer(t, nil)
	m := ask(t, s, solicit(t, dhcpv6.WithRapidCommit))
	if m == nil || m.MessageType != replied || m.GetOneOption(dhcpv6.OptionRapidCommit) == nil || !s.Committed() {
		t.Errorf("RFC 8415 18.3.1 got %v", m)
	}
	none := newServer(t, func(c *Config) { c.Addr = netip.Addr{} })
	if m := ask(t, none, solicit(t, dhcpv6.WithRapidCommit)); m == nil || m.MessageType != advertise || none.Committed() {
		t.Errorf("without an address: got %v", m)
	}
}

func TestAssociations(t *testing.T) {
	all := []dhcpv6.Option{
		&dhcpv6.OptIATA{IaId: [4]byte{3: 9}}, ianaOf(1), ianaOf(2, "2001:db8::77"), &dhcpv6.OptIAPD{IaId: [4]byte{3: 8}},
	}
	withAll := func(kind dhcpv6.MessageType, s *Server, server bool) *dhcpv6.Message {
		m := message(t, s, kind, server)
		for _, o := range all {
			m.AddOption(o)
		}
		return m
	}
	s := newServer(t, nil)
	got := grants(ask(t, s, withAll(dhcpv6.MessageTypeSolicit, s, false)))
	want := []string{"TA NoAddrsAvail", "NA 2001:db8::5 ", "NA NoAddrsAvail", "PD NoPrefixAvail"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("RFC 8415 18.3.1 solicit (-want +got):\n%s", diff)
	}
	got = grants(ask(t, s, withAll(dhcpv6.MessageTypeRenew, s, true)))
	want = []string{"TA NoBinding", "NA 2001:db8::5 ", "NA NoBinding", "PD NoBinding"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("RFC 8415 18.3.4 renew (-want +got):\n%s", diff)
	}
	s = newServer(t, func(c *Config) { c.Addr = netip.Addr{} })
	got = grants(ask(t, s, withAll(dhcpv6.MessageTypeSolicit, s, false)))
	want = []string{"TA NoAddrsAvail", "NA NoAddrsAvail", "NA NoAddrsAvail", "PD NoPrefixAvail"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("without an address (-want +got):\n%s", diff)
	}
}

// TestRestart is RFC 8415 section 11: the DUID of a restarted server is the
// same, so that clients can go on.
func TestRestart(t *testing.T) {
	before := newServer(t, nil)
	renew := message(t, before, dhcpv6.MessageTypeRenew, true, "2001:db8::5")
	if r := ask(t, newServer(t, nil), renew); r == nil || len(r.Options.IANA()) != 1 {
		t.Errorf("renewal at a restarted server: %v", r)
	}
	other := newServer(t, func(c *Config) { c.MAC[5]++ })
	other.mac = ourMAC
	if r := ask(t, other, renew); r != nil {
		t.Errorf("RFC 8415 16.6 answered for another server: %v", r)
	}
}

func TestRequestedOptions(t *testing.T) {
	edit := func(c *Config) { c.FQDN, c.BootURL = "vm.a.example.", "http://boot.example/x.efi" }
	tests := []struct {
		name string
		edit func(*dhcpv6.Message)
		want []dhcpv6.OptionCode
	}{
		{"no list", func(*dhcpv6.Message) {}, []dhcpv6.OptionCode{39, 23, 59, 24}},
		{"resolvers only", func(m *dhcpv6.Message) { m.AddOption(dhcpv6.OptRequestedOption(23)) }, []dhcpv6.OptionCode{23}},
		{"RFC 4704 5 name sent", func(m *dhcpv6.Message) {
			m.AddOption(dhcpv6.OptRequestedOption(24, 59))
			m.AddOption(&dhcpv6.OptionGeneric{OptionCode: 39, OptionData: []byte{1, 1, 'x', 0}})
		}, []dhcpv6.OptionCode{39, 59, 24}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t, edit)
			m := message(t, s, dhcpv6.MessageTypeInformationRequest, false)
			tt.edit(m)
			var got []dhcpv6.OptionCode
			for _, o := range ask(t, s, m).Options.Options {
				if c := o.Code(); c != dhcpv6.OptionClientID && c != dhcpv6.OptionServerID {
					got = append(got, c)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFQDN(t *testing.T) {
	s := newServer(t, func(c *Config) { c.FQDN = "vm.a.example." })
	for flags, want := range map[byte]uint8{0: 4, 1: 6, 4: 4} {
		m := message(t, s, dhcpv6.MessageTypeInformationRequest, false)
		m.AddOption(&dhcpv6.OptionGeneric{OptionCode: 39, OptionData: []byte{flags, 1, 'x', 0}})
		f := ask(t, s, m).Options.FQDN()
		if f == nil || f.Flags != want || fmt.Sprint(f.DomainName.Labels) != "[vm.a.example]" {
			t.Errorf("RFC 4704 6 client flags %d: got %v, want flags %d", flags, f, want)
		}
	}
}

// TestSearchListIsCut also checks the size of the packet, in decode.
func TestSearchListIsCut(t *testing.T) {
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprintf("dept%d.corp.example", i))
	}
	s := newServer(t, func(c *Config) { c.Search, c.BootURL = names, "http://"+strings.Repeat("x", 200) })
	got := ask(t, s, solicit(t)).Options.DomainSearchList()
	if got == nil || len(got.Labels) < 20 || len(got.Labels) >= 256 {
		t.Fatalf("got %v", got)
	}
	if diff := cmp.Diff(names[:len(got.Labels)], got.Labels); diff != "" {
		t.Errorf("RFC 3646 4 (-want +got):\n%s", diff)
	}
}

// TestFullReply asks for more than a reply can hold.
func TestFullReply(t *testing.T) {
	s := newServer(t, func(c *Config) { c.FQDN = strings.Repeat("a23456789.", 24) + "example" })
	m := message(t, s, dhcpv6.MessageTypeRenew, true)
	m.Options.Options[0] = &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionClientID, OptionData: make([]byte, maxDUID)}
	for i := range byte(20) {
		ia := ianaOf(i)
		for j := range 20 {
			ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: netip.AddrFrom16([16]byte{0: 0x20, 15: byte(j)}).AsSlice()})
		}
		m.AddOption(ia)
	}
	if r := ask(t, s, m); r == nil || len(r.Options.IANA()) != maxIAs || len(r.Options.DNS()) != 2 {
		t.Errorf("got %v", r)
	}
}

func TestMalformed(t *testing.T) {
	s := newServer(t, nil)
	good := message(t, s, dhcpv6.MessageTypeSolicit, false, "").ToBytes()
	tests := []struct {
		name string
		b    []byte
	}{
		{"empty", nil},
		{"short header", good[:3]},
		{"half an option header", append(append([]byte(nil), good...), 0, 14, 0)},
		{"option beyond the end", append(append([]byte(nil), good...), 0, 14, 0, 1)},
		{"11.1 client identifier too short", []byte{1, 0, 0, 1, 0, 1, 0, 2, 0, 3}},
		{"11.1 client identifier too long", append([]byte{1, 0, 0, 1, 0, 1, 0, 131}, make([]byte, 131)...)},
		{"short IA_NA", append(append([]byte(nil), good...), 0, 3, 0, 2, 0, 0)},
		{"short address in an IA_NA", append(append([]byte(nil), good...), 0, 3, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 4, 1, 2, 3, 4)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := s.Counters().Ignored
			if _, ok := s.Handle(nil, wire(allServers, tt.b)); ok {
				t.Error("answered")
			}
			if s.Counters().Ignored != before+1 {
				t.Error("not counted")
			}
		})
	}
	f := wire(allServers, good)
	for name, edit := range map[string]func(b []byte){
		"another station":   func(b []byte) { b[0] = 0x52 },
		"another group":     func(b []byte) { b[header.EthLen+39] = 3 },
		"another port":      func(b []byte) { b[header.EthLen+header.IPv6Len+3] = 53 },
		"a group's frame":   func(b []byte) { b[6] |= 1 },
		"no return address": func(b []byte) { clear(b[header.EthLen+8 : header.EthLen+24]) },
		"another protocol":  func(b []byte) { b[header.EthLen+6] = header.ProtoTCP },
	} {
		b := append([]byte(nil), f...)
		edit(b)
		if _, ok := s.Handle(nil, b); ok {
			t.Errorf("%s: answered", name)
		}
	}
	if _, ok := s.Handle(nil, f); !ok {
		t.Error("the unchanged frame is not answered")
	}
}

func TestNewRefuses(t *testing.T) {
	good := Config{MAC: ourMAC, LinkLocal: ourLL, Addr: assigned}
	for name, edit := range map[string]func(*Config){
		"no MAC":            func(c *Config) { c.MAC = header.MAC{} },
		"group MAC":         func(c *Config) { c.MAC = header.Broadcast },
		"no own address":    func(c *Config) { c.LinkLocal = netip.Addr{} },
		"global address":    func(c *Config) { c.LinkLocal = assigned },
		"IPv4 guest":        func(c *Config) { c.Addr = ip("192.0.2.1") },
		"link-local guest":  func(c *Config) { c.Addr = guestLL },
		"IPv4 prefix":       func(c *Config) { c.Prefix = netip.MustParsePrefix("10.0.0.0/8") },
		"short lease":       func(c *Config) { c.Lease = time.Second },
		"endless lease":     func(c *Config) { c.Lease = MaxLease + time.Second },
		"name that is none": func(c *Config) { c.FQDN = "a..b" },
		"long URL":          func(c *Config) { c.BootURL = strings.Repeat("x", 300) },
	} {
		c := good
		if edit(&c); true {
			if _, err := New(c); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

func FuzzDHCP6(f *testing.F) {
	s := newServer(f, nil)
	f.Add(solicit(f).ToBytes())
	f.Add(solicit(f, dhcpv6.WithRapidCommit, dhcpv6.WithRequestedOptions(23, 24, 39)).ToBytes())
	for _, kind := range []dhcpv6.MessageType{3, 4, 5, 6, 8, 9, 11} {
		f.Add(message(f, s, kind, true, "2001:db8::5", "2001:db8::6").ToBytes())
		f.Add(message(f, s, kind, false, "2001:db8::5").ToBytes())
		f.Add(message(f, s, kind, false).ToBytes())
	}
	// An identifier that only looks like a UUID: opaque to us, not to the library (RFC 8415 section 11).
	f.Add([]byte("\x06000\x00\x01\x00\n\x00\x0400000000"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 4000 {
			return
		}
		s := newServer(t, func(c *Config) { c.FQDN = "vm.example" })
		for _, dst := range []netip.Addr{allServers, ourLL} {
			reply, ok := s.Handle(nil, wire(dst, in))
			if !ok {
				continue
			}
			if req, _ := s.parse(wire(dst, in)); req.clientID != nil {
				if _, err := dhcpv6.DUIDFromBytes(req.clientID); err != nil {
					message := reply[header.EthLen+header.IPv6Len+header.UDPLen+sizeHeader:]
					if !walk(message, func(dhcpv6.OptionCode, []byte) bool { return true }) {
						t.Fatal("our message: broken options")
					}
					continue
				}
			}
			m := decode(t, reply)
			for _, ia := range m.Options.IANA() {
				for _, a := range ia.Options.Addresses() {
					if got, _ := netip.AddrFromSlice(a.IPv6Addr); a.ValidLifetime != 0 && got != assigned {
						t.Fatalf("gave %v", got)
					}
				}
			}
		}
		s.Handle(nil, in)
	})
}
