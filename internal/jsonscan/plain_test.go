package jsonscan

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

const testDepth = 64

func nested(levels int) string {
	return strings.Repeat(`{"a":[`, levels/2) + strings.Repeat(`]}`, levels/2)
}

func members(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"` + strings.Repeat("n", i+1) + `":0`)
	}
	return "{" + b.String()[1:] + "}"
}

// What payloads look like, and what no scanner may pass.
var (
	ordinary = []string{
		`{}`, " {\t}\r\n", `{"question":"why","deadline_ms":1500,"domain":"code.review"}`,
		`{"summary":"` + strings.Repeat("x", 1000) + `"}`,
		`{"a":[],"b":[1,-2,0,-0.5,1e9,1.25E-3,10],"c":{"a":{},"b":{"a":null}},"d":[true,false]}`,
		`{"a":` + strings.Repeat("9", MaxNumber) + `,"b":9223372036854775807,"c":1e100}`,
		`{ "a" : [ 1 , { "b" : 2 } , "c" ] }`,
		`{"a":"\"\\\/\b\f\n\r\t","b":"\\","c":"` + strings.Repeat(`a \"quoted\" line\n`, 100) + `"}`,
		`{"a":"zwölf Boxkämpfer 👍","Σ":"","":0}`,
		nested(testDepth), members(maxNames), `{"a":` + members(maxNames-1) + `,"b":1}`,
	}
	odd = []string{
		``, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":[1`, `{"a":[1,`, `{"a":"`, `{"a":"b`, `{"a":"b\`, `{"a":"b\"`,
		`[]`, `1`, `{}{}`, `{} x`, `{,}`, `{"a":1,}`, `{"a":[1,]}`, `{"a":[,]}`, `{"a" 1}`, `{"a":1 "b":2}`, `{"a":[1 2]}`, `{a:1}`, `{1:1}`, `{"a":}`,
		`{"a":1,"a":2}`, `{"b":{"a":1,"b":2,"a":3}}`, `{"\u0061":1}`, `{"a\n":1}`, `{"a":"\u0061"}`, `{"a":"\ud800"}`, `{"a":"\x"}`,
		"{\"a\":\"\x00\"}", "{\"a\":\"long enough for eight \x1f\"}", "{\"a\":\"\xff\"}", "{\"a\":\"\xc0\x80\"}", "{\"a\":\"\xed\xa0\x80\"}", "{\"\xff\":1}", "{\"a\":1\x00}", "{\v}",
		`{"a":01}`, `{"a":-}`, `{"a":+1}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":1e+}`, `{"a":0x1}`, `{"a":1a}`, `{"a":--1}`, `{"a":-01}`,
		`{"a":1e999}`, `{"a":` + strings.Repeat("9", MaxNumber+1) + `}`,
		`{"a":tru}`, `{"a":truex}`, `{"a":nul}`, `{"a":fals}`, `{"a":NaN}`, `{"a":'b'}`,
		nested(testDepth + 2), members(maxNames + 1),
	}
)

func isPlain(text string) bool {
	return IsPlainObject([]byte(text), testDepth, func(_, _ []byte) bool { return true })
}

func TestScannerPassesWhatIsOrdinary(t *testing.T) {
	for _, text := range ordinary {
		if !isPlain(text) {
			t.Errorf("%.60s: left to the JSON package", text)
		}
	}
}

func TestScannerLeavesWhatIsOdd(t *testing.T) {
	for _, text := range odd {
		if isPlain(text) {
			t.Errorf("%.60q passed", text)
		}
	}
}

// Each byte, wherever it stands among those that are read at a time.
func TestPlain(t *testing.T) {
	for n := range 48 {
		for at := range n {
			for b := range 256 {
				text := bytes.Repeat([]byte("~"), n)
				text[at] = byte(b)
				if got, want := isPlainText(text), ' ' <= b && b < 0x80; got != want {
					t.Fatalf("%q: %v", text, got)
				}
			}
		}
	}
	if !isPlainText([]byte("Ärger – 👍")) {
		t.Error("UTF-8 is not plain")
	}
}

// FuzzPlain: what is plain is valid, and its members are those that the JSON package finds.
func FuzzPlain(f *testing.F) {
	for _, text := range append(ordinary, odd...) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var members [][]byte
		if !IsPlainObject(text, testDepth, func(name, value []byte) bool { members = append(members, name, value); return true }) {
			return
		}
		if !jsontext.Value(text).IsValid() || FindUnusableNumber(text) != nil || IsNestedDeeper(text, testDepth) {
			t.Fatalf("plain: %s", text)
		}
		dec := jsontext.NewDecoder(bytes.NewReader(text))
		dec.ReadToken()
		for i := 0; dec.PeekKind() != '}'; i++ {
			want, err := dec.ReadValue()
			if i%2 == 0 && err == nil {
				want, err = jsontext.AppendUnquote(nil, want)
			}
			if err != nil || !bytes.Equal(members[i], want) {
				t.Fatalf("%s, want %s, %v", members[i], want, err)
			}
		}
	})
}
