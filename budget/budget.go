// Package budget bounds what peers may cost this daemon: of each resource that a peer
// can use up, how much one may hold, and how much all may hold together.
//
// A [Row] is a line of that table; all rows are in rows.go. An [Account]
// holds what each peer has of one row: a peer is its key, over all of its
// connections. A [Book] opens the accounts and shows them to a person.
//
// Bounds are shares, not rates: a peer may take all of its share at once. And nothing is
// first come, first served: one half of each sum is set aside for the trusted peers in
// equal parts, so that peers that have taken much leave something to those that come later.
package budget

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"sync"

	"github.com/acpd/acpd/identity"
)

// Unit names what a row bounds.
type Unit string

const (
	Bytes     Unit = "bytes"
	BytesFree Unit = "bytes_free" // on the disk, which peers must leave
	Count     Unit = ""
)

// Row is one line of the budget.
type Row struct {
	Name string // as refusals and acpctl status --budget name it
	Unit Unit
	Peer int64 // what one peer may hold
	All  int64 // what all peers together may hold; 0: no more than each of them

	What   string // is counted, for people
	Remedy string // how it is freed, for people; "": it frees itself
}

// ExceededError says that a row of the budget has no room for what a peer wants.
type ExceededError struct {
	Row Row
	All bool // it is the sum over all peers that is used up, and not the peer's own share
}

func (e *ExceededError) Error() string {
	whose, bound := "one peer", e.Row.Peer
	if e.All {
		whose, bound = "all peers together", e.Row.All
	}
	return fmt.Sprintf("budget: %s: %s may hold %s", e.Row.Name, whose, e.Row.FormatAmount(bound))
}

// OwnWords returns the text.
func (e *ExceededError) OwnWords() string { return e.Error() }

