package hostconf

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inNetns runs f on a thread in a network namespace of its own, set up with
// the given ip(8) commands. The thread is not returned to the runtime.
func inNetns(t *testing.T, f func(), setup ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a network namespace")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("needs ip(8) from iproute2")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("unshare: %v", err)
			return
		}
		for _, line := range setup {
			// The child inherits this thread's namespace.
			if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
				t.Errorf("ip %s: %v: %s", line, err, out)
				return
			}
		}
		f()
	}()
	<-done
}

func source(t *testing.T, iface, resolv string) Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(path, []byte(resolv), 0o600); err != nil {
		t.Fatal(err)
	}
	return Source{Interface4: iface, Interface6: iface, ResolvConf: path}
}

// veth0 is a pair whose one end plays the uplink.
var veth0 = []string{"link set lo up", "link add up0 mtu 1480 type veth peer name up1", "link set up0 up", "link set up1 up"}

func TestReadRealHosts(t *testing.T) {
	tests := []struct {
		name    string
		setup   []string
		want4   Family
		want6   Family
		warning string
	}{
		{name: "no network", warning: "no network"},
		{name: "loopback only", setup: []string{"link set lo up"}, warning: "no network"},
		{
			name: "ordinary",
			setup: append(veth0[:4:4],
				"addr add 192.0.2.5/24 dev up0", "route add default via 192.0.2.1",
				"addr add 2001:db8::5/64 dev up0 nodad", "-6 route add default via fe80::1 dev up0"),
			want4: Family{Interface: "up0", MTU: 1480, Addr: pfx("192.0.2.5/24"), DefaultRoute: true, Gateway: ip("192.0.2.1")},
			want6: Family{Interface: "up0", MTU: 1480, Addr: pfx("2001:db8::5/64"), DefaultRoute: true, Gateway: ip("fe80::1")},
		},
		{
			name:  "no default route",
			setup: append(veth0[:4:4], "addr add 192.0.2.5/24 dev up0"),
			want4: Family{Interface: "up0", MTU: 1480, Addr: pfx("192.0.2.5/24")},
		},
		{
			name:  "IPv6 only",
			setup: append(veth0[:4:4], "addr add 2001:db8::5/64 dev up0 nodad", "-6 route add default via fe80::1 dev up0"),
			want6: Family{Interface: "up0", MTU: 1480, Addr: pfx("2001:db8::5/64"), DefaultRoute: true, Gateway: ip("fe80::1")},
		},
		{
			name: "address of 32 bits with a gateway outside",
			setup: append(veth0[:4:4], "addr add 203.0.113.5/32 dev up0", "route add 172.31.1.1 dev up0",
				"route add default via 172.31.1.1 dev up0"),
			want4: Family{Interface: "up0", MTU: 1480, Addr: pfx("203.0.113.5/32"), DefaultRoute: true, Gateway: ip("172.31.1.1")},
		},
		{
			name: "point-to-point tunnel without gateway",
			setup: []string{
				"tuntap add tun7 mode tun", "link set tun7 up mtu 1420", "addr add 10.9.0.2 peer 10.9.0.1 dev tun7",
				"route add default dev tun7",
			},
			want4: Family{Interface: "tun7", MTU: 1420, Addr: pfx("10.9.0.2/32"), Peer: ip("10.9.0.1"), DefaultRoute: true},
		},
		{
			name: "multipath",
			setup: append(veth0[:4:4], "addr add 192.0.2.5/24 dev up0", "addr add 198.51.100.5/24 dev up1",
				"route add default nexthop via 192.0.2.1 dev up0 weight 1 nexthop via 198.51.100.1 dev up1 weight 10"),
			want4: Family{Interface: "up1", MTU: 1500, Addr: pfx("198.51.100.5/24"), DefaultRoute: true, Gateway: ip("198.51.100.1")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := source(t, "", "nameserver 127.0.0.53\n")
			inNetns(t, func() {
				st, err := Read(src)
				if err != nil {
					t.Error(err)
					return
				}
				if st.V4 != tt.want4 {
					t.Errorf("IPv4 = %+v, want %+v", st.V4, tt.want4)
				}
				if st.V6 != tt.want6 {
					t.Errorf("IPv6 = %+v, want %+v", st.V6, tt.want6)
				}
				if (st.Warning == "") != (tt.warning == "") || !strings.Contains(st.Warning, tt.warning) {
					t.Errorf("warning %q, want %q", st.Warning, tt.warning)
				}
				if len(st.Resolvers) != 1 || st.Resolvers[0] != ip("127.0.0.53") {
					t.Errorf("resolvers = %v", st.Resolvers)
				}
			}, tt.setup...)
		})
	}
}

func TestReadAskedInterface(t *testing.T) {
	src, none := source(t, "up1", ""), source(t, "eth99", "")
	inNetns(t, func() {
		st, err := Read(src)
		if err != nil || st.V4.Interface != "up1" || st.V4.Addr != pfx("198.51.100.5/24") {
			t.Errorf("IPv4 = %+v, error %v", st.V4, err)
		}
		if _, err := Read(none); !errors.Is(err, ErrNoInterface) || !strings.Contains(err.Error(), "eth99") {
			t.Errorf("error %v, want %v", err, ErrNoInterface)
		}
	}, append(veth0[:4:4], "addr add 192.0.2.5/24 dev up0", "route add default via 192.0.2.1", "addr add 198.51.100.5/24 dev up1")...)
}

// TestReadHere runs without any privilege, on whatever this machine has.
func TestReadHere(t *testing.T) {
	st, err := Read(DefaultSource())
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Resolvers) == 0 || !st.ULA.IsValid() {
		t.Errorf("incomplete: %+v", st)
	}
}
