#!/bin/sh
# Asks several agents the same question at the same time, and prints their answers as they come:
# ask.sh QUESTION PEER…. It exits with 1 if any of them failed.
set -eu
if [ $# -lt 2 ]; then
	echo 'usage: ask.sh QUESTION PEER…' >&2
	exit 2
fi
question=$1
shift
acpctl whoami >/dev/null # ends this if no daemon answers
asked=
for peer; do
	{
		code=0
		answer=$(acpctl query -- "$peer" "$question" 2>&1) || code=1 # an error says what to do
		printf '%s: %s\n' "$peer" "$answer"
		exit $code
	} &
	asked="$asked $!"
done
code=0
for one in $asked; do
	wait "$one" || code=1
done
exit $code
