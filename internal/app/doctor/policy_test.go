package doctor

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

// What a policy refuses is no overuse of a bound, and is not called that.
func TestRefusedByPolicy(t *testing.T) {
	for _, f := range faked(func(d *clitest.FakeDaemon, _ *client.Status, _ *Options) {
		d.SetAnswer(client.MethodBudget, &client.Budget{
			Rows:  []client.BudgetRow{{Name: "policy"}},
			Usage: []client.BudgetUsage{{Row: "policy", Peer: clitest.DeskID, Name: "laptop", Refused: 1}},
		})
	}).find(t) {
		if f.Code == "budget.refused" {
			if !strings.Contains(f.What, "by policy or at a bound") {
				t.Errorf("it says %q", f.What)
			}
			return
		}
	}
	t.Error("it is not found")
}
