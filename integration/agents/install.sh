#!/bin/sh
# Installs the agent programs, pinned, from npm: claude, codex and opencode, each in a folder of
# that name below the folder given. With ACPD_AGENTS_NEWEST=yes it installs the newest ones instead.
# What cannot be installed is named.
set -eu
dir=$1

for tool in node npm; do
	command -v $tool >/dev/null || { echo "agents: $tool is missing: install it (Node.js 20 or later)" >&2; exit 1; }
done
# retry runs a command that fetches something, up to three times: a network may fail for a moment.
retry() { "$@" || { sleep 5 && "$@"; } || { sleep 20 && "$@"; }; }

install_program() { # name, package, version
	if [ "${ACPD_AGENTS_NEWEST:-}" = yes ]; then
		newest=$(retry npm view "$2" version) || { echo "agents: npm does not say which version of $2 is the newest: is there a network?" >&2; exit 1; }
		set -- "$1" "$2" "$newest"
	fi
	target=$dir/$1
	if [ -x "$target/node_modules/.bin/$1" ] && [ "$(cat "$target/installed" 2>/dev/null)" = "$2@$3" ]; then
		return
	fi
	rm -rf "$target" && mkdir -p "$target"
	retry npm install --prefix "$target" --no-audit --no-fund --loglevel=error "$2@$3" >"$target/log" 2>&1 &&
		[ -x "$target/node_modules/.bin/$1" ] || {
		cat "$target/log" >&2
		echo "agents: $2@$3 cannot be installed" >&2
		exit 1
	}
	echo "$2@$3" >"$target/installed"
}
install_program claude @anthropic-ai/claude-code 2.1.332
install_program codex @openai/codex 0.171.0
install_program opencode opencode-ai 1.18.33
cat "$dir"/*/installed
