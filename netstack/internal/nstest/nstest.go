// Package nstest gives tests a network of their own: a namespace with a
// loopback and, where wanted, a router behind a link. It needs root.
package nstest

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/jsimonetti/rtnetlink/v2"
	"golang.org/x/sys/unix"
)

// Everybody is the value of net.ipv4.ping_group_range that allows ping sockets,
// Nobody the one that forbids them.
const (
	Everybody = "0 2147483647"
	Nobody    = "1 0"
)

// Enter moves the calling test to a new network namespace, whose loopback is
// up. The test must not go on in other goroutines.
func Enter(t testing.TB, pingGroups string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIP: needs root for a network namespace")
	}
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Skipf("SKIP: no network namespace: %v", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte(pingGroups), 0); err != nil {
		t.Skipf("SKIP: cannot set ping_group_range: %v", err)
	}
	c, err := rtnetlink.Dial(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	up := rtnetlink.LinkMessage{Index: 1, Flags: syscall.IFF_UP, Change: syscall.IFF_UP}
	if err := c.Link.Set(&up); err != nil {
		t.Fatal(err)
	}
}

// Addresses of the link that AddRouter makes: Near is the test's end.
const (
	Near4, Far4 = "192.0.2.1", "192.0.2.2"
	Near6, Far6 = "2001:db8:1::1", "2001:db8:1::2"
)

// AddRouter connects the test's namespace, which Enter made, to a router in
// another one by a link of the given MTU. All routes lead to the router, and its
// back again, so that no packet to an unknown address arrives anywhere.
func AddRouter(t testing.TB, mtu int) {
	t.Helper()
	router := routerName()
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Skipf("SKIP: ip %v: %v: %s", args, err, out)
		}
	}
	ip("netns", "add", router)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", router).Run() })
	size := strconv.Itoa(mtu)
	ip("link", "add", "near", "mtu", size, "type", "veth", "peer", "name", "far", "mtu", size, "netns", router)
	ip("addr", "add", Near4+"/24", "dev", "near")
	ip("addr", "add", Near6+"/64", "dev", "near", "nodad")
	ip("link", "set", "near", "up")
	ip("-n", router, "addr", "add", Far4+"/24", "dev", "far")
	ip("-n", router, "addr", "add", Far6+"/64", "dev", "far", "nodad")
	ip("-n", router, "link", "set", "far", "up")
	ip("route", "add", "default", "via", Far4)
	ip("-6", "route", "add", "default", "via", Far6)
	ip("-n", router, "route", "add", "default", "via", Near4)
	ip("-n", router, "-6", "route", "add", "default", "via", Near6)
	for _, file := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		ip("netns", "exec", router, "sh", "-c", "echo 1 > /proc/sys/net/"+file)
	}
}

// IP runs ip(8) in the test's namespace.
func IP(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

// RouterIP runs ip(8) in the namespace of the router.
func RouterIP(t testing.TB, args ...string) {
	t.Helper()
	IP(t, append([]string{"-n", routerName()}, args...)...)
}

// InRouter runs f on a thread in the namespace of the router.
func InRouter(t testing.TB, f func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good
		ns, err := os.Open("/run/netns/" + routerName())
		if err == nil {
			defer ns.Close()
			if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
				err = f()
			}
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("in the router: %v", err)
	}
}

func routerName() string { return fmt.Sprintf("router-test-%d", os.Getpid()) }
