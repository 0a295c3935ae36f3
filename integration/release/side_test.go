//go:build interop

package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/live"
)

// side is a machine whose daemon and acpctl are each of one version.
type side struct{ *live.Machine }

func newSide(t *testing.T, name string, daemon, acpctl version) *side {
	t.Helper()
	s := &side{live.NewMachine(t, name)}
	s.Builds = make(map[string]string)
	s.install("acpd", daemon)
	s.install("acpctl", acpctl)
	if err := os.WriteFile(filepath.Join(s.Home, "config.yaml"), []byte("channels: {open_to: [desk, laptop]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// install makes a program of this machine that of a version, from its next start.
func (s *side) install(program string, v version) {
	s.T.Helper()
	s.Builds[program] = v.programPath(s.T, program)
}

// meet starts both daemons and lets the laptop join the desk. Each knows where the other one is,
// so whichever was away calls as soon as it is back.
func meet(t *testing.T, desk, laptop *side) {
	t.Helper()
	desk.LaunchDaemon()
	laptop.LaunchDaemon()
	desk.AwaitReady()
	laptop.AwaitReady()
	inviter, joiner := desk, laptop
	if laptop.Builds["acpd"] == older.programPath(t, "acpd") { // which cannot read what a newer one writes
		inviter, joiner = laptop, desk
	}
	joiner.MustOutput("join", strings.TrimSpace(inviter.MustOutput("invite")))
	desk.Trust(laptop.Machine, laptop.Addr)
	laptop.Trust(desk.Machine) // the settings mention its name, so its claim does not get it
	live.AwaitConnection(desk.Machine, laptop.Machine)
}

// parse reads JSON that acpctl has printed.
func parse[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// parseLines reads JSON that acpctl has printed, one value a line.
func parseLines[T any](t *testing.T, text string) (all []T) {
	t.Helper()
	for line := range strings.Lines(text) {
		all = append(all, parse[T](t, line))
	}
	return all
}

// pairings are all pairs of two daemons of which one is the release's, each with the acpctl of its
// own version, and with that of the other one.
var pairings = []struct {
	name                                               string
	deskDaemon, deskAcpctl, laptopDaemon, laptopAcpctl version
}{
	{"desk of the release", older, older, newer, newer},
	{"laptop of the release", newer, newer, older, older},
	{"desk of the release, programs swapped", older, newer, newer, older},
	{"laptop of the release, programs swapped", newer, older, older, newer},
}

// forEachPairing runs a test with each of the pairings, whose daemons are connected.
func forEachPairing(t *testing.T, test func(t *testing.T, desk, laptop *side)) {
	for _, p := range pairings {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			desk, laptop := newSide(t, "desk", p.deskDaemon, p.deskAcpctl), newSide(t, "laptop", p.laptopDaemon, p.laptopAcpctl)
			meet(t, desk, laptop)
			test(t, desk, laptop)
		})
	}
}
