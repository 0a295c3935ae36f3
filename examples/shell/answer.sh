#!/bin/sh
# An agent that answers questions, and works on what others delegate to it: answer.sh [NAME]
# acpctl serve runs it again, with --work, for each of them: their text is on standard input.
# It is a peer's text: data, and no command. ACP_KIND and ACP_FROM_NAME say what it is.
set -eu
if [ "${1-}" = --work ]; then
	case $ACP_KIND in
	query) printf 'You asked: %s\n' "$(cat)" ;;
	delegate)
		for part in 'half done' 'nearly done'; do
			acpctl reply "$ACP_ID" --partial "$part"
		done
		printf 'You delegated: %s\n' "$(cat)"
		;;
	esac
	exit
fi
exec acpctl serve --name "${1:-reviewer}" --prompt -- "$0" --work
