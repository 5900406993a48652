package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/vhost-net-go/vhost-net-go/vhostuser"
)

// socketFile is the file of a socket that a test cannot do without.
func socketFile(c interface{ File() (*os.File, error) }, err error) *os.File {
	if err == nil {
		var f *os.File
		if f, err = c.File(); err == nil {
			return f
		}
	}
	panic(err)
}

// openSocket opens unix:PATH, tcp:ADDRPORT or udp:ADDRPORT as a service manager
// does.
func openSocket(spec string) *os.File {
	kind, at, _ := strings.Cut(spec, ":")
	switch kind {
	case "unix":
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at})
		l.SetUnlinkOnClose(false)
		return socketFile(l, err)
	case "tcp":
		var plain net.ListenConfig
		plain.SetMultipathTCP(false)
		l, err := plain.Listen(context.Background(), "tcp", at)
		return socketFile(l.(*net.TCPListener), err)
	default:
		c, err := net.ListenPacket("udp", at)
		return socketFile(c.(*net.UDPConn), err)
	}
}

// notifyVar is the name of the manager's own socket, "notify" by default.
const notifyVar = "VHOST_NET_GO_TEST_NOTIFY"

// programVar is what the manager starts, "used" by default.
const programVar = "VHOST_NET_GO_TEST_PROGRAM"

// socketsVar tells the daemon what its manager opened, to use it.
const socketsVar = "VHOST_NET_GO_TEST_SOCKETS"

// managed starts the daemon with the sockets of a comma list, and prints what it
// tells its service manager.
func managed(list string, args []string) int {
	name := cmp.Or(os.Getenv(notifyVar), "notify")
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name})
	if err != nil {
		panic(err)
	}
	specs := strings.Split(list, ",")
	program := cmp.Or(os.Getenv(programVar), "used")
	// Only the shell knows the number of the process that it becomes.
	cmd := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, program}, args...)...)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+name, fmt.Sprintf("LISTEN_FDS=%d", len(specs)), socketsVar+"="+list)
	for _, spec := range specs {
		cmd.ExtraFiles = append(cmd.ExtraFiles, openSocket(spec))
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	_ = cmd.Run()
	_ = notify.SetReadDeadline(time.Now().Add(time.Second / 10))
	buf := make([]byte, 1000)
	for {
		n, err := notify.Read(buf)
		if err != nil {
			return cmd.ProcessState.ExitCode()
		}
		fmt.Printf("notify %s\n", strings.ReplaceAll(string(buf[:n]), "\n", " "))
	}
}

// served tells when a frontend has been taken.
type served struct {
	vhostuser.Source
	one func()
}

func (s served) Next(ctx context.Context) (*net.UnixConn, error) {
	uc, err := s.Source.Next(ctx)
	if err == nil {
		s.one()
	}
	return uc, err
}

// useAll is the real data path until somebody has connected to each socket, and
// the frontend's was served.
func useAll(ctx context.Context, j job) error {
	specs := strings.Split(os.Getenv(socketsVar), ",")
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	var all sync.WaitGroup
	all.Add(2)
	j.source = served{j.source, sync.OnceFunc(all.Done)}
	go func() {
		defer all.Done()
		for _, spec := range specs {
			kind, at, _ := strings.Cut(spec, ":")
			c, err := net.Dial(kind, at)
			if err != nil {
				fmt.Println("dial", spec, err)
				continue
			}
			fmt.Println("dialed", spec)
			c.Close()
		}
	}()
	go func() {
		all.Wait()
		stop()
	}()
	if err := serve(ctx, j); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}
