package watch

import (
	"io"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// On a terminal the partial results of one delegation stay on one line until something else is shown.
func TestTailRewritesTheLineOfPartialResults(t *testing.T) {
	master, slave, err := live.OpenTerminal(50, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	shown := &tail{Frame: &frame.Frame{Terminal: ui.Terminal{Out: slave, OutTTY: true, Colours: true}}, day: noon.Local().Format("Mon Jan 2 2006")}
	result := func(delegation byte, text string) *tailItem {
		e := client.TrafficEntry{At: noon, Ref: clitest.SomeID, Direction: client.In, Peer: clitest.DeskID, Name: "desk", Kind: "result", Text: text + strings.Repeat(" and so on", 20)}
		e.Ref[0] = delegation
		return &tailItem{entry: &e}
	}
	for _, i := range []*tailItem{
		result(1, "partial 10 %"), result(1, "partial 20 %"), result(2, "partial 30 %"), result(2, "partial 40 %"), {lost: 1}, result(2, "partial 50 %"), result(2, "completed"),
	} {
		shown.printItem(i)
	}
	slave.Close()
	seen, _ := io.ReadAll(master) // it ends with an error, as terminals do
	lines := strings.Split(strings.TrimSpace(string(seen)), "\n")
	for i, want := range []bool{false, true, false, true, false, false, false} {
		if len(lines) != 7 || strings.HasPrefix(lines[i], "\x1b[A\x1b[K") != want {
			t.Fatalf("line %d: %q", i, lines)
		}
	}
}
