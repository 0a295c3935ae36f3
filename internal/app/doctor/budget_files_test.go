package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/app/cli/clitest"
)

// Files of a peer that fill their share are the owner's to remove.
func TestManyFilesAreRemovedHere(t *testing.T) {
	found := faked(func(d *clitest.FakeDaemon, _ *client.Status, _ *Options) {
		d.SetAnswer(client.MethodBudget, &client.Budget{
			Rows:  []client.BudgetRow{{Name: "file_bytes", Peer: 100, All: 1000, Held: 90}},
			Usage: []client.BudgetUsage{{Row: "file_bytes", Peer: clitest.DeskID, Name: "laptop", Held: 90}},
		})
	}).find(t)
	if !slices.ContainsFunc(found, func(f Finding) bool {
		return f.Code == "budget.near" && strings.Contains(f.Remedy, "acpctl files rm ID")
	}) {
		t.Errorf("%+v", found)
	}
}
