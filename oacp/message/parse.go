package message

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// MaxBytes is the size of the largest file that is read. The reference has this limit for
// verifying, and none for reading.
const MaxBytes = 1 << 20

// Document is a file that parsed: a mapping of fields, of whatever names and shapes.
type Document struct {
	raw    []byte     // the file: the place of a signature depends on its bytes
	root   *yaml.Node // the mapping as it stands in the file; nil if there is none
	fields map[string]*yaml.Node
}

// ParseDocument reads one message file. Every scalar is text, the last of equal keys counts,
// and "<<" is a key like any other. The error is the line that the reference prints,
// but for broken YAML and broken UTF-8, which it explains in words of its own.
// The Document keeps data.
func ParseDocument(data []byte) (*Document, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("failed to read file: larger than %d bytes", MaxBytes)
	}
	if err := checkUTF8(data); err != nil {
		return nil, fmt.Errorf("failed to read file: %w", err)
	}
	root, err := loadYAMLText(data)
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
		d.fields[resolveYAMLAlias(root.Content[i]).Value] = resolveYAMLAlias(root.Content[i+1])
	}
	return d, nil
}
