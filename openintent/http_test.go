package openintent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/openintent/object"
)

func TestErrorsAreJSON(t *testing.T) {
	h := start(t)
	p := h.as("planner")
	for _, path := range []string{"/nothing", "/", "/intents/", "/intents//channels", "/v1/../x", "/portfolios/p", "/webhooks", "/federation/status", "/plans", "/identity/verify"} {
		p.get(path).refused(404, "not_found")
	}
	a := p.do("PUT", "/intents", nil).refused(405, "bad_method")
	if a.header.Get("Allow") != "POST, GET" {
		t.Errorf("Allow: %s", a.header.Get("Allow"))
	}
	p.post("/intents", "not json").refused(400, "bad_json")
	p.post("/intents", "\xff{}").refused(400, "bad_json")
	p.post("/intents", `{"title":"\xff"}`).refused(400, "bad_json")
	p.post("/intents", `{"title":"a"} trailing`).refused(400, "bad_json").has(obj{"message": "the body is not valid JSON, from byte 14 on (counted from 0): names must not repeat, and text must be UTF-8"})
	a = p.post("/intents", `{"title":5}`).refused(422, "invalid")
	detail, ok := a.at("detail").([]any)
	if !ok || fmt.Sprint(detail[0].(obj)["loc"]) != "[body title]" {
		t.Errorf("detail %v", a.at("detail"))
	}
	p.post("/intents", strings.Repeat(" ", object.MaxPayload+bodyRoom+1)).refused(413, "too_large")
	// A GET may say that it has a JSON body and have none.
	p.with("Content-Type", "application/json").get("/intents").ok(200)
}

// Nothing said is no message: a body is needed, and in it a payload that is an object.
func TestBodiesAreNeeded(t *testing.T) {
	h, in, ch := team(t)
	p := h.as("planner")
	request := p.request(ch, "reviewer")
	for _, path := range []string{ch + "/messages", ch + "/ask", "/intents/" + in + "/channels/talk/messages", ch + "/messages/" + request + "/reply"} {
		for _, none := range []string{"", " \n"} {
			p.post(path, none).refused(400, "no_body")
		}
		for _, bad := range []string{`{"to":"reviewer"}`, `{"to":"reviewer","payload":null}`, `{"to":"reviewer","payload":[]}`, `{"to":"reviewer","payload":{},"metadata":null}`, `{"to":"reviewer","payload":{},"metadata":"x"}`} {
			p.post(path, bad).refused(422, "invalid")
		}
	}
	p.patch(ch, "").refused(400, "no_body")
	p.patch(ch+"/messages/"+request, "").refused(400, "no_body")
	p.post("/intents", "").refused(400, "no_body")
	h.as("reviewer").messages(ch).is("id", request) // and nothing came of it
	h.as("reviewer").get(ch + "/messages/" + request).ok(200).has(obj{"status": "delivered"})
}

// A path is text: what is no UTF-8 leads nowhere, on every route.
func TestPathsAreText(t *testing.T) {
	h := start(t)
	for _, rt := range routes(t, h) {
		if !strings.Contains(rt.path, "{") {
			continue
		}
		for _, bad := range []string{"%ff", "a%C3", "%ed%a0%80"} {
			path := rt.path
			for strings.Contains(path, "{") {
				from, to := strings.Index(path, "{"), strings.Index(path, "}")
				path = path[:from] + bad + path[to+1:]
			}
			h.as("planner").do(rt.method, "/"+path, obj{"payload": obj{}}).refused(404, "not_found")
		}
	}
	in := h.intent("planner")
	h.as("planner").post("/intents/"+in+"/channels/%ff/messages", obj{}).refused(404, "not_found")
}

func TestBothPrefixes(t *testing.T) {
	h := start(t)
	in := h.intent("planner")
	for _, prefix := range prefixes {
		h.as("planner").get(prefix + "intents/" + in).ok(200)
		h.as("planner").post(prefix+"intents/"+in+"/channels", obj{"name": prefix}).ok(201)
	}
	h.as("planner").get("/v1/openapi.json").refused(404, "not_found")
}

func TestNamesInPathsAreUnescaped(t *testing.T) {
	h := start(t)
	in, p := h.intent("planner"), h.as("planner")
	m := p.post("/intents/"+in+"/channels/to%20do%2Fnow/messages", obj{}).ok(201)
	p.get("/channels/" + m.str("channel_id")).has(obj{"name": "to do/now"})
}

func TestWellKnown(t *testing.T) {
	h := start(t)
	a := h.as("").get("/.well-known/openintent.json").ok(200)
	for name, want := range map[string]string{"supported_rfcs": "RFC-0021", "not_offered": "federation"} {
		if !slices.Contains(a.at(name).([]any), any(want)) {
			t.Errorf("%s: %v", name, a.at(name))
		}
	}
}

