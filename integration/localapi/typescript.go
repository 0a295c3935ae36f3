package localapi

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// WriteTypeScript returns local-api.d.ts: an interface for each object, and one that has the
// params and result of each method.
func WriteTypeScript(d *Document) string {
	var b strings.Builder
	b.WriteString(`// The objects of the local API, as they are on the socket.
//
// Made from docs/local-api.json by go generate ./integration/localapi: do not edit it.
// A daemon that is newer than this file may send more fields and other values.

`)
	writeMethodMap(&b, "Methods", "What a daemon serves: the params and the result of each method.", d.Methods)
	writeMethodMap(&b, "AgentMethods", "What the daemon calls at an agent that has attached.", d.AgentMethods)
	b.WriteString("/** What the daemon sends to who has subscribed. */\nexport interface Notifications {\n")
	for _, n := range d.Notifications {
		fmt.Fprintf(&b, "  /** %s */\n  %s: %s;\n", n.Summary, n.Name, typeScriptType(n.Params))
	}
	b.WriteString("}\n\n/** The codes of errors; a later daemon may have others. */\nexport type Code =\n")
	for _, c := range d.Codes {
		fmt.Fprintf(&b, "  | %q // %s\n", c.Code, c.Raised)
	}
	b.WriteString("  | (string & {});\n")
	for _, p := range d.Components.Schemas {
		b.WriteString("\n")
		if p.Schema.Description != "" {
			fmt.Fprintf(&b, "/** %s */\n", p.Schema.Description)
		}
		if len(p.Schema.Enum) > 0 {
			fmt.Fprintf(&b, "export type %s = %s;\n", p.Name, typeScriptType(p.Schema))
			continue
		}
		fmt.Fprintf(&b, "export interface %s {\n", p.Name)
		for _, f := range p.Schema.Properties {
			if f.Schema.Description != "" {
				fmt.Fprintf(&b, "  /** %s */\n", f.Schema.Description)
			}
			mark := "?"
			if slices.Contains(p.Schema.Required, f.Name) {
				mark = ""
			}
			of := typeScriptType(f.Schema)
			if f.Name == "code" && of == "string" {
				of = "Code"
			}
			fmt.Fprintf(&b, "  %s%s: %s;\n", f.Name, mark, of)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

var identifier = regexp.MustCompile(`^[a-z_]+$`)

func writeMethodMap(b *strings.Builder, name, doc string, methods []Method) {
	fmt.Fprintf(b, "/** %s */\nexport interface %s {\n", doc, name)
	for _, m := range methods {
		params, key := "{}", m.Name
		if m.ParamsSchema != nil {
			params = typeScriptType(m.ParamsSchema)
		}
		if !identifier.MatchString(key) {
			key = fmt.Sprintf("%q", key)
		}
		fmt.Fprintf(b, "  /** %s */\n  %s: { params: %s; result: %s };\n", m.Summary, key, params, typeScriptType(m.Result.Schema))
	}
	b.WriteString("}\n\n")
}

// typeScriptType returns the type of a schema.
func typeScriptType(s *Schema) string {
	switch {
	case s.Ref != "":
		return strings.TrimPrefix(s.Ref, schemaPrefix)
	case len(s.Enum) > 0:
		return strings.Join(quoteAll(s.Enum), " | ")
	case len(s.AnyOf) > 0:
		all := make([]string, len(s.AnyOf))
		for i, one := range s.AnyOf {
			all[i] = typeScriptType(one)
		}
		return strings.Join(all, " | ")
	case len(s.Type) == 0:
		return "unknown"
	}
	all := make([]string, len(s.Type))
	for i, t := range s.Type {
		switch t {
		case "integer", "number":
			all[i] = "number"
		case "array":
			all[i] = "Array<" + typeScriptType(s.Items) + ">"
		case "object":
			value := "unknown"
			switch {
			case s.AdditionalProperties != nil:
				value = typeScriptType(s.AdditionalProperties.Schema)
			case s.Description == "empty":
				all[i] = "{}"
				continue
			}
			all[i] = "Record<string, " + value + ">"
		default: // string, boolean, null
			all[i] = t
		}
	}
	return strings.Join(all, " | ")
}
