package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// onceVar makes the stand-in data path return as soon as it is ready, so that
// a script can look at a start-up without having to stop the daemon.
const onceVar = "VHOST_NET_GO_TEST_ONCE"

// TestMain lets the scripts run this test binary as "vhost-net-go".
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"vhost-net-go": func() { os.Exit(runMain(os.Args[1:], os.Stdout, os.Stderr, standIn)) },
		// fd3 runs vhost-net-go with one end of a socket pair as descriptor 3
		// and closes the other end after a moment.
		"with-fd3": func() { os.Exit(withFD3(os.Args[1:])) },
	})
}

// standIn plays the data path: it takes frontends and lets go of them.
func standIn(ctx context.Context, j job) error {
	if err := j.ready(); err != nil {
		return err
	}
	for os.Getenv(onceVar) == "" {
		conn, err := j.source.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		j.log.Info("frontend", "plan", j.plan.IPv4.Enabled)
		if err := conn.Close(); err != nil || j.opts.OneOff {
			return err
		}
	}
	return nil
}

func withFD3(args []string) int {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	if pair[0] != 3 {
		if err := unix.Dup2(pair[0], 3); err != nil {
			panic(err)
		}
	}
	return runMain(append([]string{"--fd", "3"}, args...), os.Stdout, os.Stderr, standIn)
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_RUNTIME_DIR", env.WorkDir)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "ipv6" {
				c, err := net.ListenPacket("udp6", "[::1]:0")
				if err == nil {
					err = c.Close()
				}
				return err == nil, nil
			}
			return false, errors.New("unknown condition " + cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"waitfor": waitFor,
			"connect": connect,
			"bad":     bad,
			"mode":    mode,
			"signal":  sendSignal,
		},
	})
}

// waitFor PATH waits until PATH exists.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	for range 500 {
		if _, err := os.Lstat(ts.MkAbs(args[0])); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s did not appear", args[0])
}

// connect PATH connects to a socket; "! connect" wants a refusal.
func connect(ts *testscript.TestScript, neg bool, args []string) {
	conn, err := net.Dial("unix", ts.MkAbs(args[0]))
	if err == nil {
		err = conn.Close()
	}
	if (err != nil) != neg {
		ts.Fatalf("connect %s: %v", args[0], err)
	}
}

// signal TERM|HUP PIDFILE signals the process whose id PIDFILE holds.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSuffix(ts.ReadFile(args[1]), "\n"))
	ts.Check(err)
	ts.Check(unix.Kill(pid, unix.SignalNum("SIG"+args[0])))
}

// bad ARGS... -- TEXT... wants the daemon to refuse ARGS with exit status 1,
// one line on standard error that contains each TEXT, and nothing left behind.
func bad(ts *testscript.TestScript, _ bool, args []string) {
	n := 0
	for n < len(args) && args[n] != "--" {
		n++
	}
	err := ts.Exec("vhost-net-go", args[:n]...)
	if err == nil {
		ts.Fatalf("%v: accepted", args[:n])
	}
	if !strings.Contains(err.Error(), "exit status 1") {
		ts.Fatalf("%v: %v", args[:n], err)
	}
	stderr := ts.ReadFile("stderr")
	if strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "vhost-net-go: ") {
		ts.Fatalf("%v: not one line: %q", args[:n], stderr)
	}
	for _, want := range args[min(n+1, len(args)):] {
		if !strings.Contains(stderr, want) {
			ts.Fatalf("%v: %q lacks %q", args[:n], stderr, want)
		}
	}
}

// mode OCTAL PATH compares permission bits.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Lstat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := strconv.FormatUint(uint64(info.Mode().Perm()), 8); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// The real data path must not keep anyone from stopping the daemon.
func TestRunReportsFailureAndCleansUp(t *testing.T) {
	dir := t.TempDir()
	var stderr strings.Builder
	fails := func(_ context.Context, j job) error {
		if err := j.ready(); err != nil {
			return err
		}
		return errors.New("it broke")
	}
	args := []string{"-s", dir + "/s", "-P", dir + "/pid", "-l", dir + "/log"}
	if status := runMain(args, io.Discard, &stderr, fails); status != 1 {
		t.Errorf("exit status %d", status)
	}
	if got := stderr.String(); got != "vhost-net-go: it broke\n" {
		t.Errorf("standard error %q", got)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "log" {
		t.Errorf("left behind: %v, error %v", left, err)
	}
	text, err := os.ReadFile(dir + "/log")
	if err != nil || !strings.Contains(string(text), "it broke") {
		t.Errorf("log %q, error %v", text, err)
	}
}
