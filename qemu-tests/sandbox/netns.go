// Package sandbox runs programs in namespaces of their own: a network namespace that stands for a test host, and a
// throw-away writable view of a root file system. Nothing of it has a name in the file system and everything ends with
// the process that made it, however that ends.
package sandbox

import (
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// NetNS is a network namespace. It lives as long as this value, a process or a socket uses it.
type NetNS struct {
	file *os.File
}

// NewNetNS makes an empty network namespace. It fails without CAP_SYS_ADMIN.
func NewNetNS() (*NetNS, error) {
	ns := new(NetNS)
	err := onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		ns.file = f
		return err
	})
	if err != nil {
		return nil, err
	}
	return ns, nil
}

// Do runs f with the calling goroutine in the namespace: sockets that f makes and processes that it starts belong to it.
// Goroutines that f starts do not.
func (ns *NetNS) Do(f func() error) error {
	return onOwnThread(func() error {
		if err := unix.Setns(int(ns.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return f()
	})
}

// onOwnThread runs f and then brings its thread back to the network namespace it was in. The thread must live on: the
// processes that it started are killed when it dies (PDEATHSIG). A thread that cannot be brought back is given up.
func onOwnThread(f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("network namespace: %w", err)
	}
	defer home.Close()
	ferr := f()
	if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("leave a network namespace: %w", err)
	}
	runtime.UnlockOSThread()
	return ferr
}

// File returns the namespace's descriptor, which stays open until Close.
func (ns *NetNS) File() *os.File { return ns.file }

// Close gives up this reference to the namespace.
func (ns *NetNS) Close() error { return ns.file.Close() }

// Listen is net.Listen in the namespace.
func (ns *NetNS) Listen(network, address string) (l net.Listener, err error) {
	err = ns.Do(func() error {
		l, err = net.Listen(network, address)
		return err
	})
	return l, err
}

// ListenPacket is net.ListenPacket in the namespace.
func (ns *NetNS) ListenPacket(network, address string) (c net.PacketConn, err error) {
	err = ns.Do(func() error {
		c, err = net.ListenPacket(network, address)
		return err
	})
	return c, err
}

// WriteSysctl sets a setting below /proc/sys/net for the namespace.
func (ns *NetNS) WriteSysctl(path, value string) error {
	return ns.Do(func() error { return os.WriteFile("/proc/sys/"+path, []byte(value), 0) })
}
