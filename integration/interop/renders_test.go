package interop

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/oacp/message"
)

const rendersFile = "../vectors/oacp/renders.json"

// A rendered vector is what vectors/oacp/README.md describes.
type rendered struct {
	Name    string         `json:"name"`
	Message map[string]any `json:"message"`
	Text    string         `json:"text"`
	Lost    bool           `json:"lost"`
}

func (v rendered) message() message.Message {
	return compile(v.Message, func(s string) string { return s })
}

func readRenders(t *testing.T) []rendered {
	t.Helper()
	renders := readVectors[[]rendered](t, rendersFile)
	if len(renders) < 100 {
		t.Fatalf("%d vectors", len(renders))
	}
	return renders
}

// TestRenders: the reference's bytes where its own reader gets the texts back; the
// texts in any case.
func TestRenders(t *testing.T) {
	for _, v := range readRenders(t) {
		t.Run(v.Name, func(t *testing.T) {
			m := v.message()
			got, err := m.Render()
			if err != nil {
				t.Fatal(err)
			}
			separated := strings.ContainsAny(m.Subject+m.Body, "\u2028\u2029") // always written as escapes
			if same := string(got) == v.Text; same == (v.Lost || separated) {
				t.Errorf("renders\n%s\nthe reference renders, lost: %t\n%s", got, v.Lost, v.Text)
			}
			d, err := message.ParseDocument(got)
			if err != nil {
				t.Fatal(err)
			}
			read := d.ToMessage()
			if read.Subject != trim(m.Subject) || !sameText(read.Body, m.Body) || !sameText(read.ContextKeys, m.ContextKeys) {
				t.Errorf("%q reads as %q, %q, %q", got, read.Subject, read.Body, read.ContextKeys)
			}
		})
	}
}

// sameText tells whether text was read as it was written: a block ends in one newline more.
func sameText(read, written string) bool {
	if strings.Contains(written, "\n") {
		read = strings.TrimSuffix(read, "\n")
	}
	return read == written
}
