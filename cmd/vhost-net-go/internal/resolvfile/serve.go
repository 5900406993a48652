package resolvfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/sandbox"
)

// Server is the second process.
type Server struct {
	socket *os.File
	path   string
}

// Started returns the Server if this process is the one that reads, or else nil.
func Started() *Server {
	path := os.Getenv(env)
	if path == "" {
		return nil
	}
	_ = os.Unsetenv(env)
	unix.CloseOnExec(socketFD)
	return &Server{socket: os.NewFile(socketFD, "socket"), path: path}
}

// Serve answers until the other process closes its end. It may read files, as the
// user that it runs as, and nothing else.
func (s *Server) Serve() {
	_, _ = sandbox.Enter(sandbox.Config{Mode: sandbox.Auto, Read: []string{"/"}})
	defer s.socket.Close()
	for request := make([]byte, 1); ; {
		if n, err := s.socket.Read(request); err != nil || n == 0 {
			return
		}
		if _, err := s.socket.Write(append([]byte{request[0]}, answer(s.path)...)); err != nil {
			return
		}
	}
}

// answer is an answer without the number.
func answer(path string) []byte {
	text, err := read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []byte{isMissing}
	case err != nil:
		return append([]byte{isError}, err.Error()...)
	}
	return append([]byte{isContent}, text...)
}

func read(path string) ([]byte, error) {
	// A pipe must not make us wait, neither for a writer nor for what it writes.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(timeout / 2)) // files have none
	return io.ReadAll(io.LimitReader(f, MaxBytes))
}
