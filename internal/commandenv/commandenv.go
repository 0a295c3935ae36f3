// Package commandenv has the environment of the commands that acpd and acpctl start for their users.
package commandenv

import (
	"os"
	"slices"
	"strings"
)

// ownVariables begin the variables that concern a process of acpd or acpctl alone: where its daemon is, and
// what the service manager says to it (sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3)).
var ownVariables = []string{"ACP_", "NOTIFY_SOCKET=", "WATCHDOG_USEC=", "WATCHDOG_PID=", "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES="}

// Environ returns the environment of this process as a command gets it: without what concerns this process alone.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return slices.ContainsFunc(ownVariables, func(own string) bool { return strings.HasPrefix(variable, own) })
	})
}
