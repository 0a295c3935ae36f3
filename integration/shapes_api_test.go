package integration

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// apiSchema is what is read here of a schema in docs/local-api.json.
type apiSchema struct {
	Ref        string               `json:"$ref"`
	Type       any                  `json:"type"` // a text, or several
	Properties map[string]apiSchema `json:"properties"`
	Values     jsontext.Value       `json:"additionalProperties"` // a schema, or false
	Items      *apiSchema           `json:"items"`
	AnyOf      []apiSchema          `json:"anyOf"`
	OneOf      []apiSchema          `json:"oneOf"`
	AllOf      []apiSchema          `json:"allOf"`
}

// apiMethod is a method in docs/local-api.json.
type apiMethod struct {
	Name   string `json:"name"`
	Params []struct {
		Name     string    `json:"name"`
		Required bool      `json:"required"`
		Schema   apiSchema `json:"schema"`
	} `json:"params"`
	Result *struct {
		Schema apiSchema `json:"schema"`
	} `json:"result"`
}

// What methods of the local API take and answer has what it had before, and no method that was
// there wants more than it did.
func TestShapesOfMethods(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/local-api.json")
	if err != nil {
		t.Fatal(err)
	}
	var api struct {
		Methods       []apiMethod `json:"methods"`
		AgentMethods  []apiMethod `json:"x-agent-methods"`
		Notifications []struct {
			Name   string    `json:"name"`
			Params apiSchema `json:"params"`
		} `json:"x-notifications"`
		Components struct {
			Schemas map[string]apiSchema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &api); err != nil {
		t.Fatal(err)
	}
	all := make(shapes)
	for side, methods := range map[string][]apiMethod{"daemon": api.Methods, "agent": api.AgentMethods} {
		if len(methods) == 0 {
			t.Errorf("%s: no methods", side)
		}
		for _, m := range methods {
			for _, p := range m.Params {
				all.addSchema(side+" "+m.Name+" params", "."+p.Name, p.Schema, api.Components.Schemas, nil)
				if p.Required {
					all.addLine(side+" "+m.Name+" params", "."+p.Name, "required")
				}
			}
			if m.Result != nil {
				all.addSchema(side+" "+m.Name+" result", "", m.Result.Schema, api.Components.Schemas, nil)
			}
		}
	}
	for _, n := range api.Notifications {
		all.addSchema("notification "+n.Name, "", n.Params, api.Components.Schemas, nil)
	}
	const path = "shapes/local-api.txt"
	recorded, _ := os.ReadFile(path)
	for _, line := range all.list() {
		method, isRequired := strings.CutSuffix(line, " required")
		method, _, _ = strings.Cut(method, ": ")
		if isRequired && strings.HasPrefix(method, "daemon ") && strings.Contains(string(recorded), strings.TrimSuffix(method, "params")) && !strings.Contains(string(recorded), line+"\n") {
			t.Fatalf("%s: programs that call the method do not give it: make it optional", line)
		}
	}
	checkShapes(t, path, all.list())
}

// addSchema adds the fields of what a schema describes. The names are those of the schemas that it
// stands in, which are not added again.
func (s shapes) addSchema(of, path string, schema apiSchema, schemas map[string]apiSchema, within []string) {
	if name, ok := strings.CutPrefix(schema.Ref, "#/components/schemas/"); ok {
		if !slices.Contains(within, name) {
			s.addSchema(of, path, schemas[name], schemas, append(slices.Clone(within), name))
		}
		return
	}
	for _, one := range slices.Concat(schema.AnyOf, schema.OneOf, schema.AllOf) {
		s.addSchema(of, path, one, schemas, within)
	}
	switch types := schema.Type.(type) {
	case string:
		s.addLine(of, path, types)
	case []any:
		for _, one := range types {
			s.addLine(of, path, fmt.Sprint(one))
		}
	default:
		if schema.AnyOf == nil && schema.OneOf == nil && schema.AllOf == nil {
			s.addLine(of, path, "any")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		s.addSchema(of, path+"."+name, schema.Properties[name], schemas, within)
	}
	var values apiSchema
	if schema.Values.Kind() == '{' && json.Unmarshal(schema.Values, &values) == nil {
		s.addSchema(of, path+".*", values, schemas, within)
	}
	if schema.Items != nil {
		s.addSchema(of, path+"[]", *schema.Items, schemas, within)
	}
}
