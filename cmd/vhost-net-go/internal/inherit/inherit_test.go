package inherit

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack/forward"
)

// filer is what the standard library's sockets have.
type filer interface{ File() (*os.File, error) }

func file(t *testing.T, c filer, err error) *os.File {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func tcpFile(t *testing.T, network, addr string) (*os.File, uint16) {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { l.Close() })
	port := netip.MustParseAddrPort(l.Addr().String()).Port()
	return file(t, l.(*net.TCPListener), nil), port
}

var cmpAddr = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestTake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ul, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	unixFile := file(t, ul, err)
	defer ul.Close()
	lo, loPort := tcpFile(t, "tcp4", "127.0.0.1:0")
	dual, dualPort := tcpFile(t, "tcp", "[::]:0")
	uc, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	udp := file(t, uc, err)
	defer uc.Close()
	udpPort := uint16(uc.LocalAddr().(*net.UDPAddr).Port)

	s, err := take([]*os.File{lo, unixFile, dual, udp})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.FD < 0 || s.Path != path || len(s.Forwards) != 3 {
		t.Fatalf("%+v", s)
	}
	lo4 := netip.MustParseAddr("127.0.0.1")
	given := []forward.Rule{
		{Proto: forward.TCP, ListenAddr: lo4, FirstPort: loPort, LastPort: loPort, TargetFirstPort: 22},
		{Proto: forward.TCP, FirstPort: udpPort, LastPort: udpPort, TargetFirstPort: udpPort},
	}
	want := []forward.Rule{
		{Proto: forward.TCP, FirstPort: dualPort, LastPort: dualPort, TargetFirstPort: dualPort},
		{Proto: forward.UDP, ListenAddr: lo4, FirstPort: udpPort, LastPort: udpPort, TargetFirstPort: udpPort},
	}
	if d := cmp.Diff(want, s.Rules(given), cmpAddr); d != "" {
		t.Errorf("rules (-want +got):\n%s", d)
	}
}

func TestServes(t *testing.T) {
	f, port := tcpFile(t, "tcp", "[::]:0")
	s, err := take([]*os.File{f})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	in := s.Forwards[0]
	rule := func(change func(*forward.Rule)) forward.Rule {
		r := forward.Rule{Proto: forward.TCP, FirstPort: port, LastPort: port, TargetFirstPort: 22}
		change(&r)
		return r
	}
	for name, tt := range map[string]struct {
		r    forward.Rule
		want bool
	}{
		"both families": {rule(func(*forward.Rule) {}), true},
		"one family":    {rule(func(r *forward.Rule) { r.ListenAddr = netip.IPv4Unspecified() }), true},
		"UDP":           {rule(func(r *forward.Rule) { r.Proto = forward.UDP }), false},
		"an interface":  {rule(func(r *forward.Rule) { r.Interface = "eth0" }), false},
		"an address":    {rule(func(r *forward.Rule) { r.ListenAddr = netip.MustParseAddr("127.0.0.1") }), false},
	} {
		if got := in.Serves(tt.r, port); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if in.Serves(rule(func(*forward.Rule) {}), port-1) {
		t.Error("serves another port")
	}
}

func TestTakeRefuses(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	unbound, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		files []*os.File
		want  string
	}{
		{[]*os.File{os.NewFile(uintptr(pair[0]), "a"), os.NewFile(uintptr(pair[1]), "b")}, "(b): a second Unix socket"},
		{[]*os.File{null}, "non-socket"},
		{[]*os.File{os.NewFile(uintptr(unbound), "web")}, "(web): neither a listening TCP socket"},
	} {
		s, err := take(tt.files)
		if err == nil || !strings.Contains(err.Error(), tt.want) || s.FD != -1 {
			t.Errorf("%+v, error %v, want %q", s, err, tt.want)
		}
	}
}

func TestTakeNothing(t *testing.T) {
	t.Setenv("LISTEN_FDS", "1")
	t.Setenv("LISTEN_PID", "1") // meant for somebody else
	s, err := Take()
	if err != nil || s.FD != -1 || len(s.Forwards) != 0 {
		t.Errorf("%+v, error %v", s, err)
	}
	if _, there := os.LookupEnv("LISTEN_FDS"); there {
		t.Error("the environment still has LISTEN_FDS")
	}
}
