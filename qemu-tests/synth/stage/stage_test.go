package stage

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

func newStage(t *testing.T) (context.Context, *Stage) {
	t.Helper()
	if ns, err := sandbox.NewNetNS(); err != nil {
		t.Skipf("network namespaces: %v", err)
	} else {
		ns.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	s, err := New(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx, s
}

// within waits for cond.
func within(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

func TestPeer(t *testing.T) {
	ctx, s := newStage(t)
	p, err := s.StartPeer(ctx, 6000)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	dial := func(network string, role int) net.Conn {
		var conn net.Conn
		if err := s.VM.Do(func() (err error) {
			conn, err = net.Dial(network, p.Addr(role).String())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	b := make([]byte, 1000)

	for _, role := range []int{EchoPort, EchoPort + EchoPorts - 1} {
		echo := dial("tcp", role)
		_, _ = echo.Write(b)
		if n, err := echo.Read(b); n == 0 {
			t.Errorf("no echo: %v", err)
		}
		if c := p.Counters(); c.Open != 1 {
			t.Errorf("counters %+v with one connection", c)
		}
		echo.Close()
		within(t, "close", func() bool { return p.Counters().Open == 0 })
	}
	before := p.Counters()
	sink := dial("tcp", SinkPort)
	_, _ = sink.Write(b)
	within(t, "sink", func() bool { return p.Counters().BytesIn == before.BytesIn+1000 })
	if n, err := dial("tcp", SourcePort).Read(b); n == 0 {
		t.Errorf("nothing from the source: %v", err)
	}

	udp := dial("udp", DatagramEcho)
	_, _ = udp.Write(b[:10])
	if n, _ := udp.Read(b); n != 10 {
		t.Errorf("echo of %d bytes, want 10", n)
	}
	_, _ = dial("udp", DatagramSink).Write(b)
	within(t, "datagram sink", func() bool { return p.Counters().DatagramsIn == 2 })
	source := dial("udp", DatagramSource)
	_, _ = source.Write(b[:20])
	if n, _ := source.Read(b); n != 20 {
		t.Errorf("%d bytes from the source, want 20", n)
	}
	_, _ = source.Write(nil)
	if c := p.Counters(); c.Failed != 0 {
		t.Errorf("counters %+v", c)
	}
}

func TestPlain(t *testing.T) {
	ctx, s := newStage(t)
	p, err := s.StartPeer(ctx, 6000)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	plain, err := s.StartPlain(ctx, p, true, true)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Stop()
	within(t, "both directions", func() bool { return p.Counters().BytesIn > 1<<20 && plain.Counters().BytesIn > 1<<20 })
	u, err := plain.Usage()
	if err != nil || u.CPU == 0 || u.RSSBytes == 0 || u.Files == 0 {
		t.Errorf("usage %+v, error %v", u, err)
	}
}

// A program that ends at once is reported with what it said.
func TestStartFails(t *testing.T) {
	ctx, s := newStage(t)
	path := filepath.Join(s.Dir, "bad")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho no such thing\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := s.Start(ctx, Ours(path), 1500)
	if err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("error %v", err)
	}
}

func TestFindPasst(t *testing.T) {
	t.Setenv("PASST", "/somewhere/passt")
	t.Setenv("PASST_ROOT", "/root-of-it")
	p, ok := FindPasst()
	if !ok || p.Path != "/somewhere/passt" || p.Root != "/root-of-it" || p.FilesPerFlow != 2 {
		t.Errorf("found %+v, %v", p, ok)
	}
	root := t.TempDir()
	t.Setenv("PASST", "")
	t.Setenv("PASST_ROOT", root)
	if err := os.MkdirAll(filepath.Join(root, "usr/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "usr/bin/passt"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if p, ok = FindPasst(); !ok || p.Root != root {
		t.Errorf("found %+v, %v", p, ok)
	}
}

func TestReadUsageOfNobody(t *testing.T) {
	if _, err := ReadUsage(1 << 22); err == nil {
		t.Error("a process that is not there has a usage")
	}
}
