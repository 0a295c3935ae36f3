package commandenv

import (
	"slices"
	"strings"
	"testing"
)

func TestEnviron(t *testing.T) {
	own := []string{"ACP_HOME", "ACP_AGENT_KEY", "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}
	others := []string{"OACP_HOME", "ACPX", "LISTEN_ADDR", "WATCHDOG", "SSH_AUTH_SOCK"}
	for _, name := range append(own, others...) {
		t.Setenv(name, "=set")
	}
	env := Environ()
	for _, name := range own {
		if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			t.Errorf("a command gets %s", name)
		}
	}
	for _, name := range others {
		if !slices.Contains(env, name+"==set") {
			t.Errorf("a command does not get %s", name)
		}
	}
}
