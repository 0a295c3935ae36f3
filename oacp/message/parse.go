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

// MaxBytes is the size of the largest file that is read. The reference has no
// limit for reading, and this one for verifying.
const MaxBytes = 1 << 20

// maxDepth is how deep lists and mappings may nest: every message that is valid has
// a depth of two.
const maxDepth = 100

// Document is a file that parsed: a mapping of fields, of whatever names and shapes.
type Document struct {
	raw    []byte     // what the file holds: the place of a signature is a matter of bytes
	root   *yaml.Node // the mapping as it stands there; nil if the file has none
	fields map[string]*yaml.Node
}

// Parse reads one message file. Every scalar is text, the last of equal keys counts,
// and "<<" is a key like any other. The error is the line that the reference prints,
// except that it explains broken YAML and broken UTF-8 in words of its own.
// The Document keeps data.
func Parse(data []byte) (*Document, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("failed to read file: larger than %d bytes", MaxBytes)
	}
	if err := checkUTF8(data); err != nil {
		return nil, fmt.Errorf("failed to read file: %w", err)
	}
	root, err := load(data)
	if err != nil {
		return nil, fmt.Errorf("YAML parse error: %w", err)
	}
	d := &Document{raw: data, fields: make(map[string]*yaml.Node)}
	if root == nil {
		return d, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("top-level YAML must be a mapping/object")
	}
	d.root = root
	for i := 0; i+1 < len(root.Content); i += 2 {
		d.fields[resolve(root.Content[i]).Value] = resolve(root.Content[i+1])
	}
	return d, nil
}

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

// Load reads another file of the reference's, its one YAML document, as its library
// does; nil if there is none. See [Member].
func Load(data []byte) (*yaml.Node, error) {
	if err := checkUTF8(data); err != nil {
		return nil, err
	}
	return load(data)
}

// load returns the root of the only document in data, nil if there is none. It
// accepts what the reference's YAML library does.
func load(data []byte) (*yaml.Node, error) {
	if i := bytes.IndexFunc(data, func(r rune) bool { return !allowed(r) }); i >= 0 {
		r, _ := utf8.DecodeRune(data[i:])
		return nil, fmt.Errorf("character %U at byte %d is not allowed: write it as an escape in double quotes", r, i)
	}
	m := mask{text: bytes.TrimPrefix(data, []byte(bom)), next: utf8.MaxRune}
	return m.load()
}

// allowed tells the characters that a YAML 1.1 file may hold.
func allowed(r rune) bool {
	switch {
	case r < 0x20:
		return r == '\t' || r == '\n' || r == '\r'
	case r < 0xa0:
		return r < 0x7f || r == 0x85
	}
	return r != 0xfffe && r != 0xffff
}

// compose parses one document and applies the reference's rules for its graph.
func compose(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err == io.EOF {
		return nil, nil
	} else if err != nil {
		return nil, trimYAML(err)
	}
	if err := dec.Decode(&second); err == nil {
		return nil, errors.New("found a second document: one is all that a file may hold")
	} else if err != io.EOF {
		return nil, trimYAML(err)
	}
	root := doc.Content[0]
	g := graph{anchors: make(map[string]bool), open: make(map[*yaml.Node]bool)}
	if err := g.check(root, 1); err != nil {
		return nil, err
	}
	return resolve(root), nil
}

func trimYAML(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
}

// graph checks what a node means: anchors are unique, nothing contains itself, keys
// are scalars.
type graph struct {
	anchors map[string]bool
	open    map[*yaml.Node]bool // anchored nodes that the one being checked is in
}

func (g *graph) check(n *yaml.Node, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("line %d: nested deeper than %d levels", n.Line, maxDepth)
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
		if g.open[n] {
			return fmt.Errorf("line %d: anchor %q contains itself", n.Line, n.Anchor)
		}
		return nil // its anchor stood before it
	}
	if n.Anchor != "" {
		if g.anchors[n.Anchor] {
			return fmt.Errorf("line %d: anchor %q is defined twice", n.Line, n.Anchor)
		}
		g.anchors[n.Anchor] = true
	}
	if !nested(n) {
		return nil
	}
	if n.Anchor != "" {
		g.open[n] = true
		defer delete(g.open, n)
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && nested(resolve(child)) {
			return fmt.Errorf("line %d: a list or mapping cannot be a key", child.Line)
		}
		if err := g.check(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

type pair struct {
	key   string
	value *yaml.Node
}

// pairs lists a mapping as Python's dict keeps it: the first place of a key, its last value.
func pairs(n *yaml.Node) []pair {
	var list []pair
	at := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		p := pair{resolve(n.Content[i]).Value, n.Content[i+1]}
		if j, ok := at[p.key]; ok {
			list[j] = p
			continue
		}
		at[p.key] = len(list)
		list = append(list, p)
	}
	return list
}
