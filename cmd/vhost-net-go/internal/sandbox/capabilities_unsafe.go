package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// dropCapabilities empties the capability sets of all threads. The bounding set
// stays: with no_new_privs, executing a program gives nothing back.
func dropCapabilities(Config) error {
	if _, _, errno := psx.Syscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("clear the ambient set: %w", errno)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // Pid 0: the calling thread
	var none [2]unix.CapUserData
	if _, _, errno := psx.Syscall6(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("set: %w", errno)
	}
	return nil
}
