package identity

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/internal/sealed"
)

// A trustRecord is the content of a trust file, and a trustSnapshot is a valid record with indexes.

// MaxAddrs bounds the number of addresses of one peer.
const MaxAddrs = 8

const (
	maxPeers   = 4096
	maxBlocked = 16384
)

// ErrTrustFull says that 4,096 peers are trusted, the most that a store holds.
var ErrTrustFull = ownwords.Errorf("%d peers are trusted, the most there can be: untrust one first", maxPeers)

// NameTakenError says that a petname belongs to another peer.
type NameTakenError struct {
	Name string
	By   ID
}

func (e *NameTakenError) Error() string {
	return fmt.Sprintf("name %q is taken by %s: choose another", e.Name, e.By.Label())
}

// OwnWords returns the text.
func (e *NameTakenError) OwnWords() string { return e.Error() }

// BlockedError says that a key is blocked. A join does not lift a block,
// [TrustStore.Trust] does.
type BlockedError struct{ ID ID }

func (e *BlockedError) Error() string {
	return fmt.Sprintf("%s was untrusted here: only its full id lifts that, acpctl trust %s", e.ID.Label(), e.ID)
}

// OwnWords returns the text.
func (e *BlockedError) OwnWords() string { return e.Error() }

// PinMismatchError says that a peer shows another post-quantum key than the one that is
// pinned for it.
type PinMismatchError struct{ Name string }

func (e *PinMismatchError) Error() string {
	return fmt.Sprintf("%s shows another post-quantum key than the pinned one: if its owner confirms, untrust it and trust it again", e.Name)
}

// OwnWords returns the text.
func (e *PinMismatchError) OwnWords() string { return e.Error() }

// TrustStore holds the trusted peers, at most 4,096, and the blocked keys. It is safe for
// concurrent use. Reads take no lock and do no I/O; only [TrustStore.NeverSaved] may wait for a
// write.
//
// [TrustStore.Trust], [TrustStore.TrustJoined] and [TrustStore.TrustAll] write the files first: the change takes
// effect only once it is durable, and a failure leaves memory as it was. If what failed is the
// last step, the sync of the folder, or a rename that could not be undone, the files have the
// change until the next Save takes it back; if the process ends before that, the next start has it.
// [TrustStore.Untrust] and [TrustStore.PinPQ] take effect at once; [TrustStore.Save]
// writes them.
type TrustStore struct {
	unsaved pace.Signal // set when current and the files differ, or a write of current has failed

	current atomic.Pointer[trustSnapshot] // what readers see

	filesMu sync.Mutex                    // held while files are written; Untrust, PinPQ and all reads but NeverSaved do not take it
	files   *sealed.Files[*trustSnapshot] // guarded by filesMu

	certified certifiedPeers // peers with a certificate; what current has about a key outranks that

	isMentioned func(name string) bool // nil: no name is
}

// NewMemoryTrustStore returns an empty store without files, for programs that keep trust
// themselves. Its methods, Save too, do no I/O.
func NewMemoryTrustStore() *TrustStore {
	return newTrustStore(&sealed.Files[*trustSnapshot]{Newest: newEmptySnapshot()})
}

func newTrustStore(files *sealed.Files[*trustSnapshot]) *TrustStore {
	t := &TrustStore{unsaved: pace.NewSignal(), files: files, certified: newCertifiedPeers()}
	t.current.Store(files.Newest)
	return t
}

// FindPeer returns the peer with that id: one that the owner trusts, else one that has a certificate
// and is not blocked.
func (t *TrustStore) FindPeer(id ID) (Peer, bool) {
	if p, ok := t.current.Load().findPeer(id); ok {
		return p, true
	}
	return t.findCertified(id)
}

// IsBlocked reports whether [TrustStore.Untrust] blocked the id.
func (t *TrustStore) IsBlocked(id ID) bool {
	_, blocked := t.current.Load().blocked[id]
	return blocked
}

// FindBlock returns the block on an id, and false if the id is not blocked.
func (t *TrustStore) FindBlock(id ID) (Block, bool) {
	s := t.current.Load()
	if i, ok := s.blocked[id]; ok {
		return s.Blocked[i], true
	}
	return Block{}, false
}

// Blocks returns the blocked keys in the order in which they were blocked, the oldest first.
func (t *TrustStore) Blocks() []Block { return slices.Clone(t.current.Load().Blocked) }

// Peers returns the peers that the owner trusts, sorted by name.
func (t *TrustStore) Peers() []Peer { return slices.Clone(t.current.Load().Peers) }

