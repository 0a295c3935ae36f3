package integration

import (
	"path/filepath"
	"testing"

	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/integration/scenario"
)

// The same scenario by Go, Python and Node, at the same time against one daemon: each sees the
// same.
func TestOneScenarioInThreeLanguages(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "scenario")
	buildProgram(t, program, "./scenario/program")
	sources, err := filepath.Abs("../python/acpd")
	if err != nil {
		t.Fatal(err)
	}
	programs := scenario.Programs(t, "scenario", program, findTool(t, "python3"), findTool(t, "node"))
	programs["python"] = append([]string{findTool(t, "env"), "PYTHONPATH=" + sources}, programs["python"]...)
	desk, laptop := friends(t)
	scenario.StartDesk(t, desk.Machine)
	running := make(map[string]*live.Process)
	for name, argv := range programs {
		running[name] = laptop.startAsAgent(argv, name)
	}
	for name, p := range running {
		if said, want := p.AwaitExit(0), scenario.Transcript(name); said != want {
			t.Errorf("%s: %s\nwant %s", name, said, want)
		}
	}
}
