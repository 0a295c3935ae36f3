package identity

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/acpd/acpd/internal/durable"
)

// The trust store's two files. Each is replaced as a whole, and the copy first:
// so a crash leaves each file as it was before some change or after it, and the
// copy never older than the main file.
const (
	trustName     = "trust.yaml"
	trustCopyName = "trust.copy.yaml"

	trustVersion      = 1
	maxTrustFileBytes = 64 << 20
	maxSequence       = 1 << 62

	trustHeader = `# The peers that this daemon trusts, and the keys that it blocks.
# The daemon alone writes this file: an edit makes it invalid (see the last line).
# Use acpctl trust, untrust and peers.
`
	sealPrefix = "# sha256 "
)

// errNewerTrust says that the file is sound but of a newer version, so that it must not be
// repaired.
var errNewerTrust = errors.New("trust store: written by a newer acpd: use that one, or move trust.yaml and trust.copy.yaml away to trust anew")

// trustRecord is the content of a trust file. Sequence is the number of its last change;
// BlockSequence is that of the last change which added a block. Two files show by it
// whether one lacks blocks that the other has.
type trustRecord struct {
	Version       int     `yaml:"version"`
	Sequence      uint64  `yaml:"sequence"`
	BlockSequence uint64  `yaml:"block_sequence"`
	Peers         []Peer  `yaml:"peers,omitempty"`   // sorted by name
	Blocked       []Block `yaml:"blocked,omitempty"` // oldest first
}

// copyForChange returns a copy that the caller may change, with the next sequence number.
func (r trustRecord) copyForChange() trustRecord {
	r.Sequence++
	r.Peers = slices.Clone(r.Peers)
	r.Blocked = slices.Clone(r.Blocked)
	return r
}

// removeID removes the peer or the block that has the id.
func (r *trustRecord) removeID(id ID) {
	r.Peers = slices.DeleteFunc(r.Peers, func(p Peer) bool { return p.ID == id })
	r.Blocked = slices.DeleteFunc(r.Blocked, func(b Block) bool { return b.ID == id })
}

// trustSnapshot is a valid record with indexes. It is never changed, only replaced.
type trustSnapshot struct {
	trustRecord
	byID    map[ID]int     // index in Peers
	byName  map[string]int // index in Peers
	blocked map[ID]int     // index in Blocked
}

func newEmptySnapshot() *trustSnapshot {
	return &trustSnapshot{trustRecord: trustRecord{Version: trustVersion}, blocked: make(map[ID]int)}
}

// newSnapshot checks a record and indexes it.
func newSnapshot(r trustRecord) (*trustSnapshot, error) {
	s := &trustSnapshot{
		trustRecord: r,
		byID:        make(map[ID]int, len(r.Peers)),
		byName:      make(map[string]int, len(r.Peers)),
		blocked:     make(map[ID]int, len(r.Blocked)),
	}
	if len(r.Peers) > maxPeers || len(r.Blocked) > maxBlocked {
		return nil, fmt.Errorf("%d peers and %d blocks", len(r.Peers), len(r.Blocked))
	}
	if r.Sequence > maxSequence || r.BlockSequence > r.Sequence {
		return nil, fmt.Errorf("sequence %d, of blocks %d", r.Sequence, r.BlockSequence)
	}
	for i, b := range r.Blocked {
		if err := b.checkFields(); err != nil {
			return nil, err
		}
		s.blocked[b.ID] = i
	}
	_, zero := s.blocked[ID{}]
	if zero || len(s.blocked) < len(r.Blocked) {
		return nil, errors.New("an empty or repeated block")
	}
	for i, p := range r.Peers {
		if err := p.checkFields(); err != nil {
			return nil, err
		}
		if i > 0 && r.Peers[i-1].Name >= p.Name {
			return nil, fmt.Errorf("peer %s repeated or out of order", p.Name)
		}
		if _, blocked := s.blocked[p.ID]; blocked {
			return nil, fmt.Errorf("peer %s trusted and blocked", p.Name)
		}
		s.byID[p.ID] = i
		s.byName[p.Name] = i
	}
	if len(s.byID) < len(r.Peers) {
		return nil, errors.New("an id under two names")
	}
	return s, nil
}

