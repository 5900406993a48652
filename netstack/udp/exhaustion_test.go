package udp

import (
	"os"
	"syscall"
	"testing"
)

// TestDescriptorsRunOut opens flows until the process may open no more: the
// oldest make room, and every datagram leaves.
func TestDescriptorsRunOut(t *testing.T) {
	x, peer := newWorld(t, func(c *Config) { c.MaxFlows = 1000 }), newHost(t, false)
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	few := old
	few.Cur = uint64(len(open) + 8)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Skipf("SKIP: %v", err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) }()
	for i := range 60 {
		x.send(guest4, loop4, uint16(20000+i), peer.port, []byte{byte(i)})
		if got, _ := peer.read(); len(got) != 1 || got[0] != byte(i) {
			t.Fatalf("datagram %d: got % x", i, got)
		}
	}
	c := x.h.Counters
	if c.Recycled == 0 || c.Limited != 0 || x.h.NumFlows() > 10 {
		t.Errorf("%d flows, counters %+v", x.h.NumFlows(), c)
	}
}

// TestTokensOfThePast gives the handler events of flows that are gone.
func TestTokensOfThePast(t *testing.T) {
	x := newWorld(t)
	k := x.flowFor(t, 9)
	i, _ := x.h.table.Lookup(&k)
	gen := x.h.flows.at(i).gen
	x.h.release(i)
	k = x.flowFor(t, 10) // takes the same place
	for _, g := range []uint32{gen, gen + 7} {
		if x.h.flows.find(g, i) != nil {
			t.Errorf("generation %d finds a flow", g)
		}
	}
	if x.h.flows.find(gen+1, i) == nil || x.h.flows.find(gen+1, 1<<20) != nil {
		t.Error("flow not found, or found where there is none")
	}
}
