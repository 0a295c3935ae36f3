package message

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

const vectors = "../../integration/vectors/oacp/"

type seed struct {
	Text   string `json:"text"`
	Base64 []byte `json:"base64"`
}

func (s seed) data() []byte {
	if s.Base64 != nil {
		return s.Base64
	}
	return []byte(s.Text)
}

func readVectors(tb testing.TB, name string, into any) {
	tb.Helper()
	text, err := os.ReadFile(vectors + name)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		tb.Fatal(err)
	}
}

// FuzzParse: whatever a file holds is judged, and what is valid survives being
// written again.
func FuzzParse(f *testing.F) {
	var seeds []seed
	readVectors(f, "messages.json", &seeds)
	for _, s := range seeds {
		f.Add(s.data())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := ParseCarriableMessage(data); err == nil && !IsLegalAgentName(m.From) {
			t.Errorf("carries mail from %q", m.From)
		}
		d, err := ParseDocument(data)
		if err != nil {
			return
		}
		m := d.ToMessage()
		if d.Validate() != nil {
			return
		}
		if lines := m.Validate(); lines != nil {
			t.Errorf("%q is valid as a file, but %q", data, lines)
		}
		again, err := m.Render()
		if strings.ContainsRune(m.Subject+m.Body+m.ContextKeys+m.ID+m.RelatedPacket+m.ParentID, 0) {
			return // "\0" in quotes
		}
		if err != nil {
			t.Fatal(err)
		}
		d, err = ParseDocument(again)
		if err != nil {
			t.Fatalf("%q is written as %q: %v", data, again, err)
		}
		if diff := cmp.Diff(trimmed(m), trimmed(d.ToMessage())); diff != "" {
			t.Errorf("%q is written as %q (-before +after):\n%s", data, again, diff)
		}
	})
}

// trimmed is a message without what Render leaves out.
func trimmed(m Message) Message {
	m.Body, m.ContextKeys = strings.TrimRight(m.Body, "\n"), strings.TrimRight(m.ContextKeys, "\n")
	return m
}

// FuzzRender: every text comes back as it was.
func FuzzRender(f *testing.F) {
	for _, s := range []string{"a\tb", " a\nb", "  \nb", "!a", "\x01", "a\rb", "a\u2028b", "\u0085", "\ufeff", "null", "\n\na", "a\n\n b", "\ta\nb", "a: b #", "\\", "\"", "-", "~"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, line, text string) {
		m := Message{ID: "m", From: "planner", To: []string{"reviewer"}, Subject: line, Body: text, ContextKeys: text, RelatedPacket: line}
		data, err := m.Render()
		if !utf8.ValidString(line) || !utf8.ValidString(text) || strings.ContainsRune(line+text, 0) {
			if err == nil {
				t.Errorf("renders %q and %q", line, text)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		d, err := ParseDocument(data)
		if len(data) > MaxBytes {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		text = strings.TrimRight(text, "\n")
		for key, want := range map[string]string{"subject": line, "body": text, "context_keys": text, "related_packet": line} {
			got := ""
			if n := d.fields[key]; n != nil {
				got = n.Value
			}
			if got != want && got != want+"\n" || got != want && !strings.Contains(want, "\n") {
				t.Errorf("%q: %s is %q, was %q", data, key, got, want)
			}
		}
	})
}
