package netstack

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// internalConfig is a network for tests of the inside.
func internalConfig() Config {
	return Config{
		GatewayMAC: [6]byte{2, 0, 0, 0, 0, 1}, MTU: 1500,
		IPv4: IPv4{Enabled: true, Guest: netip.MustParseAddr("10.0.2.15"), Gateway: netip.MustParseAddr("10.0.2.2"), PrefixLen: 24},
	}
}

// TestHostIsAskedOnce: workers that are made later live by what the host said
// when there was the first one.
func TestHostIsAskedOnce(t *testing.T) {
	g, err := NewGroup(internalConfig(), 4, func(int, bool, error) {})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if want, err := askHost(); err != nil || g.host != want {
		t.Errorf("the group has %+v, the host says %+v, %v", g.host, want, err)
	}
	g.host.descriptors = 6400
	g.Park(func() {
		if _, err := g.worker(3); err != nil {
			t.Error(err)
		}
	})
	var limits [][2]int
	for _, s := range g.Snapshots()[1:] {
		limits = append(limits, [2]int{s.TCPMaxFlows, s.UDPMaxFlows})
	}
	each := [2]int{(6400 - 1600 - 600) / 4, 1600 / 4}
	if diff := cmp.Diff([][2]int{each, each, each}, limits); diff != "" {
		t.Errorf("flows of TCP and UDP (-want +got):\n%s", diff)
	}
}
