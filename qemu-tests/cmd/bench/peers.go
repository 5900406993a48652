package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/factory"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/harness"
)

// Guests.
const (
	umlGuest  = "uml-7.2"
	qemuGuest = "qemu-tcg"
)

// Names of what serves a guest.
const (
	ours    = "ours"
	passt   = "passt"
	slirp   = "slirp"
	gvisor  = "gvisor-tap-vsock"
	nobody  = "" // a limit of the machine or of the guest, without a backend
	slirpIn = "it is a part of QEMU's process"
)

var peerNames = []string{passt, slirp, gvisor}

// gvproxyModule is built from the module proxy: Debian has no such program for QEMU's sockets.
const gvproxyModule = "github.com/containers/gvisor-tap-vsock/cmd/gvproxy@v0.8.9"

// program is where gvproxy is, or why it is not there.
type program struct{ path, missing string }

func findGvproxy(ctx context.Context, h *harness.Harness, o options) program {
	if !slices.Contains(o.peers, gvisor) || !slices.Contains(o.guests, qemuGuest) {
		return program{missing: "was not asked for"}
	}
	dir, err := h.Cache.Once(ctx, "gvproxy-v0.8.9", func(dir string) error {
		return factory.GoInstall(ctx, dir, gvproxyModule)
	})
	if err != nil {
		logf("%s: %v", gvisor, err)
		return program{missing: "could not be built"}
	}
	return program{path: filepath.Join(dir, "gvproxy")}
}

// cannotServe says why a peer cannot serve a guest at all with an MTU; empty if it can.
func (b *bench) cannotServe(peer, guest string, mtu int) string {
	switch {
	case peer == slirp && guest != qemuGuest:
		return "is a part of QEMU"
	case peer == slirp && mtu != 1500:
		return "QEMU gives it an MTU of 1500 always"
	case peer == gvisor && guest != qemuGuest:
		return "needs QEMU's stream netdev"
	case peer == gvisor && b.gvproxy.path == "":
		return b.gvproxy.missing
	}
	return ""
}

// cannotMeasure says why a peer that serves the guest has no value for a test; empty if it has.
func cannotMeasure(peer string, t *test) string {
	switch {
	case t.family == 6 && peer == gvisor:
		return "has no IPv6"
	case t.process && peer == slirp:
		return slirpIn
	case peer == passt && passtFilesPerFlow*t.flows+spareFiles > maxFiles():
		return fmt.Sprintf("takes %d descriptors a flow, and this machine gives a process %d", passtFilesPerFlow, maxFiles())
	}
	return ""
}

// cannotRow is cannotMeasure for a row of a test that has values for others.
func cannotRow(peer string, r row) string {
	if r.process && peer == slirp {
		return slirpIn
	}
	return ""
}

// stream returns the guest's side of gvproxy's socket.
func stream(path string) string {
	return fmt.Sprintf("stream,id=n0,server=off,addr.type=unix,addr.path=%s", path)
}

// passt has a timer for each flow beside its socket.
const passtFilesPerFlow, spareFiles = 2, 100

// maxFiles is how many descriptors a process may have.
func maxFiles() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0
	}
	return int(min(l.Max, 1<<30))
}
