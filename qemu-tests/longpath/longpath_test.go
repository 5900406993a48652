package longpath

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Main()
	os.Exit(m.Run())
}

func TestArrive(t *testing.T) {
	start := time.Unix(1000, 0)
	ms := func(n float64) time.Time { return start.Add(time.Duration(n * float64(time.Millisecond))) }
	c := &Config{Delay: 10 * time.Millisecond, BitsPerSecond: 8_000_000, Queue: 3 * time.Millisecond} // 1000 bytes a millisecond
	l := newLine(0)
	tests := []struct {
		name      string
		now       float64 // ms
		bytes     int
		arrive    float64
		reachable bool
	}{
		{"an idle path", 0, 1000, 11, true},
		{"behind the first", 0, 2000, 13, true},
		{"the queue is as long as it may be", 0, 1000, 14, true},
		{"full queue", 0, 1000, 0, false},
		{"some time later", 2, 1000, 15, true},
		{"an idle path again", 50, 500, 60.5, true},
	}
	for _, tt := range tests {
		at, ok := l.arrive(c, ms(tt.now), tt.bytes)
		if ok != tt.reachable || ok && !at.Equal(ms(tt.arrive)) {
			t.Errorf("%s: %v after the start, %v", tt.name, at.Sub(start), ok)
		}
	}
	if got := l.counters(); got.Dropped != 1 || got.Lost != 0 {
		t.Errorf("%+v", got)
	}
	at, _ := l.arrive(&Config{}, ms(51), 100)
	if at.Before(ms(60.5)) {
		t.Error("a frame overtakes when the path becomes shorter")
	}
}

func TestLossIsAsAsked(t *testing.T) {
	l, c := newLine(7), &Config{Loss: 0.01}
	const n = 100_000
	for range n {
		_, _ = l.arrive(c, time.Unix(1000, 0), 1000)
	}
	if got := float64(l.lost.Load()) / n; math.Abs(got-c.Loss) > 0.002 {
		t.Errorf("lost %.4f", got)
	}
}

func TestLinePassesInOrder(t *testing.T) {
	l := newLine(0)
	var config atomic.Pointer[Config]
	config.Store(&Config{Delay: time.Millisecond})
	r, w := io.Pipe()
	var out bytes.Buffer
	done := make(chan struct{})
	go l.read(r, &config)
	go func() { l.write(&out); close(done) }()
	var want bytes.Buffer
	for i := range 500 {
		text := strings.Repeat(fmt.Sprint(i, " "), 1+i%900)
		want.WriteString(text)
		_, _ = w.Write([]byte(text))
	}
	w.Close()
	<-done
	if !bytes.Equal(out.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes arrived, not the %d that were sent", out.Len(), want.Len())
	}
}

func TestPathDelays(t *testing.T) {
	ends := make([]End, 2)
	for i := range ends {
		ns, err := sandbox.NewNetNS()
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { ns.Close() })
		ends[i] = End{ns, fmt.Sprintf("long%d", i)}
	}
	p, err := New(ends[0], ends[1], Config{Delay: 20 * time.Millisecond})
	if err != nil {
		t.Skip(err)
	}
	defer p.Close()
	for i, e := range ends {
		for _, args := range []string{fmt.Sprintf("addr add 10.1.1.%d/24 dev %s", i+1, e.Device), "link set " + e.Device + " up"} {
			if err := e.NS.Do(func() error { return exec.Command("ip", strings.Fields(args)...).Run() }); err != nil {
				t.Skip("ip:", err)
			}
		}
	}
	listener, err := ends[1].NS.Listen("tcp", "10.1.1.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	err = ends[0].NS.Do(func() error {
		conn, err := net.DialTimeout("tcp", listener.Addr().String(), 5*time.Second)
		if err == nil {
			conn.Close()
		}
		start := time.Now()
		if conn, err = net.DialTimeout("tcp", listener.Addr().String(), 5*time.Second); err != nil {
			return err
		}
		conn.Close()
		if took := time.Since(start); took < 40*time.Millisecond || took > time.Second {
			t.Errorf("a round trip of %v", took)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if there, back := p.Counters(); there.Passed == 0 || back.Passed == 0 {
		t.Errorf("%+v %+v", there, back)
	}
}
