package identity

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxPeers   = 4096
	maxBlocked = 16384
	maxAddrs   = 8
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

// TrustStore holds the trusted peers, at most 4,096, and the blocked keys. It is
// safe for concurrent use. Reads take no lock and do no I/O. A change is in the
// files before it is seen and before the method returns; a change that fails
// leaves memory and files as they were. Pins alone may wait for [TrustStore.Save].
type TrustStore struct {
	dir    string        // "" keeps nothing
	pinned chan struct{} // holds one where a pin is in memory alone

	// write orders the changes and is, for that, held over writing the files;
	// readers never take it.
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
	t := &TrustStore{dir: dir, pinned: make(chan struct{}, 1), saved: s}
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

// Trust adds the peer or updates it, clears a block on it and returns it as it
// is now. An update keeps what p leaves zero, and clearing a block brings back what
// that remembers, the name with a number if another peer has it now. A new peer without a name becomes
// "peer-" and its label. A name that another id has gives a [*NameTakenError], a
// full store [ErrTrustFull].
func (t *TrustStore) Trust(p Peer) (Peer, error) {
	t.write.Lock()
	defer t.write.Unlock()
	s := t.now.Load()
	i, known := s.byID[p.ID]
	if known {
		p = p.over(s.Peers[i])
		if p.equal(s.Peers[i]) {
			return s.Peers[i], nil
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
		return Peer{}, fmt.Errorf("trust: %w", err)
	}
	if j, taken := s.byName[p.Name]; taken && s.Peers[j].ID != p.ID {
		return Peer{}, fmt.Errorf("trust: %w", &NameTakenError{Name: p.Name, By: s.Peers[j].ID})
	}
	if !known && len(s.Peers) >= maxPeers {
		return Peer{}, fmt.Errorf("trust: %w", ErrTrustFull)
	}

	next := s.next()
	next.remove(p.ID)
	next.Peers = append(next.Peers, p)
	if err := t.commit(next); err != nil {
		return Peer{}, fmt.Errorf("trust: %w", err)
	}
	return p, nil
}

// FreeName returns the first of name, name-2, name-3 … that no peer has. Given a
// legal petname it returns one, shortening it where the number needs the room.
// Without further care another caller can take the name first, and Trust then
// says so.
func (t *TrustStore) FreeName(name string) string { return t.now.Load().freeName(name) }

func (s *snapshot) freeName(name string) string {
	free := name
	for n := 2; ; n++ {
		if _, taken := s.byName[free]; !taken {
			return free
		}
		suffix := fmt.Sprintf("-%d", n)
		free = name[:min(len(name), maxName-len(suffix))] + suffix
	}
}

// Pin sets the hash of a trusted peer's post-quantum key if none is set. The
// same hash again is no error; another one is, and changes nothing.
//
// It counts at once, and is in the files with the next change or [TrustStore.Save]:
// peers may meet by the hundred, and a pin that a crash undoes is made anew when
// that peer comes again.
func (t *TrustStore) Pin(id ID, hash PQHash) error {
	t.write.Lock()
	defer t.write.Unlock()
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
		return fmt.Errorf("pin: %s shows another post-quantum key than the pinned one: if its owner confirms, untrust it and trust it again",
			s.Peers[i].Name)
	}
	next := *s // with its indexes: nobody changes place
	next.Peers = slices.Clone(s.Peers)
	next.Peers[i].PQ = hash
	t.now.Store(&next)
	select {
	case t.pinned <- struct{}{}:
	default:
	}
	return nil
}

// Pinned is sent to when there is something for [TrustStore.Save] to write.
func (t *TrustStore) Pinned() <-chan struct{} { return t.pinned }

// Save writes the pins that no file has yet. What it cannot write it leaves to the
// next Save or change.
func (t *TrustStore) Save() error {
	t.write.Lock()
	defer t.write.Unlock()
	s := t.now.Load()
	if s == t.saved {
		return nil
	}
	if err := t.commit(s.next()); err != nil {
		return fmt.Errorf("save pins: %w", err)
	}
	return nil
}

// Untrust removes the peer, if it was trusted, and blocks its key until Trust is
// called with it. The block is durable in both files when Untrust returns nil.
// Of more than 16,384 blocks the oldest is dropped: its key becomes a stranger's,
// which is not trusted either.
func (t *TrustStore) Untrust(id ID) error {
	t.write.Lock()
	defer t.write.Unlock()
	if id.IsZero() {
		return errors.New("untrust: no id given")
	}
	s := t.now.Load()
	if _, blocked := s.blocked[id]; blocked {
		return nil
	}
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
	if err := t.commit(next); err != nil {
		return fmt.Errorf("untrust: %w", err)
	}
	return nil
}

// commit makes next the content of the files and then of memory.
func (t *TrustStore) commit(next record) error {
	slices.SortFunc(next.Peers, func(a, b Peer) int { return strings.Compare(a.Name, b.Name) })
	changed, err := newSnapshot(next)
	if err != nil {
		return err
	}
	if t.dir != "" {
		if err := replaceFiles(t.dir, t.saved.record, changed.record); err != nil {
			return fmt.Errorf("nothing is changed: %w", err)
		}
	}
	t.saved = changed
	t.now.Store(changed)
	return nil
}
