package daemon

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
)

// A setting that names nobody, and one that counts from the next start only, is told
// by its name: to the log, and the former to whoever asks for the status.
func TestSettingsWithoutEffectAreNamed(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	writeConfig(t, dir, "policy: {labtop: {kinds: []}}\n")
	var log bytes.Buffer
	d, err := Open(t.Context(), Options{Home: dir, Name: "desk", Listen: "127.0.0.1:0", NoMDNS: true, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	reload := func(text string) string {
		writeConfig(t, dir, text)
		log.Reset()
		if err := d.reload(); err != nil {
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
	if err := desk.reload(); err != nil {
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
