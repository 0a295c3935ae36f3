package daemon

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
)

// A setting that names nobody, and one that takes effect at the next start only, is told
// by its name: to the log, and the former to whoever asks for the status.
func TestSettingsWithoutEffectAreNamed(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	writeConfig(t, dir, "policy: {labtop: {kinds: []}}\n")
	var log bytes.Buffer
	d, err := OpenDaemon(t.Context(), Options{Home: dir, Name: "desk", Listen: "127.0.0.1:0", NoMDNS: true, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	reload := func(text string) string {
		writeConfig(t, dir, text)
		log.Reset()
		if _, err := d.reloadConfig(); err != nil {
			t.Fatal(err)
		}
		return log.String()
	}
	said := reload("policy: {labtop: {kinds: []}}\nchannels: {open_to: [laptob], quiet_agents: true}\nlimits: {min_free: 2097152}\n")
	for _, want := range []string{`settings="limits.min_free, channels.quiet_agents"`, "policy in config.yaml names labtop: ", "channels.open_to in config.yaml names laptob: "} {
		if !strings.Contains(said, want) {
			t.Errorf("the log says %q, want %s", said, want)
		}
	}
	if said := reload("policy: {\"*\": {kinds: []}}\nchannels: {quiet_agents: true}\nlimits: {min_free: 2097152}\n"); strings.Contains(said, "WARN") {
		t.Errorf("the log says %q", said)
	}
}

func TestStatusWarns(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	writeConfig(t, desk.dir, "policy: {laptop: {kinds: [ping]}, "+laptop.ID().String()+": {kinds: [ping]}, planner: {kinds: []}}\n")
	if _, err := desk.reloadConfig(); err != nil {
		t.Fatal(err)
	}
	var s client.Status
	desk.dial().must("status", nil, &s)
	if len(s.Warnings) != 1 || !strings.HasPrefix(s.Warnings[0], "policy in config.yaml names planner: ") {
		t.Errorf("%q", s.Warnings)
	}
	laptop.dial().must("status", nil, &s)
	if s.Warnings == nil || len(s.Warnings) != 0 {
		t.Errorf("%q", s.Warnings)
	}
}

// A name under agents that is almost that of an attached agent is told while that one is attached.
func TestStatusTellsOfMisnamedAgents(t *testing.T) {
	t.Parallel()
	desk, _ := pair(t)
	writeConfig(t, desk.dir, "agents: {cluade: {to: []}, claude-2: {to: []}, reviewer: {to: []}, \"*\": {to: []}}\n")
	if _, err := desk.reloadConfig(); err != nil {
		t.Fatal(err)
	}
	warnings := func() []string {
		var s client.Status
		desk.dial().must("status", nil, &s)
		return s.Warnings
	}
	if got := warnings(); len(got) != 0 {
		t.Errorf("nobody is attached: %q", got)
	}
	for _, name := range []string{"claude", "claude-2", "reviewer-2"} {
		desk.agent(client.AttachParams{Name: name}, say(`{}`))
	}
	if got := warnings(); len(got) != 1 || !strings.HasSuffix(got[0], "names cluade: no such agent is attached, so nothing follows from it; did you mean claude?") {
		t.Errorf("%q", got)
	}
}

// TestStatusTellsOfSettingsThatDoNotCount: until the file is mended, and those that wait
// for a new start until they are again as they were at the start.
func TestStatusTellsOfSettingsThatDoNotCount(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	writeConfig(t, dir, "limits: {min_free: 2097152}\n")
	desk := start(t, dir, "desk")
	reload := func(text string) (failed bool, warnings []string) {
		t.Helper()
		writeConfig(t, dir, text)
		_, err := desk.reloadConfig()
		failed = err != nil
		var s client.Status
		desk.dial().must("status", nil, &s)
		return failed, s.Warnings
	}
	const later = "settings in config.yaml that have changed count from the next start: limits.min_free, channels.quiet_agents; start acpd again for them"
	if failed, w := reload("limits: {min_free: 4194304}\nchannels: {quiet_agents: true}\n"); failed || !slices.Equal(w, []string{later}) {
		t.Errorf("failed is %t, %q", failed, w)
	}
	for _, text := range []string{"policy: {\"*\": {kinds: [pong]}}\n", "polity: {}\n", "[", strings.Repeat("x: 1\n", 10_000)} {
		failed, w := reload(text)
		if !failed || len(w) != 2 || w[1] != later {
			t.Fatalf("failed is %t, %q", failed, w)
		}
		when, rest, _ := strings.Cut(strings.TrimPrefix(w[0], "config.yaml was not taken over at "), " (")
		if at, err := time.Parse(time.RFC3339, when); err != nil || time.Since(at) > time.Hour {
			t.Errorf("%v in %q", err, w[0])
		}
		if len(rest) < 150 || len(rest) > 2*maxReasonBytes || strings.Contains(rest, "\n") ||
			!strings.HasSuffix(rest, "): the settings of before count, and acpd will not start with this file; mend it and reload it") {
			t.Errorf("%q", rest)
		}
	}
	if failed, w := reload("limits: {min_free: 4194304}\nchannels: {quiet_agents: true}\n"); failed || !slices.Equal(w, []string{later}) {
		t.Errorf("failed is %t, %q", failed, w)
	}
	if failed, w := reload("limits: {min_free: 2097152}\n"); failed || len(w) != 0 {
		t.Errorf("failed is %t, %q", failed, w)
	}
}
