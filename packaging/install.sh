#!/bin/sh
# Installs acpd and acpctl @VERSION@ into PREFIX/bin (by default ~/.local/bin):
#
#     ACPD_BASE_URL=https://… sh install.sh [--force]
#
# ACPD_BASE_URL is the folder with the archives of this release. An archive is installed only if it
# has the SHA-256 that this script names. --force also replaces a newer version. The script never
# uses sudo: for /usr/local/bin, run it with PREFIX=/usr/local as somebody who may write there.

version=@VERSION@
sums='@SUMS@'

fail() {
	printf 'install.sh: %s\n' "$*" >&2
	exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# read_version PROGRAM prints its version, or nothing if the program does not say one within 10 seconds.
read_version() {
	{
		"$1" --version </dev/null >"$new/version" &
		asked=$!
		(sleep 10 && kill -9 "$asked") </dev/null >/dev/null &
		wait "$asked" || :
		kill "$!" || :
	} 2>/dev/null
	sed -n '1s/^acp[a-z]* v\{0,1\}\([0-9][^ ]*\) .*/\1/p' "$new/version"
}

# quote WORD prints it as a shell takes it.
quote() {
	case $1 in
	*[!A-Za-z0-9/._-]*) printf '%s\n' "$1" | sed "s/'/'\\\\''/g; 1s/^/'/; \$s/\$/'/" ;;
	*) printf '%s\n' "$1" ;;
	esac
}

# read_time VERSION prints the time in the version of a build between two releases.
read_time() { printf '%s\n' "$1" | sed -n 's/^[0-9.]*+\([0-9]\{14\}\)\(\..*\)\{0,1\}$/\1/p'; }

# is_newer A B succeeds if version A is newer than B. Of two with the same number, the later build is newer.
is_newer() {
	a=${1%%[!0-9.]*} b=${2%%[!0-9.]*}
	if [ "$a" != "$b" ]; then
		[ "$(printf '%s\n%s\n' "$a" "$b" | sort -t . -k 1,1n -k 2,2n -k 3,3n | tail -n 1)" = "$a" ]
		return
	fi
	a=$(read_time "$1") b=$(read_time "$2")
	[ "${a:-0}" -gt "${b:-0}" ]
}

# main is called on the last line, so that a script that was cut off does nothing.
main() {
	set -eu
	umask 022
	ulimit -f 200000 2>/dev/null || : # blocks of 512 bytes: no file that this script writes or downloads fills the disk
	force='' old=''
	for arg; do
		[ "$arg" = --force ] || fail "unknown argument $arg: the only one is --force"
		force=1
	done

	base=${ACPD_BASE_URL:-}
	base=${base%/}
	case $base in
	'') fail "ACPD_BASE_URL is not set: set it to the URL of the folder with the archives of acpd $version" ;;
	*@*) fail "ACPD_BASE_URL must not have a user or an @: remove it" ;;
	https://*) protocol='=https' ;;
	http://127.0.0.1 | http://127.0.0.1/* | http://127.0.0.1:[0-9]*)
		protocol='=http' port=${base#http://127.0.0.1}
		port=${port#:} port=${port%%/*}
		case $port in *[!0-9]*) fail "ACPD_BASE_URL is $base: its port must be a number" ;; esac
		;;
	*) fail "ACPD_BASE_URL is $base: use https (http only works for 127.0.0.1)" ;;
	esac

	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "acpd runs on Linux and macOS, not on $(uname -s)" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "this release has no programs for $(uname -m): build them with make install in a checkout" ;;
	esac
	folder=acpd_${version}_${os}_$arch
	archive=$folder.tar.gz
	sum=$(printf '%s\n' "$sums" | sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p")
	[ -n "$sum" ] || fail "this release has no programs for $os on $arch: build them with make install in a checkout"

	prefix=${PREFIX:-${HOME:+$HOME/.local}}
	case $prefix in
	/*) ;;
	'') fail "neither PREFIX nor HOME is set: set PREFIX to the folder above bin" ;;
	*) prefix=$PWD/$prefix ;;
	esac
	bin=$prefix/bin
	# Unpacked beside the programs, they can take the place of the old ones at once.
	{ mkdir -p "$bin" && new=$(mktemp -d "$bin/.acpd.XXXXXX"); } 2>/dev/null ||
		fail "cannot write to $bin: set PREFIX to a folder in which you may write"
	trap 'rm -rf "$new"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' HUP TERM
	{ echo >"$new/version"; } 2>/dev/null || fail "the disk of $bin is full: make room there, or set PREFIX to a folder on another disk"
	for name in acpctl acpd; do
		[ ! -d "$bin/$name" ] || fail "$bin/$name is a folder: move it away"
		[ -e "$bin/$name" ] || continue
		old=$(read_version "$bin/$name")
		[ -z "$force" ] || continue
		[ -n "$old" ] || fail "$bin/$name does not say its version: use --force to replace it"
		! is_newer "$old" "$version" || fail "$bin/$name is $old, which is newer than $version: use --force to replace it"
	done

	echo "Downloading $base/$archive"
	if has curl; then
		curl --proto "$protocol" --fail --silent --show-error --location --connect-timeout 20 --speed-limit 1000 --speed-time 60 --output "$new/$archive" "$base/$archive"
	elif has wget; then
		bounds='--timeout=60 --tries=2'
		wget --version >/dev/null 2>&1 || bounds='' # busybox: some builds end at an option for the time
		wget -q $bounds -O "$new/$archive" "$base/$archive"
	else
		fail "neither curl nor wget is here: install one of them"
	fi || fail "cannot download $base/$archive: look whether ACPD_BASE_URL is right"

	if has sha256sum; then
		got=$(sha256sum <"$new/$archive")
	elif has shasum; then
		got=$(shasum -a 256 <"$new/$archive")
	else
		fail "neither sha256sum nor shasum is here: install one of them"
	fi
	[ "${got%% *}" = "$sum" ] || fail "$base/$archive is not the archive of this release (its SHA-256 is ${got%% *}, not $sum): download it from somewhere else"

	tar -xzf "$new/$archive" -C "$new" "$folder/acpctl" "$folder/acpd" || fail "cannot unpack $archive: make sure that the disk has room, and run the script again"
	for name in acpctl acpd; do
		{ [ ! -L "$new/$folder/$name" ] && [ "$(read_version "$new/$folder/$name")" = "$version" ]; } ||
			fail "the new $name does not run here: set PREFIX to a folder from which programs may be started"
	done
	for name in acpctl acpd; do
		mv -f "$new/$folder/$name" "$bin/$name"
	done

	echo "acpd and acpctl $version are installed in $bin."
	case :$PATH: in
	*":$bin:"*) echo "That folder is in your PATH." ;;
	*) printf 'That folder is not in your PATH. Add this line to the profile of your shell:\n\n    export PATH=%s:"$PATH"\n\n' "$(quote "$bin")" ;;
	esac
	if [ -n "$old" ]; then
		echo "A daemon that is running is still version $old: restart it (acpctl drain, then acpctl up)."
	else
		echo "Now: acpctl up"
	fi
}

main "$@"
