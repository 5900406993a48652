package sandbox

import (
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal asks f for what only terminals have: /dev/null is a character device too.
func IsTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
