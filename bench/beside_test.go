package main

import (
	"io"
	"testing"
	"time"
)

// Beside a peer that does all it can, another one's calls succeed, of every kind.
func TestBeside(t *testing.T) {
	bin := t.TempDir()
	if err := buildPrograms(t.Context(), bin, besideVariant); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"notifies", "requests that are begun and left"} {
		f, err := newFleet(t.Context(), besideVariant, bin)
		if err != nil {
			t.Fatal(err)
		}
		figures, err := measureBeside(f, name, 2, 50*time.Millisecond, io.Discard)
		if err := f.stopAll(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, got := range figures {
			if len(got.values) != 2 || got.values[0] <= 0 || got.values[1] <= 0 {
				t.Errorf("%s: implausible: %v", got.what, got.values)
			}
		}
	}
}
