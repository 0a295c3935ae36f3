// Package names finds the keys that have a name by the certificate of an authority: it asks the relays
// that a daemon uses. An answer is a certificate, and is valid if its signature is, whoever gave it.
package names

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

const (
	lookupTime    = 3 * time.Second        // for the first valid answer
	askAgainAfter = 2 * time.Second        // since the relays were asked for a name that nobody has, or whose key is not there
	searchTime    = 500 * time.Millisecond // the least time for which a search takes a place
	maxSearches   = 32                     // at a time of the owner's programs, and as many of guests: 64 a second each
	maxNames      = 1024                   // names that are remembered
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

// Trust decides which certificates are valid. [identity.TrustStore] does.
type Trust interface {
	ListAuthorityKeys(name string) []identity.AuthorityKey
	CheckNamed(raw []byte, name string, now time.Time) (*identity.Certificate, error)
	IsStillGood(c *identity.Certificate, now time.Time) bool
}

// Book remembers what the last lookup of each name found. It is safe for concurrent use.
type Book struct {
	trust  Trust
	relays func() map[string]Relay // by name; it must not block

	ownerSearches, guestSearches chan struct{}

	mu    sync.Mutex
	known map[string]entry
}

// entry is the outcome of the last lookup of a name: a certificate, or the reason why it was not found.
type entry struct {
	cert    *identity.Certificate
	err     error
	at      time.Time
	doubted bool // the key was not there, or showed another certificate
}

// NewBook returns an empty book.
func NewBook(trust Trust, relays func() map[string]Relay) *Book {
	return &Book{trust: trust, relays: relays, known: make(map[string]entry),
		ownerSearches: make(chan struct{}, maxSearches), guestSearches: make(chan struct{}, maxSearches)}
}

// IsAskable reports whether a name is one that relays are asked for: that of an authority that is
// configured.
func (b *Book) IsAskable(name string) bool {
	_, authority, _ := strings.Cut(name, ".")
	return identity.CheckCertifiedName(name) == nil && len(b.trust.ListAuthorityKeys(authority)) > 0
}

// BeginSearch blocks until there is a place for one more search for a peer that is not known. It returns false if ctx
// ends before. Guests, agents in the agents' folder, have places of their own. The caller calls end.
func (b *Book) BeginSearch(ctx context.Context, isGuest bool) (end func(), ok bool) {
	places := b.ownerSearches
	if isGuest {
		places = b.guestSearches
	}
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	until := time.Now().Add(searchTime)
	return func() { time.AfterFunc(time.Until(until), func() { <-places }) }, true
}

// Find returns the certificate of the key that has a name, as in build-7.corp. If it is not known, Find
// asks all relays, and takes the first valid answer; it blocks for 3 s at most, and ends with ctx.
// The caller has begun a search. The error is unreachable, delivered no, if nobody answers or ctx ends.
func (b *Book) Find(ctx context.Context, name string) (*identity.Certificate, error) {
	if e, ok := b.recall(name, time.Now()); ok {
		return e.cert, e.err
	}
	asking, stop := context.WithTimeout(ctx, lookupTime)
	defer stop()
	cert, why := b.lookUp(asking, stop, name)
	switch {
	case cert != nil:
		b.remember(name, entry{cert: cert, at: time.Now()})
		return cert, nil
	case ctx.Err() != nil:
		return nil, newUnreachableError(name, "the call ended before anybody had answered")
	}
	err := newUnreachableError(name, why)
	b.remember(name, entry{err: err, at: time.Now()})
	return nil, err
}

// recall returns what is known of a name, and forgets what is out of date.
func (b *Book) recall(name string, now time.Time) (e entry, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok = b.known[name]
	isValid := e.cert != nil && b.trust.IsStillGood(e.cert, now)
	isRecent := now.Sub(e.at) < askAgainAfter
	if ok && (isValid && !e.doubted || isValid && isRecent || e.err != nil && isRecent) {
		return e, true
	}
	delete(b.known, name)
	return entry{}, false
}

// remember keeps what a lookup found. The oldest of too many names is forgotten.
func (b *Book) remember(name string, e entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, isKnown := b.known[name]; !isKnown && len(b.known) >= maxNames {
		oldest := name
		for other, o := range b.known {
			if oldest == name || o.at.Before(b.known[oldest].at) {
				oldest = other
			}
		}
		delete(b.known, oldest)
	}
	b.known[name] = e
}

// Doubt records that the key which Find has returned was not there, or did not show that certificate: relays are asked
// for its name again, once its answer is 2 s old.
func (b *Book) Doubt(c *identity.Certificate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.known[c.Name]; e.cert != nil && e.cert.ID == c.ID {
		e.doubted = true
		b.known[c.Name] = e
	}
}

// Forget forgets all names, since other certificates may be valid now.
func (b *Book) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.known)
}

func newUnreachableError(name, why string) *kinds.Error {
	return kinds.Errorf(kinds.Unreachable, "no peer %q is known, and %s", identity.CleanClaim(name), why).WithDelivered(kinds.DeliveredNo)
}
