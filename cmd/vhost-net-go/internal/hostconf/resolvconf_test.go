package hostconf

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseResolvConf(t *testing.T) {
	tests := []struct {
		name, text string
		resolvers  string
		search     []string
	}{
		{"empty means this machine", "", "127.0.0.1", nil},
		{"options only", "options edns0 trust-ad\n", "127.0.0.1", nil},
		{"comments", "# nameserver 192.0.2.1\n; nameserver 192.0.2.2\n", "127.0.0.1", nil},
		{"stub", "nameserver 127.0.0.53\nsearch a.example b.example.\n", "127.0.0.53", []string{"a.example", "b.example"}},
		{"three IPv6 then IPv4", "nameserver ::1\nnameserver 2001:db8::2\nnameserver 2001:db8::3\nnameserver 192.0.2.1", "::1 2001:db8::2 2001:db8::3 192.0.2.1", nil},
		{"five", "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4\nnameserver 192.0.2.5", "192.0.2.1 192.0.2.2 192.0.2.3", nil},
		{"repeated", "nameserver 192.0.2.1\nnameserver 192.0.2.1\nnameserver 192.0.2.2", "192.0.2.1 192.0.2.2", nil},
		{"scoped", "nameserver fe80::1%eth0", "fe80::1%eth0", nil},
		{"mapped", "nameserver ::ffff:192.0.2.1", "192.0.2.1", nil},
		{"nonsense", "nameserver\nnameserver x\nnameserver 224.0.0.1\n\x00\xff\nnameserver 192.0.2.1 # ours\r\n", "192.0.2.1", nil},
		{"last search line", "search a.example\ndomain b.example\n", "127.0.0.1", []string{"b.example"}},
		{"many names", "search a b c a d e f g h", "127.0.0.1", []string{"a", "b", "c", "d", "e", "f"}},
		{"bad names", "search . a..b -x ok.example " + strings.Repeat("a", 64), "127.0.0.1", []string{"ok.example"}},
		{"tabs", "nameserver\t192.0.2.1\nsearch\ta\tb", "192.0.2.1", []string{"a", "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want []netip.Addr
			for s := range strings.FieldsSeq(tt.resolvers) {
				want = append(want, netip.MustParseAddr(s))
			}
			resolvers, search := ParseResolvConf([]byte(tt.text))
			if d := cmp.Diff(want, resolvers, cmpNet); d != "" {
				t.Errorf("resolvers (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.search, search); d != "" {
				t.Errorf("search (-want +got):\n%s", d)
			}
		})
	}
}

func FuzzParseResolvConf(f *testing.F) {
	f.Add([]byte("nameserver 127.0.0.53\nsearch a.example\noptions edns0\n"))
	f.Add([]byte("nameserver fe80::1%eth0\n#x\n;y\ndomain b."))
	f.Fuzz(func(t *testing.T, text []byte) {
		resolvers, search := ParseResolvConf(text)
		if len(resolvers) < 1 || len(resolvers) > 6 || len(search) > 6 {
			t.Fatalf("%d resolvers, %d names", len(resolvers), len(search))
		}
	})
}

func TestULA(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "machine-id")
	if err := os.WriteFile(path, []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := machineULA(path)
	if a != machineULA(path) {
		t.Error("the prefix changes from call to call")
	}
	if a == ULA([]byte("another machine")) {
		t.Error("two machines have one prefix")
	}
	if a.Bits() != 64 || a != a.Masked() || a.Addr().As16()[0] != 0xfd {
		t.Errorf("%v is no prefix of RFC 4193", a)
	}
	if x, y := machineULA(dir+"/none"), machineULA(dir+"/none"); x == y {
		t.Error("without an id the prefix is not random")
	}
}