// encodeFile returns the record as the content of a file, with its checksum.
func (r trustRecord) encodeFile() ([]byte, error) {
	body, err := yaml.Marshal(r)
	if err != nil {
		return nil, err
	}
	return appendChecksum(append([]byte(trustHeader), body...)), nil
}

// appendChecksum appends the last line of a file, by which truncation, damage and edits are
// detected: YAML that is cut between two entries is still valid.
func appendChecksum(text []byte) []byte {
	return fmt.Appendf(text, "%s%x\n", sealPrefix, sha256.Sum256(text))
}

// parseTrustFile checks and parses the content of a file. The error is errNewerTrust if the
// checksum fits and the version is newer.
func parseTrustFile(data []byte) (*trustSnapshot, error) {
	at := bytes.LastIndex(data, []byte(sealPrefix))
	if at < 0 || !bytes.Equal(appendChecksum(bytes.Clone(data[:at])), data) {
		return nil, errors.New("its checksum does not fit: damaged, cut off or edited")
	}
	var version struct {
		Version int `yaml:"version"`
	}
	if err := yaml.Unmarshal(data, &version); err != nil {
		return nil, err
	}
	if version.Version > trustVersion {
		return nil, errNewerTrust
	}
	var r trustRecord
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(&r); err != nil {
		return nil, err
	}
	if err := decoder.Decode(new(yaml.Node)); err != io.EOF {
		return nil, errors.New("more than one document")
	}
	if r.Version != trustVersion {
		return nil, fmt.Errorf("version %d", r.Version)
	}
	for i := range r.Peers {
		r.Peers[i].Since = r.Peers[i].Since.UTC().Truncate(time.Second)
	}
	return newSnapshot(r)
}

// salvageSequences returns the highest sequence numbers that a damaged file still shows, so
// that an older file is not taken for the newest.
func salvageSequences(data []byte) (sequence, blockSequence uint64) {
	for line := range strings.Lines(string(data)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		n, err := strconv.ParseUint(value, 10, 60)
		switch {
		case err != nil:
		case key == "sequence":
			sequence = max(sequence, n)
		case key == "block_sequence":
			blockSequence = max(blockSequence, n)
		}
	}
	return sequence, blockSequence
}

// replaceTrustFiles makes next the content of both files; their names last once the caller has
// synced the folder. What needs space comes first, then two renames. If the second fails, the
// first is undone with old.
func replaceTrustFiles(dir string, old, next trustRecord) error {
	data, err := next.encodeFile()
	if err != nil {
		return err
	}
	main, second := filepath.Join(dir, trustName), filepath.Join(dir, trustCopyName)
	defer os.Remove(tempFileName(main))
	defer os.Remove(tempFileName(second))
	for _, path := range []string{second, main} {
		if err := durable.RewriteFile(tempFileName(path), data, privateMode); err != nil {
			return err
		}
	}
	if err := os.Rename(tempFileName(second), second); err != nil {
		return err
	}
	if err := os.Rename(tempFileName(main), main); err != nil {
		return errors.Join(err, restoreFile(second, old))
	}
	return nil
}

// restoreFile makes old the content of the file again. A file of sequence 0 was not there.
func restoreFile(path string, old trustRecord) error {
	if old.Sequence == 0 {
		return os.Remove(path)
	}
	data, err := old.encodeFile()
	if err != nil {
		return err
	}
	return durable.ReplaceFile(path, tempFileName(path), data, privateMode)
}

// tempFileName returns the path at which a file is written before it is renamed to path. The
// next write replaces what a crash has left there.
func tempFileName(path string) string { return path + ".tmp" }
