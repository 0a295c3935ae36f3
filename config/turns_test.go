package config

import "testing"

// A session's turns are its own, else those of every session, else the defaults; each of the two by
// itself.
func TestTurnsOfSessions(t *testing.T) {
	for text, want := range map[string][3]Turns{ // of claude, of codex, of the one that may most
		"":                                      {{20, 100}, {20, 100}, {20, 100}},
		"agents: {claude: {turns: {hour: 50}}}": {{50, 100}, {20, 100}, {50, 100}},
		"agents: {claude: {turns: {day: 2}}}":   {{20, 2}, {20, 100}, {20, 100}},
		"agents: {\"*\": {turns: {hour: 5, day: 500}}, codex: {answers: off}}": {{5, 500}, {5, 500}, {5, 500}},
		"agents: {\"*\": {turns: {day: 500}}, claude: {turns: {hour: 400}}}":   {{400, 500}, {20, 500}, {400, 500}},
	} {
		c, err := load(t, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := [3]Turns{c.Agents.FindTurns("claude"), c.Agents.FindTurns("codex"), c.Agents.FindMostTurns()}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
