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

	trustVersion = 1
	maxTrustFile = 64 << 20
	maxSequence  = 1 << 62

	trustHeader = `# The peers that this daemon trusts, and the keys that it blocks.
# The daemon alone writes this file: an edit makes it invalid (see the last line).
# Use acpctl trust, untrust and peers.
`
	sealPrefix = "# sha256 "
)

// errNewerTrust says that the file is sound and another version's: nothing to
// repair.
var errNewerTrust = errors.New("trust store: written by a newer acpd: use that one, or move trust.yaml and trust.copy.yaml away to trust anew")

// record is the content of a trust file. Sequence counts the changes;
// BlockSequence is the one that last added a block, so that a file shows whether
// it knows the blocks that another one has.
type record struct {
	Version       int     `yaml:"version"`
	Sequence      uint64  `yaml:"sequence"`
	BlockSequence uint64  `yaml:"block_sequence"`
	Peers         []Peer  `yaml:"peers,omitempty"`   // by name
	Blocked       []Block `yaml:"blocked,omitempty"` // oldest first
}

// next returns a copy to be changed, with the next sequence number.
func (r record) next() record {
	r.Sequence++
	r.Peers = slices.Clone(r.Peers)
	r.Blocked = slices.Clone(r.Blocked)
	return r
}

// remove forgets the id, trusted or blocked.
func (r *record) remove(id ID) {
	r.Peers = slices.DeleteFunc(r.Peers, func(p Peer) bool { return p.ID == id })
	r.Blocked = slices.DeleteFunc(r.Blocked, func(b Block) bool { return b.ID == id })
}

// snapshot is a record that is valid and indexed. Nothing changes it any more.
type snapshot struct {
	record
	byID    map[ID]int // index in Peers
	byName  map[string]int
	blocked map[ID]int // index in Blocked
}

func emptySnapshot() *snapshot {
	return &snapshot{record: record{Version: trustVersion}, blocked: make(map[ID]int)}
}

func newSnapshot(r record) (*snapshot, error) {
	s := &snapshot{
		record:  r,
		byID:    make(map[ID]int, len(r.Peers)),
		byName:  make(map[string]int, len(r.Peers)),
		blocked: make(map[ID]int, len(r.Blocked)),
	}
	if len(r.Peers) > maxPeers || len(r.Blocked) > maxBlocked {
		return nil, fmt.Errorf("%d peers and %d blocks", len(r.Peers), len(r.Blocked))
	}
	if r.Sequence > maxSequence || r.BlockSequence > r.Sequence {
		return nil, fmt.Errorf("sequence %d, of blocks %d", r.Sequence, r.BlockSequence)
	}
	for i, b := range r.Blocked {
		if err := b.check(); err != nil {
			return nil, err
		}
		s.blocked[b.ID] = i
	}
	_, zero := s.blocked[ID{}]
	if zero || len(s.blocked) < len(r.Blocked) {
		return nil, errors.New("an empty or repeated block")
	}
	for i, p := range r.Peers {
		if err := p.check(); err != nil {
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

func (r record) encode() ([]byte, error) {
	body, err := yaml.Marshal(r)
	if err != nil {
		return nil, err
	}
	return seal(append([]byte(trustHeader), body...)), nil
}

// seal appends the line that makes truncation, damage and edits visible: YAML
// cut between two entries is still YAML.
func seal(text []byte) []byte {
	return fmt.Appendf(text, "%s%x\n", sealPrefix, sha256.Sum256(text))
}

func parseTrust(data []byte) (*snapshot, error) {
	at := bytes.LastIndex(data, []byte(sealPrefix))
	if at < 0 || !bytes.Equal(seal(bytes.Clone(data[:at])), data) {
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
	var r record
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

// salvage returns the sequence numbers that a damaged file still shows, so that a file
// that is older is not taken for the newest.
func salvage(data []byte) (sequence, blockSequence uint64) {
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

// replaceFiles makes next the content of both files, durably, or leaves them
// with old. What needs space comes first; then two renames, of which the first
// is taken back when the second fails.
func replaceFiles(dir string, old, next record) error {
	data, err := next.encode()
	if err != nil {
		return err
	}
	main, second := filepath.Join(dir, trustName), filepath.Join(dir, trustCopyName)
	defer os.Remove(tempName(main))
	defer os.Remove(tempName(second))
	for _, path := range []string{second, main} {
		if err := durable.Rewrite(tempName(path), data, privateMode); err != nil {
			return err
		}
	}
	if err := os.Rename(tempName(second), second); err != nil {
		return err
	}
	if err := os.Rename(tempName(main), main); err != nil {
		return errors.Join(err, restore(second, old))
	}
	return durable.SyncDir(dir)
}

func restore(path string, old record) error {
	if old.Sequence == 0 {
		return os.Remove(path)
	}
	data, err := old.encode()
	if err != nil {
		return err
	}
	return durable.Replace(path, tempName(path), data, privateMode)
}

// tempName is where a file is written before it gets its name. What a crash leaves there
// is written over.
func tempName(path string) string { return path + ".tmp" }
