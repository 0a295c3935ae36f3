package openintent

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// front is the HTTP API, by which tests of the engine speak to it. Package api imports the
// engine, so the other half of its tests sets this.
var front struct {
	handler func(e *Engine, forward forwarder, identify identifier) http.Handler

	local, remote identifier // remote: of the agent that X-Agent-ID names, at nearHome
	keys          func(agents map[string]string) identifier
}

type (
	identifier = func(*http.Request) (Caller, error)
	forwarder  = func(ForwardedRequest, http.ResponseWriter, *http.Request)
	frontRoute struct {
		method, path string
		stream       bool
	}
)

const (
	headerAgent    = "X-Agent-ID"
	headerOperator = "X-Operator"
	headerAPIKey   = "X-API-Key"
)

// SetFront sets the HTTP API.
func SetFront(handler func(*Engine, forwarder, identifier) http.Handler, local, remote identifier, keys func(map[string]string) identifier) {
	front.handler, front.local, front.remote, front.keys = handler, local, remote, keys
}

var prefixes = []string{"/api/v1/", "/v1/"}

// routes returns the routes that the API's description has, in the order of their paths.
func routes(t testing.TB, h *host) (all []frontRoute) {
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]jsontext.Value `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(h.as("").get("/openapi.json").ok(200).raw, &doc); err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			rt := frontRoute{method: strings.ToUpper(method), path: strings.TrimPrefix(path, prefixes[0])}
			for _, r := range doc.Paths[path][method].Responses {
				rt.stream = rt.stream || r.Content["text/event-stream"] != nil
			}
			all = append(all, rt)
		}
	}
	return all
}
