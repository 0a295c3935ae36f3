package yamldoc

import (
	"fmt"
	"testing"
)

// A setting that is gone is skipped wherever it stood, and so is one that has a value where it had settings.
func TestGone(t *testing.T) {
	var v struct {
		Log struct {
			Level string `yaml:"level"`
		} `yaml:"log"`
		Keep  string                        `yaml:"keep"`
		Named map[string]struct{ A string } `yaml:"named"`
	}
	o := Options{File: "f", Gone: map[string]string{"log.format": "remove it", "keep": "write a word", "sizes": "remove it", "named.*.b": "remove it"}}
	d := Decode([]byte("log: {format: [1], level: info}\nkeep: {a: 1}\nsizes: {a: {b: 1}}\nnamed: {one: {b: 1}, \"*\": {b: 2}}\n"), &v, o)
	if errs := d.ListErrors(); len(errs) > 0 || v.Log.Level != "info" || v.Keep != "" || d.IsSet("keep") || d.IsSet("log.format") {
		t.Errorf("%+v, %v, %v", v, errs, d.lines)
	}
	var skipped []string
	for _, s := range d.ListSkipped() {
		skipped = append(skipped, fmt.Sprintf("%d %s %s", s.Line, s.Key, s.Remedy))
	}
	if got := fmt.Sprint(skipped); got != "[1 log.format remove it 2 keep write a word 3 sizes remove it 4 named.one.b remove it 4 named.*.b remove it]" {
		t.Error(got)
	}
	for _, text := range []string{"keep: [a]", "log: {formats: x}", "named: {b: 1}", "named: {one: {c: 1}}", "log: {format: 1, format: 2}"} {
		if d := Decode([]byte(text), &v, o); len(d.ListErrors()) != 1 {
			t.Errorf("%s: %v", text, d.ListErrors())
		}
	}
	if d := Decode([]byte("keep: a"), &v, o); len(d.ListErrors()) > 0 || len(d.ListSkipped()) > 0 || v.Keep != "a" {
		t.Errorf("%+v, %v", v, d.ListErrors())
	}
}