// FormatAmount writes n in the row's unit, for people.
func (r Row) FormatAmount(n int64) string {
	if r.Unit != Bytes {
		return fmt.Sprint(n)
	}
	for _, u := range []struct {
		name string
		bits uint
	}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if n >= 1<<u.bits {
			if n&(1<<u.bits-1) == 0 {
				return fmt.Sprintf("%d %s", n>>u.bits, u.name)
			}
			return fmt.Sprintf("%.1f %s", float64(n)/float64(int64(1)<<u.bits), u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// Account holds what peers have of one row. Its methods may be called from any
// goroutine; none blocks.
type Account struct {
	row  Row
	book *Book

	mu      sync.Mutex // guards what follows
	held    map[identity.ID]int64
	sum     int64
	names   map[identity.ID]string // of holders that the owner does not trust
	byName  map[string]int64       // what all holders with such a name hold
	refused map[identity.ID]uint64

	allRefused uint64 // also those of peers that are forgotten
}

// Row returns the row of the account.
func (a *Account) Row() Row { return a.row }

// Reserve adds n to what who holds, or returns an [*ExceededError]. The caller gives n back with
// Release.
func (a *Account) Reserve(who identity.ID, n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.checkRoom(who, n); err != nil {
		a.countRefusal(who)
		return err
	}
	a.adjustHeld(who, n)
	return nil
}

// hasRoom reports whether Reserve would succeed.
func (a *Account) hasRoom(who identity.ID, n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.checkRoom(who, n) == nil
}

// AddUnchecked adds n to what who holds, whatever the bounds say. It is for what is there already,
// as when the daemon starts and finds it on disk.
func (a *Account) AddUnchecked(who identity.ID, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.adjustHeld(who, n)
}

// adjustHeld adds n, which may be negative, to what who holds. Callers hold mu.
func (a *Account) adjustHeld(who identity.ID, n int64) {
	a.sum += n
	if a.held[who] == 0 && n > 0 {
		a.noteName(who)
	}
	if a.held[who] += n; a.held[who] == 0 {
		delete(a.held, who)
	}
	a.adjustHeldByName(who, n)
}

// Release subtracts n from what who holds. It panics if that is less.
func (a *Account) Release(who identity.ID, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[who] < n {
		panic(fmt.Sprintf("budget: %s: %d given back of %d", a.row.Name, n, a.held[who]))
	}
	a.adjustHeld(who, -n)
}

// HeldBy returns what who holds.
func (a *Account) HeldBy(who identity.ID) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[who]
}

// CountRefusal adds a refusal that the caller has decided, for a row that is not reserved with
// Reserve.
func (a *Account) CountRefusal(who identity.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.countRefusal(who)
}

// countRefusal adds a refusal. Callers hold mu.
func (a *Account) countRefusal(who identity.ID) {
	a.refused[who]++
	a.allRefused++
}

// Book holds all accounts of a daemon.
type Book struct {
	// Peers returns how many peers are trusted. A sum is shared in so many parts. It must
	// not block. Nil: one.
	Peers func() int

	// Certified reports whether a peer is certified and not trusted by the owner, and the name in its certificate;
	// "" for one that has left something here, and has no certificate now. All keys with one name hold
	// together what one peer may, and have no part in the half that is set aside. It must not
	// block, nor call the book. It may be nil.
	Certified func(who identity.ID) (name string, ok bool)

	mu       sync.Mutex
	accounts []*Account // in the order in which they were opened
}

// OpenAccount opens the account of a row.
func (b *Book) OpenAccount(r Row) *Account {
	a := &Account{row: r, book: b, held: make(map[identity.ID]int64), refused: make(map[identity.ID]uint64)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accounts = append(b.accounts, a)
	return a
}

// ListRows returns the rows that have an account, in the order in which they were opened.
func (b *Book) ListRows() []Row {
	var rows []Row
	for _, a := range b.listAccounts() {
		rows = append(rows, a.row)
	}
	return rows
}

func (b *Book) listAccounts() []*Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.accounts)
}

// Usage says what one peer holds of one row.
type Usage struct {
	Row     Row
	Peer    identity.ID
	Held    int64
	Refused uint64 // how often it got no more
}

// ListUsage returns what peers hold and what they were refused, row by row; in each row, the
// peers that hold most first.
func (b *Book) ListUsage() []Usage {
	var all []Usage
	for _, a := range b.listAccounts() {
		all = append(all, a.listPeerUsage()...)
	}
	return all
}

// Total says what all peers together hold of one row.
type Total struct {
	Row     Row
	Held    int64
	Most    int64  // what the peer holds that holds most
	Refused uint64 // how often a peer got no more; it never falls
}

// ListTotals returns what all peers together hold and were refused, row by row.
func (b *Book) ListTotals() []Total {
	var all []Total
	for _, a := range b.listAccounts() {
		all = append(all, a.sumUp())
	}
	return all
}

func (a *Account) sumUp() Total {
	a.mu.Lock()
	defer a.mu.Unlock()
	total := Total{Row: a.row, Held: a.sum, Refused: a.allRefused}
	for _, held := range a.held {
		total.Most = max(total.Most, held)
	}
	return total
}

func (a *Account) listPeerUsage() []Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	who := maps.Clone(a.refused)
	for id := range a.held {
		who[id] += 0
	}
	all := make([]Usage, 0, len(who))
	for id, refused := range who {
		all = append(all, Usage{Row: a.row, Peer: id, Held: a.held[id], Refused: refused})
	}
	sort.Slice(all, func(i, j int) bool {
		x, y := &all[i], &all[j]
		return cmp.Or(cmp.Compare(y.Held, x.Held), x.Peer.Compare(y.Peer)) < 0
	})
	return all
}

// ForgetRefusals drops the numbers of a peer's refusals, when it is untrusted. What it holds is
// given back by the callers of Reserve.
func (b *Book) ForgetRefusals(who identity.ID) {
	for _, a := range b.listAccounts() {
		a.mu.Lock()
		delete(a.refused, who)
		a.mu.Unlock()
	}
}
