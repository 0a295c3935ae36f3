package identity

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/internal/pace"
)

// MaxAddrs is how many addresses one peer may have.
const MaxAddrs = 8

const (
	maxPeers   = 4096
	maxBlocked = 16384
)

// ErrTrustFull says that 4,096 peers are trusted, the most that a store holds.
var ErrTrustFull = fmt.Errorf("%d peers are trusted, the most there can be: untrust one first", maxPeers)

// NameTakenError says that a petname belongs to another peer.
type NameTakenError struct {
	Name string
	By   ID
}

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("name %q is taken by %s: choose another", e.Name, e.By.Label())
}

// BlockedError says that a key was untrusted, which a join does not lift.
type BlockedError struct{ ID ID }

func (e *BlockedError) Error() string {
	return fmt.Sprintf("%s was untrusted here: only its full id lifts that, acpctl trust %s", e.ID.Label(), e.ID)
}

// PinnedError says that a peer has another post-quantum key pinned than it shows.
type PinnedError struct{ Name string }

func (e *PinnedError) Error() string {
	return fmt.Sprintf("%s shows another post-quantum key than the pinned one: if its owner confirms, untrust it and trust it again", e.Name)
}

// TrustStore holds the trusted peers, at most 4,096, and the blocked keys. It is
// safe for concurrent use. Reads take no lock and do no I/O. A change that gives trust is
// in the files before it counts and before the method returns; if it fails, memory and
// files are as they were. A change that ends trust, and a pin, counts at once and waits
// for no file: see [TrustStore.Untrust] and [TrustStore.Save].
type TrustStore struct {
	dir     string      // "" keeps nothing
	unsaved pace.Signal // holds one where something is in memory alone

	// write orders the changes of the files and is held over writing them; neither
	// readers nor what counts at once take it.
	write sync.Mutex
	now   atomic.Pointer[snapshot]
	saved *snapshot // what the files have; under write
}

// NewTrust returns an empty store in memory, for programs that keep trust
// themselves.
func NewTrust() *TrustStore {
	return newTrustStore("", emptySnapshot())
}

func newTrustStore(dir string, s *snapshot) *TrustStore {
	t := &TrustStore{dir: dir, unsaved: pace.NewSignal(), saved: s}
	t.now.Store(s)
	return t
}

// Get returns the trusted peer with that id.
func (t *TrustStore) Get(id ID) (Peer, bool) {
	s := t.now.Load()
	i, ok := s.byID[id]
	if !ok {
		return Peer{}, false
	}
	return s.Peers[i], true
}

// Blocked reports whether [TrustStore.Untrust] blocked the id.
func (t *TrustStore) Blocked(id ID) bool {
	_, ok := t.Block(id)
	return ok
}

// Block returns the block on an id.
func (t *TrustStore) Block(id ID) (Block, bool) {
	s := t.now.Load()
	i, ok := s.blocked[id]
	if !ok {
		return Block{}, false
	}
	return s.Blocked[i], true
}

// Blocks returns the blocked keys, the longest blocked first.
func (t *TrustStore) Blocks() []Block { return slices.Clone(t.now.Load().Blocked) }

// Peers returns the trusted peers by name.
func (t *TrustStore) Peers() []Peer { return slices.Clone(t.now.Load().Peers) }

// Len returns how many peers are trusted.
func (t *TrustStore) Len() int { return len(t.now.Load().Peers) }

// Trust adds the peer or updates it, clears a block on it and returns it as it is now.
// An update keeps the fields that p leaves zero. Clearing a block brings back the name
// and addresses that the block remembers; the name gets a number if another peer has it
// now. A new peer without a name is called "peer-" and its label. A name that another id
// has gives a [*NameTakenError], a full store [ErrTrustFull].
func (t *TrustStore) Trust(p Peer) (Peer, error) {
	return t.applyChange(func(s *snapshot) (record, Peer, error) { return s.withPeer(p) })
}

