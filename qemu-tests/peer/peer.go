// Package peer plays the internet for a guest: servers that answer in ways a guest can check byte by byte.
package peer

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/pattern"
)

// Ports of the servers.
const (
	HTTPPort = 8000 // GET /blob?bytes=N, POST /digest, GET /flag
	EchoPort = 9007 // UDP echo
	BeatPort = 9008 // UDP, only recorded
	DNSPort  = 53
)

// Listener opens sockets; a network namespace is one.
type Listener interface {
	Listen(network, address string) (net.Listener, error)
	ListenPacket(network, address string) (net.PacketConn, error)
}

// Peer is a set of running servers. Its methods may be called from several goroutines.
type Peer struct {
	mu      sync.Mutex
	closers []io.Closer
	sums    map[int64]string
	beats   []time.Time
	names   map[string][]net.IP
	flag    bool
}

// Start runs the servers on every one of addresses, where name stands for all addresses of the same family. It returns after all
// of them listen.
func Start(l Listener, name string, addresses []string) (*Peer, error) {
	p := &Peer{sums: map[int64]string{}, names: map[string][]net.IP{}}
	for _, a := range addresses {
		p.names[name] = append(p.names[name], net.ParseIP(a))
	}
	for _, a := range addresses {
		if err := p.startOn(l, a); err != nil {
			p.Close()
			return nil, fmt.Errorf("start the peer's servers: %w", err)
		}
	}
	return p, nil
}

func (p *Peer) startOn(l Listener, address string) error {
	at := func(port int) string { return net.JoinHostPort(address, strconv.Itoa(port)) }
	web, err := l.Listen("tcp", at(HTTPPort))
	if err != nil {
		return err
	}
	p.closers = append(p.closers, web)
	go func() { _ = http.Serve(web, p.handler()) }()
	for port, serve := range map[int]func(net.PacketConn, []byte, net.Addr){
		EchoPort: func(c net.PacketConn, b []byte, from net.Addr) { _, _ = c.WriteTo(b, from) },
		BeatPort: func(net.PacketConn, []byte, net.Addr) { p.beat() },
		DNSPort:  p.answer,
	} {
		c, err := l.ListenPacket("udp", at(port))
		if err != nil {
			return err
		}
		p.closers = append(p.closers, c)
		go func() {
			buf := make([]byte, 1<<16)
			for {
				n, from, err := c.ReadFrom(buf)
				if err != nil {
					return
				}
				serve(c, buf[:n], from)
			}
		}()
	}
	return nil
}

// Close ends all servers.
func (p *Peer) Close() {
	for _, c := range p.closers {
		c.Close()
	}
}

func (p *Peer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /blob", func(w http.ResponseWriter, r *http.Request) {
		bytes, err := strconv.ParseInt(r.FormValue("bytes"), 10, 64)
		if err != nil || bytes < 0 {
			http.Error(w, "bytes is not a number", http.StatusBadRequest)
			return
		}
		w.Header().Set("X-Sha256", p.sum(bytes))
		w.Header().Set("Content-Length", r.FormValue("bytes"))
		_, _ = io.CopyBuffer(onlyWriter{w}, pattern.Reader(2, bytes), make([]byte, 1<<18))
	})
	mux.HandleFunc("POST /digest", func(w http.ResponseWriter, r *http.Request) {
		d := pattern.NewDigest()
		if _, err := io.CopyBuffer(d, onlyReader{r.Body}, make([]byte, 1<<18)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, d.Hex())
	})
	mux.HandleFunc("GET /flag", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.flag {
			http.Error(w, "not yet", http.StatusNotFound)
		}
	})
	return mux
}

// Flag makes GET /flag succeed from now on: a guest may wait for it.
func (p *Peer) Flag() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flag = true
}

// sum hashes each size only once.
func (p *Peer) sum(bytes int64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sums[bytes] == "" {
		p.sums[bytes] = pattern.Sum(2, bytes)
	}
	return p.sums[bytes]
}

func (p *Peer) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beats = append(p.beats, time.Now())
}

// FirstBeatAfter returns when the first datagram after t arrived at BeatPort.
func (p *Peer) FirstBeatAfter(t time.Time) (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.beats {
		if b.After(t) {
			return b, true
		}
	}
	return time.Time{}, false
}

// URL returns the address of a path of the web server on address.
func URL(address, path string) string {
	return "http://" + net.JoinHostPort(address, strconv.Itoa(HTTPPort)) + "/" + strings.TrimPrefix(path, "/")
}

// onlyReader and onlyWriter hide WriteTo and ReadFrom, so that CopyBuffer uses its buffer.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)
