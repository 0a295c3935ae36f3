package config

import (
	"strings"
	"testing"
)

// A setting that is gone keeps nobody from starting: it is skipped, whatever is under it, and told.
func TestSettingsThatAreGone(t *testing.T) {
	c, err := load(t, "name: desk\nhistory: {messages: 1000, bytes: 4MiB}\n")
	if err != nil {
		t.Fatal(err)
	}
	want := `config.yaml:2: "history" is as an earlier version had it: it is skipped now, and the next minor version will refuse it: remove it to keep the last 1000 messages, at most 4 MiB of them, or write history: off to keep none`
	if c.Name != "desk" || c.History != On || c.Lines["history"] != 0 || len(c.Skipped) != 1 || !strings.HasSuffix(c.Skipped[0], want) {
		t.Errorf("%+v", c)
	}
	for text, kept := range map[string]Switch{
		"{messages: 0}": Off, "{messages: 0, bytes: 4MiB}": Off, "{bytes: 4MiB}": On, "{messages: 1}": On, "{messages: none}": On, "{}": On,
	} {
		c, err := load(t, "history: "+text+"\n")
		want := ": it is skipped now, and the next minor version will refuse it: remove it to keep the last 1000 messages"
		if kept == Off {
			want = ": it keeps none now, and the next minor version will refuse it: write history: off"
		}
		if err != nil || c.History != kept || len(c.Skipped) != 1 || !strings.Contains(c.Skipped[0], "earlier version had it"+want) {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
	if c, err := load(t, "history: off\n"); err != nil || c.History != Off || len(c.Skipped) > 0 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, old := range []string{"channels: {held_list: 0s}", "channels: {request_ttl: 90s}", "channels: {retention: 1h}", "channels: {max_payload: 1024}", "channels: {quiet_agents: true}", "metrics: {peers: true}", "agents: {claude: {turns: {hour: 4, day: 40}}}", "agents: {\"*\": {turns: {day: 40}}}", "log: {format: json, level: info}"} {
		c, err := load(t, old)
		if err != nil || len(c.Skipped) != 1 || !strings.Contains(c.Skipped[0], "it is skipped now, and the next minor version will refuse it: remove it") {
			t.Errorf("%s: %+v, %v", old, c, err)
		}
	}
	for text, want := range map[string]struct {
		usd  float64
		told string
	}{
		"{runs: 10}":            {5, ": it is skipped now, and the next minor version will refuse it: write spending: 5, the US dollars"},
		"{runs: 10, usd: 12.5}": {12.5, ": it is read as US dollars now, and the next minor version will refuse it: write spending: 12.5"},
		"{usd: 0.5}":            {1, ": write spending: 1"},
		"{usd: much}":           {5, ": write spending: 5, the US dollars"},
	} {
		c, err := load(t, "spending: "+text+"\n")
		if err != nil || c.Spending != want.usd || len(c.Skipped) != 1 || !strings.Contains(c.Skipped[0], want.told) {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
	if _, err := load(t, "history: {messages: 1000}\nlog: {level: x}\n"); len(ListErrors(err)) != 1 {
		t.Errorf("%v", err)
	}
}
