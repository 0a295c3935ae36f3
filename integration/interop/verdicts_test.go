//go:build interop

package interop

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

var record = flag.Bool("record", false, "write the verdicts into vectors/oacp/messages.json anew")

// maxFields is how long the recorded fields of one message may be.
const maxFields = 4096

// TestVerdicts holds the recorded verdicts against the reference itself.
func TestVerdicts(t *testing.T) {
	ref := start(t, "pinned")
	corpus := readCorpus(t)
	for i, old := range corpus {
		now := vector{Name: old.Name, Text: old.Text, Base64: old.Base64, Ours: old.Ours, Why: old.Why}
		ref.ask(t, map[string]any{"op": "validate", "data": old.data()}, &now)
		if len(old.data()) < maxFields {
			ref.ask(t, map[string]any{"op": "load", "data": old.data()}, &now)
		}
		if was, is := line(t, old), line(t, now); was != is && !*record {
			t.Errorf("the reference says otherwise:\nrecorded %s\nnow      %s", was, is)
		}
		if now.Why != "" {
			_, now.Ours = judge(now.data())
		}
		corpus[i] = now
	}
	if *record {
		writeCorpus(t, corpus)
	}
}

// writeCorpus writes a vector a line.
func writeCorpus(t *testing.T, corpus []vector) {
	lines := make([]string, len(corpus))
	for i, v := range corpus {
		lines[i] = line(t, v)
	}
	text := "[\n" + strings.Join(lines, ",\n") + "\n]\n"
	if err := os.WriteFile(corpusFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func line(t *testing.T, v vector) string {
	text, err := json.Marshal(v, json.Deterministic(true), json.OmitZeroStructFields(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
