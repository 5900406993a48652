package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// enterSeccomp loads the filter into all threads at once.
func enterSeccomp(cfg Config) error {
	raw, err := bpf.Assemble(assemble(auditArch, ruleset(cfg)))
	if err != nil {
		return fmt.Errorf("assemble: %w", err)
	}
	// bpf.RawInstruction and struct sock_filter have the same layout.
	prog := unix.SockFprog{Len: uint16(len(raw)), Filter: (*unix.SockFilter)(unsafe.Pointer(&raw[0]))}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(raw)
	switch {
	case errno != 0:
		return errno
	case thread != 0:
		return fmt.Errorf("thread %d has another filter", thread)
	}
	return nil
}
