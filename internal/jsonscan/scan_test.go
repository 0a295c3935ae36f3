package jsonscan

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
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

func TestIsObject(t *testing.T) {
	for text, want := range map[string]bool{` {"a":[x]} `: true, `{"a":[}]`: true, `{}`: true, ``: false, ` `: false, `[]`: false, `{`: false, `{}{}`: false, `{"a`: false, `1`: false} {
		if IsObject([]byte(text)) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}

// FuzzMembers: what is valid JSON is delimited as the JSON package does.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, ` { "a" : [ 1 , {"b":"]}\"\\"} ] , "c" : null } `, `{"a":-0.5e+3,"b":"\\\\\"","c":"0123456789abcdef\\"}`, `{"\u0061":1,"a":2}`, `{"a":1}x`, `{"a"`, `{"a":tru}`, `[[]]`, `"abcdefghijklmno\""`, `{"a":1E400,"b":0.10,"c":-0}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var members [][]byte
		end := Members(text, SkipSpace(text, 0), func(name []byte, at int) int {
			end := SkipValue(text, at)
			if end > len(text) {
				t.Fatal("scanned beyond the end")
			}
			if end >= 0 {
				members = append(members, name, text[at:end])
			}
			return end
		})
		if !jsontext.Value(text).IsValid() {
			return
		}
		if at := SkipSpace(text, 0); SkipSpace(text, SkipValue(text, at)) != len(text) {
			t.Fatalf("valid, but not delimited: %s", text)
		}
		if IsObject(text) != (jsontext.Value(text).Kind() == '{') {
			t.Fatalf("an object: %v: %s", IsObject(text), text)
		}
		if !IsObject(text) {
			return
		}
		if SkipSpace(text, end) != len(text) {
			t.Fatalf("valid, but scanned to %d: %s", end, text)
		}
		dec := jsontext.NewDecoder(bytes.NewReader(text))
		dec.ReadToken()
		for i := 0; dec.PeekKind() != '}'; i++ {
			want, err := dec.ReadValue()
			if err != nil || !bytes.Equal(members[i], want) {
				t.Fatalf("%s, want %s, %v", members[i], want, err)
			}
			if want.Kind() == '"' {
				got, err := Unquote(members[i])
				if unquoted, _ := jsontext.AppendUnquote(nil, want); err != nil || !bytes.Equal(got, unquoted) {
					t.Fatalf("%q, want %q, %v", got, unquoted, err)
				}
			}
		}
	})
}
