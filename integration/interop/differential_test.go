//go:build interop

package interop

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/oacp/message"
)

var (
	rounds = flag.Int("rounds", 5000, "how many random texts the differential tests try")
	seed   = flag.Uint64("seed", 0, "the differential tests' seed; 0 draws one")
)

func random(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// bits are the parts of random texts: all that some reader or writer of YAML is
// known to treat on its own.
var bits = []string{
	"a", "b", "word", "0", " ", "  ", "\n", "\n\n", "\t", ":", ": ", "#", " #", "-", "- ", "?", ",", "[", "]", "{", "}", "&", "*", "!", "|", ">",
	"'", "\"", "%", "@", "`", "\\", "/", "\\/", "\\'", "\\\\", "~", "null", "yes", "...", "---", "=", "<<", ".", "_", "é", "😀", "\u00a0", "\u3000", "\u200b", "\ufeff",
	"\r", "\r\n", "\u0085", "\u2028", "\u2029", "\x01", "\x1b", "\x1c", "\x1f", "\x7f", "\u0080", "\ufffe", "\U000f0000",
}

func text(r *rand.Rand, bits []string, most int) string {
	var b strings.Builder
	for range r.IntN(most + 1) {
		b.WriteString(bits[r.IntN(len(bits))])
	}
	return b.String()
}

// fields is a message as the reference's writer takes it.
func fields(t *testing.T, message map[string]any) []byte {
	text, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

type loaded struct {
	Fields map[string]any `json:"fields"`
	Error  string         `json:"error"`
	Data   []byte         `json:"data"`
}

// TestWriter puts random texts through both writers: ours writes the reference's
// bytes if they can be read back, and other bytes that can if not. Line separators,
// which the reference can read back sometimes, are always written as escapes.
func TestWriter(t *testing.T) {
	ref, r := start(t, "pinned"), random(t)
	same, safe := 0, 0
	for range *rounds {
		m := message.Message{
			ID: "m", From: "planner", To: []string{"reviewer"}, Type: "question", Priority: "P2", Created: "2026-11-20T13:00:00Z",
			Subject: text(r, bits, 6), Body: strings.TrimRight(text(r, bits, 12), "\n"),
		}
		var theirs, read loaded
		ref.ask(t, map[string]any{"op": "render", "fields": fields(t, map[string]any{
			"id": m.ID, "from": m.From, "to": "reviewer", "type": m.Type, "priority": m.Priority, "created_at_utc": m.Created, "subject": m.Subject, "body": m.Body,
		})}, &theirs)
		ours, err := m.Render()
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		if survives(theirs.Fields, m) {
			same++
			if !bytes.Equal(ours, theirs.Data) && !strings.ContainsAny(m.Subject+m.Body, "\u2028\u2029") {
				t.Errorf("the reference writes\n%q\nand reads it back, we write\n%q", theirs.Data, ours)
			}
		} else {
			safe++
		}
		if ref.ask(t, map[string]any{"op": "load", "data": ours}, &read); !survives(read.Fields, m) {
			t.Errorf("%+v: we write\n%q\nwhich the reference reads as %q %s", m, ours, read.Fields, read.Error)
		}
		d, err := message.ParseDocument(ours)
		if err != nil {
			t.Errorf("%q: %v", ours, err)
		} else if diff := cmp.Diff(fieldsMessage(read.Fields), d.ToMessage()); diff != "" {
			t.Errorf("%q is read differently (-reference +ours):\n%s", ours, diff)
		}
	}
	if same == 0 || safe == 0 {
		t.Errorf("%d texts the reference could write, %d it could not", same, safe)
	}
}

// survives tells whether the fields that the reference has read hold a message's texts.
func survives(fields map[string]any, m message.Message) bool {
	read := compile(fields, func(s string) string { return s })
	return read.Subject == m.Subject && sameText(read.Body, m.Body) && sameText(read.ContextKeys, m.ContextKeys)
}

// frames are files with places for random text.
var frames = []string{
	"id: $\nfrom: planner\n", "id: \"$\"\nfrom: planner\n", "id: '$'\nfrom: planner\n", "id: |\n  $\nfrom: planner\n", "id: |\n  a\n  $\n $\nfrom: planner\n",
	"id: >\n  a\n  $\n  b\nfrom: planner\n", "to: [$, b]\nfrom: planner\n", "to: [\"$\", '$']\n", "id: a\n$\nfrom: planner\n", "id: a$\n$from: planner\n",
	"{\"id\": \"$\", \"from\": $}\n", "id: &a $\nbody: *a\n", "id: !!str $\n", "$: planner\n", "\"$\": planner\n", "# $\nid: a # $\n", "id: a $ #$\n", "to:\n- $\n- b\n",
	"body: |-\n    $\n    b\nid: $\n", "body: |2\n   $\n", "---\nid: $\n...\n", "$",
	"from: planner\n$from: ceo\n$", "{\"a\": $,\nfrom: planner,\n\"b\": $from: ceo$}\n", "id: $\"from: ceo\n$\nfrom: planner\n", "$from: ceo\n$\nfrom: planner\n$",
}

// known tells the files that hold what is known to be read differently: to the
// reference, in a flow list a colon before these characters ends a key and a lone
// question mark begins one, a comment may not touch the header of a block, and a tag has
// a second exclamation mark only after a name.
var known = regexp.MustCompile(`:[,\[\]{}]|[\[{](.|\s)*\?|[|>][0-9+-]*#|!\S*[^\s\w-]\S*!`)

// TestReader puts random files through both readers.
func TestReader(t *testing.T) {
	ref, r := start(t, "pinned"), random(t)
	good, carried := 0, 0
	for range *rounds {
		var b strings.Builder
		for i, part := range strings.Split(frames[r.IntN(len(frames))], "$") {
			if i > 0 {
				b.WriteString(text(r, bits, 5))
			}
			b.WriteString(part)
		}
		data := []byte(b.String())
		var theirs loaded
		ref.ask(t, map[string]any{"op": "load", "data": data}, &theirs)
		if m, err := message.ParseCarriableMessage(data); err == nil {
			carried++
			if from, _ := theirs.Fields["from"].(string); theirs.Error == "" && trim(from) != m.From {
				t.Errorf("%q is carried as mail from %q, and from %q to the reference", data, m.From, from)
			}
		}
		if known.Match(data) {
			continue
		}
		d, err := message.ParseDocument(data)
		switch {
		case (err != nil) != (theirs.Error != ""):
			t.Errorf("%q\nthe reference says %q, we say %v", data, theirs.Error, err)
		case err == nil:
			good++
			if diff := cmp.Diff(fieldsMessage(theirs.Fields), d.ToMessage()); diff != "" {
				t.Errorf("%q is read differently (-reference +ours):\n%s", data, diff)
			}
		}
	}
	if good < *rounds/10 || carried < *rounds/20 {
		t.Errorf("%d files could be read, and %d carried: too few to mean anything", good, carried)
	}
}