// The description is made of the table, so what is tested is its form (OpenAPI
// 3.1): that references lead somewhere, that ids differ, that every argument of a
// path is described, and that every route is there.
func TestOpenAPI(t *testing.T) {
	h := start(t)
	doc := h.as("").get("/openapi.json").ok(200)
	if doc.str("openapi") != "3.1.0" {
		t.Errorf("version %v", doc.at("openapi"))
	}
	license := doc.at("info").(obj)["license"].(obj)
	if name := "Apache-2.0"; license["name"] != name || license["identifier"] != name {
		t.Errorf("licence %v, want that of the file LICENSE, %s", license, name)
	}
	schemas := doc.at("components").(obj)["schemas"].(obj)
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case obj:
			if ref, ok := v["$ref"].(string); ok {
				name := strings.TrimPrefix(ref, "#/components/schemas/")
				if schemas[name] == nil && ref != "#/components/responses/Problem" {
					t.Errorf("%s leads to %s, which is not there", at, ref)
				}
			}
			for name, inner := range v {
				walk(at+"/"+name, inner)
			}
		case []any:
			for i, inner := range v {
				walk(fmt.Sprint(at, "/", i), inner)
			}
		case nil:
			if strings.Contains(at, "/schemas/") {
				t.Errorf("%s is null", at)
			}
		}
	}
	walk("", doc.body)
	ids := make(map[string]string)
	operations := 0
	for path, item := range doc.at("paths").(obj) {
		for method, op := range item.(obj) {
			operations++
			op := op.(obj)
			id := op["operationId"].(string)
			if ids[id] != "" {
				t.Errorf("%s and %s %s are both %s", ids[id], method, path, id)
			}
			ids[id] = method + " " + path
			if len(op["responses"].(obj)) != 2 || op["summary"] == "" {
				t.Errorf("%s %s: %v", method, path, op)
			}
			params, _ := op["parameters"].([]any)
			for part := range strings.SplitSeq(path, "/") {
				name, ok := strings.CutPrefix(part, "{")
				if ok && !slices.ContainsFunc(params, func(p any) bool {
					return p.(obj)["in"] == "path" && p.(obj)["name"] == strings.TrimSuffix(name, "}") && p.(obj)["required"] == true
				}) {
					t.Errorf("%s %s does not describe %s", method, path, name)
				}
			}
		}
	}
	all := routes(t, h)
	for _, rfc := range []string{"POST intents/{intent}/channels", "GET intents/{intent}/channels", "GET channels/{channel}", "PATCH channels/{channel}", "DELETE channels/{channel}",
		"POST channels/{channel}/messages", "GET channels/{channel}/messages", "GET channels/{channel}/messages/{message}", "POST channels/{channel}/messages/{message}/reply", "PATCH channels/{channel}/messages/{message}"} {
		if !slices.ContainsFunc(all, func(rt frontRoute) bool { return rt.method+" "+rt.path == rfc }) {
			t.Errorf("the RFC's %s is missing", rfc)
		}
	}
}

// The description of a message has the members that messages have.
func TestOpenAPIDescribesMessages(t *testing.T) {
	h, _, ch := team(t)
	m := h.as("planner").send(ch, obj{}).ok(201).body.(obj)
	described := h.as("").get("/openapi.json").at("components").(obj)["schemas"].(obj)["Message"].(obj)["properties"].(obj)
	delete(described, "read_by") // only where somebody has read it
	for name := range m {
		if described[name] == nil {
			t.Errorf("%s is not described", name)
		}
		delete(described, name)
	}
	if len(described) > 0 {
		t.Errorf("described and not there: %v", described)
	}
}

func TestIDs(t *testing.T) {
	h := start(t)
	at := now()
	id := h.e.newMessageID(at, 123_456_789_012)
	prefix, host, when, number, ok := object.ParseID(id)
	if !ok || prefix != object.IDMessage || host != hostID || when != at/1000*1000 || number != 123_456_789_012 {
		t.Errorf("%s: %s %s %v %d %v", id, prefix, host, when, number, ok)
	}
	if later := h.e.newMessageID(at, 123_456_789_013); later <= id {
		t.Errorf("%s does not sort after %s", later, id)
	}
	for _, bad := range []string{"", "_", "msg_", id[1:], id + "0", strings.ToLower(id), strings.Replace(id, hostID, "012345678G", 1), id[:len(id)-1] + "U"} {
		if _, ok := object.HostOfID(bad); ok && !strings.HasPrefix(bad, "sg_") {
			t.Errorf("%q is taken for an id", bad)
		}
	}
	for _, agent := range []string{"a", "research-agent-01", "a.b_c@d+e~f", "team:a", strings.Repeat("a", 128)} {
		if !object.IsAgentID(agent) {
			t.Errorf("%q is refused", agent)
		}
	}
	for _, agent := range []string{"", "a b", "*", "role:x", "system", "a/b", "é", "a:", strings.Repeat("a", 129), "a\n"} {
		if object.IsAgentID(agent) {
			t.Errorf("%q is accepted", agent)
		}
	}
}
