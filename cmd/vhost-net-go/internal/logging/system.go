package logging

import (
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

// SystemLog is where the system's log listens (syslog(3)).
const SystemLog = "/dev/log"

// facility is LOG_DAEMON, and tag what the lines begin with.
const (
	facility = 3 << 3
	tag      = "vhost-net-go"
)

// systemLog sends messages to the system's log. Its socket is not connected, and
// each message names where it goes: whoever logs may be restarted, and then has
// another socket there, which a sandboxed process could not make a new connection
// to. Nothing is waited for; what nobody takes is counted.
type systemLog struct {
	path string
	fd   int
	lost int
}

func openSystemLog(path string) (*systemLog, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	return &systemLog{path: path, fd: fd}, nil
}

// log sends a message, and before it how many were lost.
func (s *systemLog) log(level hclog.Level, text []byte) {
	if s.lost > 0 {
		if s.send(hclog.Warn, fmt.Appendf(nil, "%d messages were lost: the system's log did not take them\n", s.lost)) != nil {
			s.lost++
			return
		}
		s.lost = 0
	}
	if s.send(level, text) != nil {
		s.lost++
	}
}

func (s *systemLog) send(level hclog.Level, text []byte) error {
	line := fmt.Appendf(nil, "<%d>%s %s[%d]: %s", facility|severity(level), time.Now().Format(time.Stamp), tag, os.Getpid(), text)
	return unix.Sendto(s.fd, line, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: s.path})
}

// severity is that of RFC 5424, section 6.2.1.
func severity(level hclog.Level) int {
	switch level {
	case hclog.Error:
		return 3
	case hclog.Warn:
		return 4
	case hclog.Debug, hclog.Trace:
		return 7
	}
	return 6 // informational
}
