package kinds

import (
	"bytes"
	"strings"
	"testing"

	"github.com/acpd/acpd/wire"
)

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
		`{"a":` + strings.Repeat("9", maxNumber) + `,"b":9223372036854775807}`,
		`{ "a" : [ 1 , { "b" : 2 } , "c" ] }`,
		`{"a":"\"\\\/\b\f\n\r\t","b":"\\","c":"` + strings.Repeat(`a \"quoted\" line\n`, 100) + `"}`,
		`{"a":"zwölf Boxkämpfer 👍","Σ":"","":0}`,
		nested(wire.MaxDepth), members(maxNames), `{"a":` + members(maxNames-1) + `,"b":1}`,
	}
	odd = []string{
		``, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":[1`, `{"a":[1,`, `{"a":"`, `{"a":"b`, `{"a":"b\`, `{"a":"b\"`,
		`[]`, `1`, `{}{}`, `{} x`, `{,}`, `{"a":1,}`, `{"a":[1,]}`, `{"a":[,]}`, `{"a" 1}`, `{"a":1 "b":2}`, `{"a":[1 2]}`, `{a:1}`, `{1:1}`, `{"a":}`,
		`{"a":1,"a":2}`, `{"b":{"a":1,"b":2,"a":3}}`, `{"\u0061":1}`, `{"a\n":1}`, `{"a":"\u0061"}`, `{"a":"\ud800"}`, `{"a":"\x"}`,
		"{\"a\":\"\x00\"}", "{\"a\":\"long enough for eight \x1f\"}", "{\"a\":\"\xff\"}", "{\"a\":\"\xc0\x80\"}", "{\"a\":\"\xed\xa0\x80\"}", "{\"\xff\":1}", "{\"a\":1\x00}", "{\v}",
		`{"a":01}`, `{"a":-}`, `{"a":+1}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":1e+}`, `{"a":0x1}`, `{"a":1a}`, `{"a":--1}`, `{"a":-01}`,
		`{"a":1e999}`, `{"a":1e100}`, `{"a":` + strings.Repeat("9", maxNumber+1) + `}`,
		`{"a":tru}`, `{"a":truex}`, `{"a":nul}`, `{"a":fals}`, `{"a":NaN}`, `{"a":'b'}`,
		nested(wire.MaxDepth + 2), members(maxNames + 1),
	}
)

func scans(text string) bool {
	s := jsonScanner{text: []byte(text)}
	return s.scanMembers(func(_, _ []byte) bool { return true })
}

func TestScannerPassesWhatIsOrdinary(t *testing.T) {
	for _, text := range ordinary {
		if !scans(text) {
			t.Errorf("%.60s: left to the JSON package", text)
		}
	}
}

func TestScannerLeavesWhatIsOdd(t *testing.T) {
	for _, text := range odd {
		if scans(text) {
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

// What the scanner passes, the JSON package passes, and both learn the same of it.
func FuzzScanner(f *testing.F) {
	for _, text := range append(ordinary, odd...) {
		f.Add(uint8(2), []byte(text))
	}
	f.Add(uint8(7), []byte(`{"topic":"build.done","data":{"topic":"deep"},"title":null}`))
	f.Fuzz(func(t *testing.T, i uint8, text []byte) {
		if len(text) == 0 {
			return // stands for {}
		}
		k := &kindTable[int(i)%len(kindTable)]
		quick, strict := payloadReader{Checked: Checked{Spec: k}}, payloadReader{Checked: Checked{Spec: k}}
		s := jsonScanner{text: text}
		if !s.scanMembers(func(name, value []byte) bool { return quick.checkField(k.findField(name), value) }) {
			return
		}
		if err := strict.readStrictly(text); err != nil {
			t.Fatalf("%s passed: %v", k.Name, err)
		}
		if quick.seen != strict.seen || quick.Domain != strict.Domain || quick.Topic != strict.Topic || quick.Deadline != strict.Deadline {
			t.Fatalf("%s: learned %+v, not %+v", k.Name, quick, strict)
		}
	})
}
