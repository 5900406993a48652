package guest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/factory"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
)

// kvmTimeout is many times what a guest needs to boot with a KVM that works. Some machines have a /dev/kvm with which guests
// hang.
const kvmTimeout = 8 * time.Second

// Accel returns "kvm" if a guest boots with it, otherwise "tcg". The answer is kept in cacheDir until the machine is rebooted.
func Accel(ctx context.Context, l *lab.Lab, kernel *factory.Kernel, cacheDir string) string {
	if f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err != nil {
		return "tcg"
	} else {
		f.Close()
	}
	bootID, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	path := filepath.Join(cacheDir, "accel")
	if known, _ := os.ReadFile(path); len(bootID) > 0 && strings.HasPrefix(string(known), string(bootID)) {
		return strings.TrimSpace(strings.TrimPrefix(string(known), string(bootID)))
	}
	accel := "tcg"
	if boots(ctx, l, kernel, "kvm") {
		accel = "kvm"
	}
	_ = os.WriteFile(path, []byte(string(bootID)+accel+"\n"), 0o644) // if it is not kept, the next run asks again
	return accel
}

func boots(ctx context.Context, l *lab.Lab, kernel *factory.Kernel, accel string) bool {
	ctx, cancel := context.WithTimeout(ctx, kvmTimeout)
	defer cancel()
	vm, err := StartQEMU(ctx, l, QEMUConfig{Config: Config{Name: "probe-" + accel}, Kernel: kernel, Accel: accel})
	if err != nil {
		return false
	}
	defer vm.Stop()
	return vm.Console.Finish(ctx) == nil
}
