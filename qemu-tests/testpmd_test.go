package qemutests

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

var transmitted = regexp.MustCompile(`TX-packets: (\d+)`)

// TestSmokeTestpmd lets DPDK's virtio-user, a third independent frontend, send as fast as it can. Then the backend must serve an
// ordinary guest.
func TestSmokeTestpmd(t *testing.T) {
	for _, rings := range []struct {
		name, options string
		queues        int
	}{{"split", "", 1}, {"packed", ",packed_vq=1,in_order=1", 1}, {"queues", "", 4}} {
		t.Run(rings.name, func(t *testing.T) { runTestpmd(t, rings.options, rings.queues) })
	}
}

// runTestpmd has more options of the device, and some queue pairs.
func runTestpmd(t *testing.T, options string, queues int) {
	ctx, l := newLab(t, time.Minute)
	socket := filepath.Join(l.Dir, "s")
	args := []string(nil)
	if queues > 1 {
		args = []string{"--queues", strconv.Itoa(queues)}
	}
	backend := startBackend(ctx, t, l, lab.Link{Path: socket}, args...)
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer inR.Close()
	defer inW.Close()
	c := l.Command(l.VMHost, "dpdk-testpmd", "-l", "0-1", "--no-huge", "-m", "512", "--no-pci", "--no-telemetry",
		"--vdev=net_virtio_user0,mac=52:54:00:00:00:09,path="+socket+fmt.Sprintf(",queues=%d,queue_size=256", queues)+options,
		"--", "-i", fmt.Sprintf("--rxq=%d", queues), fmt.Sprintf("--txq=%d", queues), "--total-num-mbufs=4096", "--forward-mode=txonly")
	var out bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = inR, &out, &out
	p, err := sandbox.Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		line string
		wait time.Duration
	}{{"start", 2 * time.Second}, {"stop", 0}, {"show port stats all", 0}, {"quit", 0}} {
		_, _ = io.WriteString(inW, s.line+"\n")
		time.Sleep(s.wait)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("testpmd: %v", err)
	}
	var packets int
	for _, m := range transmitted.FindAllSubmatch(out.Bytes(), -1) {
		n, _ := strconv.Atoi(string(m[1]))
		packets = max(packets, n)
	}
	note(t, "testpmd sent %d packets", packets)
	if packets < 1000 {
		t.Errorf("want many more; testpmd said:\n%s", out.Bytes())
	}
	note(t, "backend: %v", usage(t, backend))
	if queues > 1 {
		checkPairs(ctx, t, l, backend, queues)
		return // UML's driver refuses what DPDK asked for
	}
	checkServes(ctx, t, l, socket)
}
