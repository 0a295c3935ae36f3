package mcp

import (
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acpd/acpd/kinds"
)

// The schemas have only what the interfaces of all models take. Some refuse the whole request for a
// property without a type, for a list of types, and for an enum of no texts.
func TestSchemasFitAllModels(t *testing.T) {
	type property struct {
		Type        string    `json:"type"` // a list of types is no string
		Description string    `json:"description"`
		Enum        []string  `json:"enum"`
		Items       *property `json:"items"`
	}
	var check func(name string, p *property)
	check = func(name string, p *property) {
		if !slices.Contains([]string{"string", "number", "integer", "boolean", "object", "array"}, p.Type) {
			t.Errorf("%s: type %q", name, p.Type)
		}
		if p.Enum != nil && p.Type != "string" {
			t.Errorf("%s: an enum of %s", name, p.Type)
		}
		if (p.Type == "array") != (p.Items != nil) {
			t.Errorf("%s: type %s, items %v", name, p.Type, p.Items)
		} else if p.Items != nil {
			check(name+"[]", p.Items)
		}
	}
	for _, tool := range tools {
		var s struct {
			Type       string              `json:"type"`
			Properties map[string]property `json:"properties"`
			Required   []string            `json:"required"`
		}
		if err := json.Unmarshal(tool.schema, &s, json.RejectUnknownMembers(true)); err != nil || s.Type != "object" {
			t.Errorf("%s: type %q, %v", tool.name, s.Type, err)
		}
		for name, p := range s.Properties {
			check(tool.name+" "+name, &p)
		}
		for _, name := range s.Required {
			if _, ok := s.Properties[name]; !ok {
				t.Errorf("%s: requires %q, which it does not have", tool.name, name)
			}
		}
	}
}

// Some models write every argument as text. It is taken for what is written in it where the argument
// cannot be text. What a peer reads stays as it is.
func TestArgumentsMayComeAsText(t *testing.T) {
	type all struct {
		Text   string         `json:"text"`
		List   []string       `json:"list"`
		Data   jsontext.Value `json:"data"`
		Number float64        `json:"number"`
		Maybe  *float64       `json:"maybe"`
		Page   int            `json:"page"`
		Wait   bool           `json:"wait"`
	}
	tool := &tool{name: "tool", schema: schema(`"text":{"type":"string"}`)}
	read := func(arguments string) (string, error) {
		call := &toolCall{request: &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{Arguments: []byte(arguments)}}, tool: tool}
		var a all
		if err := call.readArguments(&a); err != nil {
			return "", err
		}
		text, err := json.Marshal(&a, json.OmitZeroStructFields(true), json.Deterministic(true))
		return string(text), err
	}
	for arguments, want := range map[string]string{
		`{"list":"[\"a\",\"b\"]"}`:           `{"list":["a","b"]}`,
		`{"list":" [\"a\"] "}`:               `{"list":["a"]}`,
		`{"list":"a"}`:                       `{"list":["a"]}`,
		`{"list":"[a]"}`:                     `{"list":["[a]"]}`,
		`{"list":["[\"a\"]"]}`:               `{"list":["[\"a\"]"]}`,
		`{"data":"{\"n\": 1}"}`:              `{"data":{"n":1}}`,
		`{"data":"[1]"}`:                     `{"data":[1]}`,
		`{"data":"7"}`:                       `{"data":"7"}`,
		`{"data":"null"}`:                    `{"data":"null"}`,
		`{"data":"{n: 1}"}`:                  `{"data":"{n: 1}"}`,
		`{"data":"see {\"n\":1}"}`:           `{"data":"see {\"n\":1}"}`,
		`{"data":{"n":"[1]"}}`:               `{"data":{"n":"[1]"}}`,
		`{"number":"60"}`:                    `{"number":60}`,
		`{"maybe":"0.5"}`:                    `{"maybe":0.5}`,
		`{"page":"2"}`:                       `{"page":2}`,
		`{"wait":"true"}`:                    `{"wait":true}`,
		`{"text":"[\"a\"]"}`:                 `{"text":"[\"a\"]"}`,
		`{"text":"cut \ud83d"}`:              `{"text":"cut �"}`,
		`{"data":["\ude00","\ud83d\ude00"]}`: `{"data":["�","😀"]}`,
	} {
		if got, err := read(arguments); got != want {
			t.Errorf("%s: %s %v, want %s", arguments, got, err, want)
		}
	}
	for arguments, want := range map[string]string{
		`{"number":"soon"}`:  "tool: number: not of the type that the schema names: it takes text",
		`{"number":"true"}`:  "tool: number: not of the type that the schema names: it takes text",
		`{"number":"1e999"}`: "tool: number: not of the type that the schema names: it takes text",
		`{"maybe":""}`:       "tool: maybe: not of the type that the schema names: it takes text",
		`{"page":"2.5"}`:     "tool: page: not of the type that the schema names: it takes text",
		`{"wait":"yes"}`:     "tool: wait: not of the type that the schema names: it takes text",
		`{"list":{}}`:        "tool: list: not of the type that the schema names: it takes text",
		`{"text":["a"]}`:     "tool: text: not of the type that the schema names: it takes text",
	} {
		if got, err := read(arguments); err == nil || kinds.AsError(err).Message != want {
			t.Errorf("%s: %s %v, want %s", arguments, got, err, want)
		}
	}
}

// A model that writes a list and an object as text reaches its peers, and they get the object.
func TestANoticeWrittenAsTextArrives(t *testing.T) {
	d, p := newProgram(t)
	got := d.recordNotices()
	p.must("handed", "acp_notify", args{"to": `["desk"]`, "topic": "build.done", "data": `{"n":1}`})
	n := <-got
	notice, err := kinds.ParsePayload[kinds.Notify](n.Payload)
	if err != nil || n.To.Names[0] != "desk" || string(notice.Data) != `{"n":1}` {
		t.Errorf("to %v: %s %v", n.To, n.Payload, err)
	}
}
