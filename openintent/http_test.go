package openintent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestErrorsAreJSON(t *testing.T) {
	h := start(t)
	p := h.as("planner")
	a := p.do("PUT", "/intents", nil).refused(405, "bad_method")
	if a.header.Get("Allow") != "POST, GET" {
		t.Errorf("Allow: %s", a.header.Get("Allow"))
	}
	p.post("/intents", `{"title":"a"} trailing`).refused(400, "bad_json").has(obj{"message": "the body is not valid JSON, from byte 14 on (counted from 0): names must not repeat, and text must be UTF-8"})
	a = p.post("/intents", `{"title":5}`).refused(422, "invalid")
	detail, ok := a.at("detail").([]any)
	if !ok || fmt.Sprint(detail[0].(obj)["loc"]) != "[body title]" {
		t.Errorf("detail %v", a.at("detail"))
	}
	// A GET may say that it has a JSON body and have none.
	p.with("Content-Type", "application/json").get("/intents").ok(200)
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
