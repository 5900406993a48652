package longpath

import (
	"os"

	"golang.org/x/sys/unix"
)

// openTap makes a tap device. It goes away with the file.
func openTap(e End) (f *os.File, err error) {
	ifr, err := unix.NewIfreq(e.Device)
	if err != nil {
		return nil, err
	}
	ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	err = e.NS.Do(func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return os.NewSyscallError("open /dev/net/tun", err)
		}
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
			unix.Close(fd)
			return os.NewSyscallError("TUNSETIFF", err)
		}
		f = os.NewFile(uintptr(fd), e.Device) // non-blocking, so it waits in the runtime's poller
		return nil
	})
	return f, err
}
