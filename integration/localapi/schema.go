package localapi

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Document is the file docs/local-api.json: an OpenRPC description, with fields of our own for
// what OpenRPC cannot say.
type Document struct {
	OpenRPC    string     `json:"openrpc"`
	Info       Info       `json:"info"`
	Methods    []Method   `json:"methods"`
	Components Components `json:"components"`

	AgentMethods  []Method       `json:"x-agent-methods"` // what the daemon calls at an attached agent
	Notifications []Notification `json:"x-notifications"` // what the daemon sends to subscribers
	Cancel        string         `json:"x-cancel"`        // the notification that gives up a request, both ways: {"id": …}
	Codes         []Code         `json:"x-codes"`         // of errors
	ErrorCode     int            `json:"x-jsonrpc-error"` // JSON-RPC's code of every error whose data is an ErrorData
	AgentSocket   string         `json:"x-agents-socket"` // below the state directory
	OwnerSocket   string         `json:"x-owners-socket"` // below the state directory
}

// Info is the head of the document.
type Info struct {
	Title       string  `json:"title"`
	Version     string  `json:"version"`
	Description string  `json:"description"`
	License     License `json:"license"`
}

// License names the document's licence.
type License struct {
	Name string `json:"name"`
}

// Components has the schemas.
type Components struct {
	Schemas Properties `json:"schemas"`
}

// Method is one method.
type Method struct {
	Name           string       `json:"name"`
	Summary        string       `json:"summary"`
	ParamStructure string       `json:"paramStructure"`
	Params         []Descriptor `json:"params"`
	Result         Descriptor   `json:"result"`
	Callers        callers      `json:"x-callers,omitzero"` // owner, or agents: these and the owner
	ParamsSchema   *Schema      `json:"x-params,omitzero"`  // all params as one object
}

// Descriptor is a param or a result of OpenRPC.
type Descriptor struct {
	Name     string  `json:"name"`
	Summary  string  `json:"summary,omitzero"`
	Required bool    `json:"required,omitzero"`
	Schema   *Schema `json:"schema"`
}

// Notification is what the daemon sends without waiting for an answer.
type Notification struct {
	Name    string  `json:"name"`
	Summary string  `json:"summary"`
	Params  *Schema `json:"params"`
}

// Code is a row of the table of error codes.
type Code struct {
	Code      string `json:"code"`
	Name      string `json:"name"` // as programs call it
	Retryable bool   `json:"retryable"`
	Local     bool   `json:"local"`
	Exit      int    `json:"exit"`
	Raised    string `json:"raised"`
}

// Schema is a JSON schema, of the few forms that the local API needs.
type Schema struct {
	Ref                  string     `json:"$ref,omitzero"`
	Description          string     `json:"description,omitzero"`
	Type                 Types      `json:"type,omitzero"`
	Format               string     `json:"format,omitzero"`
	Enum                 []string   `json:"enum,omitzero"`
	Minimum              *int       `json:"minimum,omitzero"`
	MinItems             int        `json:"minItems,omitzero"`
	MaxItems             int        `json:"maxItems,omitzero"`
	Items                *Schema    `json:"items,omitzero"`
	Properties           Properties `json:"properties,omitzero"`
	Required             []string   `json:"required,omitzero"`
	AdditionalProperties *Others    `json:"additionalProperties,omitzero"`
	AnyOf                []*Schema  `json:"anyOf,omitzero"`
}

// quoteAll returns texts in quotes, as JSON, Python and TypeScript write them.
func quoteAll(texts []string) []string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = fmt.Sprintf("%q", text)
	}
	return quoted
}

// Others says what else an object may have beside its properties.
type Others struct {
	Schema *Schema // nil: nothing
}

// MarshalJSONTo writes false, or a schema.
func (o Others) MarshalJSONTo(enc *jsontext.Encoder) error {
	if o.Schema == nil {
		return enc.WriteToken(jsontext.False)
	}
	return json.MarshalEncode(enc, o.Schema)
}

// UnmarshalJSONFrom reads false, or a schema.
func (o *Others) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == 'f' {
		return dec.SkipValue()
	}
	o.Schema = new(Schema)
	return json.UnmarshalDecode(dec, o.Schema)
}

// Types is the type of a value, or several of them.
type Types []string

// MarshalJSONTo writes a text, or a list.
func (t Types) MarshalJSONTo(enc *jsontext.Encoder) error {
	if len(t) == 1 {
		return enc.WriteToken(jsontext.String(t[0]))
	}
	return json.MarshalEncode(enc, []string(t))
}

// UnmarshalJSONFrom reads a text, or a list.
func (t *Types) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() == '"' {
		*t = make(Types, 1)
		return json.UnmarshalDecode(dec, &(*t)[0])
	}
	return json.UnmarshalDecode(dec, (*[]string)(t))
}

// Properties are named schemas in their order.
type Properties []Property

// Property is one of them.
type Property struct {
	Name   string
	Schema *Schema
}

// MarshalJSONTo writes an object in the order of the properties.
func (p Properties) MarshalJSONTo(enc *jsontext.Encoder) error {
	if err := enc.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for _, one := range p {
		if err := enc.WriteToken(jsontext.String(one.Name)); err != nil {
			return err
		}
		if err := json.MarshalEncode(enc, one.Schema); err != nil {
			return err
		}
	}
	return enc.WriteToken(jsontext.EndObject)
}

// UnmarshalJSONFrom reads an object and keeps its order.
func (p *Properties) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		one := Property{Name: name.String(), Schema: new(Schema)}
		if err := json.UnmarshalDecode(dec, one.Schema); err != nil {
			return err
		}
		*p = append(*p, one)
	}
	_, err := dec.ReadToken()
	return err
}

// find returns the schema of that name, or nil.
func (p Properties) find(name string) *Schema {
	for _, one := range p {
		if one.Name == name {
			return one.Schema
		}
	}
	return nil
}

// visitRefs calls visit with the name of each schema that s names.
func (s *Schema) visitRefs(visit func(name string)) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		visit(strings.TrimPrefix(s.Ref, schemaPrefix))
	}
	s.Items.visitRefs(visit)
	if s.AdditionalProperties != nil {
		s.AdditionalProperties.Schema.visitRefs(visit)
	}
	for _, one := range s.AnyOf {
		one.visitRefs(visit)
	}
	for _, p := range s.Properties {
		p.Schema.visitRefs(visit)
	}
}

// encode returns the document as it stands in its file.
func (d *Document) encode() ([]byte, error) {
	text, err := json.Marshal(d, jsontext.WithIndent("  "))
	return append(text, '\n'), err
}

// parseDocument reads what encode has written.
func parseDocument(text []byte) (*Document, error) {
	d := new(Document)
	return d, json.UnmarshalRead(bytes.NewReader(text), d, json.RejectUnknownMembers(true))
}
