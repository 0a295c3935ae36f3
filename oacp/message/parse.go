package message

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// MaxBytes is the size of the largest file that is read.
const MaxBytes = 1 << 20

// Document is a file that parsed: a mapping of fields, of whatever names and shapes.
type Document struct {
	raw    []byte     // the file: the place of a signature depends on its bytes
	root   *yaml.Node // the mapping as it stands in the file, or nil
	fields map[string]*yaml.Node
}

// ParseDocument reads one message file. Every scalar is text, the last of equal keys is used,
// and "<<" is a key like any other. The Document keeps data.
func ParseDocument(data []byte) (*Document, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("over %d bytes", MaxBytes)
	}
	if err := checkUTF8(data); err != nil {
		return nil, err
	}
	root, err := loadYAMLText(data)
	if err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	d := &Document{raw: data, fields: make(map[string]*yaml.Node)}
	if root == nil {
		return d, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("not a mapping of fields")
	}
	d.root = root
	for i := 0; i+1 < len(root.Content); i += 2 {
		d.fields[resolveYAMLAlias(root.Content[i]).Value] = resolveYAMLAlias(root.Content[i+1])
	}
	return d, nil
}
