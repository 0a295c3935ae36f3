#!/bin/sh
# Asks several agents the same question at the same time, and prints their answers as they come:
# ask.sh QUESTION PEER…
set -eu
if [ $# -lt 2 ]; then
	echo 'usage: ask.sh QUESTION PEER…' >&2
	exit 2
fi
question=$1
shift
acpctl whoami >/dev/null # ends this if no daemon answers
for peer; do
	{
		answer=$(acpctl query -- "$peer" "$question" 2>&1) || true # an error says what to do
		printf '%s: %s\n' "$peer" "$answer"
	} &
done
wait
