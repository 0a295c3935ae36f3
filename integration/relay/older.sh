#!/bin/sh
# Puts Debian's nats-server, which is older than the one of go.mod, into FILE: older.sh FILE. FILE
# stays for the next time. Nothing is installed.
set -e
file=$1
[ ! -x "$file" ] || exit 0
mkdir -p "$(dirname "$file")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -o APT::Sandbox::User= download nats-server >log 2>&1 || {
	cat log >&2
	echo "nats-server: apt-get download does not get it: run apt-get update, or name an older server: make reach-wide NATS=FILE" >&2
	exit 1
}
dpkg-deb -x nats-server_*.deb root
mv root/usr/sbin/nats-server "$file"
