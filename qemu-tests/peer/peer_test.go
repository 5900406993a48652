package peer

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/pattern"
	"golang.org/x/net/dns/dnsmessage"
)

func newPeer() *Peer {
	return &Peer{sums: map[int64]string{}, names: map[string][]net.IP{"peer.test": {net.ParseIP("192.0.2.1"), net.ParseIP("2001:db8::1")}}}
}

func get(t *testing.T, url string) (*http.Response, []byte) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

func TestWeb(t *testing.T) {
	p := newPeer()
	server := httptest.NewServer(p.handler())
	defer server.Close()

	resp, body := get(t, server.URL+"/blob?bytes=100003")
	d := pattern.NewDigest()
	_, _ = d.Write(body)
	if len(body) != 100003 || resp.Header.Get("X-Sha256") != d.Hex() {
		t.Errorf("%d bytes with sum %s, announced %s", len(body), d.Hex(), resp.Header.Get("X-Sha256"))
	}
	if resp, _ := get(t, server.URL+"/blob?bytes=-1"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a negative size: %s", resp.Status)
	}
	post, err := http.Post(server.URL+"/digest", "", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer post.Body.Close()
	if answer, _ := io.ReadAll(post.Body); strings.TrimSpace(string(answer)) != d.Hex() {
		t.Errorf("digest %q, want %s", answer, d.Hex())
	}
	if resp, _ := get(t, server.URL+"/flag"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the flag before it is raised: %s", resp.Status)
	}
	p.Flag()
	if resp, _ := get(t, server.URL+"/flag"); resp.StatusCode != http.StatusOK {
		t.Errorf("the flag after it is raised: %s", resp.Status)
	}
}

// answers parses the response to a query for name.
func answers(t *testing.T, p *Peer, name string, kind dnsmessage.Type) (dnsmessage.RCode, []string) {
	t.Helper()
	q := dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}
	response, err := p.response(dnsmessage.Header{ID: 77, RecursionDesired: true}, q)
	if err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(response); err != nil {
		t.Fatal(err)
	}
	if m.ID != 77 || !m.Response || len(m.Questions) != 1 {
		t.Errorf("header %v", m.GoString())
	}
	var found []string
	for _, a := range m.Answers {
		switch body := a.Body.(type) {
		case *dnsmessage.AResource:
			found = append(found, net.IP(body.A[:]).String())
		case *dnsmessage.AAAAResource:
			found = append(found, net.IP(body.AAAA[:]).String())
		}
	}
	return m.RCode, found
}

func TestDNS(t *testing.T) {
	p := newPeer()
	tests := []struct {
		name string
		kind dnsmessage.Type
		code dnsmessage.RCode
		want []string
	}{
		{"peer.test.", dnsmessage.TypeA, dnsmessage.RCodeSuccess, []string{"192.0.2.1"}},
		{"PEER.test.", dnsmessage.TypeAAAA, dnsmessage.RCodeSuccess, []string{"2001:db8::1"}},
		{"peer.test.", dnsmessage.TypeMX, dnsmessage.RCodeSuccess, nil},
		{"other.test.", dnsmessage.TypeA, dnsmessage.RCodeNameError, nil},
	}
	for _, tt := range tests {
		code, got := answers(t, p, tt.name, tt.kind)
		if code != tt.code || !cmp.Equal(got, tt.want) {
			t.Errorf("%s %v: %v %v", tt.name, tt.kind, code, got)
		}
	}
}

// loopback listens on ports of its own choice, as the real ones may be taken on this machine.
type loopback struct{ addresses map[string]net.Addr }

func (l loopback) Listen(network, address string) (net.Listener, error) {
	s, err := new(net.ListenConfig).Listen(context.Background(), network, "127.0.0.1:0")
	if err == nil {
		l.addresses[network+address] = s.Addr()
	}
	return s, err
}

func (l loopback) ListenPacket(network, address string) (net.PacketConn, error) {
	c, err := net.ListenPacket(network, "127.0.0.1:0")
	if err == nil {
		l.addresses[network+address] = c.LocalAddr()
	}
	return c, err
}

func TestStart(t *testing.T) {
	l := loopback{map[string]net.Addr{}}
	p, err := Start(l, "peer.test", []string{"192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if want := "http://192.0.2.1:8000/flag"; URL("192.0.2.1", "/flag") != want {
		t.Errorf("URL %s, want %s", URL("192.0.2.1", "/flag"), want)
	}
	start := time.Now()
	if _, ok := p.FirstBeatAfter(start); ok {
		t.Error("a beat before any")
	}
	for _, service := range []string{"udp192.0.2.1:9007", "udp192.0.2.1:9008", "udp192.0.2.1:53"} {
		c, err := net.Dial("udp", l.addresses[service].String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write([]byte("hello"))
		if service != "udp192.0.2.1:9007" {
			continue
		}
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
		buf := make([]byte, 100)
		if n, err := c.Read(buf); err != nil || string(buf[:n]) != "hello" {
			t.Errorf("echo %q, %v", buf[:n], err)
		}
	}
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(time.Millisecond) {
		if at, ok := p.FirstBeatAfter(start); ok {
			if at.Before(start) {
				t.Error("a beat from the past")
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no beat")
		}
	}
}
