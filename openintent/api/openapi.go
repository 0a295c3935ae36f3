package api

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// wellKnown describes this server.
type wellKnown struct {
	Name       string   `json:"name"`
	Protocol   string   `json:"protocol"`
	Version    string   `json:"version"`
	Host       string   `json:"host"`
	Endpoints  []string `json:"endpoints"`
	RFCs       []string `json:"supported_rfcs"`
	Partly     []string `json:"partly_supported_rfcs"`
	NotOffered []string `json:"not_offered"`
	OpenAPI    string   `json:"openapi_url"`
}

func getWellKnownDocument(r *request) (any, error) {
	return wellKnown{
		Name: "acpd", Protocol: "OpenIntent", Version: "1.0", Host: r.e.Host(),
		Endpoints: prefixes, RFCs: []string{"RFC-0021"},
		Partly:     []string{"RFC-0001", "RFC-0006", "RFC-0011", "RFC-0012", "RFC-0013", "RFC-0016", "RFC-0018", "RFC-0019", "RFC-0020"},
		NotOffered: []string{"federation", "webhooks", "workflows", "portfolios", "leases other than coordinators'", "plans", "attachments", "costs", "memory", "triggers", "tool grants", "arbitration", "Merkle proofs"},
		OpenAPI:    "/openapi.json",
	}, nil
}

// Message describes a message. The engine writes messages without this type.
type Message struct {
	ID          string                `json:"id"`
	ChannelID   string                `json:"channel_id"`
	Sender      string                `json:"sender"`
	To          *string               `json:"to"`
	Kind        string                `json:"message_type"`
	Correlation *string               `json:"correlation_id"`
	Payload     map[string]any        `json:"payload"`
	Metadata    map[string]any        `json:"metadata"`
	CreatedAt   chain.Time            `json:"created_at"`
	ExpiresAt   chain.Time            `json:"expires_at"`
	Status      string                `json:"status"`
	ReadAt      chain.Time            `json:"read_at"`
	ReadBy      map[string]chain.Time `json:"read_by,omitzero"`
}

// unsent describes a message that has not come to its host.
type unsent struct {
	Message
	Host        string   `json:"host"`
	Seq         int64    `json:"seq"`                // the next page begins after that of the last message
	IntentID    string   `json:"intent_id,omitzero"` // of one to a channel by its name
	ChannelName string   `json:"channel_name,omitzero"`
	Truncated   bool     `json:"truncated,omitzero"`
	Refusal     *Refusal `json:"refusal,omitzero"`
}

// Refusal describes the answer of a host to a message that it did not take.
type Refusal struct {
	Status  int    `json:"status"`
	Error   string `json:"error"`
	Message string `json:"message"`
}

// problem describes the body of an error.
type problem struct {
	Detail  any    `json:"detail"`
	Message string `json:"message"`
	Error   string `json:"error"`
}

func getOpenAPIDocument(r *request) (any, error) { return r.describe(), nil }

// buildOpenAPIDocument describes the API in OpenAPI 3.1, made from the table of routes.
func buildOpenAPIDocument() jsontext.Value {
	d := openAPIBuilder{schemas: make(map[string]any)}
	paths := make(map[string]map[string]any)
	for _, rt := range newRouteTable(nil) {
		path := rt.path
		if path[0] != '/' {
			path = prefixes[0] + path
		}
		if paths[path] == nil {
			paths[path] = make(map[string]any)
		}
		paths[path][strings.ToLower(rt.method)] = d.describeOperation(&rt, path)
	}
	d.schemas["Problem"] = d.describeMembers(reflect.TypeFor[problem]())
	return object.EncodeJSON(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "OpenIntent channels", "version": "1.0.0", "license": map[string]any{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "Agent-to-agent messaging (RFC-0021) and what it needs. Every path below /api/v1/ is served below /v1/ too."},
		"servers":  []any{map[string]any{"url": "/", "description": "where this document is served"}},
		"paths":    paths,
		"security": []any{map[string]any{"key": []any{}}},
		"components": map[string]any{
			"schemas":         d.schemas,
			"securitySchemes": map[string]any{"key": map[string]any{"type": "apiKey", "in": "header", "name": "X-API-Key"}},
			"responses": map[string]any{"Problem": map[string]any{"description": "A refusal",
				"content": map[string]any{"application/json": map[string]any{"schema": newSchemaReference("Problem")}}}},
		},
	})
}

