package storm

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/sandbox"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/synth/stage"
)

// prepare lets the hosts use ports again that are in TIME-WAIT, which last far longer than a storm.
func prepare(s *stage.Stage, c Config) error {
	// For the backend's connections, from the ports that the kernel chooses; one second of TIME-WAIT is left.
	if err := s.VM.WriteSysctl("net/ipv4/tcp_tw_reuse", "1"); err != nil {
		return err
	}
	// Clients of the guest have few ports. They see the server's FIN before they close, so that nothing is lost without
	// TIME-WAIT.
	buckets := "65536"
	if c.Inbound {
		buckets = "0"
	}
	return s.Peer.WriteSysctl("net/ipv4/tcp_max_tw_buckets", buckets)
}

// kernelResets is how many RST segments the kernels of both hosts have sent.
func kernelResets(s *stage.Stage) (sum int, err error) {
	for _, ns := range []*sandbox.NetNS{s.VM, s.Peer} {
		err := ns.Do(func() error {
			text, err := os.ReadFile("/proc/thread-self/net/snmp")
			if err != nil {
				return err
			}
			n, err := snmp(string(text), "Tcp", "OutRsts")
			sum += n
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("count resets: %w", err)
		}
	}
	return sum, nil
}

// snmp reads a counter from proc_net(5)'s snmp: a line of names, then one of values.
func snmp(text, proto, name string) (int, error) {
	var names []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0 || f[0] != proto+":":
		case names == nil:
			names = f
		default:
			for i := range f {
				if i < len(names) && names[i] == name {
					return strconv.Atoi(f[i])
				}
			}
		}
	}
	return 0, fmt.Errorf("no %s %s in snmp", proto, name)
}
