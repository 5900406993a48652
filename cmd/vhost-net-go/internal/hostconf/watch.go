package hostconf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A change seldom comes alone: it is looked at when nothing has happened for
// settleQuiet, or settleMost after the first.
const (
	settleQuiet = 200 * time.Millisecond
	settleMost  = time.Second
)

// restFactor bounds the share of time that goes into reading, on a host whose
// tables are large and never rest.
const restFactor = 20

// Watch follows the host after Read has returned first. It calls changed, one
// call after another, whenever a new reading differs from the one before, and
// blocks until ctx is done. It looks at the network namespace of the calling
// thread. Between changes nothing wakes up.
//
// What cannot be read stays as it was; unread gets the error when it begins with
// the resolver file. States have no Warning, and the LocalPorts of first, which a
// process in a sandbox cannot read again.
func Watch(ctx context.Context, src Source, first State, changed func(State), unread func(error)) error {
	events := make(chan struct{}, 1)
	signal := func() {
		select {
		case events <- struct{}{}:
		default: // one is waiting
		}
	}
	routes, err := openRoutes()
	if err != nil {
		return fmt.Errorf("watch the host's network: %w", err)
	}
	defer func() { _ = routes.Close() }()
	files, err := newFileWatch(src.ResolvConf)
	if err != nil {
		return fmt.Errorf("watch %s: %w", src.ResolvConf, err)
	}
	defer func() { _ = files.Close() }()
	go drain(routes, signal)
	go files.run(signal)

	signal() // for what happened between Read and now
	first.Warning = ""
	last, readable := first, true
	for settle(ctx, events) {
		files.follow()
		start := time.Now()
		r, err := look(src)
		rest(ctx, restFactor*time.Since(start))
		if err != nil {
			continue // the named interface is away
		}
		if r.tables != nil { // such as a dump that changes have overtaken
			r.HasIPv6, r.V4, r.V6 = last.HasIPv6, last.V4, last.V6
			time.AfterFunc(settleMost, signal)
		}
		if r.resolvers != nil {
			r.Resolvers, r.Search = last.Resolvers, last.Search
			if readable {
				unread(r.resolvers)
			}
		}
		readable = r.resolvers == nil
		r.LocalPorts = first.LocalPorts
		r.ULA = first.ULA // without a machine's id it is random
		if !reflect.DeepEqual(r.State, last) {
			last = r.State
			changed(r.State)
		}
	}
	return nil
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// settle waits for an event and those that follow closely; false: ctx is done.
func settle(ctx context.Context, events <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-events:
	}
	most := time.After(settleMost)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-events:
		case <-time.After(settleQuiet):
			return true
		case <-most:
			return true
		}
	}
}

// openRoutes returns a netlink socket that is readable when links, addresses or
// routes change (rtnetlink(7)).
func openRoutes() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	groups := uint32(unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR |
		unix.RTMGRP_IPV4_ROUTE | unix.RTMGRP_IPV6_ROUTE)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("bind", err)
	}
	return os.NewFile(uintptr(fd), "netlink"), nil
}

// drain calls event for each message until f is closed. What a message says
// does not matter, nor that some got lost.
func drain(f *os.File, event func()) {
	for b := make([]byte, 16<<10); ; {
		_, err := f.Read(b)
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		event()
	}
}

// fileWatch tells when a file is rewritten, replaced, or reached by other links.
type fileWatch struct {
	*os.File        // inotify(7)
	path     string // of the file
	names    chan []string
}

func newFileWatch(path string) (*fileWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	w := &fileWatch{
		File: os.NewFile(uintptr(fd), "inotify"), path: path,
		names: make(chan []string, 1),
	}
	w.follow()
	return w, nil
}

// maxLinks bounds the symbolic links that are followed, as the kernel does.
const maxLinks = 40

// follow watches the folder of the file and those of what its links lead to.
// One that is not there is watched as soon as something else changes.
func (w *fileWatch) follow() {
	var names []string
	for path, n := w.path, 0; n < maxLinks; n++ {
		dir := filepath.Dir(path)
		names = append(names, filepath.Base(path))
		w.control(func(fd uintptr) {
			const mask = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_CREATE | unix.IN_DELETE | unix.IN_ATTRIB | unix.IN_ONLYDIR
			_, _ = unix.InotifyAddWatch(int(fd), dir, mask) // again does nothing
		})
		next, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(dir, next)
		}
		path = next
	}
	select {
	case <-w.names: // not taken yet, and old
	default:
	}
	w.names <- names
}

// control calls f with the descriptor, unless that is closed.
func (w *fileWatch) control(f func(fd uintptr)) {
	if raw, err := w.SyscallConn(); err == nil {
		_ = raw.Control(f)
	}
}

// run calls event for each change to one of the names, until w is closed.
func (w *fileWatch) run(event func()) {
	var names []string
	for b := make([]byte, 16<<10); ; {
		n, err := w.Read(b)
		if err != nil || n == 0 {
			return
		}
		select {
		case names = <-w.names:
		default:
		}
		if anyNamed(b[:n], names) {
			event()
		}
	}
}

// anyNamed reports whether one of the events in b is about one of names, or
// says that events were lost.
func anyNamed(b []byte, names []string) bool {
	for len(b) >= unix.SizeofInotifyEvent {
		mask, size := binary.NativeEndian.Uint32(b[4:]), int(binary.NativeEndian.Uint32(b[12:]))
		b = b[unix.SizeofInotifyEvent:]
		if size > len(b) {
			return true
		}
		name := strings.TrimRight(string(b[:size]), "\x00")
		if mask&(unix.IN_Q_OVERFLOW|unix.IN_IGNORED) != 0 || slices.Contains(names, name) {
			return true
		}
		b = b[size:]
	}
	return false
}
