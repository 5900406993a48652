package qemutests

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vhost-net-go/vhost-net-go/netstack/header"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/autoconf"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/gvguest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
	"github.com/vhost-net-go/vhost-net-go/vhostuser/vutest"
	"github.com/vhost-net-go/vhost-net-go/virtqueue/virtqtest"
)

// Ports of the matrix: an echo server on the far machine, and the guest's server behind a forward of the host's.
const (
	echoPort    = 7
	forwardPort = 2222
)

// matrixRig is one host with its daemon and an in-process guest.
type matrixRig struct {
	*testing.T
	ctx    context.Context
	lab    *lab.Lab
	daemon *sandbox.Process
	guest  *gvguest.Guest
	conf   *autoconf.Client
	log    string
}

func newMatrixRig(ctx context.Context, t *testing.T, l *lab.Lab, h uplinkHost) *matrixRig {
	t.Helper()
	dir, err := os.MkdirTemp(l.Dir, "h")
	if err != nil {
		t.Fatal(err)
	}
	r := &matrixRig{T: t, ctx: ctx, log: filepath.Join(dir, "daemon.log"), lab: &lab.Lab{Tree: l.Tree, Dir: dir}}
	for _, ns := range []**sandbox.NetNS{&r.lab.VMHost, &r.lab.Peer} {
		*ns, err = sandbox.NewNetNS()
		r.must(err)
		t.Cleanup(func() { (*ns).Close() })
	}
	if h.tun {
		r.must(joinTuns(t, r.lab.VMHost, r.lab.Peer))
	}
	for path, value := range h.sysctls {
		r.must(r.lab.VMHost.WriteSysctl(path, value))
	}
	r.must(r.lab.VMHost.WriteSysctl("net/ipv4/ping_group_range", "0 0"))
	r.ip(r.lab.VMHost, h.host)
	r.ip(r.lab.Peer, h.far)
	r.must(r.serveEcho())
	r.must(serveDNS(t, r.lab.Peer, "far", ":53"))
	if h.stub != "" {
		r.must(serveDNS(t, r.lab.VMHost, "stub", net.JoinHostPort(h.stub, "53")))
	}
	r.boot(h)
	return r
}

func (r *matrixRig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *matrixRig) ip(ns *sandbox.NetNS, lines []string) {
	r.Helper()
	if len(lines) == 0 {
		return
	}
	c := sandbox.Command{Args: []string{"ip", "-batch", "-"}, Net: ns, Files: []*os.File{r.lab.Peer.File()}}
	if _, err := os.Stat("/usr/sbin/ip"); err != nil {
		c = r.lab.Command(ns, "ip", "-batch", "-")
		c.Files = []*os.File{r.lab.Peer.File()}
	}
	c.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if _, err := sandbox.Run(r.ctx, c); err != nil {
		r.Fatal(err)
	}
}

// boot starts the daemon with a connected frontend, and the guest.
func (r *matrixRig) boot(h uplinkHost) {
	r.Helper()
	fe, end, err := vutest.Pair(vutest.QEMU)
	r.must(err)
	r.Cleanup(func() { fe.Close() })
	f, err := end.File()
	r.must(err)
	r.must(end.Close())
	r.startDaemon(h, f)
	f.Close()

	mem, err := vutest.NewMemory(vutest.Span{Size: 8 << 20})
	r.must(err)
	const features = 1<<32 | header.FeatureMrgRxBuf
	vm, err := vutest.NewGuest(mem, 2, virtqtest.Config{Size: 256})
	r.must(err)
	if err := fe.Connect(); err != nil {
		_, log := r.warnings()
		r.Fatalf("%v; the daemon's log:\n%s", err, log)
	}
	r.conf = autoconf.New()
	rings := gvguest.RingsOf(vm)
	r.guest, err = gvguest.New(rings, gvguest.Config{NIC: gvguest.NICConfig{
		Features: features, MTU: 1500, RxBufBytes: 2048, Tap: r.conf.Tap,
	}})
	r.must(err)
	r.conf.Attach(r.guest)
	r.Cleanup(r.guest.Crash)
	_, err = fe.Start(vm, features)
	r.must(err)
}