// IsTrusted reports whether the owner trusts a key; that an authority certifies it is not enough.
func (t *TrustStore) IsTrusted(id ID) bool {
	_, ok := t.current.Load().findPeer(id)
	return ok
}

// Len returns how many peers the owner trusts.
func (t *TrustStore) Len() int { return len(t.current.Load().Peers) }

// FindFreeName returns the first of name, name-2, name-3 … that no peer has. If name is a
// valid petname so is the result: name is cut where the number needs room. Another caller
// can take the name first; Trust then returns a [*NameTakenError].
func (t *TrustStore) FindFreeName(name string) string {
	return t.current.Load().findFreeName(name, nil)
}

// IsNameTaken reports whether what a stranger calls itself is the name of a trusted peer, or reads like it.
func (t *TrustStore) IsNameTaken(claim string) bool {
	name := strings.ToLower(strings.TrimSpace(claim))
	return t.FindFreeName(name) != name
}

// NameOf returns the name of a peer. A blocked key keeps its name unless another one has it now. For
// all others it returns the id.
func (t *TrustStore) NameOf(id ID) string {
	if p, ok := t.FindPeer(id); ok {
		return p.Name
	}
	if b, ok := t.FindBlock(id); ok && b.Name != "" && !t.IsNameTaken(b.Name) {
		return b.Name
	}
	return id.String()
}

// KeepFromClaims says which names the owner's settings and rules mention. The owner wrote them for
// one machine, so no other one gets such a name by calling itself so. Call it before the store is shared.
func (t *TrustStore) KeepFromClaims(isMentioned func(name string) bool) { t.isMentioned = isMentioned }

// IsKeptFromClaims reports whether a peer gets a name only if the owner gives it: settings or rules
// mention it, or a blocked key had it.
func (t *TrustStore) IsKeptFromClaims(name string) bool { return t.isKept(t.current.Load(), name) }

func (t *TrustStore) isKept(s *trustSnapshot, name string) bool {
	return t.isMentioned != nil && t.isMentioned(name) || slices.ContainsFunc(s.Blocked, func(b Block) bool { return b.Name == name })
}

// FindNameForClaim returns the petname that a peer gets by what it calls itself, or by its certificate:
// claim, with a number if another peer has that name or [TrustStore.IsKeptFromClaims] keeps it. It
// returns "" if claim cannot be a petname, or if [IsReservedName] keeps it from claims. Another caller
// can take the name first.
func (t *TrustStore) FindNameForClaim(claim string) string {
	return t.findNameForClaim(t.current.Load(), claim)
}

// NeverSaved reports whether there were no files when the store was opened, and nothing was
// saved since. It may wait for a write in progress.
func (t *TrustStore) NeverSaved() bool {
	t.filesMu.Lock()
	defer t.filesMu.Unlock()
	return t.files.Newest.Sequence == 0
}

// Trust makes p trusted, or updates the peer that has its id, lifts a block on that id, and
// returns the peer as stored. If that changes anything, it waits until the files are durable.
//
// An update keeps the fields that p leaves zero. A peer whose block is lifted gets back the
// name and addresses that the block remembers, where p leaves them zero; that name gets a
// number if another peer has it now. A new peer without a name is called "peer-" and its
// label. A name that another id has gives a [*NameTakenError], a full store [ErrTrustFull].
func (t *TrustStore) Trust(p Peer) (Peer, error) {
	return applyChange(t, func(s *trustSnapshot) (trustRecord, Peer, error) { return s.newRecordWithPeer(p) })
}

// TrustJoined trusts a peer that joined by invitation, as [TrustStore.Trust] does, but:
//
//   - A blocked key gets a [*BlockedError], even one that is blocked while TrustJoined
//     writes.
//   - A post-quantum hash other than the pinned one gets a [*PinMismatchError].
//   - A known peer keeps its name. A new one gets p.Name, which the owner chose; if another peer
//     has that name, p.Name with a number that no claim is kept from. Where p.Name is "", it gets the
//     name that [TrustStore.FindNameForClaim] returns for claim in lower case, else "peer-" and its label.
func (t *TrustStore) TrustJoined(p Peer, claim string) (Peer, error) {
	return applyChange(t, func(s *trustSnapshot) (trustRecord, Peer, error) {
		if _, blocked := s.blocked[p.ID]; blocked {
			return trustRecord{}, Peer{}, &BlockedError{ID: p.ID}
		}
		p, given := p, p.Name // this function may run again, with p as it was given
		if i, known := s.byID[p.ID]; known {
			if pin := s.Peers[i].PQ; !pin.IsZero() && !p.PQ.IsZero() && p.PQ != pin {
				return trustRecord{}, Peer{}, &PinMismatchError{Name: s.Peers[i].Name}
			}
			p.Name = ""
		} else if p.Name != "" {
			p.Name = s.findFreeName(p.Name, func(numbered string) bool { return numbered != given && t.isKept(s, numbered) })
		} else {
			p.Name = t.findNameForClaim(s, strings.ToLower(claim))
		}
		return s.newRecordWithPeer(p)
	})
}

