package ui

import "testing"

func TestColoursCanBeRefused(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !NewTerminal().Colours {
		t.Error("no colours by default")
	}
	t.Setenv("NO_COLOR", "1")
	if NewTerminal().Colours {
		t.Error("colours in spite of NO_COLOR")
	}
}
