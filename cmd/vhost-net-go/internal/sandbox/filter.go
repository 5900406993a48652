package sandbox

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// rule allows a system call whose arguments meet all conditions.
type rule struct {
	nr   uint32
	when []condition
}

// condition is about the lower half of one argument; the upper one must be 0: all
// arguments that are looked at are ints.
type condition struct {
	arg      uint32
	test     bpf.JumpTest
	val      uint32
	mustHold bool
}

func equal(arg, val uint32) condition    { return condition{arg, bpf.JumpEqual, val, true} }
func atMost(arg, val uint32) condition   { return condition{arg, bpf.JumpLessOrEqual, val, true} }
func with(arg, bits uint32) condition    { return condition{arg, bpf.JumpBitsSet, bits, true} }
func without(arg, bits uint32) condition { return condition{arg, bpf.JumpBitsSet, bits, false} }

// Offsets in struct seccomp_data (linux/seccomp.h); all our machines are little
// endian.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
)

func offLow(arg uint32) uint32  { return offArgs + 8*arg }
func offHigh(arg uint32) uint32 { return offArgs + 8*arg + 4 }

const wordBytes = 4

// The verdicts (seccomp(2)).
var (
	allow   = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	refuse  = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	unknown = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}
	kill    = bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
)

// assemble makes the filter. Each rule is a block that loads the number anew and
// ends with a verdict or falls through to the next, so that no jump is long and
// no block sees what another one has loaded.
func assemble(arch uint32, rules []rule) []bpf.Instruction {
	prog := []bpf.Instruction{
		// A system call in the way of another architecture (a 32-bit program)
		// means other numbers.
		bpf.LoadAbsolute{Off: offArch, Size: wordBytes},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		kill,
		bpf.LoadAbsolute{Off: offNr, Size: wordBytes},
		// clone3 has its arguments in memory, where a filter cannot look. Whoever
		// finds it missing goes on with clone.
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE3, SkipTrue: 1},
		unknown,
	}
	for _, r := range rules {
		prog = append(prog, r.block()...)
	}
	return append(prog, refuse)
}

func (r rule) block() []bpf.Instruction {
	var body []bpf.Instruction
	for _, c := range r.when {
		body = append(body,
			bpf.LoadAbsolute{Off: offHigh(c.arg), Size: wordBytes},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0},
			bpf.LoadAbsolute{Off: offLow(c.arg), Size: wordBytes},
			bpf.JumpIf{Cond: c.test, Val: c.val},
		)
	}
	body = append(body, allow)
	// Whatever does not hold leads behind the block.
	for i, in := range body {
		j, ok := in.(bpf.JumpIf)
		if !ok {
			continue
		}
		if out := uint8(len(body) - i - 1); i%4 == 1 || r.when[i/4].mustHold {
			j.SkipFalse = out
		} else {
			j.SkipTrue = out
		}
		body[i] = j
	}
	return append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: offNr, Size: wordBytes},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: r.nr, SkipTrue: uint8(len(body))},
	}, body...)
}
