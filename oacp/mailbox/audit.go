package mailbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/oacp/message"
)

const (
	lockTime = 10 * time.Second // for whoever else writes a record
	lockLook = 20 * time.Millisecond
)

// AttachAudit records a judgement on signatures in an audit record of the autonomy
// gate, as result.message_auth. It holds the record's lock, which the reference's
// writers take too, and waits ten seconds for it; it replaces the file as a whole,
// and never a judgement that is recorded. A record that would not come back as it
// was, but for the judgement, stays.
func AttachAudit(path string, judgement any) error {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if _, _, err := readAll(target, 0, message.MaxBytes); err != nil { // before there is a lock beside it
		return fmt.Errorf("%s: %w", path, err)
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	data, info, err := readAll(target, 0, message.MaxBytes)
	if err == nil {
		data, err = withAuth(data, judgement)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	dir := filepath.Dir(target)
	temp, err := stage(dir, filepath.Base(target), data)
	if err != nil {
		return err
	}
	if err = os.Chmod(temp, info.Mode().Perm()); err == nil {
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Getuid() {
			err = os.Lchown(temp, int(owner.Uid), int(owner.Gid))
		}
	}
	if err == nil {
		err = os.Rename(temp, target)
	}
	if err != nil {
		os.Remove(temp)
		return err
	}
	return durable.SyncDir(dir)
}

// lockFile waits for a lock. The file stays, as the reference's does.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, fileMode)
	if err != nil {
		return nil, err
	}
	for began := time.Now(); ; time.Sleep(lockLook) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			err = fmt.Errorf("lock %s: %w", path, err)
		case time.Since(began) > lockTime:
			err = fmt.Errorf("lock %s: another process has held it for %s: end that, or try again", path, lockTime)
		default:
			continue
		}
		f.Close()
		return nil, err
	}
}

const authKey = "message_auth"

// errChanged stands for all that the two YAML libraries, ours and the reference's, do
// not see alike.
var errChanged = errors.New("it cannot be written anew without a change to what it holds: write it in a plainer style, without anchors")

// withAuth returns the record with the judgement in it.
func withAuth(data []byte, judgement any) ([]byte, error) {
	before, err := message.Load(data)
	if err != nil {
		return nil, err
	}
	if before == nil || before.Kind != yaml.MappingNode {
		return nil, errors.New("not a YAML mapping")
	}
	if result := message.Member(before, "result"); result == nil || result.Kind != yaml.MappingNode {
		return nil, errors.New("audit.result must be a mapping")
	}
	old := message.Member(message.Member(before, "result"), authKey)
	if status := message.Member(old, "status"); status != nil && status.ShortTag() != "!!null" && (status.Kind != yaml.ScalarNode || status.Value != "") {
		return nil, errors.New("audit already has a recorded message_auth block: it stays")
	}
	block, err := asYAML(judgement)
	if err != nil {
		return nil, err
	}
	out, err := attach(data, block)
	if err != nil {
		return nil, err
	}
	after, err := message.Load(out)
	if err != nil || !same(block, message.Member(message.Member(after, "result"), authKey)) || !same(bare(before), bare(after)) {
		return nil, errChanged
	}
	return out, nil
}

// attach writes a record anew, with its comments and a block in its result.
func attach(data []byte, block *yaml.Node) ([]byte, error) {
	var record yaml.Node
	if err := yaml.Unmarshal(data, &record); err != nil {
		return nil, err
	}
	if len(record.Content) != 1 {
		return nil, errChanged
	}
	result := message.Member(record.Content[0], "result")
	if result == nil || result.Kind != yaml.MappingNode {
		return nil, errChanged
	}
	if old := message.Member(result, authKey); old != nil {
		*old = *block
	} else {
		result.Content = append(result.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: authKey}, block)
	}
	plain(&record)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	err := errors.Join(enc.Encode(&record), enc.Close())
	return out.Bytes(), err
}

// bare takes the judgement out of a record.
func bare(record *yaml.Node) *yaml.Node {
	result := message.Member(record, "result")
	for i := 0; i+1 < len(result.Content); i += 2 {
		if result.Content[i].Value == authKey {
			result.Content = slices.Delete(result.Content, i, i+2)
			i -= 2
		}
	}
	return record
}

// asYAML makes of a value what its JSON says.
func asYAML(v any) (*yaml.Node, error) {
	text, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, err
	}
	n := new(yaml.Node)
	return n, n.Encode(value)
}

// plain does without folded lines, which the library does not write as it reads them.
func plain(n *yaml.Node) {
	if n.Style&yaml.FoldedStyle != 0 {
		n.Style = yaml.LiteralStyle
	}
	for _, child := range n.Content {
		plain(child)
	}
}

// same reports whether two nodes mean the same, however they are written.
func same(a, b *yaml.Node) bool {
	if a.Kind == yaml.AliasNode || b.Kind == yaml.AliasNode {
		return a.Kind == b.Kind && a.Value == b.Value
	}
	return a.Kind == b.Kind && a.ShortTag() == b.ShortTag() && a.Value == b.Value && a.Anchor == b.Anchor && slices.EqualFunc(a.Content, b.Content, same)
}
