#!/bin/sh
# Installs the OACP reference tool in two virtual environments below the folder given:
# "pinned" has the release whose behaviour is the contract, "newest" the latest. A third,
# "openintent", has the SDK of OpenIntent with its reference server, what we add to it in
# python, and a linter of OpenAPI descriptions. The folder "mcp" has the MCP Inspector and the
# conformance suite of MCP, from npm, with the Node.js that they want. "acpd" has the wheel of
# python/acpd and nothing else; "checks" and "typescript" have what checks types.
set -eu
dir=$1 pinned=0.4.0

# retry runs a command that fetches something, up to three times: a network may fail for a moment.
retry() { "$@" || { sleep 5 && "$@"; } || { sleep 20 && "$@"; }; }

have() { "$1/bin/oacp" --help >/dev/null 2>&1; }

if ! command -v python3 >/dev/null; then
	echo "interop: python3 is missing: install it" >&2
	exit 1
fi
for which in pinned newest; do
	venv=$dir/$which
	have "$venv" || { rm -rf "$venv" && python3 -m venv "$venv"; } || {
		echo "interop: python3 cannot make virtual environments: install python3-venv" >&2
		exit 1
	}
done
have "$dir/pinned" || retry "$dir/pinned/bin/pip" install -q --disable-pip-version-check "oacp-cli[crypto]==$pinned"
sdk=$dir/openintent
"$sdk/bin/python" -c 'import openintent.server.app, openapi_spec_validator' 2>/dev/null || {
	rm -rf "$sdk" && python3 -m venv "$sdk"
	retry "$sdk/bin/pip" install -q --disable-pip-version-check "openintent[server]==0.17.0" openapi-spec-validator==0.9.0
}
retry "$sdk/bin/pip" install -q --disable-pip-version-check --no-deps --force-reinstall "$(dirname "$0")/../../python/acp_openintent"
retry "$dir/newest/bin/pip" install -q --disable-pip-version-check --upgrade "oacp-cli[crypto]" || have "$dir/newest" # if not the latest, a recent one
for tool in node npm; do
	command -v $tool >/dev/null || { echo "interop: $tool is missing: install it (nodejs, npm)" >&2; exit 1; }
done

# install_npm installs programs of npm in a folder, unless they are there.
install_npm() {
	folder=$1
	shift
	[ "$(cat "$folder/installed" 2>/dev/null)" != "$*" ] || return 0
	rm -rf "$folder" && mkdir -p "$folder"
	retry npm install --prefix "$folder" --no-audit --no-fund --loglevel=error "$@" >"$folder/log" 2>&1 || {
		cat "$folder/log" >&2
		echo "interop: $* cannot be installed" >&2
		exit 1
	}
	echo "$*" >"$folder/installed"
}

install_npm "$dir/mcp" node@22.21.1 @modelcontextprotocol/inspector@2.12.0 @modelcontextprotocol/conformance@0.1.16
install_npm "$dir/typescript" typescript@5.9.3 @types/node@22.20.5

# The package acpd as others get it: built to a wheel, and alone in an environment.
here=$(cd "$(dirname "$0")/../.." && pwd)
"$dir/checks/bin/python" -c 'import mypy, build' 2>/dev/null || {
	rm -rf "$dir/checks" && python3 -m venv "$dir/checks"
	retry "$dir/checks/bin/pip" install -q --disable-pip-version-check mypy==2.4.1 build==1.6.1
}
rm -rf "$dir/wheel" "$dir/acpd" && mkdir -p "$dir/wheel" && python3 -m venv "$dir/acpd"
cp -R "$here/python/acpd" "$dir/wheel/sources" # the build writes nothing into the repository
retry "$dir/checks/bin/python" -m build --wheel --outdir "$dir/wheel" "$dir/wheel/sources" >"$dir/wheel/log" 2>&1 || {
	cat "$dir/wheel/log" >&2
	exit 1
}
"$dir/acpd/bin/pip" install -q --disable-pip-version-check --no-deps --no-index "$dir"/wheel/acpd-*.whl
for which in pinned newest; do
	"$dir/$which/bin/pip" list --disable-pip-version-check 2>/dev/null | grep -i oacp
done