// Untrust removes the peer, if it was trusted, and blocks its key until Trust is called with
// it. The block takes effect before Untrust returns. Untrust does no I/O: call
// [TrustStore.Save], or a restart forgets the block. An id that is blocked already is no
// error. The store keeps 16,384 blocks and drops the oldest; that key is then a stranger's.
//
// If the key has a valid certificate, the name in it is blocked too: no certificate with that
// name is valid for any key.
func (t *TrustStore) Untrust(id ID) error {
	if id.IsZero() {
		return ownwords.Errorf("untrust: %w", ErrNobody)
	}
	certified, _ := t.IsCertified(id)
	for {
		s := t.current.Load()
		if i, blocked := s.blocked[id]; blocked {
			t.untrustCertified(s.Blocked[i])
			return nil
		}
		next, err := newSnapshot(s.newRecordWithBlock(id, certified))
		if err != nil {
			return ownwords.Errorf("untrust: %w", err)
		}
		if t.current.CompareAndSwap(s, next) {
			t.unsaved.Set()
			t.untrustCertified(next.Blocked[next.blocked[id]])
			return nil
		}
	}
}

// PinPQ pins the hash of a trusted peer's post-quantum key. If the same hash is pinned it
// does nothing; if another is, it returns a [*PinMismatchError]; an id that is not trusted
// gives an [*UnknownPeerError].
//
// The pin takes effect at once. PinPQ does no I/O, because a hundred peers may connect at
// once; the next change or [TrustStore.Save] writes the pin. One that is lost in a crash is
// set again when the peer next connects.
func (t *TrustStore) PinPQ(id ID, hash PQHash) error {
	for {
		s := t.current.Load()
		i, ok := s.byID[id]
		switch {
		case !ok:
			return t.pinCertified(id, hash, time.Now())
		case hash.IsZero():
			return ownwords.New("pin: no hash given")
		case s.Peers[i].PQ == hash:
			return nil
		case !s.Peers[i].PQ.IsZero():
			return ownwords.Errorf("pin: %w", &PinMismatchError{Name: s.Peers[i].Name})
		}
		next := *s // keeps the indexes: the order of peers stays
		next.Peers = slices.Clone(s.Peers)
		next.Peers[i].PQ = hash
		if t.current.CompareAndSwap(s, &next) {
			t.unsaved.Set()
			return nil
		}
	}
}

// UnsavedSignal returns a channel on which a value comes when [TrustStore.Save] may have
// something to write. It has room for one, and is for one receiver.
func (t *TrustStore) UnsavedSignal() <-chan struct{} { return t.unsaved }

// Save writes to both files what they lack, and waits until it is durable. If they lack nothing
// it writes nothing. If it fails, the next Save or change tries again.
func (t *TrustStore) Save() error {
	return t.writeUntilSaved(func() bool { return t.current.Load() == t.files.Newest }, "save the trust store")
}

// CreateFiles writes the files of a store that does not have them, so that their loss can be detected
// later. They are durable when it returns nil.
func (t *TrustStore) CreateFiles() error {
	return t.writeUntilSaved(func() bool { return t.files.Newest.Sequence > 0 && t.current.Load() == t.files.Newest }, "make the trust store")
}

// applyChange asks apply for the next record and for what is stored in it, writes the record to
// the files of t and makes it current. If the current snapshot was replaced meanwhile it starts
// over, so apply must be repeatable. It writes nothing if apply returns the record that it was
// given.
func applyChange[T any](t *TrustStore, apply func(*trustSnapshot) (trustRecord, T, error)) (none T, _ error) {
	t.filesMu.Lock()
	defer t.filesMu.Unlock()
	for {
		s := t.current.Load()
		next, stored, err := apply(s)
		switch {
		case err != nil:
			return none, ownwords.Errorf("trust: %w", err)
		case next.Sequence == s.Sequence: // nothing changes
			return stored, nil
		}
		written, err := t.writeRecord(next)
		if err != nil {
			return none, ownwords.Errorf("trust: not in effect: %w", err)
		}
		if t.current.CompareAndSwap(s, written) {
			return stored, nil
		}
		t.unsaved.Set() // the files now have a change that readers do not see
	}
}

