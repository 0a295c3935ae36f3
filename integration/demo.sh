#!/usr/bin/env bash
# Two daemons on this machine, and what their owners type. Every command is shown
# with its real output; any that does not do what is said fails the demonstration.
# It takes a few seconds and leaves nothing behind.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$PWD/bin
dir=$(mktemp -d /tmp/acpd-demo.XXXXXX) # short: a socket's path has about 100 bytes
desk=$dir/desk laptop=$dir/laptop stranger=$dir/stranger
cleanup() {
	local status=$?
	trap - EXIT
	kill $(jobs -p) 2>/dev/null || true
	wait 2>/dev/null || true
	[ $status = 0 ] || { echo; echo "demo: failed (exit $status); the daemons said:"; tail -n 20 "$dir"/*.log; }
	rm -rf "$dir"
	exit $status
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# show MACHINE COMMAND…: as a person would type it.
show() {
	local word line
	line="$(basename "$1")\$"
	for word in "${@:2}"; do
		[[ $word =~ ^[A-Za-z0-9_./:@,=-]+$ ]] || word="'$word'"
		line+=" $word"
	done
	echo "$line"
}
say() { printf '\n%s\n' "# $*"; }
# on HOME COMMAND…: shows and runs a command on one of the machines.
on() {
	local home=$1
	shift
	show "$home" "$@"
	ACP_HOME=$home PATH=$bin:$PATH "$@"
}
# fails EXIT HOME COMMAND…: the same for a command that must end with EXIT.
fails() {
	local want=$1 got=0
	shift
	on "$@" || got=$?
	[ $got = "$want" ] || { echo "demo: exit $got, expected $want"; exit 1; }
	echo "(exit $got)"
}
# What is shown here is no business of the network: --no-mdns.
start() {
	echo "$(basename "$1")\$ acpd --name $(basename "$1") &"
	"$bin/acpd" --home "$1" --name "$(basename "$1")" --listen 127.0.0.1:0 --no-mdns 2>"$1.log" &
	ACP_HOME=$1 "$bin/acpctl" status --wait 1m >/dev/null
}

say "Two machines, a daemon on each."
start "$desk"
start "$laptop"

say "One invites, the other joins: from now on they trust each other's keys."
uri=$(ACP_HOME=$desk "$bin/acpctl" invite 2>/dev/null)
show desk acpctl invite
echo "${uri%%token=*}token=…"
show laptop acpctl join acp://…
echo "$uri" | ACP_HOME=$laptop "$bin/acpctl" join
on "$laptop" acpctl ping desk -c 3 -i 100ms
on "$laptop" acpctl peers # connected by now

say "Any program can be an agent: here a shell script, behind acpctl serve."
cat >"$dir/reviewer" <<'SCRIPT'
#!/bin/sh
# Gets the question or task on its input, answers on its output.
read -r text
case $text in
*slow*) sleep 60 ;;
*) echo "Reviewed for $ACP_FROM_NAME: $text" ;;
esac
SCRIPT
chmod +x "$dir/reviewer"
echo 'desk$ acpctl serve --name reviewer --domain code --prompt -- ./reviewer &'
ACP_HOME=$desk "$bin/acpctl" serve --name reviewer --domain code --prompt -- "$dir/reviewer" 2>"$desk.serve.log" &
until ACP_HOME=$laptop "$bin/acpctl" discover desk --fresh --json | grep -q '"code"'; do :; done

on "$laptop" acpctl discover desk --fresh
on "$laptop" acpctl query desk/reviewer "Is the parser safe?" --domain code
on "$laptop" acpctl delegate desk "Review the parser." --domain code --wait

say "A task can be cancelled; the script and its children are ended."
id=$(ACP_HOME=$laptop "$bin/acpctl" delegate desk "A slow review." --domain code)
show laptop acpctl delegate desk "A slow review." --domain code
echo "$id"
on "$laptop" acpctl cancel "$id" "not needed any more"

say "A message is handed to an agent, or held on disk until somebody reads it; never just \"sent\"."
on "$laptop" acpctl notify desk build.done '{"commit": "4f2a"}'
on "$desk" acpctl inbox

say "A stranger gets nothing but a place in the list of those who wait."
start "$stranger"
desk_id=$(ACP_HOME=$desk "$bin/acpctl" whoami --json | sed 's/.*"id":"\([^"]*\)".*/\1/')
addr=$(ACP_HOME=$desk "$bin/acpctl" whoami --json | sed 's/.*"listen":\["\([^"]*\)".*/\1/')
on "$stranger" acpctl trust "$desk_id" --name desk --addr "$addr" --yes
fails 4 "$stranger" acpctl query desk "Let me in?"
on "$desk" acpctl peers

say "That was all. Both daemons stop."
