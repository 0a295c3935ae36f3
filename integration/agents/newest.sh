#!/bin/sh
# Tests acpd with the newest version of each agent program that npm has: Claude Code, Codex and
# OpenCode. It installs them below the folder given, says which versions they are, and runs all tests
# of this folder.
set -eu
dir=$(mkdir -p "$1" && cd "$1" && pwd)
here=$(dirname "$0")
ACPD_AGENTS_NEWEST=yes "$here/install.sh" "$dir"
cd "$here"
ACPD_AGENTS=$dir exec "${GO:-go}" test -tags "${TAGS:-nethttpomithttp2},agents" -count=1 -timeout 30m -parallel 3 -v .
