package qemutests

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/peer"
)

// TestCapture reads the capture of a guest's traffic with an independent decoder: nothing is missing, and all checksums are right,
// though the ring had most of them left open.
func TestCapture(t *testing.T) {
	ctx, l := newLab(t, 2*time.Minute)
	config, _ := guest.UMLs(l)
	config.Config = guest.Config{
		Name: "u", Socket: filepath.Join(l.Dir, "s"),
		Script: fmt.Sprintf("step lease lease\nstep ping reply %s\nstep download guest-agent download '%s'\nstep upload guest-agent upload %s %d\n",
			lab.Peer4, peer.URL(lab.Peer4, "blob?bytes=2000000"), peer.URL(lab.Peer4, "digest"), 1000000),
	}
	file := filepath.Join(l.Dir, "pcapng")
	backend, err := l.StartBackend(ctx, machine.Backend, "backend", lab.Link{Path: config.Socket}, "-p", file, "--no-big-tcp") // which the decoder does not know
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Kill()
	vm, err := guest.StartUML(ctx, l, config)
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Stop()
	if err := vm.Console.Finish(ctx); err != nil {
		t.Error(err)
	}
	checkSteps(t, vm, []string{"lease", "ping", "download", "upload"})
	if err := backend.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := backend.Wait(); err != nil {
		t.Fatal(err)
	}
	checkCapture(t, file)
}

// checkCapture counts what has to be in the file.
func checkCapture(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewNgReader(f, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	var frames, arp, dhcp, toGuest, fromGuest int
	for {
		data, _, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		frames++
		p := gopacket.NewPacket(data, layers.LinkTypeEthernet, gopacket.NoCopy)
		for _, l := range p.Layers() {
			if over, ok := l.(interface {
				SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
			}); ok {
				if err := over.SetNetworkLayerForChecksum(p.NetworkLayer()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err, wrong := p.VerifyChecksums(); err != nil || len(wrong) > 0 {
			t.Errorf("frame %d: wrong checksums %v, %v: %v", frames, wrong, err, p)
		}
		if p.Layer(layers.LayerTypeARP) != nil {
			arp++
		}
		if p.Layer(layers.LayerTypeDHCPv4) != nil {
			dhcp++
		}
		if l, ok := p.Layer(layers.LayerTypeTCP).(*layers.TCP); ok {
			if l.SrcPort == peer.HTTPPort {
				toGuest += len(l.Payload)
			} else {
				fromGuest += len(l.Payload)
			}
		}
	}
	in, err := r.Interface(0)
	if err != nil {
		t.Fatal(err)
	}
	if s := in.Statistics; s.PacketsDropped != 0 || s.PacketsReceived != uint64(frames) {
		t.Errorf("%d frames, statistics %+v", frames, s)
	}
	if arp == 0 || dhcp < 4 || toGuest < 2000000 || fromGuest < 1000000 {
		t.Errorf("%d ARP, %d DHCP, %d bytes of TCP to the guest and %d from it", arp, dhcp, toGuest, fromGuest)
	}
}