// startDaemon runs it in a copy of the tree's file system, with the host's resolver file.
func (r *matrixRig) startDaemon(h uplinkHost, frontend *os.File) {
	r.Helper()
	program := filepath.Join(r.lab.Dir, "daemon")
	text, err := os.ReadFile(machine.Backend.Path)
	r.must(err)
	r.must(os.WriteFile(program, text, 0o755))
	run := program + ` -f -d --fd 3 -t 2222:22`
	if h.noIPv6 {
		agent := filepath.Join(r.lab.Dir, "guest-agent")
		r.must(os.Link(machine.Agent, agent))
		run = agent + " noipv6 " + run
	}
	script := "rm -f /etc/resolv.conf; exec " + run
	if h.resolv != "-" {
		script = "rm -f /etc/resolv.conf; printf '" + strings.ReplaceAll(h.resolv, "\n", `\n`) + "' >/etc/resolv.conf; exec " + strings.ReplaceAll(run, "%", "%%")
	}
	script = strings.ReplaceAll(script, "%v0", "%%v0")
	c := r.lab.Command(r.lab.VMHost, "sh", "-c", script)
	c.Files = []*os.File{frontend}
	log, err := os.Create(r.log)
	r.must(err)
	defer log.Close()
	c.Stdout, c.Stderr = log, log
	r.daemon, err = sandbox.Start(r.ctx, c)
	r.must(err)
	r.Cleanup(r.daemon.Kill)
}

// warnings counts the lines of the daemon's log that complain.
func (r *matrixRig) warnings() (n int, text string) {
	b, err := os.ReadFile(r.log)
	r.must(err)
	return strings.Count(string(b), "[WARN]") + strings.Count(string(b), "[ERROR]"), string(b)
}

// serveEcho sends everything back on the far machine, TCP and UDP.
func (r *matrixRig) serveEcho() error {
	l, err := r.lab.Peer.Listen("tcp", fmt.Sprintf(":%d", echoPort))
	if err != nil {
		return err
	}
	r.Cleanup(func() { l.Close() })
	go acceptEach(l, func(c net.Conn) { _, _ = io.Copy(c, c) })
	p, err := r.lab.Peer.ListenPacket("udp", fmt.Sprintf(":%d", echoPort))
	if err != nil {
		return err
	}
	r.Cleanup(func() { p.Close() })
	go packetEach(p, func(b []byte) []byte { return b })
	return nil
}

// serveDNS answers queries with themselves and a name, so that a change on the way shows.
func serveDNS(t *testing.T, ns *sandbox.NetNS, name, at string) error {
	l, err := ns.Listen("tcp", at)
	if err != nil {
		return err
	}
	t.Cleanup(func() { l.Close() })
	go acceptEach(l, func(c net.Conn) {
		b := make([]byte, 2)
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(b))
		if _, err := io.ReadFull(c, q); err != nil {
			return
		}
		a := answerOf(q, name)
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...))
	})
	p, err := ns.ListenPacket("udp", at)
	if err != nil {
		return err
	}
	t.Cleanup(func() { p.Close() })
	go packetEach(p, func(b []byte) []byte { return answerOf(b, name) })
	return nil
}

func answerOf(query []byte, name string) []byte {
	a := append([]byte(nil), query...)
	a[2] |= 0x80
	return append(a, name...)
}

func acceptEach(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			serve(c)
		}()
	}
}

func packetEach(p net.PacketConn, answer func([]byte) []byte) {
	b := make([]byte, 65536)
	for {
		n, from, err := p.ReadFrom(b)
		if err != nil {
			return
		}
		_, _ = p.WriteTo(answer(b[:n]), from)
	}
}

// joinTuns makes a device t0 in each namespace, joined by a cable.
func joinTuns(t *testing.T, a, b *sandbox.NetNS) error {
	var ends [2]*os.File
	for i, ns := range []*sandbox.NetNS{a, b} {
		err := ns.Do(func() error {
			fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			if err != nil {
				return os.NewSyscallError("open /dev/net/tun", err)
			}
			ifr, err := unix.NewIfreq("t0")
			if err != nil {
				return err
			}
			ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
			ends[i] = os.NewFile(uintptr(fd), "t0") // not before: the runtime's poller would take it for broken
			return os.NewSyscallError("TUNSETIFF", err)
		})
		if ends[i] != nil {
			t.Cleanup(func() { ends[i].Close() })
		}
		if err != nil {
			return err
		}
	}
	pump := func(from, to *os.File) {
		b := make([]byte, 65536)
		for {
			n, err := from.Read(b)
			if errors.Is(err, os.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = to.Write(b[:n])
			}
			if err != nil && !errors.Is(err, unix.EIO) { // EIO: the device is down
				return
			}
			if err != nil {
				time.Sleep(5 * time.Millisecond)
			}
		}
	}
	go pump(ends[0], ends[1])
	go pump(ends[1], ends[0])
	return nil
}

// exchange writes and reads back.
func exchange(c net.Conn, out, want []byte) error {
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := c.Write(out); err != nil {
		return err
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("got %q, want %q", got, want)
	}
	return nil
}

func at(a string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(a), port)
}
