#!/bin/sh
# install.sh PROGRAM DOCS DESTDIR PREFIX: puts the program, the generated documents in DOCS, and the files beside this script
# where they belong. Units and the AppArmor profile name the program below PREFIX; the profile goes to /etc only with /usr.
set -eu
program=$1 docs=$2 dest=$3 prefix=$4
here=$(dirname "$0")
bin=$prefix/bin

put() { install -D -m "$1" "$2" "$dest$3"; }
# fill FILE TARGET: the same with the program's folder filled in.
fill() {
	install -d "$dest$(dirname "$2")"
	sed "s|@BINDIR@|$bin|g" "$1" >"$dest$2"
	chmod 644 "$dest$2"
}

put 755 "$program" "$bin/vhost-net-go"
install -d "$dest$prefix/libexec/vhost-net-go" "$dest$prefix/share/man/man1"
ln -sf ../../bin/vhost-net-go "$dest$prefix/libexec/vhost-net-go/passt"
gzip -9nc "$docs/vhost-net-go.1" >"$dest$prefix/share/man/man1/vhost-net-go.1.gz"
chmod 644 "$dest$prefix/share/man/man1/vhost-net-go.1.gz"
put 644 "$docs/vhost-net-go.bash" "$prefix/share/bash-completion/completions/vhost-net-go"
# zsh looks elsewhere for what the distribution brings.
case $prefix in
/usr) put 644 "$docs/vhost-net-go.zsh" /usr/share/zsh/vendor-completions/_vhost-net-go ;;
*) put 644 "$docs/vhost-net-go.zsh" "$prefix/share/zsh/site-functions/_vhost-net-go" ;;
esac
put 644 "$docs/vhost-net-go.fish" "$prefix/share/fish/vendor_completions.d/vhost-net-go.fish"
fill "$here/50-vhost-net-go.json.in" "$prefix/share/qemu/vhost-user/50-vhost-net-go.json"
put 644 "$here/systemd/vhost-net-go@.socket" "$prefix/lib/systemd/system/vhost-net-go@.socket"
fill "$here/systemd/vhost-net-go@.service.in" "$prefix/lib/systemd/system/vhost-net-go@.service"
[ "$prefix" != /usr ] || fill "$here/apparmor/vhost-net-go.in" /etc/apparmor.d/vhost-net-go
put 644 "$here/../../../docs/operations.md" "$prefix/share/doc/vhost-net-go/operations.md"
put 644 "$here/../../../LICENSE" "$prefix/share/doc/vhost-net-go/copyright"
