package localapi

import (
	"fmt"
	"slices"
	"strings"
)

// pythonKeywords cannot be names of fields in a class.
var pythonKeywords = []string{"and", "as", "class", "def", "for", "from", "global", "if", "import", "in", "is", "not", "or", "pass", "return", "with"}

// errorBases are the built-in exceptions that some codes are as well.
var errorBases = map[string]string{
	"timeout":            "TimeoutError",
	"unreachable":        "ConnectionError",
	"daemon_unavailable": "ConnectionError",
}

// WritePythonTypes returns acpd/types.py: a TypedDict for each object.
func WritePythonTypes(d *Document) string {
	var b strings.Builder
	b.WriteString(`"""The objects of the local API, as they are on the socket.

Made from docs/local-api.json by go generate ./integration/localapi: do not edit it.
A daemon that is newer than this file may send more fields and other values.
"""

from typing import Any, Literal, NotRequired, TypedDict, Union
`)
	for _, p := range d.Components.Schemas { // what is a text comes first: types that name it follow
		if len(p.Schema.Enum) > 0 {
			fmt.Fprintf(&b, "\n%s = %s\n", p.Name, pythonType(p.Schema))
		}
	}
	written := make(map[string]bool)
	var write func(p Property)
	write = func(p Property) { // what it names goes before it
		if written[p.Name] || len(p.Schema.Enum) > 0 {
			return
		}
		written[p.Name] = true
		p.Schema.visitRefs(func(name string) { write(Property{name, d.Components.Schemas.find(name)}) })
		writePythonClass(&b, p)
	}
	for _, p := range d.Components.Schemas {
		write(p)
	}
	return b.String()
}

func writePythonClass(b *strings.Builder, p Property) {
	legal := !slices.ContainsFunc(p.Schema.Properties, func(f Property) bool { return slices.Contains(pythonKeywords, f.Name) })
	if !legal {
		fmt.Fprintf(b, "\n\n%s = TypedDict(\n    %q,\n    {\n", p.Name, p.Name)
	} else {
		fmt.Fprintf(b, "\n\nclass %s(TypedDict):\n", p.Name)
	}
	if legal && p.Schema.Description != "" {
		writeDocString(b, "    ", p.Schema.Description)
		if len(p.Schema.Properties) > 0 {
			b.WriteString("\n")
		}
	}
	for _, f := range p.Schema.Properties {
		of := pythonType(f.Schema)
		if !slices.Contains(p.Schema.Required, f.Name) {
			of = "NotRequired[" + of + "]"
		}
		comment := ""
		if f.Schema.Description != "" {
			comment = "  # " + f.Schema.Description
		}
		if legal {
			fmt.Fprintf(b, "    %s: %s%s\n", f.Name, of, comment)
		} else {
			fmt.Fprintf(b, "        %q: %s,%s\n", f.Name, of, comment)
		}
	}
	if !legal {
		b.WriteString("    },\n)\n")
		if p.Schema.Description != "" {
			writeDocString(b, "", p.Schema.Description)
		}
	} else if len(p.Schema.Properties) == 0 && p.Schema.Description == "" {
		b.WriteString("    pass\n")
	}
}

func writeDocString(b *strings.Builder, indent, text string) {
	fmt.Fprintf(b, "%s\"\"\"%s\"\"\"\n", indent, strings.ReplaceAll(text, `"`, `'`))
}

// pythonType returns the annotation of a schema.
func pythonType(s *Schema) string {
	switch {
	case s.Ref != "":
		return strings.TrimPrefix(s.Ref, schemaPrefix)
	case len(s.Enum) > 0:
		return "Literal[" + strings.Join(quoteAll(s.Enum), ", ") + "]"
	case len(s.AnyOf) > 0:
		all := make([]string, len(s.AnyOf))
		for i, one := range s.AnyOf {
			all[i] = pythonType(one)
		}
		return "Union[" + strings.Join(all, ", ") + "]"
	case len(s.Type) == 0:
		return "Any"
	}
	all := make([]string, len(s.Type))
	for i, t := range s.Type {
		switch t {
		case "string":
			all[i] = "str"
		case "integer":
			all[i] = "int"
		case "number":
			all[i] = "float"
		case "boolean":
			all[i] = "bool"
		case "null":
			all[i] = "None"
		case "array":
			all[i] = "list[" + pythonType(s.Items) + "]"
		case "object":
			value := "Any"
			if s.AdditionalProperties != nil {
				value = pythonType(s.AdditionalProperties.Schema)
			}
			all[i] = "dict[str, " + value + "]"
		default:
			panic("no Python type for " + t)
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return "Union[" + strings.Join(all, ", ") + "]"
}

// WritePythonErrors returns acpd/_codes.py: an exception for each code.
func WritePythonErrors(d *Document) string {
	var b strings.Builder
	b.WriteString(`"""One exception for each error code.

Made from docs/local-api.json by go generate ./integration/localapi: do not edit it.
"""

from ._error import Error
`)
	for _, c := range d.Codes {
		base := "Error"
		if builtin := errorBases[c.Code]; builtin != "" {
			base += ", " + builtin
		}
		fmt.Fprintf(&b, "\n\nclass %s(%s):\n    %s\n\n    code = %q\n", c.Name, base, pythonDoc(c), c.Code)
		if c.Retryable {
			b.WriteString("    retryable = True\n")
		}
	}
	b.WriteString("\n\nBY_CODE: dict[str, type[Error]] = {\n")
	for _, c := range d.Codes {
		fmt.Fprintf(&b, "    %q: %s,\n", c.Code, c.Name)
	}
	b.WriteString("}\n")
	return b.String()
}

func pythonDoc(c Code) string {
	text := strings.ToUpper(c.Raised[:1]) + c.Raised[1:] + "."
	if c.Local {
		text += " Only the daemon here, or this package, raises it."
	}
	return `"""` + text + `"""`
}
