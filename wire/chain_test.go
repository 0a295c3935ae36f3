package wire

import (
	"regexp"
	"testing"
)

// The trace of a new chain is a W3C traceparent of random ids, and its id is the name of the chain.
func TestTraces(t *testing.T) {
	first, second := NewTrace(), NewTrace()
	if !regexp.MustCompile("^00-[0-9a-f]{32}-[0-9a-f]{16}-00$").MatchString(first) || first == second {
		t.Errorf("%q, %q", first, second)
	}
	if got := (Chain{Trace: first}).TraceID().String(); got != first[3:35] {
		t.Errorf("%q of %q", got, first)
	}
	for trace, want := range map[string]string{
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":      "4bf92f3577b34da6a3ce929d0e0e4736",
		"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more": "4bf92f3577b34da6a3ce929d0e0e4736",
		"":                                    "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736": "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01":  "",
		"00-4bf92f3577b34da6a3ce929d0e0e473\n-00f067aa0ba902b7-01": "",
		"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":  "",
	} {
		if got := (Chain{Trace: trace}).TraceID().String(); got != want {
			t.Errorf("%q: %q, want %q", trace, got, want)
		}
	}
}
