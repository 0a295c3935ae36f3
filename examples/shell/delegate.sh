#!/bin/sh
# Gives an agent a task, prints its progress (on standard error), and then the result: delegate.sh PEER TASK
# Interrupting it leaves the task running; acpctl cancel ends that.
set -eu
if [ $# -ne 2 ]; then
	echo 'usage: delegate.sh PEER TASK' >&2
	exit 2
fi
exec acpctl delegate --follow -- "$1" "$2"
