package vhostuser

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

// DefaultMode is the mode of a listening socket's path: the owner's only.
const DefaultMode fs.FileMode = 0o600

// grace is how long a frontend may wait for its predecessor to go: a frontend
// that was killed and started again connects before its old end is cleared up.
const grace = 2 * time.Second

// acceptRetry is the pause after an accept that failed, as for want of file
// descriptors.
const acceptRetry = 100 * time.Millisecond

// Listener accepts frontends, one at a time. One that comes while another is
// being served is closed, with a log line, unless the other goes within two
// seconds.
type Listener struct {
	ul   *net.UnixListener
	path string // to remove at the end, "" for none
	id   fileID // of path
	log  *limitedLog

	next chan *net.UnixConn
	done chan struct{}
	once sync.Once
	wg   sync.WaitGroup
}

// ListenOption changes a Listener from its defaults.
type ListenOption func(*listenConfig)

type listenConfig struct {
	mode fs.FileMode
	log  hclog.Logger
}

// WithMode sets the permission bits of the socket's path, whatever the umask.
func WithMode(mode fs.FileMode) ListenOption {
	return func(c *listenConfig) { c.mode = mode.Perm() }
}

// WithLogger sets where frontends that are turned away are logged.
func WithLogger(l hclog.Logger) ListenOption {
	return func(c *listenConfig) { c.log = l }
}

func newListenConfig(opts []ListenOption) listenConfig {
	c := listenConfig{mode: DefaultMode, log: hclog.NewNullLogger()}
	for _, o := range opts {
		o(&c)
	}
	return c
}

// Listen listens on a Unix socket at path. A socket that nobody listens on any
// more is replaced; one in use, or a file of another kind, is an error.
func Listen(path string, opts ...ListenOption) (*Listener, error) {
	mode := newListenConfig(opts).mode
	ul, err := bind(path, mode)
	if errors.Is(err, unix.EADDRINUSE) {
		if err := removeStale(path); err != nil {
			return nil, fmt.Errorf("listen on %s: %w", path, err)
		}
		ul, err = bind(path, mode)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l := newListener(ul, path, opts)
	if l.id, err = identify(path); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	// The umask may have taken bits away.
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return l, nil
}

func newListener(ul *net.UnixListener, path string, opts []ListenOption) *Listener {
	l := &Listener{
		ul:   ul,
		path: path,
		log:  newLimitedLog(newListenConfig(opts).log),
		next: make(chan *net.UnixConn),
		done: make(chan struct{}),
	}
	l.wg.Go(l.accept)
	return l
}

// accept takes connections and offers each to Next for a while.
func (l *Listener) accept() {
	for {
		uc, err := l.ul.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			l.log.warn("cannot accept a frontend", "error", err)
			select {
			case <-time.After(acceptRetry):
			case <-l.done:
				return
			}
			continue
		}
		select {
		case l.next <- uc:
		case <-time.After(grace):
			l.log.warn("frontend turned away: another one is connected", "peer", peerName(uc))
			uc.Close()
		case <-l.done:
			uc.Close()
			return
		}
	}
}

// Next waits for a frontend. After Close there are no more.
func (l *Listener) Next(ctx context.Context) (*net.UnixConn, error) {
	select {
	case uc := <-l.next:
		return uc, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.done:
		return nil, io.EOF
	}
}

// Close stops listening and removes the path, unless another process has put
// its own socket there meanwhile.
func (l *Listener) Close() error {
	var err error
	l.once.Do(func() {
		if l.path != "" {
			if now, ierr := identify(l.path); ierr == nil && now == l.id {
				err = os.Remove(l.path)
			}
		}
		close(l.done)
		err = errors.Join(err, l.ul.Close())
		l.wg.Wait()
	})
	return err
}
