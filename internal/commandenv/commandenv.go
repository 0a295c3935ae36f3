// Package commandenv has the environment of the commands that acpd and acpctl start for their users.
package commandenv

import (
	"os"
	"slices"
	"strings"
)

// ownVariables are prefixes of the variables that are only for a process of acpd or acpctl: where its daemon is,
// and the interface of the service manager (sd_notify(3), sd_watchdog_enabled(3), sd_listen_fds(3)).
var ownVariables = []string{"ACP_", "NOTIFY_SOCKET=", "WATCHDOG_USEC=", "WATCHDOG_PID=", "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES="}

// Environ returns the environment of this process for a command, without the variables that are only for this process.
func Environ() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return slices.ContainsFunc(ownVariables, func(own string) bool { return strings.HasPrefix(variable, own) })
	})
}
