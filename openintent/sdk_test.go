package openintent

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	return Keys([]Key{{Hash: HashKey("any")}, {Hash: HashKey("bound"), Agent: "planner"}})
}

// recording is what a client sent.
type recording struct {
	mu        sync.Mutex
	ids       []string
	exchanges []exchange
}

var idForm = regexp.MustCompile(`[a-z]+_` + hostID + `_[0-9A-Z]{26}`)

func (r *recording) add(req *http.Request, body []byte, status int, answer []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := func(text string) string {
		for i, id := range r.ids {
			text = strings.ReplaceAll(text, id, fmt.Sprintf("$%d.", i+1))
		}
		return text
	}
	x := exchange{Key: req.Header.Get(headerAPIKey), Agent: req.Header.Get(headerAgent), Method: req.Method, Path: name(req.URL.RequestURI()),
		IfMatch: req.Header.Get("If-Match"), Status: status}
	if len(body) > 0 {
		x.Body = jsontext.Value(name(string(body)))
	}
	r.exchanges = append(r.exchanges, x)
	r.learn(answer)
}

// learn notes the ids of an answer, in their order.
func (r *recording) learn(answer []byte) {
	for _, id := range idForm.FindAllString(string(answer), -1) {
		if !slices.Contains(r.ids, id) {
			r.ids = append(r.ids, id)
		}
	}
}

func encode(t *testing.T, list []exchange) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, x := range list {
		line, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes()
}

// The recorded requests of the SDK are answered as they were.
func TestRecordedSDK(t *testing.T) {
	h := start(t, func(c *Config) { c.HeldList = 0 })
	handler := h.e.Handler(sdkKeys())
	var rec recording
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
