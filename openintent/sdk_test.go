package openintent

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// vectors are requests of the Python SDK 0.17.0 and the status of their answers;
// `make interop` compares them with what it sends.
const vectors = "testdata/sdk.jsonl"

// exchange is a request and how it was answered. $1 is the first id that an
// answer has brought, and so on.
type exchange struct {
	Key     string         `json:"key"`
	Agent   string         `json:"agent"`
	Method  string         `json:"method"`
	Path    string         `json:"path"`
	IfMatch string         `json:"if_match,omitzero"`
	Body    jsontext.Value `json:"body,omitzero"`
	Status  int            `json:"status"`
}

// sdkKeys are the keys that the recorded clients have.
func sdkKeys() func(*http.Request) (Caller, error) {
	return front.keys(map[string]string{"any": "", "bound": "planner"})
}

// knownIDs are the ids that answers have brought, in their order.
type knownIDs struct{ ids []string }

var idForm = regexp.MustCompile(`[a-z]+_` + hostID + `_[0-9A-Z]{26}`)

// learn notes the ids of an answer, in their order.
func (r *knownIDs) learn(answer []byte) {
	for _, id := range idForm.FindAllString(string(answer), -1) {
		if !slices.Contains(r.ids, id) {
			r.ids = append(r.ids, id)
		}
	}
}

// The recorded requests of the SDK are answered as they were.
func TestRecordedSDK(t *testing.T) {
	h := start(t)
	handler := h.handler(sdkKeys())
	var rec knownIDs
	replaced := regexp.MustCompile(`\$(\d+)\.`)
	file, err := os.ReadFile(vectors)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range bytes.Lines(file) {
		var x exchange
		if err := json.Unmarshal(line, &x); err != nil {
			t.Fatal(err)
		}
		fill := func(text string) string {
			return replaced.ReplaceAllStringFunc(text, func(name string) string {
				var i int
				fmt.Sscanf(name, "$%d.", &i)
				if i > len(rec.ids) {
					t.Fatalf("line %d: %s is not known", n+1, name)
				}
				return rec.ids[i-1]
			})
		}
		c := h.as(x.Agent).with(headerAPIKey, x.Key)
		c.handler = handler
		if x.IfMatch != "" {
			c = c.with("If-Match", x.IfMatch)
		}
		a := c.do(x.Method, fill(x.Path), fill(string(x.Body)))
		if a.status != x.Status {
			t.Errorf("line %d: %s %s: %d %s, was %d", n+1, x.Method, x.Path, a.status, a.raw, x.Status)
		}
		rec.learn(a.raw)
		n++
	}
	if n < 40 {
		t.Errorf("only %d requests", n)
	}
}
