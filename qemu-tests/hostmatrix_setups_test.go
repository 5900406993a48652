package qemutests

// uplinkHost is a host's network set-up and what its guest has to get out of it.
type uplinkHost struct {
	name string
	// host and far are commands of ip(8) on the host and on the machine at the far end of its uplinks, v0-v1 and w0-w1.
	host, far []string
	sysctls   map[string]string // of the host
	tun       bool              // t0 of both is one cable without hardware addresses
	noIPv6    bool              // the daemon's kernel knows no IPv6
	resolv    string            // resolver file; "-" for none
	stub      string            // where a resolver listens on the host
	// guest4 and guest6 are the addresses that the guest gets, as prefixes; "" for a private one.
	guest4, guest6 string
	// far4 and far6 say whether the far machine can be reached; no loopback: not even the host itself.
	far4, far6, noLoopback, no6 bool
}

const (
	far4, far6 = "10.77.0.3", "2001:db8:77::3"
	stub4      = "nameserver 127.0.0.53\n"
)

func cat(lists ...[]string) (out []string) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// uplinkHosts are the odd ones and an ordinary one.
func uplinkHosts() []uplinkHost {
	lo := []string{"link set lo up"}
	veth := []string{"link add v0 address 52:54:00:77:00:01 type veth peer name v1 netns /proc/self/fd/3", "link set v0 up"}
	farEnd := []string{"link set v1 up", "link set lo up"}
	v4 := []string{"addr add 10.77.0.1/24 dev v0"}
	v6 := []string{"addr add 2001:db8:77::1/64 dev v0 nodad"}
	farV4 := []string{"addr add 10.77.0.3/24 dev v1", "addr add 10.77.0.2/24 dev v1"}
	farV6 := []string{"addr add 2001:db8:77::3/64 dev v1 nodad", "addr add fe80::77/64 dev v1 nodad"}
	def4, def6 := []string{"route add default via 10.77.0.2"}, []string{"route add default via fe80::77 dev v0"}
	return []uplinkHost{
		{
			name: "both families, stub resolver", host: cat(lo, veth, v4, v6, def4, def6), far: cat(farEnd, farV4, farV6),
			resolv: stub4, stub: "127.0.0.53", guest4: "10.77.0.1/24", guest6: "2001:db8:77::1", far4: true, far6: true,
		},
		{
			name: "IPv4 only", host: cat(lo, veth, v4, def4), far: cat(farEnd, farV4),
			resolv: "nameserver " + far4 + "\n", guest4: "10.77.0.1/24", far4: true,
		},
		{
			name: "IPv6 only", host: cat(lo, veth, v6, def6), far: cat(farEnd, farV6),
			resolv: "nameserver " + far6 + "\n", guest6: "2001:db8:77::1", far6: true,
		},
		{
			name: "no default route", host: cat(lo, veth, v4, v6), far: cat(farEnd, farV4, farV6),
			resolv: "nameserver " + far6 + "\n", guest4: "10.77.0.1/24", guest6: "2001:db8:77::1", far4: true, far6: true,
		},
		{name: "no network, empty resolver file", host: lo, stub: "127.0.0.1"},
		{name: "no network, resolver ::1", host: lo, resolv: "nameserver ::1\n", stub: "::1"},
		{name: "not even loopback, no resolver file", resolv: "-", noLoopback: true},
		{
			name: "IPv6 disabled by sysctl", host: cat(lo, veth, v4, def4), far: cat(farEnd, farV4),
			sysctls: map[string]string{"net/ipv6/conf/all/disable_ipv6": "1"},
			resolv:  stub4, stub: "127.0.0.53", guest4: "10.77.0.1/24", far4: true, no6: true,
		},
		{
			name: "kernel without IPv6", host: cat(lo, veth, v4, def4), far: cat(farEnd, farV4), noIPv6: true,
			resolv: stub4, stub: "127.0.0.53", guest4: "10.77.0.1/24", far4: true, no6: true,
		},
		{
			name: "point-to-point, no hardware address", tun: true,
			host: cat(lo, []string{
				"link set t0 up", "addr add 10.77.0.1 peer 10.77.0.3/32 dev t0", "route add default dev t0",
				"addr add 2001:db8:77::1/64 dev t0 nodad", "route add ::/0 dev t0",
			}),
			far: []string{
				"link set lo up", "link set t0 up", "addr add 10.77.0.3 peer 10.77.0.1/32 dev t0", "addr add 2001:db8:77::3/64 dev t0 nodad",
			},
			resolv: "nameserver " + far4 + "\nnameserver " + far6 + "\n", guest4: "10.77.0.1/32", guest6: "2001:db8:77::1", far4: true, far6: true,
		},
		{
			name: "/32 and /128, router off link",
			host: cat(lo, veth, []string{
				"addr add 10.77.0.1/32 dev v0", "route add 10.77.0.2 dev v0", "route add default via 10.77.0.2",
				"addr add 2001:db8:77::1/128 dev v0 nodad",
			}, def6),
			far:    cat(farEnd, farV4, farV6, []string{"route add 10.77.0.1 dev v1", "route add 2001:db8:77::1 dev v1"}),
			resolv: stub4, stub: "127.0.0.53", guest4: "10.77.0.1/32", guest6: "2001:db8:77::1", far4: true, far6: true,
		},
		{
			name: "IPv4 by an IPv6 next hop",
			host: cat(lo, veth, []string{"addr add 10.77.0.1/32 dev v0", "route add 0.0.0.0/0 via inet6 fe80::77 dev v0"}, v6, def6),
			far:  cat(farEnd, farV4, farV6, []string{"route add 10.77.0.1 dev v1"}), resolv: "nameserver " + far4 + "\n",
			guest4: "10.77.0.1/32", guest6: "2001:db8:77::1", far4: true, far6: true,
		},
		{
			name: "two uplinks",
			host: cat(lo, veth, []string{
				"link add w0 type veth peer name w1 netns /proc/self/fd/3", "link set w0 up",
				"addr add 10.78.0.1/24 dev v0", "addr add 10.77.0.1/24 dev w0",
				"route add default via 10.78.0.2 metric 200", "route add default via 10.77.0.2 metric 100",
			}, v6, def6),
			far: cat(farEnd, farV6, []string{
				"link set w1 up", "addr add 10.78.0.2/24 dev v1", "addr add 10.77.0.3/24 dev w1", "addr add 10.77.0.2/24 dev w1",
			}),
			resolv: stub4, stub: "127.0.0.53", guest4: "10.77.0.1/24", guest6: "2001:db8:77::1", far4: true, far6: true,
		},
	}
}
