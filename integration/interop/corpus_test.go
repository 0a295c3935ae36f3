package interop

import (
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/oacp/message"
)

const corpusFile = "../vectors/oacp/messages.json"

// A vector is what vectors/oacp/README.md describes.
type vector struct {
	Name   string         `json:"name"`
	Text   string         `json:"text"`
	Base64 []byte         `json:"base64"`
	Exit   int            `json:"exit"`
	Fields map[string]any `json:"fields"`
	Ours   int            `json:"ours"` // acpd's exit code, if there is a Why
	Why    string         `json:"why"`
}

func (v vector) data() []byte {
	if v.Base64 != nil {
		return v.Base64
	}
	return []byte(v.Text)
}

// readVectors reads a file of vectors.
func readVectors[T any](tb testing.TB, file string) (vectors T) {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(text, &vectors, json.RejectUnknownMembers(true)); err != nil {
		tb.Fatal(err)
	}
	return vectors
}

func readCorpus(tb testing.TB) []vector {
	tb.Helper()
	corpus := readVectors[[]vector](tb, corpusFile)
	if len(corpus) < 150 {
		tb.Fatalf("%d vectors", len(corpus))
	}
	return corpus
}

// TestCorpus: acpd gives the verdicts of the reference, and reads the same fields.
func TestCorpus(t *testing.T) {
	for _, v := range readCorpus(t) {
		t.Run(v.Name, func(t *testing.T) {
			want := v.Exit
			if v.Why != "" {
				want = v.Ours
			}
			d, err := message.ParseDocument(v.data())
			var lines []string
			if err == nil {
				lines = d.Validate()
			}
			if valid := err == nil && lines == nil; valid != (want == 0) {
				t.Errorf("%q: finds %q, %v, expected exit code %d", v.data(), lines, err, want)
			}
			if err != nil || v.Fields == nil || v.Why != "" {
				return
			}
			if diff := cmp.Diff(fieldsMessage(v.Fields), d.ToMessage()); diff != "" {
				t.Errorf("%q is read differently (-reference +ours):\n%s", v.data(), diff)
			}
		})
	}
}

// fieldsMessage is the message in the fields as the reference loads them: the short ones
// without the space around them.
func fieldsMessage(fields map[string]any) message.Message { return compile(fields, trim) }

// compile makes a message of fields; word is what becomes of the short ones.
func compile(fields map[string]any, word func(string) string) message.Message {
	text := func(key string) string { s, _ := fields[key].(string); return s }
	short := func(key string) string { return word(text(key)) }
	m := message.Message{
		ID: short("id"), From: short("from"), Type: short("type"), Priority: short("priority"), Created: short("created_at_utc"),
		Subject: short("subject"), Body: text("body"), Expires: short("expires_at"), Channel: short("channel"),
		AutonomyHint: short("autonomy_hint"), RelatedPacket: short("related_packet"), RelatedPR: short("related_pr"),
		ConversationID: short("conversation_id"), ParentID: short("parent_message_id"), ContextKeys: text("context_keys"),
	}
	switch to := fields["to"].(type) {
	case string:
		if short("to") != "" {
			m.To = []string{short("to")}
		}
	case []any:
		m.ToList = true
		for _, item := range to {
			if name, ok := item.(string); ok {
				m.To = append(m.To, word(name))
			}
		}
	}
	return m
}

// trim is Python's strip.
func trim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || 0x1c <= r && r <= 0x1f })
}
