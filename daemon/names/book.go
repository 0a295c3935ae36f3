// Package names finds the keys that have a name by the certificate of an authority: it asks the relays
// that a daemon uses. An answer is a certificate, and counts if its signature does, whoever gave it.
package names

import (
	"context"
	"errors"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

const (
	lookupTime    = 3 * time.Second        // for the first answer that counts
	gatherTime    = time.Second            // after it, for one of another key
	sharedTime    = time.Hour              // within which an answer of another key makes a name ambiguous
	missingTime   = 2 * time.Second        // how long it counts that nobody has a name, or a key that is not there
	slotTime      = 500 * time.Millisecond // the least time for which a lookup takes a slot
	maxSlots      = 32                     // lookups that ask at a time: 64 a second
	maxLookups    = 256                    // lookups, with those that wait for a slot
	guestShare    = 2                      // guests have one part in so many of slots and lookups
	maxNames      = 1024                   // names that are remembered
	maxKeys       = 4                      // with one name
	maxMissing    = 256                    // names that nobody has
	maxSignatures = 16                     // that one lookup checks of what one relay brings
)

// Relay is where names are asked for.
type Relay interface {
	// Ask hands answers to take until it returns false, or ctx ends. It returns early if it is sure
	// that nobody will answer, with the reason.
	Ask(ctx context.Context, name string, want []byte, take func(answer []byte) bool) error
	// Trouble returns why it carries nothing at the moment, and what to do; both "" as far as is known. It does not
	// block.
	Trouble() (what, remedy string)
}

// Trust says which certificates count. [identity.TrustStore] does.
type Trust interface {
	ListAuthorityKeys(name string) []identity.AuthorityKey
	CheckNamed(raw []byte, name string, now time.Time) (*identity.Certificate, error)
	IsStillGood(c *identity.Certificate, now time.Time) bool
}

// Book has the names that were found, until their certificates end. It is safe for concurrent use.
type Book struct {
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	trust  Trust
	relays func() map[string]Relay // by name; it must not block
	slots  chan struct{}
	guests chan struct{} // slots that guests have taken

	running sync.WaitGroup
	shared  atomic.Int64 // names in found with several keys: without any, nobody takes the lock

	mu      sync.Mutex
	found   map[string]*entry
	missing map[string]missing
	lookups map[string]*lookup
	ofGuest int // of lookups
}

// entry is what is known of a name.
type entry struct {
	keys []heard
}

// heard is a certificate that a lookup found.
type heard struct {
	cert   *identity.Certificate
	at     time.Time // of the last answer
	failed bool      // since then it was not found behind the name
}

// missing is a name that nobody has.
type missing struct {
	err error
	at  time.Time
}

// NewBook returns an empty book. The caller closes it.
func NewBook(trust Trust, relays func() map[string]Relay) *Book {
	ctx, cancel := context.WithCancel(context.Background())
	return &Book{ctx: ctx, cancel: cancel, trust: trust, relays: relays, slots: make(chan struct{}, maxSlots), guests: make(chan struct{}, maxSlots/guestShare),
		found: make(map[string]*entry), missing: make(map[string]missing), lookups: make(map[string]*lookup)}
}

// Close ends the lookups that run, and waits for that. None begins after it.
func (b *Book) Close() {
	b.mu.Lock()
	b.cancel()
	b.mu.Unlock()
	b.running.Wait()
}

// IsAskable reports whether a name is one that relays are asked for: that of an authority that is
// configured.
func (b *Book) IsAskable(name string) bool {
	_, authority, _ := strings.Cut(name, ".")
	return identity.CheckCertifiedName(name) == nil && len(b.trust.ListAuthorityKeys(authority)) > 0
}

// Find returns the certificate of the key that has a name, as in build-7.corp. If it is not known, it
// asks all relays, and takes the first answer that counts; it blocks for 3 s at most, and ends with ctx.
// Callers that want one name at a time share a lookup. Guests, agents in the agents' folder, leave half of all that
// lookups may take to others. The errors are [*identity.SharedNameError]; unreachable,
// delivered no, if nobody answers or ctx ends; and overloaded.
func (b *Book) Find(ctx context.Context, name string, forGuest bool) (*identity.Certificate, error) {
	b.mu.Lock()
	c, err := b.findKnown(name, time.Now())
	if c != nil || err != nil {
		b.mu.Unlock()
		return c, err
	}
	l, err := b.joinOrStart(name, forGuest)
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-l.done:
		return l.cert, l.err
	case <-ctx.Done():
		return nil, newUnreachableError(name, "the call ended before anybody had answered")
	}
}

// CheckShared returns a [*identity.SharedNameError] if several keys have a name, as far as relays were asked for it.
func (b *Book) CheckShared(name string) error {
	if b.shared.Load() == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.found[name]; !ok {
		return nil
	}
	_, err := b.findKnown(name, time.Now())
	if shared, ok := errors.AsType[*identity.SharedNameError](err); ok {
		return shared
	}
	return nil
}

