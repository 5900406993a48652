package qemutests

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/factory"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
)

// domainXML is a libvirt domain; its console goes to a file.
const domainXML = `<domain type='qemu'>
  <name>%[1]s</name>
  <memory unit='MiB'>512</memory>
  <memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>
  <vcpu>2</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>%[2]s/vmlinuz</kernel>
    <initrd>%[2]s/%[1]s.initramfs</initrd>
    <cmdline>console=ttyS0 quiet loglevel=3 panic=-1 tsc=reliable</cmdline>
  </os>
  <features><acpi/></features>
  <cpu mode='maximum'/>
  <on_reboot>restart</on_reboot>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <serial type='file'><source path='%[2]s/%[1]s.console'/></serial>
%[3]s  </devices>
</domain>
`

// vhostuserXML is an interface whose backend runs by itself.
const vhostuserXML = `    <interface type='vhostuser'>
      <mac address='52:54:00:00:00:02'/>
      <source type='unix' path='%[1]s/s' mode='%[2]s'>%[3]s</source>
      <model type='virtio'/>
      <driver queues='%[4]d'/>
    </interface>
`

// libvirtSetUp starts the daemons without systemd, and without what they would need a configured system for.
const libvirtSetUp = `cat >>/etc/libvirt/qemu.conf <<E
user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
remember_owner = 0
E
echo 'unix_sock_group = "root"' >>/etc/libvirt/libvirtd.conf
mkdir -p /var/log/libvirt/qemu /var/lib/libvirt/qemu /var/cache/libvirt /run/libvirt
virtlogd -d && libvirtd -d
for i in $(seq 100); do virsh -q list >/dev/null 2>&1 && break; sleep 0.1; done
virsh -q list`

func TestLibvirt(t *testing.T) {
	for mode, queues := range map[string]int{"client": 1, "server": 4} {
		t.Run(fmt.Sprintf("mode-%s-queues-%d", mode, queues), func(t *testing.T) {
			if sandbox.InUserNS() {
				need(t, errors.New("libvirt's system daemon sets groups, which a normal user's namespace does not allow"))
			}
			link := lab.Link{Client: mode == "server"}
			if link.Client && !machine.Backend.Client {
				need(t, fmt.Errorf("%s cannot connect to a frontend", machine.Backend.Name))
			}
			ctx, l := newLab(t, 3*time.Minute)
			link.Path = filepath.Join(l.Dir, "s")
			sh := startShell(ctx, t, l)
			sh.run(t, libvirtSetUp)
			if link.Client {
				// libvirt's umask keeps others from the socket; the backend runs as another user here.
				sh.run(t, "while sleep 0.1; do chmod 777 "+link.Path+"; done >/dev/null 2>&1 &")
				// The domain is created while its backend already waits. libvirt refuses <reconnect> in this mode: it is the backend
				// that connects again.
				startBackend(ctx, t, l, link)
				runDomains(ctx, t, l, sh, mode, "", queues)
			} else {
				startBackend(ctx, t, l, link)
				runDomains(ctx, t, l, sh, mode, "<reconnect enabled='yes' timeout='1'/>", queues)
			}
		})
	}
}

// runDomains creates and destroys two domains, one after the other, on the same backend.
func runDomains(ctx context.Context, t *testing.T, l *lab.Lab, sh *shell, mode, reconnect string, queues int) {
	t.Helper()
	script := fmt.Sprintf("step lease lease\nstep slaac slaac\nstep ping4 reply %s\nstep ping6 reply %s\nstep download guest-agent download '%s/blob?bytes=16777216'\necho; echo @done\nsleep 100000\n",
		lab.Peer4, lab.Peer6, fmt.Sprintf("http://%s:8000", lab.Peer4))
	for _, name := range []string{"first", "second"} {
		createDomain(t, l, sh, name, script, fmt.Sprintf(vhostuserXML, l.Dir, mode, reconnect, queues))
		console := followFile(ctx, filepath.Join(l.Dir, name+".console"))
		if err := console.Finish(ctx); err != nil {
			t.Errorf("domain %s: %v", name, err)
		}
		vm := &guest.VM{Console: console}
		checkSteps(t, vm, []string{"lease", "slaac", "ping4", "ping6", "download"})
		sh.run(t, "virsh destroy "+name)
	}
}

// createDomain starts a domain of this name that runs script, with an interface.
func createDomain(t *testing.T, l *lab.Lab, sh *shell, name, script, interfaceXML string) {
	t.Helper()
	image, err := os.ReadFile(machine.Kernel.Image)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.Dir, "vmlinuz"), image, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := factory.AppendScript(machine.Kernel.Initramfs, filepath.Join(l.Dir, name+".initramfs"), factory.Lib()+script); err != nil {
		t.Fatal(err)
	}
	xml := filepath.Join(l.Dir, name+".xml")
	if err := os.WriteFile(xml, fmt.Appendf(nil, domainXML, name, l.Dir, interfaceXML), 0o644); err != nil {
		t.Fatal(err)
	}
	sh.run(t, "virsh create "+xml)
}

// followFile feeds a console from a file that grows.
func followFile(ctx context.Context, path string) *guest.Console {
	console := guest.NewConsole(nil)
	go func() {
		var offset int64
		for ctx.Err() == nil {
			if f, err := os.Open(path); err == nil {
				n, _ := io.Copy(console, io.NewSectionReader(f, offset, 1<<20))
				offset += n
				f.Close()
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return console
}

// shell is a shell on VMHost; what it starts lives as long as the shell.
type shell struct {
	in  io.Writer
	out *bufio.Reader
}

func startShell(ctx context.Context, t *testing.T, l *lab.Lab) *shell {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := l.Command(l.VMHost, "sh")
	c.Stdin, c.Stdout, c.Stderr = inR, outW, outW
	p, err := sandbox.Start(ctx, c)
	inR.Close()
	outW.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		inW.Close()
		outR.Close()
	})
	return &shell{in: inW, out: bufio.NewReader(outR)}
}

// run runs a command line, which must succeed.
func (s *shell) run(t *testing.T, line string) {
	t.Helper()
	fmt.Fprintf(s.in, "{\n%s\n} </dev/null\necho \"@rc $?\"\n", line)
	var said []string
	for {
		answer, err := s.out.ReadString('\n')
		if err != nil {
			t.Fatalf("the shell ended in %q: %v; %s", line, err, said)
		}
		answer = strings.TrimSpace(answer)
		if rc, ok := strings.CutPrefix(answer, "@rc "); ok {
			if rc != "0" {
				t.Fatalf("%q failed with status %s: %s", line, rc, strings.Join(said, "\n"))
			}
			return
		}
		if answer != "" {
			said = append(said, answer)
		}
	}
}
