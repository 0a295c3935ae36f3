//go:build interop

package release

import (
	"path/filepath"
	"strings"
	"testing"
)

// A verb for which the daemon is too old says so, and what helps.
func TestNewVerbs(t *testing.T) {
	t.Parallel()
	desk := newSide(t, "desk", older, newer)
	desk.StartDaemon()
	for _, verb := range [][]string{
		{"agents"}, {"agents", "--spent"}, {"approvals"}, {"wake", "list"}, {"wake", "allow", desk.ID.String(), "--kinds", "query"},
		{"reply", "3f2b8c1e-6f0a-4d3c-9e57-0c1d2e3f4a5b", "main"},
	} {
		if said := desk.RunAcpctl(1, verb...).Stderr.String(); !strings.Contains(said, ": the daemon is older than this program: update acpd and start it again") {
			t.Errorf("acpctl %s: %s", strings.Join(verb, " "), said)
		}
	}

	// Its state can be saved before the upgrade all the same.
	file := filepath.Join(t.TempDir(), "backup.tar")
	if said := desk.RunAcpctl(1, "backup", file).Stderr.String(); !strings.Contains(said, "stop acpd, and repeat the backup") {
		t.Errorf("acpctl backup: %s", said)
	}
	desk.Acpd.Stop()
	desk.MustOutput("backup", file)
}
