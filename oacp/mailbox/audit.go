package mailbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/acpd/acpd/oacp/message"
)

// AttachAudit records a judgement on signatures in an audit record of the autonomy
// gate, as result.message_auth. It holds the record's lock, which the reference's
// writers take too, and may wait for it; it replaces the file as a whole, and never
// a judgement that is recorded.
func AttachAudit(path string, judgement any) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	lock, err := os.OpenFile(path+".lock", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	data, _, err := readAll(path, 0, message.MaxBytes)
	if err != nil {
		return err
	}
	if data, err = withAuth(data, judgement); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	dir := filepath.Dir(path)
	temp, err := stage(dir, filepath.Base(path), data)
	if err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(temp, info.Mode().Perm()), os.Rename(temp, path)); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return syncDir(dir)
}

// withAuth returns the record with the judgement in it.
func withAuth(data []byte, judgement any) ([]byte, error) {
	var record, second yaml.Node
	records := yaml.NewDecoder(bytes.NewReader(data))
	if err := records.Decode(&record); err != nil && err != io.EOF {
		return nil, err
	}
	if err := records.Decode(&second); err != io.EOF {
		return nil, errors.New("not one document of YAML")
	}
	if err := record.Decode(new(any)); err != nil { // a name that is there twice, for example
		return nil, err
	}
	if record.IsZero() || record.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("not a YAML mapping")
	}
	result := member(record.Content[0], "result")
	if result == nil || result.Kind != yaml.MappingNode {
		return nil, errors.New("audit.result must be a mapping")
	}
	text, err := json.Marshal(judgement, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, err
	}
	var block yaml.Node
	if err := block.Encode(value); err != nil {
		return nil, err
	}
	switch old := member(result, "message_auth"); {
	case old == nil:
		result.Content = append(result.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "message_auth"}, &block)
	case filled(member(old, "status")):
		return nil, errors.New("audit already has a recorded message_auth block: it stays")
	default:
		*old = block
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&record), enc.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// member returns the value of a key, nil if n is no mapping that has it.
func member(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// filled tells a scalar with something in it.
func filled(n *yaml.Node) bool {
	return n != nil && n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" && n.Value != ""
}
