package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
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

// socketsVar tells the daemon what its manager opened, to use it.
const socketsVar = "VHOST_NET_GO_TEST_SOCKETS"

// managed starts the daemon with the sockets of a comma list, and prints what it
// tells its service manager.
func managed(list string, args []string) int {
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "notify"})
	if err != nil {
		panic(err)
	}
	specs := strings.Split(list, ",")
	// Only the shell knows the number of the process that it becomes.
	cmd := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec used "$@"`, "sh"}, args...)...)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET=notify", fmt.Sprintf("LISTEN_FDS=%d", len(specs)), socketsVar+"="+list)
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

// useAll is the real data path until somebody has connected to each socket.
func useAll(ctx context.Context, j job) error {
	specs := strings.Split(os.Getenv(socketsVar), ",")
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	time.AfterFunc(time.Second/2, stop)
	go func() {
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
	if err := serve(ctx, j); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}
