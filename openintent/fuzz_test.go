package openintent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// FuzzHandler sends anything to every route. The answer is JSON, a stream, or
// nothing, and never a failure of the server.
func FuzzHandler(f *testing.F) {
	h := start(f)
	in, ch := h.intent("planner"), ""
	ch = strings.TrimPrefix(h.channel("planner", in, "talk", obj{"options": obj{"audit": true}}), "/channels/")
	msg := h.as("planner").request("/channels/"+ch, "reviewer")
	task := h.as("planner").post("/tasks", obj{"intent_id": in, "name": "n"}).ok(201).id()
	table := routes(f, h)
	bodies := []string{"", "{}", `{"name":"a","members":["x"],"member_policy":"explicit","options":{"ttl_seconds":5}}`, `{"sender":"planner","to":"reviewer","message_type":"request","payload":{"a":1}}`,
		`{"status":"read"}`, `{"patches":[{"op":"set","path":"/a/b","value":1}]}`, `{"to":"reviewer","timeout":0.001,"all":true}`, `{"agent_id":"x","role_id":"y","metadata":{}}`,
		`{"default_policy":"closed","entries":[{"principal_id":"x","permission":"admin"}]}`,
		`{"principal_id":"x@laptop","to":"x@` + desk + `","agent_id":"x","home":"` + desk + `","members":["x@` + desk + `",{"agent_id":"x","home":"` + laptop + `"}],"payload":{}}`, `{"event_type":"comment","payload":{"a":1e400}}`, `[]`, `null`, "\xff", `{"metadata":{"proof":{"type":"Ed25519Signature2026","signature":"x"}}}`}
	for i := range table {
		f.Add(uint8(i), "planner", ch, bodies[i%len(bodies)], "limit=1&wait=0.001&since="+msg, "1")
		f.Add(uint8(i), "", in, bodies[(i*7+3)%len(bodies)], "status=expired", "")
		f.Add(uint8(i), "reviewer", msg, bodies[(i*5+1)%len(bodies)], "since=2026-01-01T00:00:00Z&to=reviewer&types=notify", `"2"`)
	}
	f.Fuzz(func(t *testing.T, route uint8, agent, arg, body, query, version string) {
		rt := table[int(route)%len(table)]
		path := rt.path
		if path[0] != '/' {
			path = prefixes[0] + path
		}
		for _, known := range []struct{ name, value string }{{"{intent}", in}, {"{channel}", ch}, {"{message}", msg}, {"{task}", task}} {
			if arg != known.value && len(body)%3 > 0 { // mostly things that are there
				path = strings.ReplaceAll(path, known.name, known.value)
			}
		}
		for strings.Contains(path, "{") {
			from, to := strings.Index(path, "{"), strings.Index(path, "}")
			path = path[:from] + url.PathEscape(arg) + path[to+1:]
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // streams and waits end
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, rt.method, "/", strings.NewReader(body))
		r.URL = &url.URL{Path: path, RawQuery: query}
		if u, err := url.ParseRequestURI(path); err == nil {
			r.URL.Path, r.URL.RawPath = u.Path, u.RawPath
		}
		speak(r, agent)
		r.Header.Set("If-Match", version)
		w := httptest.NewRecorder()
		h.h.ServeHTTP(w, r)
		out := w.Body.Bytes()
		ended := ctx.Err() != nil && w.Code == http.StatusServiceUnavailable
		if w.Code >= 500 && w.Code != http.StatusGatewayTimeout && !ended {
			t.Fatalf("%s %s: %d %s", rt.method, path, w.Code, out)
		}
		if rt.stream && w.Code == http.StatusOK || w.Code == http.StatusNoContent {
			return
		}
		if w.Header().Get("Content-Type") != "application/json" || !jsontext.Value(out).IsValid() {
			t.Fatalf("%s %s: %d %q", rt.method, path, w.Code, out)
		}
		if w.Code == http.StatusConflict && strings.Contains(strings.ToLower(string(out)), "lease") {
			t.Fatalf("%s %s: %s", rt.method, path, out)
		}
	})
}

// FuzzTimesAndIDs: what is read is written again as it was meant.
func FuzzTimesAndIDs(f *testing.F) {
	for _, s := range []string{"2026-02-13T10:05:00Z", "2026-02-13T10:05:00.1 02:00", "msg_0123456789_01M7WK708745SZDSQ20JGH2Z1P", "chan_0123456789_7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if at, err := chain.ParseTime(s); err == nil {
			text := strings.Trim(string(at.AppendJSON(nil)), `"`)
			if again, err := chain.ParseTime(text); err != nil || again != at || !timeForm.MatchString(text) {
				t.Errorf("%q is %s, and that is %v, %v", s, text, again, err)
			}
		}
		if prefix, host, _, number, ok := object.ParseID(s); ok {
			if !strings.HasPrefix(s, prefix+"_"+host+"_") || number < 0 {
				t.Errorf("%q: %s, %s, %d", s, prefix, host, number)
			}
		}
	})
}
