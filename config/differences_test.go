package config

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChanged(t *testing.T) {
	old := mustParse(t, "name: desk\nlimits: {min_free: 2097152}\nchannels: {open_to: [laptop], lenient: true}\n")
	for _, c := range []struct {
		text string
		want []string
	}{
		{"name: desk\nlimits: {min_free: 2097152}\nchannels: {open_to: [laptop], lenient: true}\n", nil},
		{"name: desk\nlimits: {min_free: 4194304}\nchannels: {open_to: [laptop, planner], lenient: true}\n", []string{"limits.min_free", "channels.open_to"}},
		{"name: desk\nlimits: {min_free: 2097152, rate: [{per_second: 1}]}\nchannels: {open_to: [laptop]}\npolicy: {laptop: {kinds: []}}\n", []string{"limits.rate", "policy", "channels.lenient"}},
	} {
		if got := mustParse(t, c.text).ListChangedSettings(old); !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.text, got, c.want)
		}
	}
}

func TestFindPeerRefs(t *testing.T) {
	c := mustParse(t, `policy: {"*": {kinds: []}, laptop: {kinds: []}, labtop: {kinds: []}}
peers: {planner: {addrs: ["planner.example:7117"]}}
limits: {rate: [{per_second: 1}, {peer: lap, per_second: 1}]}
channels: {open_to: [laptop, laptob, "*"]}
`)
	want := map[string][]string{"policy": {"labtop"}, "peers": {"planner"}, "limits.rate": {"lap"}, "channels.open_to": {"laptob"}}
	if diff := cmp.Diff(want, c.FindPeerRefs(func(ref string) bool { return ref != "laptop" })); diff != "" {
		t.Error(diff)
	}
}

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := parseFile("config.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
