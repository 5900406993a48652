package stage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// What a peer does on its ports, counted from its first one on.
const (
	// EchoPort and the ports behind it, EchoPorts in all, send back what they
	// get, until the client ends. Any number of connections.
	EchoPort  = 0
	EchoPorts = 16
	// SinkPort throws away what it gets, without even copying it. SourcePort
	// sends without end. A thread for each connection.
	SinkPort   = EchoPorts
	SourcePort = SinkPort + 1
	// The same with UDP. DatagramSource sends to whoever has written to it, as
	// many bytes as that datagram had, until it gets one without any.
	DatagramEcho   = SourcePort + 1
	DatagramSink   = SourcePort + 2
	DatagramSource = SourcePort + 3
	// PeerPorts is how many ports a peer has.
	PeerPorts = SourcePort + 4
)

// A counter of a peer, as its place in the shared page.
type counter int

const (
	ready counter = iota
	accepted
	open
	failed
	bytesIn
	bytesOut
	datagramsIn
	datagramsOut
	numCounters
)

// PeerCounters count since the peer was started.
type PeerCounters struct {
	Accepted, Open, Failed    int // connections; Failed: ended by an error
	BytesIn, BytesOut         uint64
	DatagramsIn, DatagramsOut uint64
}

// Peer is a server on the Peer host, in a process of its own: what it does costs
// the measuring process nothing, and it has its own limit of descriptors.
type Peer struct {
	FirstPort uint16
	process   *sandbox.Process
	page      []byte // shared counters
}

// peerEnv tells a process that it is a peer, and its first port.
const peerEnv = "VHOST_NET_GO_PEER"

// Main must be called first thing by programs that use this package, in place of
// sandbox.Main: it runs what they start as their children.
func Main() {
	sandbox.Main()
	serve := servePeer
	port := os.Getenv(peerEnv)
	if port == "" {
		serve, port = servePlain, os.Getenv(plainEnv)
	}
	number, err := strconv.ParseUint(port, 10, 32)
	if err != nil {
		return
	}
	if err := serve(number); err != nil {
		fmt.Fprintf(os.Stderr, "peer: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// StartPeer starts a peer that listens on PeerPorts ports from first on.
func (s *Stage) StartPeer(ctx context.Context, first uint16) (*Peer, error) {
	return startSelf(ctx, s.Peer, fmt.Sprintf("%s=%d", peerEnv, first), first)
}

// startSelf starts this program in another role, and waits until it is ready.
func startSelf(ctx context.Context, ns *sandbox.NetNS, env string, first uint16) (*Peer, error) {
	fd, err := unix.MemfdCreate("counters", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("start a peer: %w", err)
	}
	file := os.NewFile(uintptr(fd), "counters")
	defer file.Close()
	p := &Peer{FirstPort: first}
	if err := file.Truncate(int64(os.Getpagesize())); err != nil {
		return nil, fmt.Errorf("start a peer: %w", err)
	}
	if p.page, err = mapCounters(fd); err != nil {
		return nil, fmt.Errorf("start a peer: %w", err)
	}
	p.process, err = sandbox.Start(ctx, sandbox.Command{
		Args: []string{"/proc/self/exe"}, Env: []string{env}, Net: ns, Files: []*os.File{file}, Stderr: os.Stderr,
	})
	if err != nil {
		return nil, err
	}
	for range 500 {
		if load(p.page, ready) != 0 {
			return p, nil
		}
		select {
		case <-p.process.Done():
			return nil, fmt.Errorf("the peer has ended: %w", p.process.Wait())
		case <-time.After(10 * time.Millisecond):
		}
	}
	p.Stop()
	return nil, errors.New("the peer does not listen")
}

// Usage reads what the peer uses.
func (p *Peer) Usage() (Usage, error) {
	pid, err := p.process.PID()
	if err != nil {
		return Usage{}, err
	}
	return ReadUsage(pid)
}

// Stop ends the peer.
func (p *Peer) Stop() {
	p.process.Kill()
	_ = unix.Munmap(p.page)
}

// Addr is where the port of a role is.
func (p *Peer) Addr(role int) netip.AddrPort {
	return netip.AddrPortFrom(PeerAddr, p.FirstPort+uint16(role))
}

// Counters reads the peer's counters.
func (p *Peer) Counters() PeerCounters {
	return PeerCounters{
		Accepted: int(load(p.page, accepted)), Open: int(load(p.page, open)), Failed: int(load(p.page, failed)),
		BytesIn: load(p.page, bytesIn), BytesOut: load(p.page, bytesOut),
		DatagramsIn: load(p.page, datagramsIn), DatagramsOut: load(p.page, datagramsOut),
	}
}

func mapCounters(fd int) ([]byte, error) {
	return unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// load reads a counter. It is one aligned word, written by one side only.
func load(page []byte, c counter) uint64 {
	return binary.NativeEndian.Uint64(page[int(c)*64:])
}

// servePeer is the other process.
func servePeer(first uint64) error {
	if _, err := RaiseFiles(1 << 20); err != nil {
		return err
	}
	page, err := mapCounters(3)
	if err != nil {
		return fmt.Errorf("map the counters: %w", err)
	}
	s := &server{first: uint16(first), page: page}
	if err := s.start(); err != nil {
		return err
	}
	s.store(ready, 1)
	runtime.GC()
	select {} // until the parent ends, which kills this process
}
