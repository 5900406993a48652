# Shell functions for guest scripts. Every result is one line on the console: "@step NAME ok|fail DETAILS"; "@done" is the last.

# step NAME COMMAND...: runs COMMAND and reports its success and its last words.
step() {
	_name=$1
	shift
	if _out=$("$@" 2>&1); then _word=ok; else _word=fail; fi
	_out=$(echo "$_out" | tail -n 3 | tr '\n\r\t' '   ' | tail -c 400)
	echo "@step $_name $_word $_out"
	[ $_word = ok ]
}

# lease: IPv4 by DHCP, with busybox's client.
lease() {
	cat >/tmp/udhcpc.script <<'SCRIPT'
#!/bin/sh
case $1 in
bound|renew)
	ip addr flush dev $interface scope global 2>/dev/null
	ip -4 addr add $ip/$mask dev $interface
	[ -n "$mtu" ] && ip link set $interface mtu $mtu
	for r in $router; do ip -4 route replace default via $r; done
	: >/etc/resolv.conf
	for d in $dns; do echo "nameserver $d" >>/etc/resolv.conf; done
	[ -n "$search$domain" ] && echo "search ${search:-$domain}" >>/etc/resolv.conf
	echo "address $ip/$mask router $router dns $dns mtu $mtu search $search lease $lease"
esac
SCRIPT
	chmod +x /tmp/udhcpc.script
	ip link set eth0 up
	busybox udhcpc -i eth0 -n -q -t 8 -T 1 -s /tmp/udhcpc.script 2>/tmp/udhcpc.log || {
		tail -n 2 /tmp/udhcpc.log
		return 1
	}
}

# slaac: waits for the kernel's own IPv6 address and default route.
slaac() {
	_i=0
	while [ $_i -lt 50 ]; do
		_a=$(ip -6 addr show dev eth0 scope global | grep -v tentative | sed -n 's/.*inet6 \([^ ]*\).*/\1/p')
		_r=$(ip -6 route show default | sed -n 's/.*via \([^ ]*\).*/\1/p' | head -n 1)
		if [ -n "$_a" ] && [ -n "$_r" ]; then
			echo "address $_a router $_r"
			return 0
		fi
		_i=$((_i + 1))
		sleep 0.2
	done
	echo "after 10 s: address '$_a' router '$_r'"
	return 1
}

gateway4() { ip -4 route show default | sed -n 's/.*via \([^ ]*\).*/\1/p' | head -n 1; }
gateway6() { ip -6 route show default | sed -n 's/.*via \([^ ]*\).*/\1/p' | head -n 1; }

# reply ADDRESS: one echo request of three at least is answered (that is ping's exit status).
reply() {
	case $1 in *:*) _f=-6 ;; *) _f=-4 ;; esac
	_o=$(busybox ping $_f -c 3 -i 0.2 -W 2 -I eth0 "$1" 2>&1)
	_rc=$?
	echo "$1: $(echo "$_o" | tail -n 2 | sed 's/^3 packets transmitted, //; s/^round-trip/times/' | tr '\n' ' ')"
	return $_rc
}

# resolve NAME ADDRESS: the name server of the lease knows NAME, and says ADDRESS.
resolve() {
	_o=$(busybox nslookup "$1" 2>&1)
	echo "$_o" | grep -F "$2" >/dev/null || {
		echo "$_o"
		return 1
	}
	echo "$1 is $2 says $(sed -n 's/nameserver //p' /etc/resolv.conf | tr '\n' ' ')"
}
