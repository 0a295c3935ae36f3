// Package localapi makes the description of the local API, docs/local-api.json, from the Go types,
// and from the description the types of Python and of TypeScript.
//
// The methods stand in one table (methods.go). The types are those of packages client, kinds and
// wire; their fields, comments and constants come with them.
package localapi

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

const schemaPrefix = "#/components/schemas/"

// describer makes the schemas of types.
type describer struct {
	source  *source
	schemas Properties
}

// Describe returns the description. root is the folder of the repository, whose source has the
// comments.
func Describe(root string) (*Document, error) {
	src, err := readSource(root, "client", "kinds", "wire", "identity")
	if err != nil {
		return nil, err
	}
	d := &describer{source: src}
	doc := &Document{
		OpenRPC: "1.3.2",
		Info: Info{
			Title: "acpd's local API", Version: fmt.Sprint(wire.Version), License: License{"Apache-2.0"},
			Description: "JSON-RPC 2.0 on a unix socket, one object per line; see local-api.md. " +
				"Made from the Go types by go generate ./integration/localapi: do not edit it.",
		},
		Cancel: cancelNotification, ErrorCode: -32000,
		AgentSocket: client.AgentFolder + "/" + client.SocketName, OwnerSocket: client.SocketName,
	}
	for _, c := range daemonCalls {
		doc.Methods = append(doc.Methods, d.describeCall(c, true))
	}
	for _, c := range agentCalls {
		doc.AgentMethods = append(doc.AgentMethods, d.describeCall(c, false))
	}
	for _, c := range daemonNotifications {
		doc.Notifications = append(doc.Notifications, Notification{c.name, c.summary, d.describeShape(c.params, "", false)})
	}
	d.describeType(reflect.TypeFor[kinds.Error]())
	d.describeType(reflect.TypeFor[client.FileSendLine]()) // after the answer of file.send
	d.describeType(reflect.TypeFor[client.FileReport]())   // the data of a notify
	for _, c := range kinds.ListCodes() {
		doc.Codes = append(doc.Codes, Code{string(c.Code), src.findConstName("Code", string(c.Code)), c.Retryable, c.Local, c.Exit, c.Raised})
	}
	slices.SortFunc(d.schemas, func(a, b Property) int { return cmp.Compare(a.Name, b.Name) })
	doc.Components.Schemas = d.schemas
	return doc, nil
}

// describeCall describes a method. The daemon refuses params that it does not know; agents ignore
// them.
func (d *describer) describeCall(c call, closed bool) Method {
	m := Method{
		Name: c.name, Summary: c.summary, ParamStructure: "by-name", Params: []Descriptor{},
		Result: Descriptor{Name: "result", Schema: d.describeShape(c.result, "The result of "+c.name+".", false)},
	}
	if closed {
		m.Callers = c.callers
	}
	if c.params == nil {
		return m
	}
	about := "The params of " + c.name + "."
	if !closed {
		about = "What the daemon sends to an agent with " + c.name + "."
	}
	m.ParamsSchema = d.describeShape(c.params, about, closed)
	whole := d.schemas.find(strings.TrimPrefix(m.ParamsSchema.Ref, schemaPrefix))
	for _, p := range whole.Properties {
		one := *p.Schema
		one.Description = ""
		m.Params = append(m.Params, Descriptor{p.Name, p.Schema.Description, slices.Contains(whole.Required, p.Name), &one})
	}
	slices.SortStableFunc(m.Params, func(a, b Descriptor) int { // required ones come first in OpenRPC
		switch {
		case a.Required == b.Required:
			return 0
		case a.Required:
			return -1
		}
		return 1
	})
	return m
}

// describeShape returns a reference to the schema of a shape, which it makes if need be. If the
// shape has a name of its own, about describes it.
func (d *describer) describeShape(s *shape, about string, closed bool) *Schema {
	if s.empty {
		return &Schema{Type: Types{"object"}, Description: "empty"}
	}
	name := cmp.Or(s.name, schemaName(s.goType))
	ref := &Schema{Ref: schemaPrefix + name}
	if d.schemas.find(name) == nil {
		whole := d.addStruct(name, s.goType, s.payload)
		if s.name != "" {
			whole.Description = about
		}
		if closed {
			whole.AdditionalProperties = new(Others)
		}
	}
	if s.list {
		return &Schema{AnyOf: []*Schema{ref, {Type: Types{"array"}, Items: ref}}}
	}
	return ref
}

func schemaName(t reflect.Type) string {
	if name, ok := schemaNames[t]; ok {
		return name
	}
	return t.Name()
}

// addStruct adds the schema of a struct under a name. payload is what stands in its field of that
// name; nil: anything may.
func (d *describer) addStruct(name string, t reflect.Type, payload reflect.Type) *Schema {
	s := &Schema{Type: Types{"object"}, Description: d.source.describe(t), Required: []string{}}
	d.schemas = append(d.schemas, Property{name, s})
	d.addFields(s, name, t, payload)
	if len(s.Required) == 0 {
		s.Required = nil
	}
	return s
}

