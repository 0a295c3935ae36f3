package daemon

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

func TestStatusWarns(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	desk.configure("policy: {laptop: {kinds: [ping]}, " + laptop.ID().String() + ": {kinds: [ping]}, planner: {kinds: []}}\n")
	s := get[client.Status](desk.dial(), "status", nil)
	if len(s.Warnings) != 1 || !strings.HasPrefix(s.Warnings[0], "policy in config.yaml names planner: no trusted peer has that name or id") {
		t.Errorf("%q", s.Warnings)
	}
	desk.configure("policy: {planner: {kinds: []}, \"group:ci.korp\": {kinds: [ping]}, build-7.korp: {kinds: [ping]}}\n")
	desk.dial().must("status", nil, &s)
	if len(s.Warnings) != 2 || s.Warnings[1] != "policy in config.yaml names build-7.korp, group:ci.korp: organisation has no authority of the name behind the dot, so nothing follows from it; acpctl cert show lists those that it has" {
		t.Errorf("%q", s.Warnings)
	}
	writeConfig(t, desk.dir, "history: {messages: 1000}\n")
	if r, err := desk.reloadConfig(); err != nil || len(r.Warnings) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	desk.dial().must("status", nil, &s)
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], `config.yaml:1: "history" is as an earlier version had it: `) {
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
	desk.configure("agents: {cluade: {to: []}, claude-2: {to: []}, reviewer: {to: []}, \"*\": {to: []}}\n")
	warnings := func() []string {
		s := get[client.Status](desk.dial(), "status", nil)
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
// holds: security.md#before-you-trust-a-machine-that-is-not-yours
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
		s := get[client.Status](desk.dial(), "status", nil)
		return failed, s.Warnings
	}
	const later = "settings in config.yaml that have changed take effect at the next start: limits.min_free, channels.lenient; start acpd again for them"
	if failed, w := reload("limits: {min_free: 4194304}\nchannels: {lenient: true}\n"); failed || !slices.Equal(w, []string{later}) {
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
		if len(rest) < 150 || len(rest) > 2048 || strings.Contains(rest, "\n") ||
			!strings.HasSuffix(rest, "): the settings of before stay in effect, and acpd will not start with this file; fix it and reload it") {
			t.Errorf("%q", rest)
		}
	}
	if failed, w := reload("limits: {min_free: 4194304}\nchannels: {lenient: true}\n"); failed || !slices.Equal(w, []string{later}) {
		t.Errorf("failed is %t, %q", failed, w)
	}
	if failed, w := reload("limits: {min_free: 2097152}\n"); failed || len(w) != 0 {
		t.Errorf("failed is %t, %q", failed, w)
	}
}

// reload says what has changed and what counts later; a file that is wrong is refused line by line,
// and what counted before counts on.
func TestReloadSaysWhatIsTaken(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	l := desk.dial()
	writeConfig(t, desk.dir, "policy:\n  laptop: {kinds: [ping]}\n  nobody: {kinds: []}\nlimits: {min_free: 2097152}\n")
	r := get[client.Reloaded](l, "reload", nil)
	want := []client.SettingChange{
		{Setting: "limits.min_free", From: "default", To: "2097152", Deferred: true},
		{Setting: "policy.laptop", From: "none", To: "{kinds: [ping]}"},
		{Setting: "policy.nobody", From: "none", To: "{kinds: []}"},
	}
	if !slices.Equal(r.Changed, want) || !slices.Equal(r.Deferred, []string{"limits.min_free"}) || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "names nobody: ") {
		t.Errorf("%+v", r)
	}
	writeConfig(t, desk.dir, "policy:\n  laptop: {kinds: [ping, qury]}\nnme: x\n")
	e := l.refused(kinds.Invalid, "reload", nil)
	path := desk.dir + "/config.yaml"
	if want := "reload: the old configuration stays in force, since this is wrong:\n" + path + ":2: bad \"policy.laptop.kinds[1]\": \"qury\": did you mean \"query\"?\n" +
		path + ":3: unknown key \"nme\": did you mean \"name\"?"; e.Message != want {
		t.Errorf("got  %s\nwant %s", e.Message, want)
	}
	laptop.dial().must("ping", client.PingParams{To: "desk"}, nil)
	laptop.dial().refused(kinds.NotAuthorized, "query", client.QueryParams{To: "desk", Payload: query("x")})
	writeConfig(t, desk.dir, "")
	r = client.Reloaded{}
	if l.must("reload", nil, &r); len(r.Changed) != 3 || len(r.Deferred) != 0 || r.Changed[0].Deferred || r.Changed[1].To != "none" {
		t.Errorf("%+v", r)
	}
	desk.agent(client.AttachParams{Name: "reviewer"}, say(`{"summary":"here"}`))
	laptop.dial().must("query", client.QueryParams{To: "desk", Payload: query("x")}, nil)
}

// Reloads at the same time, by the method and by a signal, end in what the file says.
func TestReloadsTakeTurns(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	writeConfig(t, desk.dir, "policy: {laptop: {kinds: [ping]}}\n")
	var all sync.WaitGroup
	changed := make(chan int, 16)
	for range cap(changed) {
		all.Go(func() {
			var r client.Reloaded
			if err := desk.dial().call("reload", nil, &r); err != nil {
				t.Error(err)
			}
			changed <- len(r.Changed)
		})
	}
	all.Wait()
	sum := 0
	for range cap(changed) {
		sum += <-changed
	}
	if sum != 1 {
		t.Errorf("%d reloads say that they have changed policy.laptop, want one", sum)
	}
}
