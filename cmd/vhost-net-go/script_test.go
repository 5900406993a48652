package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/cmd/vhost-net-go/internal/options"
	"github.com/vhost-net-go/vhost-net-go/netstack"
)

// onceVar makes the stand-in data path return as soon as it is ready, so that
// a script can look at a start-up without having to stop the daemon.
const onceVar = "VHOST_NET_GO_TEST_ONCE"

// TestMain lets the scripts run this test binary as "vhost-net-go".
func TestMain(m *testing.M) {
	// Under nohup the daemon honours that HUP is ignored, but a script is about it.
	// What a program handles, its children do not ignore.
	if signal.Ignored(unix.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), unix.SIGHUP)
	}
	testscript.Main(m, map[string]func(){
		"vhost-net-go": func() { os.Exit(runMain(os.Args, os.Stdout, os.Stderr, standIn)) },
		// daemon has the real data path.
		"daemon":     func() { os.Exit(runMain(os.Args, os.Stdout, os.Stderr, realUntilReady)) },
		"passt":      func() { os.Exit(runMain(os.Args, os.Stdout, os.Stderr, standIn)) },
		"passt.avx2": func() { os.Exit(runMain(os.Args, os.Stdout, os.Stderr, standIn)) },
		// fd3 runs vhost-net-go with one end of a socket pair as descriptor 3
		// and closes the other end after a moment.
		"with-fd3": func() { os.Exit(withFD3(os.Args[1:])) },
		"used": func() {
			os.Exit(runMain(append([]string{"vhost-net-go"}, os.Args[1:]...), os.Stdout, os.Stderr, useAll))
		},
		// pairs makes the workers of all queue pairs in the sandbox.
		"pairs": func() { os.Exit(pairsInSandbox(os.Stdout, os.Stderr)) },
		// managed plays the service manager: it opens the sockets that its
		// first argument lists and writes what it is told to standard output.
		"managed": func() { os.Exit(managed(os.Args[1], os.Args[2:])) },
	})
}

// standIn plays the data path: it takes frontends and lets go of them.
func standIn(ctx context.Context, j job) error {
	if err := j.ready(asPlanned(j)); err != nil {
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

// asPlanned are the forwards as if all of them had been met.
func asPlanned(j job) []netstack.Forward {
	var out []netstack.Forward
	for _, r := range j.plan.Forwards {
		out = append(out, netstack.Forward{Rule: r, Open: r.Ports()})
	}
	return out
}

// realUntilReady is the real data path, with the same way to end it at once.
func realUntilReady(ctx context.Context, j job) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ready := j.ready
	j.ready = func(f []netstack.Forward) error {
		if os.Getenv(onceVar) != "" {
			defer stop()
		}
		return ready(f)
	}
	err := serve(ctx, j)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
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
	return runMain(append([]string{"vhost-net-go", "--fd", "3"}, args...), os.Stdout, os.Stderr, standIn)
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_RUNTIME_DIR", env.WorkDir)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // a second for each process otherwise
			env.Setenv("ME", fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()))
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
			"waitfor":  waitFor,
			"connect":  connect,
			"accept":   accept,
			"bad":      bad,
			"mode":     mode,
			"signal":   sendSignal,
			"gone":     gone,
			"waitline": waitLine,
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

// accept PATH plays the frontend that listens: it wants one connection.
func accept(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: ts.MkAbs(args[0])})
	ts.Check(err)
	defer l.Close()
	ts.Check(l.SetDeadline(time.Now().Add(5 * time.Second)))
	conn, err := l.Accept()
	ts.Check(err)
	ts.Check(conn.Close())
}

// signal TERM|HUP PIDFILE signals the process whose id PIDFILE holds.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSuffix(ts.ReadFile(args[1]), "\n"))
	ts.Check(err)
	ts.Check(unix.Kill(pid, unix.SignalNum("SIG"+args[0])))
}

// gone PIDFILE waits until the process has ended.
func gone(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"))
	ts.Check(err)
	for range 500 {
		if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("process %d is still there", pid)
}

// waitline FILE REGEXP waits until a line of FILE matches.
func waitLine(ts *testscript.TestScript, _ bool, args []string) {
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	text := ""
	for range 500 {
		if text = ts.ReadFile(args[0]); re.MatchString(text) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s has no line like %s:\n%s", args[0], args[1], text)
}

// bad ARGS... -- TEXT... wants the daemon to refuse ARGS with exit status 1,
// one line on standard error that contains each TEXT, and nothing left behind.
func bad(ts *testscript.TestScript, _ bool, args []string) {
	n := 0
	for n < len(args) && args[n] != "--" {
		n++
	}
	stderr, ok := refusedByParser(args[:n])
	if !ok {
		err := ts.Exec("vhost-net-go", args[:n]...)
		if err == nil {
			ts.Fatalf("%v: accepted", args[:n])
		}
		if !strings.Contains(err.Error(), "exit status 1") {
			ts.Fatalf("%v: %v", args[:n], err)
		}
		stderr = ts.ReadFile("stderr")
	}
	if strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "vhost-net-go: ") {
		ts.Fatalf("%v: not one line: %q", args[:n], stderr)
	}
	for _, want := range args[min(n+1, len(args)):] {
		if !strings.Contains(stderr, want) {
			ts.Fatalf("%v: %q lacks %q", args[:n], stderr, want)
		}
	}
}

// refusedByParser saves a process where no file is looked at: it returns what
// the daemon writes about arguments that the parser refuses.
func refusedByParser(args []string) (stderr string, ok bool) {
	if slices.Contains(args, "--config") {
		return "", false
	}
	if _, err := options.Parse(args); err != nil {
		return fmt.Sprintf("vhost-net-go: %v\n", err), true
	}
	return "", false
}

// mode OCTAL PATH compares permission bits.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Lstat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := strconv.FormatUint(uint64(info.Mode().Perm()), 8); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// TestEndedEarly: a supervisor takes status 0 for a start that worked.
func TestEndedEarly(t *testing.T) {
	dir := t.TempDir()
	ctx, stop := context.WithCancelCause(t.Context())
	tooLate := func(_ context.Context, j job) error {
		stop(errors.New("somebody ends it"))
		return j.ready(nil)
	}
	args := []string{"vhost-net-go", "-s", dir + "/s", "-P", dir + "/pid", "--sandbox", "off"}
	_, err := run(ctx, args, io.Discard, io.Discard, tooLate)
	if err == nil || err.Error() != "ended before it was ready: somebody ends it" {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

// The real data path must not keep anyone from stopping the daemon.
func TestRunReportsFailureAndCleansUp(t *testing.T) {
	dir := t.TempDir()
	var stderr strings.Builder
	fails := func(_ context.Context, j job) error {
		if err := j.ready(nil); err != nil {
			return err
		}
		return errors.New("it broke")
	}
	args := []string{"vhost-net-go", "-s", dir + "/s", "-P", dir + "/pid", "-l", dir + "/log", "--sandbox", "off"}
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