// addFields adds the fields of a struct to its schema, those of embedded structs among them.
func (d *describer) addFields(s *Schema, name string, t reflect.Type, payload reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			d.addFields(s, name, f.Type, payload)
			continue
		}
		if !f.IsExported() {
			continue
		}
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		path := name + "." + key
		mayLack := strings.Contains(options, "omitzero") || strings.Contains(options, "omitempty") || optional[path]
		var one *Schema
		switch {
		case f.Type == reflect.TypeFor[wire.Payload]() && key == "payload" && payload != nil:
			one = d.describeType(payload)
		case fieldPayloads[path] != nil:
			one = d.describePayloads(fieldPayloads[path])
		case oneOf[path] != nil:
			one = &Schema{Type: Types{"string"}, Enum: oneOf[path]}
		case objects[path]:
			one = &Schema{Type: Types{"object"}}
		default:
			one = d.describeType(f.Type)
		}
		if nullable[path] || !mayLack && (f.Type.Kind() == reflect.Pointer || f.Type == reflect.TypeFor[client.Time]()) {
			one = &Schema{Type: append(slices.Clone(one.Type), "null"), Format: one.Format, Minimum: one.Minimum}
		}
		ofPayload := f.Type == reflect.TypeFor[wire.Payload]() && payload != nil // the schema says more
		if text := d.source.describeField(t, f.Name, mayLack); text != "" && !ofPayload {
			one = &Schema{Ref: one.Ref, Description: text, Type: one.Type, Format: one.Format, Enum: one.Enum, Minimum: one.Minimum,
				Items: one.Items, AdditionalProperties: one.AdditionalProperties, AnyOf: one.AnyOf}
		}
		s.Properties = append(s.Properties, Property{key, one})
		if !mayLack {
			s.Required = append(s.Required, key)
		}
	}
}

// describePayloads describes a field that holds the payload of one of these types.
func (d *describer) describePayloads(all []reflect.Type) *Schema {
	if len(all) == 1 {
		return d.describeType(all[0])
	}
	s := new(Schema)
	for _, t := range all {
		s.AnyOf = append(s.AnyOf, d.describeType(t))
	}
	return s
}

// describeType returns the schema of a type: for a struct, or a text of few values, a reference.
func (d *describer) describeType(t reflect.Type) *Schema {
	zero := 0
	switch t {
	case reflect.TypeFor[wire.MessageID]():
		return &Schema{Type: Types{"string"}, Format: "uuid"}
	case reflect.TypeFor[identity.ID](), reflect.TypeFor[identity.PQHash]():
		return &Schema{Type: Types{"string"}}
	case reflect.TypeFor[wire.Payload]():
		return &Schema{Type: Types{"object"}}
	case reflect.TypeFor[jsontext.Value]():
		return new(Schema) // anything
	case reflect.TypeFor[time.Time](), reflect.TypeFor[client.Time]():
		return &Schema{Type: Types{"string"}, Format: "date-time"}
	case reflect.TypeFor[client.Recipients]():
		return &Schema{AnyOf: []*Schema{
			{Type: Types{"string"}},
			{Type: Types{"array"}, Items: &Schema{Type: Types{"string"}}, MinItems: 1, MaxItems: client.MaxRecipients},
		}}
	case reflect.TypeFor[client.EventFilter]():
		return &Schema{AnyOf: []*Schema{
			{Type: Types{"boolean"}},
			{Type: Types{"array"}, Items: d.describeType(reflect.TypeFor[client.EventType]())},
		}}
	case reflect.TypeFor[kinds.Code](): // a later daemon may have others
		return &Schema{Type: Types{"string"}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.describeType(t.Elem())
	case reflect.Bool:
		return &Schema{Type: Types{"boolean"}}
	case reflect.Float64:
		return &Schema{Type: Types{"number"}}
	case reflect.Uint64, reflect.Uint32, reflect.Uint:
		return &Schema{Type: Types{"integer"}, Minimum: &zero}
	case reflect.Int, reflect.Int64:
		return &Schema{Type: Types{"integer"}}
	case reflect.Slice, reflect.Array:
		return &Schema{Type: Types{"array"}, Items: d.describeType(t.Elem())}
	case reflect.Map:
		return &Schema{Type: Types{"object"}, AdditionalProperties: &Others{d.describeType(t.Elem())}}
	case reflect.String:
		values := d.source.listConsts(t.Name())
		if t.PkgPath() == "" || len(values) == 0 {
			return &Schema{Type: Types{"string"}}
		}
		if d.schemas.find(t.Name()) == nil {
			d.schemas = append(d.schemas, Property{t.Name(), &Schema{Type: Types{"string"}, Enum: values, Description: d.source.describe(t)}})
		}
		return &Schema{Ref: schemaPrefix + t.Name()}
	case reflect.Struct:
		name := schemaName(t)
		if d.schemas.find(name) == nil {
			d.addStruct(name, t, nil)
		}
		return &Schema{Ref: schemaPrefix + name}
	}
	panic("no schema for " + t.String())
}