// writeUntilSaved writes the current snapshot unless isDone says that it is not needed, and
// starts over if the snapshot was replaced meanwhile. An error begins with purpose.
func (t *TrustStore) writeUntilSaved(isDone func() bool, purpose string) error {
	t.filesMu.Lock()
	defer t.filesMu.Unlock()
	for !isDone() {
		s := t.current.Load()
		written, err := t.writeRecord(s.trustRecord)
		if err != nil {
			return ownwords.Errorf("%s: %w", purpose, err)
		}
		if t.current.CompareAndSwap(s, written) {
			return nil
		}
	}
	return nil
}

// writeRecord makes next the content of the files and returns it as a snapshot. It raises
// the sequence number above that of the files, which may hold a change that was abandoned.
// The caller holds filesMu.
func (t *TrustStore) writeRecord(next trustRecord) (*trustSnapshot, error) {
	next.Sequence = max(next.Sequence, t.files.Newest.Sequence+1)
	written, err := newSnapshot(next)
	if err != nil {
		return nil, err
	}
	if err := t.files.Write(written); err != nil {
		t.unsaved.Set() // where a file has the change that was not made, Save takes it back
		return nil, err
	}
	return written, nil
}

// newRecordWithPeer returns the record in which p is trusted, and p as stored in it. If
// nothing would change, it returns s.trustRecord itself.
func (s *trustSnapshot) newRecordWithPeer(p Peer) (trustRecord, Peer, error) {
	i, known := s.byID[p.ID]
	if known {
		p = p.withDefaults(s.Peers[i])
		if p.isEqual(s.Peers[i]) {
			return s.trustRecord, s.Peers[i], nil
		}
	}
	if j, blocked := s.blocked[p.ID]; blocked {
		b := s.Blocked[j]
		if p.Name == "" && b.Name != "" {
			own, _, _ := strings.Cut(b.Name, ".") // what a certificate gave is no petname
			p.Name = s.findFreeName(own, nil)
		}
		if p.Addrs == nil {
			p.Addrs = b.Addrs
		}
	}
	if p.Name == "" {
		p.Name = s.findFreeName("peer-"+p.ID.Label(), nil)
	}
	p = p.prepareToStore()
	if err := p.checkFields(); err != nil {
		return trustRecord{}, Peer{}, err
	}
	if j, taken := s.byName[p.Name]; taken && s.Peers[j].ID != p.ID {
		return trustRecord{}, Peer{}, &NameTakenError{Name: p.Name, By: s.Peers[j].ID}
	}
	if !known && len(s.Peers) >= maxPeers {
		return trustRecord{}, Peer{}, ErrTrustFull
	}
	next := s.copyForChange()
	next.removeID(p.ID)
	at, _ := slices.BinarySearchFunc(next.Peers, p.Name, func(q Peer, name string) int { return strings.Compare(q.Name, name) })
	next.Peers = slices.Insert(next.Peers, at, p)
	return next, p, nil
}

// newRecordWithBlock returns the record in which an id is blocked. name is that of its certificate, ""
// without a valid one.
func (s *trustSnapshot) newRecordWithBlock(id ID, name string) trustRecord {
	block := Block{ID: id, Name: name}
	if i, known := s.byID[id]; known {
		block.Name, block.Addrs = s.Peers[i].Name, s.Peers[i].Addrs
	}
	next := s.copyForChange()
	next.removeID(id)
	next.Blocked = append(next.Blocked, block)
	if n := len(next.Blocked); n > maxBlocked {
		next.Blocked = next.Blocked[n-maxBlocked:]
	}
	next.BlockSequence = next.Sequence
	return next
}

// findNameForClaim does what [TrustStore.FindNameForClaim] says.
func (t *TrustStore) findNameForClaim(s *trustSnapshot, claim string) string {
	if CheckName(claim) != nil || IsReservedName(claim) {
		return ""
	}
	return s.findFreeName(claim, func(name string) bool { return t.isKept(s, name) })
}

// findFreeName returns the first of name, name-2, name-3 … that no peer of s has and that is not
// kept, with name cut where the number needs room. isKept may be nil.
func (s *trustSnapshot) findFreeName(name string, isKept func(name string) bool) string {
	free := name
	for n := 2; ; n++ {
		if _, taken := s.byName[free]; !taken && (isKept == nil || !isKept(free)) {
			return free
		}
		suffix := fmt.Sprintf("-%d", n)
		free = name[:min(len(name), MaxName-len(suffix))] + suffix
	}
}
