package vhostuser

import (
	"encoding/binary"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// ends returns a call over an end of what open makes, and the other end.
func ends(t *testing.T, open func() ([2]int, error)) (c call, other int) {
	t.Helper()
	fds, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if err := makeSignal(fds[0]); err != nil {
		t.Fatal(err)
	}
	c = newCall()
	c.set(fds[0])
	t.Cleanup(func() { c.set(-1) })
	return c, fds[1]
}

func socketpair() ([2]int, error) {
	return unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
}

// eventfd makes one that blocks, unlike QEMU's. Both ends are the same.
func eventfd() ([2]int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	return [2]int{fd, fd}, err
}

// TestCallNeverWaits: not with an eventfd at its limit, not with a full socket,
// not with one whose peer is gone.
func TestCallNeverWaits(t *testing.T) {
	c, fd := ends(t, eventfd)
	limit := binary.NativeEndian.AppendUint64(nil, ^uint64(0)-1)
	if _, err := unix.Write(fd, limit); err != nil {
		t.Fatal(err)
	}
	c.Call()

	c, other := ends(t, socketpair)
	for range 100000 {
		c.Call()
	}
	var b [8]byte
	if n, err := unix.Read(other, b[:]); n != 8 || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
	unix.Close(other)
	c.Call()

	none := newCall()
	none.Call()
}

func TestCallArrives(t *testing.T) {
	for name, open := range map[string]func() ([2]int, error){"eventfd": eventfd, "socket": socketpair} {
		c, other := ends(t, open)
		c.Call()
		var b [8]byte
		if n, err := unix.Read(other, b[:]); err != nil || n != 8 || binary.NativeEndian.Uint64(b[:]) != 1 {
			t.Errorf("%s: %d bytes %x, %v", name, n, b, err)
		}
		if name == "socket" {
			unix.Close(other)
		}
	}
}

func TestCallAllocatesNothing(t *testing.T) {
	for name, open := range map[string]func() ([2]int, error){"eventfd": eventfd, "socket": socketpair} {
		c, _ := ends(t, open)
		var caller Caller = &c
		if n := testing.AllocsPerRun(100, caller.Call); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestSignalKinds: only what can be trusted not to block is taken.
func TestSignalKinds(t *testing.T) {
	dir := t.TempDir()
	for path, flags := range map[string]int{
		dir + "/file":  unix.O_RDWR | unix.O_CREAT,
		dir:            unix.O_RDONLY,
		os.DevNull:     unix.O_RDWR,
		"/dev/shm/../": unix.O_RDONLY,
	} {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := makeSignal(fd); err == nil {
			t.Errorf("%s was accepted", path)
		}
		unix.Close(fd)
	}
}
