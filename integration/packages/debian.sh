#!/bin/sh
# Makes a clean Debian root as an archive: debian.sh FILE. It is the release of this machine,
# or of SUITE, from where this machine's apt gets its packages. FILE stays for the next time.
set -e
file=$1
[ ! -f "$file" ] || exit 0
mkdir -p "$(dirname "$file")"
suite=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
mirror=$(apt-get indextargets --format '$(SITE) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' | awk -v suite="$suite" '$2 == suite && $3 == "main" { print $1; exit }')
work=$(mktemp -d)
trap 'rm -rf "$work" "$file.new"' EXIT
bootstrap() {
	rm -rf "$work/root"
	debootstrap --variant=minbase "$suite" "$work/root" ${mirror:+"$mirror"} >"$work/log"
}
bootstrap || bootstrap || bootstrap || { # it fetches packages, and a network may fail for a moment
	tail -n 20 "$work/log" >&2
	exit 1
}
rm -rf "$work"/root/var/cache/apt/archives/*.deb "$work"/root/var/lib/apt/lists/*
tar --create --numeric-owner --one-file-system --file="$file.new" --directory="$work/root" .
mv "$file.new" "$file"
