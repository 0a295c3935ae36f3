package client

import "testing"

func TestEnding(t *testing.T) {
	for name, want := range map[string]string{
		"build.log": ".log", "a.tar.gz": ".gz", "A.TXT": ".txt", "Makefile": "", "a.": "", "": "", "a.b c": "", "a.tooolong9": "", "a.12345678": ".12345678", "a.é": "", "a.\u202egpj": "",
	} {
		f := File{Name: name}
		if got := f.Ending(); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
