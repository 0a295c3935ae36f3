package jsonscan

import (
	"strings"
	"testing"
)

func TestSkipString(t *testing.T) {
	for text, want := range map[string]int{
		`""`:       2,
		`"" "`:     2,
		`"a"b`:     3,
		`"\""`:     4,
		`"\\"`:     4,
		`"\\\""x"`: 6,
		`"\\\\"`:   6,
		`"a`:       -1,
		`"a\"`:     -1,
		`"`:        -1,
	} {
		if got := SkipString([]byte(text), 0); got != want {
			t.Errorf("%s ends at %d, want %d", text, got, want)
		}
	}
	if got := SkipString([]byte(`\\"a"`), 2); got != 5 { // what is before it does not count
		t.Errorf("ends at %d", got)
	}
}

func TestSkipSpace(t *testing.T) {
	for text, want := range map[string]int{"": 0, "a": 0, " \t\r\na ": 4, "  ": 2, "\v": 0} {
		if got := SkipSpace([]byte(text), 0); got != want {
			t.Errorf("%q begins at %d, want %d", text, got, want)
		}
	}
}

func TestIsDeeper(t *testing.T) {
	for text, depth := range map[string]int{
		``:                             0,
		`"[[[["`:                       0,
		`{}`:                           1,
		`[[],[],{}]`:                   2,
		`{"a\"[[[":["\\",[]],"[[":{}}`: 3,
		`["[[[[`:                       1, // not JSON, from here on
		`]]][`:                         0,
		strings.Repeat("[", 99):        99,
	} {
		for most := range 102 {
			if got := IsNestedDeeper([]byte(text), most); got != (depth > most) {
				t.Errorf("%s is deeper than %d: %v", text, most, got)
			}
		}
	}
}
