package sandbox

import (
	"encoding/binary"
	"os"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// verdict runs a filter on a system call.
func verdict(t *testing.T, prog []bpf.Instruction, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	vm, err := bpf.NewVM(prog)
	if err != nil {
		t.Fatal(err)
	}
	var data [64]byte // struct seccomp_data, in the byte order that the VM reads
	binary.BigEndian.PutUint32(data[offNr:], nr)
	binary.BigEndian.PutUint32(data[offArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[offLow(uint32(i)):], uint32(a))
		binary.BigEndian.PutUint32(data[offHigh(uint32(i)):], uint32(a>>32))
	}
	n, err := vm.Run(data[:])
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

func TestFilter(t *testing.T) {
	prog := assemble(auditArch, ruleset(Config{}))
	dialling := assemble(auditArch, ruleset(Config{Dial: "/s"}))
	const stream, dgram = unix.SOCK_STREAM | socketFlags, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC
	for _, c := range []struct {
		name string
		prog []bpf.Instruction
		arch uint32
		nr   uint32
		args []uint64
		want uint32
	}{
		{"plain", prog, auditArch, unix.SYS_SENDMSG, []uint64{1, 2, 3}, allow.Val},
		{"the last plain one", prog, auditArch, unix.SYS_EXIT_GROUP, nil, allow.Val},
		{"not on the list", prog, auditArch, unix.SYS_EXECVE, nil, refuse.Val},
		{"no such call", prog, auditArch, 4000, nil, refuse.Val},
		{"another architecture", prog, 3, unix.SYS_READ, nil, kill.Val},
		{"clone3", prog, auditArch, unix.SYS_CLONE3, nil, unknown.Val},
		{"memory", prog, auditArch, unix.SYS_MMAP, []uint64{0, 4096, unix.PROT_READ | unix.PROT_WRITE}, allow.Val},
		{"executable memory", prog, auditArch, unix.SYS_MMAP, []uint64{0, 4096, unix.PROT_EXEC}, refuse.Val},
		{"bits that an int does not have", prog, auditArch, unix.SYS_MMAP, []uint64{0, 4096, 1 << 32}, refuse.Val},
		{"thread", prog, auditArch, unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, allow.Val},
		{"process", prog, auditArch, unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, refuse.Val},
		{"namespace", prog, auditArch, unix.SYS_CLONE, []uint64{unix.CLONE_THREAD | unix.CLONE_NEWUSER}, refuse.Val},
		// Flags with the number of a call that comes later in the filter.
		{"flags like a number", prog, auditArch, unix.SYS_CLONE, []uint64{unix.SYS_OPENAT}, refuse.Val},
		{"flags like another", prog, auditArch, unix.SYS_CLONE, []uint64{unix.SYS_IOCTL, unix.TIOCINQ}, refuse.Val},
		{"own thread", prog, auditArch, unix.SYS_TGKILL, []uint64{uint64(os.Getpid()), 7, 23}, allow.Val},
		{"other process", prog, auditArch, unix.SYS_TGKILL, []uint64{1, 1, 9}, refuse.Val},
		{"read", prog, auditArch, unix.SYS_OPENAT, []uint64{0xffffff9c, 0, unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK}, allow.Val},
		{"read a folder", prog, auditArch, unix.SYS_OPENAT, []uint64{0xffffff9c, 0, unix.O_DIRECTORY}, allow.Val},
		{"write", prog, auditArch, unix.SYS_OPENAT, []uint64{0xffffff9c, 0, unix.O_WRONLY}, refuse.Val},
		{"create", prog, auditArch, unix.SYS_OPENAT, []uint64{0xffffff9c, 0, unix.O_CREAT}, refuse.Val},
		{"unnamed file", prog, auditArch, unix.SYS_OPENAT, []uint64{0xffffff9c, 0, unix.O_TMPFILE}, refuse.Val},
		{"waiting bytes", prog, auditArch, unix.SYS_IOCTL, []uint64{3, unix.TIOCINQ}, allow.Val},
		{"typing for the user", prog, auditArch, unix.SYS_IOCTL, []uint64{3, unix.TIOCSTI}, refuse.Val},
		{"TCP", prog, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET, stream, 0}, allow.Val},
		{"TCP6", prog, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET6, stream, unix.IPPROTO_TCP}, allow.Val},
		{"UDP", prog, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET, dgram, 0}, allow.Val},
		{"ping", prog, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET, dgram, unix.IPPROTO_ICMP}, allow.Val},
		{"ping6", prog, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET6, dgram, unix.IPPROTO_ICMPV6}, allow.Val},
		{"raw", prog, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, refuse.Val},
		{"MPTCP", prog, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET, stream, unix.IPPROTO_MPTCP}, refuse.Val},
		{"UDP-Lite", prog, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_INET6, dgram, unix.IPPROTO_UDPLITE}, refuse.Val},
		{"routes", prog, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW | unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE}, allow.Val},
		{"firewall", prog, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, refuse.Val},
		{"UNIX", prog, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, stream, 0}, refuse.Val},
		{"UNIX with --client", dialling, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, stream, 0}, allow.Val},
		{"UNIX datagrams", dialling, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, dgram, 0}, refuse.Val},
		{"packet", dialling, auditArch, unix.SYS_SOCKET, []uint64{unix.AF_PACKET, unix.SOCK_RAW, 0}, refuse.Val},
	} {
		if got := verdict(t, c.prog, c.arch, c.nr, c.args...); got != c.want {
			t.Errorf("%s: verdict %#x, want %#x", c.name, got, c.want)
		}
	}
}

// TestFilterFits: the kernel takes 4096 instructions (BPF_MAXINSNS).
func TestFilterFits(t *testing.T) {
	if n := len(assemble(auditArch, ruleset(Config{Dial: "/s"}))); n > 4096 {
		t.Errorf("%d instructions", n)
	}
}
