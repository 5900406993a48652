package gvguest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"gvisor.dev/gvisor/pkg/log"
)

// echoEnv makes this program the echo server of a test.
const echoEnv = "GVGUEST_ECHO"

// TestMain opens what the runtime keeps open from the first socket on, so that
// it is not taken for a leak, and silences gVisor's stack, which logs on its own.
func TestMain(m *testing.M) {
	if os.Getenv(echoEnv) != "" {
		if err := runEcho(); err != nil {
			fmt.Fprintln(os.Stderr, "echo server:", err)
			os.Exit(1)
		}
		return
	}
	log.SetTarget(log.GoogleEmitter{Writer: &log.Writer{Next: io.Discard}})
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		l.Close()
	}
	os.Exit(m.Run())
}

// runEcho serves both families until standard input ends.
func runEcho() error {
	for _, f := range families() {
		l, err := net.ListenTCP("tcp", f.any())
		if err != nil {
			return err
		}
		fmt.Println(l.Addr().(*net.TCPAddr).Port)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(c, c)
					c.Close()
				}()
			}
		}()
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// echoServer is a process that sends everything back.
type echoServer struct {
	addrs map[family]netip.AddrPort // as the guest sees them
}

// startEcho starts one, for as long as the test runs.
func startEcho(t *testing.T) *echoServer {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), echoEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	e := &echoServer{addrs: map[family]netip.AddrPort{}}
	r := bufio.NewReader(out)
	for _, f := range families() {
		var port uint16
		if _, err := fmt.Fscanln(r, &port); err != nil {
			t.Fatal(err)
		}
		e.addrs[f] = netip.AddrPortFrom(f.seen, port)
	}
	return e
}
