package qemutests

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/vhost-net-go/vhost-net-go/qemu-tests/guest"
	"github.com/vhost-net-go/vhost-net-go/qemu-tests/lab"
)

// clientsScript lets DHCP clients that people use configure the guest, one after another, and compares what each says it got.
// A client's hook writes what it was given to /tmp/got.REASON.
var clientsScript = fmt.Sprintf(`
cat >/tmp/hook <<'HOOK'
#!/bin/sh
env | grep -E '^(new_|nd[0-9]*_)' >/tmp/got.$reason
HOOK
chmod +x /tmp/hook
echo 'systemd-network:x:998:998::/:/bin/false' >>/etc/passwd
echo 'systemd-network:x:998:' >>/etc/group

# got REASON PATTERN...: the file that REASON names has a line for each PATTERN.
got() {
	_f=/tmp/got.$1
	shift
	for _p in "$@"; do
		grep -E -q "$_p" $_f || { echo "no $_p in $(echo /tmp/got.*): $(cat $_f | tr '\n' ' ')"; return 1; }
	done
	echo "$(cat $_f | tr '\n' ' ')"
}
# fresh: an interface as after boot, with a link-local address that can be used.
fresh() {
	rm -f /tmp/got.*
	ip link set eth0 down; ip addr flush dev eth0; ip link set eth0 up
	_i=0
	while [ $_i -lt 50 ]; do
		[ -n "$(ip -6 addr show dev eth0 scope link | grep -v tentative | grep inet6)" ] && return 0
		_i=$((_i + 1))
		sleep 0.1
	done
	return 1
}
# 2>&1 of a daemon would keep step waiting.
isc() { dhclient "$@" -1 -pf /tmp/pid -sf /tmp/hook eth0 >/tmp/isc.log 2>&1 </dev/null || { tail -n 3 /tmp/isc.log; return 1; }; }
gone() { kill $(cat /tmp/pid) 2>/dev/null; sleep 0.2; :; }

isc4() {
	rm -f /tmp/got.*
	isc -4 -cf /etc/dhcp/dhclient.conf -lf /tmp/lease4 && gone &&
		got ${1:-BOUND} 'new_ip_address=%[1]s$' 'new_routers=%[2]s$' 'new_domain_name_servers=%[3]s$' \
			'new_interface_mtu=9000$' 'new_host_name=vm1$' 'new_domain_search=.*lab\.test'
}
isc6() {
	rm -f /tmp/got.*
	isc -6 -cf /etc/dhcp/dhclient.conf -lf /tmp/lease6 && gone &&
		got BOUND6 'new_ip6_address=%[4]s$' 'new_dhcp6_name_servers=%[5]s$' 'new_dhcp6_domain_search=.*lab\.test'
}
isc_release() {
	isc -6 -r -cf /etc/dhcp/dhclient.conf -lf /tmp/lease6 && isc -4 -r -cf /etc/dhcp/dhclient.conf -lf /tmp/lease4
}
fresh
step dhclient4 isc4
step dhclient4-reboot isc4 REBOOT
step dhclient6 isc6
step dhclient6-confirm isc6
step dhclient-release isc_release

# dhcpcd probes its IPv4 address by ARP (RFC 5227), which takes some seconds; nobody may answer.
roy() {
	fresh
	dhcpcd -B $1 -c /tmp/hook eth0 >/tmp/roy.log 2>&1 </dev/null &
	_pid=$!
	_i=0
	while [ $_i -lt 150 ] && [ ! -s /tmp/got.$2 ]; do _i=$((_i + 1)); sleep 0.1; done
	sleep 0.2
	kill $_pid
	wait
}
roy4() {
	roy -4 BOUND
	got BOUND 'new_ip_address=%[1]s$' 'new_routers=%[2]s$' 'new_domain_name_servers=%[3]s$' 'new_interface_mtu=9000$'
}
roy6() {
	roy -6 BOUND6
	got BOUND6 'new_dhcp6_ia_na1_ia_addr1=%[4]s$' 'new_dhcp6_name_servers=%[5]s$' &&
		got ROUTERADVERT 'nd1_rdnss1_servers=%[5]s$' 'nd1_mtu=9000$' 'nd1_dnssl1_search=lab\.test$'
}
step dhcpcd4 roy4
step dhcpcd6 roy6

networkd() {
	fresh
	_n=$(cat /sys/class/net/eth0/ifindex)
	mkdir -p /run/systemd/network /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp /run/udev/data
	chown -R 998:998 /run/systemd/netif
	echo I:1 >/run/udev/data/n$_n # no udev here that says the interface is ready
	printf '[Match]\nName=eth0\n[Network]\nDHCP=yes\nIPv6AcceptRA=yes\n[DHCPv4]\nUseDomains=yes\n[IPv6AcceptRA]\nUseDomains=yes\n' >/run/systemd/network/10.network
	/usr/lib/systemd/systemd-networkd >/tmp/networkd.log 2>&1 </dev/null &
	_pid=$!
	_i=0
	while [ $_i -lt 100 ] && ! ip -6 addr show dev eth0 | grep -q '%[4]s/128'; do _i=$((_i + 1)); sleep 0.1; done
	sleep 0.5
	(ip addr show dev eth0; ip route; ip -6 route; cat /run/systemd/netif/links/$_n) >/tmp/got.networkd
	kill $_pid
	wait
	got networkd 'inet %[1]s/24' 'inet6 %[4]s/128' 'default via %[2]s' 'default .*via fe80:' 'DNS=.*%[3]s.*%[5]s' 'DOMAINS=.*lab\.test' ||
		{ tail -n 5 /tmp/networkd.log; return 1; }
}
step networkd networkd
step udhcpc lease
`, lab.VMHost4, lab.Gateway4, lab.Peer4, lab.VMHost6, lab.Peer6)

// TestDHCPClients is for clients that people use; busybox's is in the suite too.
func TestDHCPClients(t *testing.T) {
	ctx, l := newLab(t, 2*time.Minute)
	config, _ := guest.UMLs(l)
	config.Config = guest.Config{Name: "clients", Script: clientsScript, Socket: filepath.Join(l.Dir, "s")}
	p, err := l.StartBackend(ctx, machine.Backend, "backend", lab.Link{Path: config.Socket}, "-H", "vm1", "--fqdn", "vm1.lab.test", "-S", "lab.test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		logOnFailure(t, l, "backend")
	})
	vm, err := guest.StartUML(ctx, l, config)
	if err != nil {
		t.Fatal(err)
	}
	defer vm.Stop()
	if err := vm.Console.Finish(ctx); err != nil {
		t.Error(err)
	}
	checkSteps(t, vm, []string{
		"dhclient4", "dhclient4-reboot", "dhclient6", "dhclient6-confirm", "dhclient-release", "dhcpcd4", "dhcpcd6", "networkd", "udhcpc",
	})
}
