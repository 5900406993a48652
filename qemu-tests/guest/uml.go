package guest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
)

// UMLConfig describes a User Mode Linux guest with one network card. Its root file system is the lab's tree.
type UMLConfig struct {
	Config
	// Program is the kernel, a path inside the tree; its modules are in usr/lib/uml/modules below ModuleRoot.
	Program, ModuleRoot string
	// Seccomp makes system calls cheaper; kernels before 6.16 do not know it.
	Seccomp bool
}

// UMLs returns the guests that the lab's tree has, each without a script.
func UMLs(l *lab.Lab) (current, debian12 UMLConfig) {
	return UMLConfig{Program: l.Tree.UML, Seccomp: true}, UMLConfig{Program: l.Tree.UML61, ModuleRoot: "/opt/uml61"}
}

const umlInit = `#!/bin/sh
export PATH=%[1]s:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
m=%[2]s/usr/lib/uml/modules/$(uname -r)/kernel
for f in $m/lib/crc-ccitt.ko* $m/net/ipv6/ipv6.ko* $m/net/core/failover.ko* $m/drivers/net/net_failover.ko* $m/drivers/net/virtio_net.ko*; do [ ! -e $f ] || insmod $f || echo "insmod $f failed"; done
ip link set lo up
sh %[3]s
busybox poweroff -f
`

// StartUML boots the guest. The agent must be in the lab's folder as guest-agent.
func StartUML(ctx context.Context, l *lab.Lab, c UMLConfig) (*VM, error) {
	script, init := filepath.Join(l.Dir, c.Name+".script"), filepath.Join(l.Dir, c.Name+".init")
	for path, text := range map[string]string{script: fullScript(c.Script), init: fmt.Sprintf(umlInit, l.Dir, c.ModuleRoot, script)} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			return nil, err
		}
	}
	args := []string{
		c.Program, "mem=512M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw", "init=" + init,
		"virtio_uml.device=" + c.Socket + ":1", "con=null", "con0=fd:0,fd:1", "quiet", "loglevel=3",
	}
	if c.Seccomp {
		args = append(args, "seccomp=on")
	}
	return start(ctx, l, c.Config, args)
}
