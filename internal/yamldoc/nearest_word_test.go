package yamldoc

import "testing"

func TestFindNearestWord(t *testing.T) {
	words := []string{"log", "kinds", "query", "discovery", "direct", "on", "off"}
	for word, want := range map[string]string{
		"foo": "", "lgo": "log", "lag": "log", "kinsd": "kinds", "qeury": "query", "qurty": "query", "qurtz": "", "discvery": "discovery", "dicsoverry": "discovery", "drict": "direct", "x": "", "of": "", "oof": "off",
	} {
		if got := FindNearestWord(word, words); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
