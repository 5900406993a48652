#!/bin/sh
# deb.sh PROGRAM DOCS VERSION FOLDER: makes FOLDER/vhost-net-go_VERSION_ARCH.deb and prints its path. With SOURCE_DATE_EPOCH
# set, the same input gives the same bytes.
set -eu
program=$1 docs=$2 version=$3 folder=$4
here=$(dirname "$0")
command -v dpkg-deb >/dev/null || {
	echo "dpkg-deb is needed to make a package; it is in Debian's package dpkg" >&2
	exit 1
}
arch=${DEB_ARCH:-$(dpkg --print-architecture)}
umask 022
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"

sh "$here/install.sh" "$program" "$docs" "$stage" /usr
install -d "$stage/etc/vhost-net-go" "$stage/DEBIAN"
size=$(du -ks --exclude=DEBIAN "$stage" | cut -f1)
sed -e "s|@VERSION@|$version|" -e "s|@ARCH@|$arch|" -e "s|@SIZE@|$size|" "$here/debian/control.in" >"$stage/DEBIAN/control"
echo /etc/apparmor.d/vhost-net-go >"$stage/DEBIAN/conffiles"
(cd "$stage" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$stage/DEBIAN/md5sums"
for script in postinst prerm postrm; do
	install -m 755 "$here/debian/$script" "$stage/DEBIAN/$script"
done
install -d "$folder"
deb=$folder/vhost-net-go_${version}_$arch.deb
dpkg-deb --root-owner-group -Zxz --build "$stage" "$deb" >&2
echo "$deb"
