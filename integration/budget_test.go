package integration

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/integration/await"
)

// TestBudgetTable holds the table in docs/security.md to what a daemon counts: the same
// rows, in any order, with the same bounds.
func TestBudgetTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string][2]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|[^|]*\\| ([^|]*) \\| ([^|]*) \\|").FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = [2]string{row[2], row[3]}
	}
	desk := running(t, "desk")
	b, err := desk.Client.Budget(await.NewContext(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range b.Rows {
		row := budget.Row{Unit: budget.Unit(r.Unit)}
		want := [2]string{row.FormatAmount(r.Peer), "–"}
		if r.All > 0 {
			want[1] = row.FormatAmount(r.All)
		}
		got, ok := documented[r.Name]
		if !ok {
			t.Errorf("docs/security.md does not have the row %s, of %s and %s", r.Name, want[0], want[1])
		}
		// What depends on the machine or the agent is told in words.
		if ok && got != want && !strings.Contains(got[0]+got[1], "its ") && !strings.Contains(got[0]+got[1], "half of") {
			t.Errorf("docs/security.md says of %s %v, the daemon %v", r.Name, got, want)
		}
		delete(documented, r.Name)
	}
	for name := range documented {
		t.Errorf("docs/security.md has the row %s, which no daemon counts", name)
	}
}
