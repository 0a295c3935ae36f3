package ui

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

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

// A person who pipes an empty list is told so; what reads the list is not.
func TestAnEmptyListIsTold(t *testing.T) {
	for _, toPerson := range []bool{false, true} {
		var out, err strings.Builder
		terminal := Terminal{Out: &out, Err: &err, ErrTTY: toPerson}
		terminal.PrintTable([]string{"NAME"}, nil)
		if said := err.String() == "none\n"; out.Len() > 0 || said != toPerson {
			t.Errorf("%q, %q", out.String(), err.String())
		}
	}
}

// An answer does not reach over other lines, and its data say what they said: a script may read them.
func TestPrintAnswer(t *testing.T) {
	const marks = "\u0323\u0323\u0323\u0323"
	var out strings.Builder
	terminal := Terminal{Out: &out}
	terminal.PrintAnswer("n"+marks+marks, jsontext.Value("{\"k\": \"n"+marks+"\u0323\u202e\"}"))
	if want := "n" + marks + "\n{\"k\":\"n" + marks + `\u0323\u202e"}` + "\n"; out.String() != want {
		t.Errorf("%+q, want %+q", out.String(), want)
	}
}
