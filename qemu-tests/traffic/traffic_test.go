package traffic

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/pattern"
)

// errorsSeen collects reports.
type errorsSeen struct {
	sync.Mutex
	list []error
}

func (e *errorsSeen) report(err error) {
	e.Lock()
	defer e.Unlock()
	e.list = append(e.list, err)
}

func (e *errorsSeen) all() string {
	e.Lock()
	defer e.Unlock()
	return errorText(errors.Join(e.list...))
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// listen serves streams on the loopback.
func listen(t *testing.T, serve func(net.Listener)) Dial {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go serve(l)
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}
}

func TestEveryModeIsCounted(t *testing.T) {
	for m := range modes {
		var seen errorsSeen
		client, server := &Traffic{Report: seen.report}, &Traffic{Report: seen.report}
		dial := listen(t, server.Serve)
		p := plan{seed: 5, up: 300_000, down: 200_000, mode: m}
		if m == abort {
			p.down = 0
		}
		if err := client.stream(dial, rand.New(rand.NewPCG(1, 1)), p); err != nil {
			t.Errorf("mode %d: %v", m, err)
		}
		for end := time.Now().Add(5 * time.Second); server.Streams.Load()+server.Aborts.Load() == 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		wantAborts := int64(0)
		if m == abort {
			wantAborts = 1
		}
		if client.Aborts.Load() != wantAborts || server.Aborts.Load() != wantAborts || seen.all() != "" {
			t.Errorf("mode %d: client %v, server %v, %s", m, client, server, seen.all())
		}
		if m != abort && (client.Bytes.Load() != p.down || server.Bytes.Load() != p.up) {
			t.Errorf("mode %d: client %v, server %v", m, client, server)
		}
	}
}

func TestRunFinishesWhatItBegins(t *testing.T) {
	var seen errorsSeen
	client, server := &Traffic{Report: seen.report}, &Traffic{Report: seen.report}
	dial := listen(t, server.Serve)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	client.Run(ctx, 4, []Dial{dial})
	if client.Streams.Load() == 0 || seen.all() != "" {
		t.Errorf("%v; %s", client, seen.all())
	}
}

// TestWrongServersAreNoticed has servers that do one thing wrong each.
func TestWrongServersAreNoticed(t *testing.T) {
	const n = 100_000
	tests := []struct {
		name  string
		serve func(*net.TCPConn)
		want  string
	}{
		{"one byte altered", func(c *net.TCPConn) {
			b := pattern.Bytes(8, n)
			b[n/2] ^= 1
			_, _ = c.Write(b)
		}, "wrong bytes"},
		{"too short", func(c *net.TCPConn) { _, _ = c.Write(pattern.Bytes(8, n-1)) }, "the end, after 99999"},
		{"too long", func(c *net.TCPConn) { _, _ = c.Write(pattern.Bytes(8, n+1)) }, "more than"},
		{"reset", func(c *net.TCPConn) { _ = c.SetLinger(0) }, "reset"},
	}
	for _, tt := range tests {
		dial := listen(t, func(l net.Listener) {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(c, make([]byte, planBytes))
			tt.serve(c.(*net.TCPConn))
			c.Close()
		})
		err := (&Traffic{}).stream(dial, rand.New(rand.NewPCG(1, 1)), plan{seed: 7, down: n, mode: duplex})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestReadNoticesAStall(t *testing.T) {
	dial := listen(t, func(l net.Listener) {
		if c, err := l.Accept(); err == nil {
			defer c.Close()
			_, _ = io.Copy(io.Discard, c)
		}
	})
	conn, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	traffic := new(Traffic)
	if _, err := (end{traffic, conn.(*net.TCPConn)}).read(make([]byte, 1), 20*time.Millisecond); !errors.Is(err, errStall) {
		t.Error(err)
	}
	if w := traffic.LongestWait(); w < 20*time.Millisecond {
		t.Errorf("waited %v", w)
	}
}

func TestExpectReset(t *testing.T) {
	if expectReset(nil) == nil || expectReset(errors.New("wrong bytes")) == nil {
		t.Error("anything is taken for a reset")
	}
}

func TestPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	seen := map[mode]int{}
	for range 1000 {
		p := newPlan(r)
		back, err := decodePlan(p.encode())
		if err != nil || back != p {
			t.Fatalf("%+v becomes %+v, %v", p, back, err)
		}
		seen[p.mode]++
	}
	if len(seen) != int(modes) {
		t.Errorf("not all modes are used: %v", seen)
	}
}

func FuzzDecodePlan(f *testing.F) {
	f.Add(plan{seed: 1, up: 2, down: 3, mode: abort}.encode())
	f.Add([]byte("GET / HTTP/1.1\r\nHost: example\r\n\r\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodePlan(b)
		if err == nil && (p.mode >= modes || p.up < 0 || p.up > maxBytes || p.down < 0 || p.down > maxBytes) {
			t.Errorf("%+v", p)
		}
	})
}

func TestEcho(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go ServeEcho(c)
	conn, err := net.Dial("udp", c.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var seen errorsSeen
	traffic := &Traffic{Report: seen.report}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	traffic.Echo(ctx, conn)
	if traffic.Datagrams.Load() == 0 || seen.all() != "" {
		t.Errorf("%v; %s", traffic, seen.all())
	}
}

func TestEchoNoticesAnAlteredDatagram(t *testing.T) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go func() {
		b := make([]byte, 100)
		n, from, _ := c.ReadFrom(b)
		b[n-1] ^= 1
		_, _ = c.WriteTo(b[:n], from)
	}()
	conn, err := net.Dial("udp", c.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := echo(conn, []byte("12345678 text")); !errors.Is(err, errAltered) {
		t.Error(err)
	}
}
