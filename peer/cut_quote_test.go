package peer

import "testing"

func TestCutQuote(t *testing.T) {
	for text, want := range map[string]string{
		"its kind does not answer this one":              "its kind does not answer this one",
		`payload: status "words of a payload": use idle`: "payload: status …",
		"invalid character 'w' after object":             "invalid character …",
		"":                                               "",
	} {
		if got := cutQuote(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
