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

func TestListChanges(t *testing.T) {
	old := mustParse(t, "policy: {laptop: {kinds: [ping]}, planner: {kinds: []}}\nlimits: {rate: [{per_second: 1}]}\nchannels: {listen: \"127.0.0.1:0\", keys: [{sha256: "+keyHash+"}]}\n")
	c := mustParse(t, "# the same in other lines\npolicy: {planner: {kinds: []}, laptop: {kinds: [ping, query], domains: [code]}}\npeers: {planner: {addrs: [\"planner.example:7117\"]}}\nagents: {claude: {turns: {hour: 3}}, uids: [7]}\nchannels: {lenient: true}\n")
	want := []Change{
		{"peers", "peers.planner", "none", "{addrs: [planner.example:7117]}"},
		{"limits.rate", "limits.rate", `[{peer: "*", kind: "*", per_second: 1, burst: 1}]`, "none"},
		{"policy", "policy.laptop", "{kinds: [ping]}", "{kinds: [ping, query], domains: [code]}"},
		{"channels.listen", "channels.listen", "127.0.0.1:0", "default"},
		{"channels.keys", "channels.keys", "[{sha256: 2c26b46b…, agent: any}]", "none"},
		{"channels.lenient", "channels.lenient", "false", "true"},
		{"agents.uids", "agents.uids", "none", "[7]"},
		{"agents", "agents.claude", "none", "{turns: {hour: 3}}"},
	}
	if diff := cmp.Diff(want, c.ListChanges(old)); diff != "" {
		t.Error(diff)
	}
	if again := c.ListChanges(mustParse(t, "policy:\n  planner: {kinds: []}\n  laptop: {kinds: [ping, query], domains: [code]}\npeers: {planner: {addrs: [\"planner.example:7117\"]}}\nagents: {claude: {turns: {hour: 3}}, uids: [7]}\nchannels: {lenient: true}\n")); len(again) > 0 {
		t.Errorf("in other lines: %+v", again)
	}
}
