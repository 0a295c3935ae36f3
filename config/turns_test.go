package config

import (
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

// A session's turns are its own, else those of every session, else the default.
func TestTurnsOfSessions(t *testing.T) {
	for text, want := range map[string][3]int{ // of claude, of codex, of the one that may most
		"":                                      {20, 20, 20},
		"agents: {claude: {turns: {hour: 50}}}": {50, 20, 50},
		"agents: {claude: {turns: {hour: 2}}}":  {2, 20, 20},
		"agents: {\"*\": {turns: {hour: 5}}, codex: {answers: off}}":          {5, 5, 5},
		"agents: {\"*\": {turns: {hour: 500}}, claude: {turns: {hour: 400}}}": {400, 500, 500},
	} {
		c, err := load(t, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := [3]int{c.Agents.FindTurns("claude"), c.Agents.FindTurns("codex"), c.Agents.FindMostTurns()}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// A wake rule that names no kinds is for those that can wake a session.
func TestWakeRuleWithoutKinds(t *testing.T) {
	c, err := load(t, "agents: {claude: {wake: {desk: {}}}}")
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]bool{kinds.KindQuery: true, kinds.KindResult: true, kinds.KindCancel: false, kinds.KindPing: false} {
		if _, ok := c.Agents.FindWake("claude", identity.ID{1}, "desk", kind); ok != want {
			t.Errorf("%s: %v", kind, ok)
		}
	}
}
