package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCallsThroughAPipe: two machines that know no address of each other talk through the command that the desk
// has for build, both ways.
func TestCallsThroughAPipe(t *testing.T) {
	t.Parallel()
	desk, build := newMachine(t, "desk"), running(t, "build")
	script := fmt.Sprintf("echo Welcome to build >&2; exec '%s' --home '%s' pipe", build.ProgramPath("acpctl"), build.Home)
	if err := os.WriteFile(filepath.Join(desk.Home, "config.yaml"), fmt.Appendf(nil, "peers: {build: {pipe: [sh, -c, %q]}}\n", script), 0o600); err != nil {
		t.Fatal(err)
	}
	desk.StartDaemon()
	desk.Trust(build.Machine)
	build.Trust(desk.Machine)
	build.Serve("worker", "--prompt", "--", "sed", "s/^/done: /")
	desk.Serve("planner", "--prompt", "--", "sed", "s/^/seen: /")
	if said := desk.MustOutput("query", "build", "tests"); said != "done: tests\n" {
		t.Errorf("query: %q", said)
	}
	if said := build.MustOutput("query", "desk", "by the same way"); said != "seen: by the same way\n" {
		t.Errorf("query back: %q", said)
	}
	desk.RunAcpctl(0, "notify", "build", "ci.done", "{}")
	id := strings.TrimSpace(desk.MustOutput("delegate", "build", "Tidy up."))
	if said := desk.MustOutput("wait", id); said != "done: Tidy up.\n" {
		t.Errorf("delegation: %q", said)
	}
	there, back := desk.FindPeer(build.ID), build.FindPeer(desk.ID)
	if there.Addrs[0] != "pipe:build" || !strings.HasPrefix(back.Addrs[0], "pipe:in-") {
		t.Errorf("addresses: %v, %v", there.Addrs, back.Addrs)
	}
}
