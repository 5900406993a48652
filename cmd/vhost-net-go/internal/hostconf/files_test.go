package hostconf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadNeverFailsOnFiles reads resolver files in every bad shape.
func TestReadNeverFailsOnFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(write("target", "nameserver 192.0.2.7\n"), link); err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "gone"), dangling); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ path, resolver string }{
		"missing":       {filepath.Join(dir, "none"), "127.0.0.1"},
		"empty":         {write("empty", ""), "127.0.0.1"},
		"link":          {link, "192.0.2.7"},
		"dangling link": {dangling, "127.0.0.1"},
		"folder":        {dir, "127.0.0.1"},
		"binary":        {write("binary", "\x00\xff\x00nameserver\x00"), "127.0.0.1"},
		"one long line": {write("long", "search "+strings.Repeat("a.example ", 300)+"\nnameserver 192.0.2.8\n"), "192.0.2.8"},
		"huge":          {write("huge", strings.Repeat("# nothing\n", 1<<16)+"nameserver 192.0.2.9\n"), "127.0.0.1"},
	} {
		st, err := Read(Source{ResolvConf: tt.path, MachineID: tt.path})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(st.Resolvers) != 1 || st.Resolvers[0].String() != tt.resolver {
			t.Errorf("%s: resolvers %v, want %s", name, st.Resolvers, tt.resolver)
		}
		if !st.ULA.IsValid() {
			t.Errorf("%s: no prefix", name)
		}
	}
}

// TestReadWithIPv6SwitchedOff takes IPv6 away from a namespace by sysctl.
func TestReadWithIPv6SwitchedOff(t *testing.T) {
	src := source(t, "", "")
	inNetns(t, func() {
		// The sysctl tree of a thread is that of its own namespace.
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0o600); err != nil {
			t.Logf("cannot switch IPv6 off: %v", err)
			return
		}
		st, err := Read(src)
		if err != nil {
			t.Error(err)
			return
		}
		if st.V6.Addr.IsValid() || st.V6.DefaultRoute {
			t.Errorf("IPv6 = %+v", st.V6)
		}
		if st.V4.Addr != pfx("192.0.2.5/24") || st.Warning != "" {
			t.Errorf("IPv4 = %+v, warning %q", st.V4, st.Warning)
		}
	}, append(veth0[:4:4], "addr add 192.0.2.5/24 dev up0", "route add default via 192.0.2.1", "addr add 2001:db8::5/64 dev up0 nodad")...)
}

func TestLocalPorts(t *testing.T) {
	if p := localPorts(); p[0] == 0 || p[0] > p[1] {
		t.Errorf("local ports %v", p)
	}
}
