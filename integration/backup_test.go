package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/internal/statedir"
)

// TestVersionsOfTheStateDirectory: acpctl, which reads no tables, knows the versions that acpd
// writes. Whoever adds a migration changes statedir.StateVersion.
func TestVersionsOfTheStateDirectory(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	desk.MustOutput("wake", "allow", laptop.Name)
	await.Until(t, "the rules are on disk", func() bool {
		_, err := os.Stat(filepath.Join(desk.Home, statedir.RulesName))
		return err == nil
	})
	desk.StopDaemon()
	f, err := os.Open(filepath.Join(desk.Home, statedir.StateName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if version, err := statedir.ReadStateVersion(f); err != nil || version != statedir.StateVersion {
		t.Errorf("state.db has version %d, %v; statedir.StateVersion is %d", version, err, statedir.StateVersion)
	}
	for name, want := range map[string]int{
		statedir.TrustName: statedir.TrustVersion, statedir.TrustCopyName: statedir.TrustVersion,
		statedir.RulesName: statedir.RulesVersion, statedir.RulesCopyName: statedir.RulesVersion,
	} {
		if text := content(t, filepath.Join(desk.Home, name)); !strings.Contains("\n"+text, fmt.Sprintf("\nversion: %d\n", want)) {
			t.Errorf("%s has another version than %d:\n%s", name, want, text)
		}
	}
}
