package guest

import (
	"strings"
	"testing"
)

func TestQEMUArgs(t *testing.T) {
	base := QEMUConfig{Config: Config{Socket: "/tmp/s"}}
	tests := []struct {
		name   string
		change func(*QEMUConfig)
		want   string
		not    string
	}{
		{"connects", func(*QEMUConfig) {}, "-chardev socket,id=c0,path=/tmp/s -netdev vhost-user,id=n0,chardev=c0 -device", "server"},
		{"comes back", func(c *QEMUConfig) { c.ReconnectMs = 100 }, "path=/tmp/s,reconnect-ms=100 ", "server"},
		{"listens", func(c *QEMUConfig) { c.Listen = true }, "path=/tmp/s,server=on,wait=off ", "reconnect"},
		{"memory", func(c *QEMUConfig) { c.MemoryMB = 1024 }, "-m 1024 -smp 1 -object memory-backend-memfd,id=mem,size=1024M,share=on", "512"},
		{"kvm", func(c *QEMUConfig) { c.Accel = "kvm" }, "accel=kvm,memory-backend=mem -cpu host", "tcg"},
		{"tcg", func(*QEMUConfig) {}, "accel=tcg,memory-backend=mem -cpu max", "kvm"},
		{"no card", func(c *QEMUConfig) { c.Socket = "" }, "-serial stdio", "virtio-net"},
		{"another netdev", func(c *QEMUConfig) { c.Other = "user,id=n0" }, "-netdev user,id=n0 -device virtio-net-pci,netdev=n0", "chardev"},
		{"monitor", func(c *QEMUConfig) { c.Monitor = true }, "-serial mon:stdio", "-serial stdio"},
		{"more options", func(c *QEMUConfig) { c.Device, c.Netdev = ",mq=on", ",queues=2" }, "chardev=c0,queues=2 -device virtio-net-pci,netdev=n0,mac=52:54:00:00:00:02,romfile=,mq=on", "packed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := base
			tt.change(&c)
			line := strings.Join(QEMUArgs(c, "/k", "/i"), " ")
			if !strings.Contains(line, tt.want) || strings.Contains(line, tt.not) {
				t.Errorf("want %q and not %q in %q", tt.want, tt.not, line)
			}
		})
	}
}
