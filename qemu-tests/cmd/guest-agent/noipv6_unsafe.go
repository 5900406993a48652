package main

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noIPv6 becomes the program args with a filter that refuses IPv6 sockets, as a kernel does that was started with
// ipv6.disable=1.
func noIPv6(args []string) error {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		result = unix.BPF_RET | unix.BPF_K
		offNr  = 0  // of struct seccomp_data
		offArg = 16 // its first argument, low half
	)
	filter := []unix.SockFilter{
		{Code: load, K: offNr},
		{Code: equal, Jf: 3, K: unix.SYS_SOCKET},
		{Code: load, K: offArg},
		{Code: equal, Jf: 1, K: unix.AF_INET6},
		{Code: result, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		{Code: result, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // the filter is this thread's, and so the program's
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return fmt.Errorf("set a filter: %w", err)
	}
	runtime.KeepAlive(filter)
	return unix.Exec(args[0], args, os.Environ())
}
