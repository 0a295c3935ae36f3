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
	lockTime = 10 * time.Second // for other programs that write a record
	lockPoll = 20 * time.Millisecond
)

// AddAuditJudgement records a judgement on signatures in an audit record of the autonomy
// gate, as result.message_auth. It holds the record's lock, which the reference's
// writers take too, and waits ten seconds for it. It replaces the file as a whole,
// but never a recorded judgement. If the record would not come back as it was, but
// for the judgement, the file stays and the error says so.
func AddAuditJudgement(path string, judgement any) error {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if _, _, err := readLimitedFile(target, 0, message.MaxBytes); err != nil { // before there is a lock beside it
		return fmt.Errorf("%s: %w", path, err)
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	data, info, err := readLimitedFile(target, 0, message.MaxBytes)
	if err == nil {
		data, err = insertJudgement(data, judgement)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	dir := filepath.Dir(target)
	temp, err := stageFile(dir, filepath.Base(target), data)
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

// lockFile waits for the lock that a file is; closing the file gives it up. The file stays,
// as the reference's does.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, fileMode)
	if err != nil {
		return nil, err
	}
	for began := time.Now(); ; time.Sleep(lockPoll) {
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

// errChanged says that our YAML library and the reference's do not read the record alike.
var errChanged = errors.New("it cannot be written anew without a change to what it holds: write it in a plainer style, without anchors")

// insertJudgement returns the record with the judgement in it.
func insertJudgement(data []byte, judgement any) ([]byte, error) {
	before, err := message.LoadYAML(data)
	if err != nil {
		return nil, err
	}
	if before == nil || before.Kind != yaml.MappingNode {
		return nil, errors.New("not a YAML mapping")
	}
	if result := message.FindYAMLMember(before, "result"); result == nil || result.Kind != yaml.MappingNode {
		return nil, errors.New("audit.result must be a mapping")
	}
	old := message.FindYAMLMember(message.FindYAMLMember(before, "result"), authKey)
	if status := message.FindYAMLMember(old, "status"); status != nil && status.ShortTag() != "!!null" && (status.Kind != yaml.ScalarNode || status.Value != "") {
		return nil, errors.New("audit already has a recorded message_auth block: it stays")
	}
	block, err := toYAMLNode(judgement)
	if err != nil {
		return nil, err
	}
	out, err := rewriteAuditRecord(data, block)
	if err != nil {
		return nil, err
	}
	after, err := message.LoadYAML(out)
	if err != nil || !equalYAMLNodes(block, message.FindYAMLMember(message.FindYAMLMember(after, "result"), authKey)) || !equalYAMLNodes(removeJudgement(before), removeJudgement(after)) {
		return nil, errChanged
	}
	return out, nil
}

// rewriteAuditRecord encodes a record again, with its comments and a judgement in its result.
func rewriteAuditRecord(data []byte, block *yaml.Node) ([]byte, error) {
	var record yaml.Node
	if err := yaml.Unmarshal(data, &record); err != nil {
		return nil, err
	}
	if len(record.Content) != 1 {
		return nil, errChanged
	}
	result := message.FindYAMLMember(record.Content[0], "result")
	if result == nil || result.Kind != yaml.MappingNode {
		return nil, errChanged
	}
	if old := message.FindYAMLMember(result, authKey); old != nil {
		*old = *block
	} else {
		result.Content = append(result.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: authKey}, block)
	}
	unfoldYAMLBlocks(&record)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	err := errors.Join(enc.Encode(&record), enc.Close())
	return out.Bytes(), err
}

// removeJudgement takes the judgement out of a record.
func removeJudgement(record *yaml.Node) *yaml.Node {
	result := message.FindYAMLMember(record, "result")
	for i := 0; i+1 < len(result.Content); i += 2 {
		if result.Content[i].Value == authKey {
			result.Content = slices.Delete(result.Content, i, i+2)
			i -= 2
		}
	}
	return record
}

// toYAMLNode makes a node of a value, as its JSON has it.
func toYAMLNode(v any) (*yaml.Node, error) {
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

// unfoldYAMLBlocks makes literal blocks of folded ones, which the library does not write as it
// reads them.
func unfoldYAMLBlocks(n *yaml.Node) {
	if n.Style&yaml.FoldedStyle != 0 {
		n.Style = yaml.LiteralStyle
	}
	for _, child := range n.Content {
		unfoldYAMLBlocks(child)
	}
}

// equalYAMLNodes reports whether two nodes mean the same, however they are written.
func equalYAMLNodes(a, b *yaml.Node) bool {
	if a.Kind == yaml.AliasNode || b.Kind == yaml.AliasNode {
		return a.Kind == b.Kind && a.Value == b.Value
	}
	return a.Kind == b.Kind && a.ShortTag() == b.ShortTag() && a.Value == b.Value && a.Anchor == b.Anchor && slices.EqualFunc(a.Content, b.Content, equalYAMLNodes)
}
