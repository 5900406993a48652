package guest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/factory"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
)

// QEMUConfig describes a QEMU guest with at most one network card: none without Socket.
type QEMUConfig struct {
	Config
	Kernel *factory.Kernel
	// Listen makes QEMU the listening side of the socket.
	Listen bool
	// ReconnectMs, if not 0, makes a connecting QEMU come back to a restarted backend.
	ReconnectMs int
	// Monitor puts QEMU's monitor on the console too, behind Ctrl-A C; Ctrl-A X ends QEMU then.
	Monitor bool
	// Accel is "kvm" or "tcg"; empty means tcg.
	Accel string
	// MemoryMB is the guest's memory; 0 means 512.
	MemoryMB int
	// CPUs is how many processors the guest has; 0 means 1.
	CPUs int
	// Device and Netdev are more options of the virtio-net device and of the vhost-user netdev, each with its comma in front.
	Device, Netdev string
	// Other, if not empty, are the options of a netdev of another kind, with the id n0, in the place of vhost-user.
	Other string
	// NetBoot makes the guest boot from its network, with the card's own iPXE. The kernel and the initramfs for it are made all the
	// same, as vmlinuz and Name.initramfs in the lab's folder.
	NetBoot bool
	// Passt, if not empty, are the options of QEMU's own netdev passt, which starts the backend itself. Socket has no meaning
	// then.
	Passt string
}

// StartQEMU boots the guest.
func StartQEMU(ctx context.Context, l *lab.Lab, c QEMUConfig) (*VM, error) {
	initramfs := filepath.Join(l.Dir, c.Name+".initramfs")
	if err := factory.AppendScript(c.Kernel.Initramfs, initramfs, fullScript(c.Script)); err != nil {
		return nil, err
	}
	// The tree's programs see the kernel only in a shared folder.
	image := filepath.Join(l.Dir, "vmlinuz")
	if err := copyOnce(c.Kernel.Image, image); err != nil {
		return nil, err
	}
	qmp := filepath.Join(l.Dir, c.Name+".qmp")
	args := append(QEMUArgs(c, image, initramfs), "-qmp", "unix:"+qmp+",server=on,wait=off")
	vm, err := start(ctx, l, c.Config, args)
	if err != nil {
		return nil, err
	}
	vm.QMP = qmp
	return vm, nil
}

// KernelArgs are the arguments of the guest's kernel.
const KernelArgs = "console=ttyS0 quiet loglevel=3 panic=-1 tsc=reliable"

// QEMUArgs returns QEMU's command line.
func QEMUArgs(c QEMUConfig, image, initramfs string) []string {
	accel, memory := c.Accel, c.MemoryMB
	if accel == "" {
		accel = "tcg"
	}
	if memory == 0 {
		memory = 512
	}
	cpu := "max"
	if accel == "kvm" {
		cpu = "host"
	}
	chardev := "socket,id=c0,path=" + c.Socket
	switch {
	case c.Listen:
		chardev += ",server=on,wait=off"
	case c.ReconnectMs != 0:
		chardev += fmt.Sprintf(",reconnect-ms=%d", c.ReconnectMs)
	}
	serial := "stdio"
	if c.Monitor {
		serial = "mon:stdio"
	}
	args := []string{
		"qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-serial", serial,
		"-machine", "q35,accel=" + accel + ",memory-backend=mem", "-cpu", cpu, "-m", fmt.Sprint(memory),
		"-smp", fmt.Sprint(max(c.CPUs, 1)),
		"-object", fmt.Sprintf("memory-backend-memfd,id=mem,size=%dM,share=on", memory),
	}
	boot := ",bootindex=1"
	if !c.NetBoot {
		args = append(args, "-kernel", image, "-initrd", initramfs, "-append", KernelArgs)
		boot = ",romfile="
	}
	device := []string{"-device", "virtio-net-pci,netdev=n0,mac=52:54:00:00:00:02" + boot + c.Device}
	switch {
	case c.Passt != "":
		return slices.Concat(args, []string{"-netdev", "passt,id=n0,vhost-user=on," + c.Passt}, device)
	case c.Other != "":
		return slices.Concat(args, []string{"-netdev", c.Other}, device)
	case c.Socket == "":
		return args
	}
	return slices.Concat(args, []string{"-chardev", chardev, "-netdev", "vhost-user,id=n0,chardev=c0" + c.Netdev}, device)
}

func copyOnce(from, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	if os.Link(from, to) == nil {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