// TrustJoined trusts a peer that joined by invitation, as [TrustStore.Trust] does, with three
// differences. It lifts no block: a blocked key gets a [*BlockedError], also if Untrust is
// called while the files are written. It replaces no pin: another post-quantum key gets a
// [*PinnedError]. A trusted peer keeps its name; a new one is called claim in lower case,
// if that can be a petname, with a number if another peer has it.
func (t *TrustStore) TrustJoined(p Peer, claim string) (Peer, error) {
	return t.applyChange(func(s *snapshot) (record, Peer, error) {
		if _, blocked := s.blocked[p.ID]; blocked {
			return record{}, Peer{}, &BlockedError{ID: p.ID}
		}
		p := p
		p.Name = ""
		if i, known := s.byID[p.ID]; known {
			if pin := s.Peers[i].PQ; !pin.IsZero() && !p.PQ.IsZero() && p.PQ != pin {
				return record{}, Peer{}, &PinnedError{Name: s.Peers[i].Name}
			}
		} else if name := strings.ToLower(claim); CheckName(name) == nil {
			p.Name = s.freeName(name)
		}
		return s.withPeer(p)
	})
}

// applyChange writes the record that apply makes of the present state, and then makes it
// count. If another change has counted meanwhile, it begins again: so apply always decides
// on the present state.
func (t *TrustStore) applyChange(apply func(*snapshot) (record, Peer, error)) (Peer, error) {
	t.write.Lock()
	defer t.write.Unlock()
	for {
		s := t.now.Load()
		next, p, err := apply(s)
		switch {
		case err != nil:
			return Peer{}, fmt.Errorf("trust: %w", err)
		case next.Sequence == s.Sequence: // nothing changes
			return p, nil
		}
		changed, err := t.writeRecord(next)
		if err != nil {
			return Peer{}, fmt.Errorf("trust: nothing is changed: %w", err)
		}
		if t.now.CompareAndSwap(s, changed) {
			return p, nil
		}
		t.unsaved.Set() // the files have a change that may not count
	}
}

// withPeer returns the record in which p is trusted, and p as it is there; the same
// record if it is so already.
func (s *snapshot) withPeer(p Peer) (record, Peer, error) {
	i, known := s.byID[p.ID]
	if known {
		p = p.over(s.Peers[i])
		if p.equal(s.Peers[i]) {
			return s.record, s.Peers[i], nil
		}
	}
	if j, blocked := s.blocked[p.ID]; blocked {
		b := s.Blocked[j]
		if p.Name == "" && b.Name != "" {
			p.Name = s.freeName(b.Name)
		}
		if p.Addrs == nil {
			p.Addrs = b.Addrs
		}
	}
	if p.Name == "" {
		p.Name = s.freeName("peer-" + p.ID.Label())
	}
	if p.Since.IsZero() {
		p.Since = time.Now()
	}
	p.Since = p.Since.UTC().Truncate(time.Second)
	p.Addrs = slices.Clip(slices.Clone(p.Addrs))
	if err := p.check(); err != nil {
		return record{}, Peer{}, err
	}
	if j, taken := s.byName[p.Name]; taken && s.Peers[j].ID != p.ID {
		return record{}, Peer{}, &NameTakenError{Name: p.Name, By: s.Peers[j].ID}
	}
	if !known && len(s.Peers) >= maxPeers {
		return record{}, Peer{}, ErrTrustFull
	}
	next := s.next()
	next.remove(p.ID)
	next.Peers = append(next.Peers, p)
	slices.SortFunc(next.Peers, func(a, b Peer) int { return strings.Compare(a.Name, b.Name) })
	return next, p, nil
}

// FreeName returns the first of name, name-2, name-3 … that no peer has. Given a
// legal petname it returns one, shortened if the number needs the room. Another caller can
// take the name first, and Trust then says so.
func (t *TrustStore) FreeName(name string) string { return t.now.Load().freeName(name) }

func (s *snapshot) freeName(name string) string {
	free := name
	for n := 2; ; n++ {
		if _, taken := s.byName[free]; !taken {
			return free
		}
		suffix := fmt.Sprintf("-%d", n)
		free = name[:min(len(name), MaxName-len(suffix))] + suffix
	}
}

