package identity

import (
	"slices"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/sealed"
)

const (
	trustName     = "trust.yaml"
	trustCopyName = "trust.copy.yaml"

	trustVersion      = 1
	maxTrustFileBytes = 64 << 20

	trustHeader = `# The peers that this daemon trusts, and the keys that it blocks.
# The daemon alone writes this file: an edit makes it invalid (see the last line).
# Use acpctl trust, untrust and peers.
`
)

// trustFormat is that of the trust store's two files. They are believed only if they show every
// block that was added.
var trustFormat = &sealed.Format[*trustSnapshot]{
	Title: "trust store", Name: trustName, CopyName: trustCopyName,
	Header: trustHeader, Version: trustVersion, MaxBytes: maxTrustFileBytes, RequiredKey: "block_sequence",
	Lost:       "nobody is trusted now",
	LostRemedy: "trust each peer again (acpctl trust), and block again whom you had untrusted",
	Check:      "acpctl peers",
	Parse:      parseTrustRecord, Rescue: rescueBlocks,
}

// OpenTrustStore opens the store in dir: trust.yaml and its copy, trust.copy.yaml.
// If neither is there, the store is empty. It may write, so dir must be locked for one
// process.
//
// The second result is a warning for a person: damage is not an error. A damaged or missing
// trust.yaml is replaced from the copy, but only if no file, even a damaged one, shows that
// blocks were added since. Otherwise, and if both are damaged, no peer is trusted, and the
// blocks that are still known stay. A damaged copy is replaced from trust.yaml. Damaged files
// are kept under another name, which the warning gives.
func OpenTrustStore(dir string) (*TrustStore, error, error) {
	files, warning, err := sealed.Open(dir, trustFormat)
	if err != nil {
		return nil, nil, err
	}
	return newTrustStore(files), warning, nil
}

// InspectTrust returns the peers and blocks that the files in dir show, and the warning that
// OpenTrustStore would give, or nil. It changes nothing and needs no lock.
func InspectTrust(dir string) ([]Peer, []Block, *sealed.Warning, error) {
	s, warning, err := sealed.Inspect(dir, trustFormat)
	if err != nil {
		return nil, nil, nil, err
	}
	return s.Peers, s.Blocked, warning, nil
}

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
	trustRecord `yaml:",inline"`
	byID        map[ID]int     // index in Peers
	byName      map[string]int // index in Peers
	blocked     map[ID]int     // index in Blocked
}

func newEmptySnapshot() *trustSnapshot {
	return &trustSnapshot{trustRecord: trustRecord{Version: trustVersion}, blocked: make(map[ID]int)}
}

// Numbers returns the numbers of the last change, and of the last one that added a block.
func (s *trustSnapshot) Numbers() (sequence, required uint64) { return s.Sequence, s.BlockSequence }

// newSnapshot checks a record and indexes it.
func newSnapshot(r trustRecord) (*trustSnapshot, error) {
	s := &trustSnapshot{
		trustRecord: r,
		byID:        make(map[ID]int, len(r.Peers)),
		byName:      make(map[string]int, len(r.Peers)),
		blocked:     make(map[ID]int, len(r.Blocked)),
	}
	if len(r.Peers) > maxPeers || len(r.Blocked) > maxBlocked {
		return nil, ownwords.Errorf("%d peers and %d blocks", len(r.Peers), len(r.Blocked))
	}
	for i, b := range r.Blocked {
		if err := b.checkFields(); err != nil {
			return nil, err
		}
		s.blocked[b.ID] = i
	}
	_, zero := s.blocked[ID{}]
	if zero || len(s.blocked) < len(r.Blocked) {
		return nil, ownwords.New("an empty or repeated block")
	}
	for i, p := range r.Peers {
		if err := p.checkFields(); err != nil {
			return nil, err
		}
		if i > 0 && r.Peers[i-1].Name >= p.Name {
			return nil, ownwords.Errorf("peer %s repeated or out of order", p.Name)
		}
		if _, blocked := s.blocked[p.ID]; blocked {
			return nil, ownwords.Errorf("peer %s trusted and blocked", p.Name)
		}
		s.byID[p.ID] = i
		s.byName[p.Name] = i
	}
	if len(s.byID) < len(r.Peers) {
		return nil, ownwords.New("an id under two names")
	}
	return s, nil
}

// parseTrustRecord returns the record that decode fills, as a snapshot.
func parseTrustRecord(decode func(record any) error) (*trustSnapshot, error) {
	var r trustRecord
	if err := decode(&r); err != nil {
		return nil, err
	}
	for i := range r.Peers {
		r.Peers[i].Since = r.Peers[i].Since.UTC().Truncate(time.Second)
	}
	return newSnapshot(r)
}

// rescueBlocks returns a snapshot with every block that files show, and no peers.
func rescueBlocks(sound []*trustSnapshot, sequence uint64) *trustSnapshot {
	none := newEmptySnapshot()
	for _, s := range sound {
		for _, b := range s.Blocked {
			if _, known := none.blocked[b.ID]; !known && len(none.Blocked) < maxBlocked {
				none.blocked[b.ID] = len(none.Blocked)
				none.Blocked = append(none.Blocked, b)
			}
		}
	}
	none.Sequence, none.BlockSequence = sequence, sequence
	return none
}
