package banner

import (
	"encoding/xml"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/plan"
)

func examplePlan() plan.Plan {
	ip := netip.MustParseAddr
	return plan.Plan{
		MTU: 65520, AnnounceMTU: true,
		IPv4:        plan.IPv4{Enabled: true, Guest: ip("192.0.2.5"), Gateway: ip("192.0.2.1"), PrefixLen: 24},
		IPv6:        plan.IPv6{Enabled: true, Prefix: netip.MustParsePrefix("2001:db8::/64"), Gateway: ip("fe80::1")},
		DNS:         []netip.Addr{ip("192.0.2.1"), ip("192.0.2.53")},
		Search:      []string{"a.example"},
		DNSForward4: ip("192.0.2.1"), DNSHost4: ip("127.0.0.53"),
		MapHostLoopback4: ip("192.0.2.9"), MapGuest6: ip("2001:db8::9"),
	}
}

func wantAll(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing from:\n%s", w, text)
		}
	}
}

func TestListens(t *testing.T) {
	text := Screen{Version: "v1", SocketPath: "/run/x.sock", Plan: examplePlan(), Ports: []string{"tcp 2222:22"}}.Text()
	wantAll(t, text, "vhost-net-go v1: listening on /run/x.sock", "share=on",
		"-chardev socket,id=vnet0,path=/run/x.sock,reconnect-ms=1000 ", "-netdev vhost-user,", "before 9.2: reconnect=1",
		"path='/run/x.sock' mode='client'><reconnect enabled='yes'", "<access mode='shared'/>",
		"192.0.2.5/24, gateway 192.0.2.1", "2001:db8::/64 (the guest forms", "gateway fe80::1",
		"192.0.2.1 (to the host's 127.0.0.53), 192.0.2.53; search a.example", "MTU   65520",
		"tcp 2222:22 of the host", "loopback services, at 192.0.2.9", "services on the guest's address, at 2001:db8::9")
	if n := strings.Count(text, "\n"); n > 24 {
		t.Errorf("%d lines are more than one screen", n)
	}
}

func TestConnects(t *testing.T) {
	text := Screen{Role: Connects, SocketPath: "/run/x.sock", Plan: examplePlan()}.Text()
	wantAll(t, text, "connecting to /run/x.sock", "path=/run/x.sock,server=on,wait=off ", "mode='server'/>")
	if strings.Contains(text, "reconnect") {
		t.Errorf("QEMU as server cannot reconnect:\n%s", text)
	}
}

func TestInherits(t *testing.T) {
	text := Screen{Role: Inherits, FD: 7, Plan: examplePlan()}.Text()
	wantAll(t, text, "using inherited socket 7", "192.0.2.5/24")
	if strings.Contains(text, "chardev") {
		t.Errorf("there is nothing to connect to:\n%s", text)
	}
}

func TestSwitchedOff(t *testing.T) {
	p := examplePlan()
	p.IPv6, p.DNS, p.AnnounceMTU, p.NoDHCP = plan.IPv6{}, nil, false, true
	text := Screen{Plan: p}.Text()
	wantAll(t, text, "none announced", "(DHCP off)")
	if strings.Contains(text, "IPv6") || strings.Contains(text, "MTU") {
		t.Errorf("shows what is off:\n%s", text)
	}
	p = examplePlan()
	p.IPv6.Guest, p.NoRA = netip.MustParseAddr("2001:db8::9"), true
	wantAll(t, Screen{Plan: p}.Text(), "2001:db8::9/64, gateway fe80::1 (router advertisements off)")
}

// Paths with characters that mean something to QEMU, a shell or XML must
// arrive as they are.
func TestOddPaths(t *testing.T) {
	path := `/tmp/it's a, "test" & <more>.sock`
	text := Screen{SocketPath: path, Plan: examplePlan()}.Text()
	_, rest, _ := strings.Cut(text, "-chardev ")
	arg, _, _ := strings.Cut(rest, " \\\n")
	out, err := exec.Command("sh", "-c", "printf %s "+arg).Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := "path=" + strings.ReplaceAll(path, ",", ",,") + ",reconnect-ms"; !strings.Contains(string(out), want) {
		t.Errorf("the shell makes %q of it, want %q", out, want)
	}
	_, rest, _ = strings.Cut(text, "<source type='unix'")
	line, _, _ := strings.Cut("<source type='unix'"+rest, "\n")
	var source struct {
		Path string `xml:"path,attr"`
	}
	if err := xml.Unmarshal([]byte(line), &source); err != nil || source.Path != path {
		t.Errorf("XML gives %q, error %v", source.Path, err)
	}
}