// Pin sets the hash of a trusted peer's post-quantum key if none is set. The
// same hash again is no error; another one is, and changes nothing.
//
// It counts at once, and is in the files with the next change or [TrustStore.Save]: a
// hundred peers may connect at once, and a pin that a crash undoes is made anew when that
// peer connects again.
func (t *TrustStore) Pin(id ID, hash PQHash) error {
	for {
		s := t.now.Load()
		i, ok := s.byID[id]
		switch {
		case !ok:
			return fmt.Errorf("pin: %w", &UnknownPeerError{Ref: id.String()})
		case hash.IsZero():
			return errors.New("pin: no hash given")
		case s.Peers[i].PQ == hash:
			return nil
		case !s.Peers[i].PQ.IsZero():
			return fmt.Errorf("pin: %w", &PinnedError{Name: s.Peers[i].Name})
		}
		next := *s // with its indexes: nobody changes place
		next.Peers = slices.Clone(s.Peers)
		next.Peers[i].PQ = hash
		if t.now.CompareAndSwap(s, &next) {
			t.unsaved.Set()
			return nil
		}
	}
}

// Unsaved returns the signal that there is something for [TrustStore.Save] to write.
func (t *TrustStore) Unsaved() <-chan struct{} { return t.unsaved }

// Save writes the changes that count and are in no file yet. They are durable in both
// files when Save returns nil; otherwise the next Save or change writes them.
func (t *TrustStore) Save() error {
	t.write.Lock()
	defer t.write.Unlock()
	for {
		s := t.now.Load()
		if s == t.saved {
			return nil
		}
		changed, err := t.writeRecord(s.record)
		if err != nil {
			t.unsaved.Set()
			return fmt.Errorf("save the trust store: %w", err)
		}
		if t.now.CompareAndSwap(s, changed) {
			return nil
		}
	}
}

// IsNew reports whether the store has no files: none were there when it was opened, and
// nothing was written since.
func (t *TrustStore) IsNew() bool {
	t.write.Lock()
	defer t.write.Unlock()
	return t.saved.Sequence == 0
}

// CreateFiles writes the files of a store that has none, so that their loss can be detected
// later. They are durable when it returns nil.
func (t *TrustStore) CreateFiles() error {
	t.write.Lock()
	defer t.write.Unlock()
	if t.saved.Sequence > 0 {
		return nil
	}
	s := t.now.Load()
	changed, err := t.writeRecord(s.record)
	if err != nil {
		return fmt.Errorf("make the trust store: %w", err)
	}
	if !t.now.CompareAndSwap(s, changed) {
		t.unsaved.Set() // what counts meanwhile is in no file
	}
	return nil
}

// Untrust removes the peer, if it was trusted, and blocks its key until Trust is
// called with it. That counts when Untrust returns, and waits for no disk: the caller then
// calls [TrustStore.Save], because a restart before that forgets the block. Of more than
// 16,384 blocks the oldest is dropped: its key becomes a stranger's, which is not trusted
// either.
func (t *TrustStore) Untrust(id ID) error {
	if id.IsZero() {
		return fmt.Errorf("untrust: %w", ErrNobody)
	}
	for {
		s := t.now.Load()
		if _, blocked := s.blocked[id]; blocked {
			return nil
		}
		next, err := newSnapshot(s.withBlock(id))
		if err != nil {
			return fmt.Errorf("untrust: %w", err)
		}
		if t.now.CompareAndSwap(s, next) {
			t.unsaved.Set()
			return nil
		}
	}
}

// withBlock returns the record in which an id is blocked.
func (s *snapshot) withBlock(id ID) record {
	block := Block{ID: id}
	if i, known := s.byID[id]; known {
		block.Name, block.Addrs = s.Peers[i].Name, s.Peers[i].Addrs
	}
	next := s.next()
	next.remove(id)
	next.Blocked = append(next.Blocked, block)
	if n := len(next.Blocked); n > maxBlocked {
		next.Blocked = next.Blocked[n-maxBlocked:]
	}
	next.BlockSequence = next.Sequence
	return next
}

// writeRecord makes next the content of the files. It raises the sequence number if the
// files have one as high, from a change that did not count. The caller holds write.
func (t *TrustStore) writeRecord(next record) (*snapshot, error) {
	next.Sequence = max(next.Sequence, t.saved.Sequence+1)
	changed, err := newSnapshot(next)
	if err != nil {
		return nil, err
	}
	if t.dir != "" {
		if err := replaceFiles(t.dir, t.saved.record, changed.record); err != nil {
			return nil, err
		}
	}
	t.saved = changed
	return changed, nil
}
