package message

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds how deep lists and mappings may nest. A valid message has a depth of two.
const maxDepth = 100

func checkUTF8(data []byte) error {
	for i := 0; i < len(data); {
		r, width := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && width == 1 {
			return fmt.Errorf("byte %d is not UTF-8", i)
		}
		i += width
	}
	return nil
}

// LoadYAML reads a file with one YAML document as the reference's library does. It returns nil if
// there is no document. See [FindYAMLMember].
func LoadYAML(data []byte) (*yaml.Node, error) {
	if err := checkUTF8(data); err != nil {
		return nil, err
	}
	return loadYAMLText(data)
}

// loadYAMLText returns the root of the only document in data, or nil. It accepts
// what the reference's YAML library does. The caller has checked that data is UTF-8.
func loadYAMLText(data []byte) (*yaml.Node, error) {
	if i := bytes.IndexFunc(data, func(r rune) bool { return !isYAMLRune(r) }); i >= 0 {
		r, _ := utf8.DecodeRune(data[i:])
		return nil, fmt.Errorf("character %U at byte %d is not allowed: write it as an escape in double quotes", r, i)
	}
	m := yamlMask{text: bytes.TrimPrefix(data, []byte(bom)), next: utf8.MaxRune}
	return m.decodeMasked()
}

// isYAMLRune reports whether a YAML 1.1 file may hold r.
func isYAMLRune(r rune) bool {
	switch {
	case r < 0x20:
		return r == '\t' || r == '\n' || r == '\r'
	case r < 0xa0:
		return r < 0x7f || r == 0x85
	}
	return r != 0xfffe && r != 0xffff
}

// decodeYAMLDocument parses one document and applies the reference's rules for its graph.
func decodeYAMLDocument(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	if err == io.EOF {
		return nil, nil
	}
	if err == nil {
		if err = dec.Decode(&second); err == nil {
			return nil, errors.New("found a second document: one is all that a file may hold")
		}
	}
	if err != io.EOF {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	root := doc.Content[0]
	g := graphChecker{anchors: make(map[string]bool), open: make(map[*yaml.Node]bool)}
	if err := g.checkNode(root, 1); err != nil {
		return nil, err
	}
	return resolveYAMLAlias(root), nil
}

// graphChecker checks the nodes of a document: anchors are unique, no node contains itself, keys
// are scalars.
type graphChecker struct {
	anchors map[string]bool
	open    map[*yaml.Node]bool // anchored nodes that contain the one being checked
}

func (g *graphChecker) checkNode(n *yaml.Node, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("line %d: nested deeper than %d levels", n.Line, maxDepth)
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
		if g.open[n] {
			return fmt.Errorf("line %d: anchor %q contains itself", n.Line, n.Anchor)
		}
		return nil // the node was checked at its anchor
	}
	if n.Anchor != "" {
		if g.anchors[n.Anchor] {
			return fmt.Errorf("line %d: anchor %q is defined twice", n.Line, n.Anchor)
		}
		g.anchors[n.Anchor] = true
	}
	if !isNestedNode(n) {
		return nil
	}
	if n.Anchor != "" {
		g.open[n] = true
		defer delete(g.open, n)
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && isNestedNode(resolveYAMLAlias(child)) {
			return fmt.Errorf("line %d: a list or mapping cannot be a key", child.Line)
		}
		if err := g.checkNode(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func resolveYAMLAlias(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// FindYAMLMember returns the last value of a key, with aliases resolved. It returns nil if n is not
// a mapping or does not have the key.
func FindYAMLMember(n *yaml.Node, key string) (value *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if resolveYAMLAlias(n.Content[i]).Value == key {
			value = resolveYAMLAlias(n.Content[i+1])
		}
	}
	return value
}

func isNestedNode(n *yaml.Node) bool {
	return n != nil && (n.Kind == yaml.SequenceNode || n.Kind == yaml.MappingNode)
}
