#!/bin/sh
# needs.sh FILE=PACKAGE...: installs the Debian packages whose files are missing from this machine, after saying which.
set -eu
missing=
for need in "$@"; do
	[ -e "${need%%=*}" ] || missing="$missing ${need#*=}"
done
[ -n "$missing" ] || exit 0
echo "This needs packages that are not installed:$missing"
sudo=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || {
		echo "Install them as root: apt-get install$missing" >&2
		exit 1
	}
	sudo=sudo
	echo "sudo may ask for your password."
fi
# Lists of repositories that have nothing to do with this may be out of reach; the installation shows whether that matters.
$sudo apt-get update -q || true
# shellcheck disable=SC2086 # a list of words
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $missing
