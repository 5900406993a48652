package sandbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// plainCalls may be made with any arguments. All of them work on what the
// process has already: its memory, threads, clocks and descriptors.
var plainCalls = []uint32{
	// The packet path.
	unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_CREATE1, unix.SYS_EVENTFD2,
	unix.SYS_READ, unix.SYS_READV, unix.SYS_PREAD64, unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_PWRITE64, unix.SYS_CLOSE,
	unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG,
	unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT4, unix.SYS_SHUTDOWN,
	unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT,
	// Guest memory and the state of rings that the frontend keeps.
	unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MADVISE, unix.SYS_MEMFD_CREATE, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_FCNTL, unix.SYS_FSTATFS,
	// Files that are open: the log, a capture.
	unix.SYS_LSEEK, unix.SYS_FSTAT, unix.SYS_FSYNC, unix.SYS_DUP3,
	// Files of ours that are removed at the end, where Landlock allows it, and
	// what the standard library does around reading one.
	unix.SYS_UNLINKAT, sysNewfstatat, unix.SYS_READLINKAT, unix.SYS_GETDENTS64,
	unix.SYS_INOTIFY_INIT1, unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_INOTIFY_RM_WATCH,
	// The Go runtime.
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_GETTIMEOFDAY,
	unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN,
	unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_MEMBARRIER,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID,
	unix.SYS_GETRANDOM, unix.SYS_MINCORE, unix.SYS_UNAME, unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_PIPE2,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

const (
	socketFlags = unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	// newNamespaces are the flags of clone that make namespaces.
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
		unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP
	// writing are the flags of openat that do more than read.
	writing = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC | unix.O_APPEND | unix.O_TMPFILE&^unix.O_DIRECTORY
)

// ruleset is the allow-list. Whatever is not on it fails with EPERM, which the Go
// runtime and the daemon survive.
func ruleset(cfg Config) []rule {
	rules := make([]rule, 0, len(plainCalls)+32)
	for _, nr := range plainCalls {
		rules = append(rules, rule{nr: nr})
	}
	rules = append(rules,
		// No memory that can be executed.
		rule{unix.SYS_MMAP, []condition{without(2, unix.PROT_EXEC)}},
		rule{unix.SYS_MPROTECT, []condition{without(2, unix.PROT_EXEC)}},
		// Threads, no processes and no namespaces.
		rule{unix.SYS_CLONE, []condition{with(0, unix.CLONE_THREAD), without(0, newNamespaces)}},
		// Signals to our own threads only: preemption.
		rule{unix.SYS_TGKILL, []condition{equal(0, uint32(os.Getpid()))}},
		// Landlock says what is read.
		rule{unix.SYS_OPENAT, []condition{without(2, writing)}},
		// How much waits in a socket.
		rule{unix.SYS_IOCTL, []condition{equal(1, unix.TIOCINQ)}},
		rule{unix.SYS_IOCTL, []condition{equal(1, unix.TIOCOUTQ)}},
		// The name of a memory area, as the runtime sets it.
		rule{unix.SYS_PRCTL, []condition{equal(0, unix.PR_SET_VMA)}},
	)
	return append(rules, sockets(cfg)...)
}

// sockets lists what kinds of sockets can be made: those of the guest's flows, and
// routing sockets that follow the host's addresses. Of the protocols up to the
// number given the kernel has only those of flows.
func sockets(cfg Config) []rule {
	kind := func(family, kind uint32, upTo uint32) rule {
		return rule{unix.SYS_SOCKET, []condition{equal(0, family), without(1, ^(kind | socketFlags)), atMost(2, upTo)}}
	}
	rules := []rule{
		kind(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP),
		kind(unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP),
		kind(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP),
		kind(unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6),
		kind(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE),
	}
	if cfg.Dial != "" {
		rules = append(rules, kind(unix.AF_UNIX, unix.SOCK_STREAM, 0))
	}
	return rules
}
