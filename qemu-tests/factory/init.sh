#!/bin/sh
# The first process of the QEMU guest: loads the network driver, runs /script and powers off.
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/usr/sbin HOME=/ PS1='vm# '
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
exec </dev/console >/dev/console 2>&1
stty -onlcr -echo
for m in $(ls /modules | sort -n); do insmod /modules/"$m" || echo "insmod $m failed"; done
ip link set lo up
sh /script
sync
poweroff -f
sleep 1000
