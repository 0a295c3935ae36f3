//go:build interop

package interop

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

var record = flag.Bool("record", false, "write the verdicts into vectors/oacp anew")

// maxFields bounds the length of the recorded fields of one message.
const maxFields = 4096

// TestVerdicts holds the recorded verdicts against the reference itself.
func TestVerdicts(t *testing.T) {
	ref := start(t, "pinned")
	corpus := readCorpus(t)
	lines := make([]string, len(corpus))
	for i, old := range corpus {
		now := vector{Name: old.Name, Text: old.Text, Base64: old.Base64, Ours: old.Ours, Why: old.Why}
		ref.ask(t, map[string]any{"op": "validate", "data": old.data()}, &now)
		if len(old.data()) < maxFields {
			ref.ask(t, map[string]any{"op": "load", "data": old.data()}, &now)
		}
		lines[i] = line(t, now)
		if was := line(t, old); was != lines[i] && !*record {
			t.Errorf("the reference says otherwise:\nrecorded %s\nnow      %s", was, lines[i])
		}
	}
	if *record {
		write(t, corpusFile, "[\n"+strings.Join(lines, ",\n")+"\n]\n")
	}
}

// TestRenderVerdicts holds the recorded files against the reference's writer and reader.
func TestRenderVerdicts(t *testing.T) {
	ref := start(t, "pinned")
	renders := readRenders(t)
	lines := make([]string, len(renders))
	for i, old := range renders {
		var theirs loaded
		ref.ask(t, map[string]any{"op": "render", "fields": fields(t, old.Message)}, &theirs)
		now := old
		now.Text, now.Lost = string(theirs.Data), !survives(theirs.Fields, old.message())
		lines[i] = line(t, now)
		if was := line(t, old); was != lines[i] && !*record {
			t.Errorf("the reference says otherwise:\nrecorded %s\nnow      %s", was, lines[i])
		}
	}
	if *record {
		write(t, rendersFile, "[\n"+strings.Join(lines, ",\n")+"\n]\n")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func line(t *testing.T, v any) string {
	text, err := json.Marshal(v, json.Deterministic(true), json.OmitZeroStructFields(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