// ForgetMissing has relays asked again for all names that nobody had: what counts here has changed.
func (b *Book) ForgetMissing() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.missing)
}

// findKnown returns what is remembered of a name; both nil: nothing. Callers hold mu.
func (b *Book) findKnown(name string, now time.Time) (*identity.Certificate, error) {
	if e := b.found[name]; e != nil {
		b.forgetEnded(name, e, now)
		switch len(e.keys) {
		case 0:
		case 1:
			return e.keys[0].cert, nil
		default:
			return nil, e.newSharedError(name)
		}
	}
	if m, ok := b.missing[name]; ok && now.Sub(m.at) < missingTime {
		return nil, m.err
	}
	return nil, nil
}

// Doubt says that the key which Find has returned was not there, or did not show that certificate: relays are asked
// for its name again, once its answer is 2 s old. A name that several keys have stays theirs.
func (b *Book) Doubt(c *identity.Certificate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.found[c.Name]; e != nil && len(e.keys) == 1 && e.keys[0].cert.ID == c.ID {
		e.keys[0].failed = true
	}
}

// forgetEnded forgets the keys whose certificates do not count any more, the one that was not there, and all of them if
// they have shared the name for so long that it is to be asked for again. Callers hold mu.
func (b *Book) forgetEnded(name string, e *entry, now time.Time) {
	before := len(e.keys)
	e.keys = slices.DeleteFunc(e.keys, func(k heard) bool { return !b.trust.IsStillGood(k.cert, now) })
	if len(e.keys) > 1 && now.Sub(e.lastHeard()) >= sharedTime || len(e.keys) == 1 && e.keys[0].failed && now.Sub(e.lastHeard()) >= missingTime {
		e.keys = nil
	}
	b.countShared(before, len(e.keys))
	if len(e.keys) == 0 {
		delete(b.found, name)
	}
}

// lastHeard returns when any key last answered for the name.
func (e *entry) lastHeard() (at time.Time) {
	for _, k := range e.keys {
		if k.at.After(at) {
			at = k.at
		}
	}
	return at
}

func (b *Book) countShared(before, after int) {
	if isShared := after > 1; isShared != (before > 1) {
		if isShared {
			b.shared.Add(1)
		} else {
			b.shared.Add(-1)
		}
	}
}

// noteAnswer remembers the answer to a lookup that counts. A key that was heard of more than an hour ago gives way
// to another one.
func (b *Book) noteAnswer(l *lookup, c *identity.Certificate, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(l)
	delete(b.missing, c.Name)
	e := b.found[c.Name]
	if e == nil {
		b.makeRoom()
		e = new(entry)
		b.found[c.Name] = e
	}
	before := len(e.keys)
	if i := slices.IndexFunc(e.keys, func(k heard) bool { return k.cert.ID == c.ID }); i >= 0 {
		e.keys[i].at, e.keys[i].failed = now, false
		if end := e.keys[i].cert.NotAfter; !end.IsZero() && (c.NotAfter.IsZero() || c.NotAfter.After(end)) {
			e.keys[i].cert = c
		}
		return
	}
	e.keys = slices.DeleteFunc(e.keys, func(k heard) bool { return now.Sub(k.at) >= sharedTime || !b.trust.IsStillGood(k.cert, now) })
	if len(e.keys) < maxKeys {
		e.keys = append(e.keys, heard{cert: c, at: now})
	}
	b.countShared(before, len(e.keys))
}

// makeRoom forgets the name that was heard of longest ago, if there are as many as there may be. Callers
// hold mu.
func (b *Book) makeRoom() {
	if len(b.found) < maxNames {
		return
	}
	var oldest string
	var at time.Time
	for name, e := range b.found {
		if heard := e.lastHeard(); oldest == "" || heard.Before(at) {
			oldest, at = name, heard
		}
	}
	b.countShared(len(b.found[oldest].keys), 0)
	delete(b.found, oldest)
}

// noteMissing remembers that nobody has a name. Callers hold mu.
func (b *Book) noteMissing(name string, err error, now time.Time) {
	if len(b.missing) >= maxMissing {
		for other, m := range b.missing {
			if now.Sub(m.at) >= missingTime || len(b.missing) >= maxMissing {
				delete(b.missing, other)
			}
		}
	}
	b.missing[name] = missing{err, now}
}

func (e *entry) newSharedError(name string) *identity.SharedNameError {
	s := &identity.SharedNameError{Name: name}
	for _, k := range e.keys {
		s.IDs = append(s.IDs, k.cert.ID)
	}
	sort.Slice(s.IDs, func(i, j int) bool { return s.IDs[i].Compare(s.IDs[j]) < 0 })
	return s
}

func newUnreachableError(name, why string) *kinds.Error {
	return kinds.Errorf(kinds.Unreachable, "no peer %q is known, and %s", identity.CleanClaim(name), why).WithDelivered(kinds.DeliveredNo)
}