// openAPIBuilder collects the schemas of the OpenAPI document.
type openAPIBuilder struct{ schemas map[string]any }

func (d *openAPIBuilder) describeOperation(rt *route, path string) map[string]any {
	var params []any
	for part := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			params = append(params, map[string]any{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
		}
	}
	for _, name := range rt.query {
		params = append(params, map[string]any{"name": name, "in": "query", "schema": map[string]any{"type": "string"}})
	}
	if strings.Contains(rt.does, "If-Match") {
		params = append(params, map[string]any{"name": "If-Match", "in": "header", "required": true, "schema": map[string]any{"type": "string"}})
	}
	answer := map[string]any{"description": "Done"}
	switch {
	case rt.stream:
		answer["content"] = map[string]any{"text/event-stream": map[string]any{"schema": map[string]any{"type": "string"}}}
	case rt.out != nil:
		answer["content"] = d.describeContent(rt.out)
	}
	op := map[string]any{
		"operationId": formOperationID(rt),
		"summary":     rt.does,
		"responses":   map[string]any{strconv.Itoa(rt.status): answer, "default": map[string]any{"$ref": "#/components/responses/Problem"}},
	}
	if params != nil {
		op["parameters"] = params
	}
	if rt.in != nil {
		op["requestBody"] = map[string]any{"required": rt.method != "POST" || reflect.TypeOf(rt.in).Kind() == reflect.Struct, "content": d.describeContent(rt.in)}
	}
	if rt.public {
		op["security"] = []any{}
	}
	return op
}

// formOperationID names an operation after its method and the words of its path.
func formOperationID(rt *route) string {
	id := strings.ToLower(rt.method)
	for part := range strings.FieldsFuncSeq(rt.path, func(r rune) bool { return strings.ContainsRune("/{}.-", r) }) {
		id += strings.ToUpper(part[:1]) + part[1:]
	}
	return id
}

func (d *openAPIBuilder) describeContent(v any) map[string]any {
	return map[string]any{"application/json": map[string]any{"schema": d.describeType(reflect.TypeOf(v))}}
}

func newSchemaReference(name string) map[string]any {
	return map[string]any{"$ref": "#/components/schemas/" + name}
}

var typeNames = map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer", reflect.Float64: "number"}

func (d *openAPIBuilder) describeType(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[chain.Time]():
		return map[string]any{"type": []any{"string", "null"}, "format": "date-time"}
	case reflect.TypeFor[jsontext.Value]():
		return map[string]any{}
	case reflect.TypeFor[object.AgentRef]():
		return map[string]any{"type": []any{"string", "object"}, "description": "an agent's id or name, or an object with its agent_id and home"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		s := d.describeType(t.Elem())
		if kind, ok := s["type"].(string); ok {
			s["type"] = []any{kind, "null"}
		}
		return s
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		return map[string]any{"type": typeNames[t.Kind()]}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": d.describeType(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": d.describeType(t.Elem())}
	case reflect.Struct:
		name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
		if _, known := d.schemas[name]; !known {
			d.schemas[name] = nil // it may hold itself
			d.schemas[name] = d.describeMembers(t)
		}
		return newSchemaReference(name)
	}
	return map[string]any{}
}

func (d *openAPIBuilder) describeMembers(t reflect.Type) map[string]any {
	properties := make(map[string]any)
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		properties[name] = d.describeType(f.Type)
	}
	return map[string]any{"type": "object", "properties": properties}
}
