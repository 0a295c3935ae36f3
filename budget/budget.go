// Package budget bounds what peers may cost this daemon: of each resource that a peer
// can use up, how much one may hold, and how much all may hold together.
//
// A [Row] is a line of that table; all of them stand in rows.go. An [Account]
// counts one row, by the peers' keys: a peer is its key, over all of its
// connections. A [Book] opens the accounts and tells a person of them.
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
	"sync"

	"github.com/acpd/acpd/identity"
)

// Unit is what a row counts.
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
}

// Exceeded says that a row of the budget has no room for what a peer wants.
type Exceeded struct {
	Row Row
	All bool // it is the sum over all peers that is used up, and not the peer's own share
}

func (e *Exceeded) Error() string {
	whose, bound := "one peer", e.Row.Peer
	if e.All {
		whose, bound = "all peers together", e.Row.All
	}
	return fmt.Sprintf("budget: %s: %s may hold %s", e.Row.Name, whose, e.Row.Format(bound))
}

// Format writes n in the row's unit, for people.
func (r Row) Format(n int64) string {
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

// Account counts what peers hold of one row. Its methods may be called from any
// goroutine; none blocks.
type Account struct {
	row  Row
	book *Book

	mu      sync.Mutex // guards what follows
	held    map[identity.ID]int64
	sum     int64
	refused map[identity.ID]uint64
}

// Row returns the row that the account counts.
func (a *Account) Row() Row { return a.row }

// Take adds n to what who holds, or returns an [*Exceeded]. The caller gives n back with
// Give.
func (a *Account) Take(who identity.ID, n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.checkRoom(who, n); err != nil {
		a.refused[who]++
		return err
	}
	a.addHeld(who, n)
	return nil
}

// hasRoom reports whether Take would succeed.
func (a *Account) hasRoom(who identity.ID, n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.checkRoom(who, n) == nil
}

// checkRoom returns an [*Exceeded] unless who may hold n more. Callers hold mu.
func (a *Account) checkRoom(who identity.ID, n int64) error {
	held := a.held[who]
	switch {
	case held+n > a.row.Peer:
		return &Exceeded{Row: a.row}
	case a.row.All > 0 && !a.fitsSum(held, n):
		return &Exceeded{Row: a.row, All: true}
	}
	return nil
}

// fitsSum reports whether the sum has room for n more of a peer that holds held. Half of
// the sum is set aside, an equal part for each trusted peer. The other half, and it
// alone, is for what peers hold beyond their part.
func (a *Account) fitsSum(held, n int64) bool {
	if a.sum+n > a.row.All {
		return false
	}
	if a.sum+n <= a.row.All-a.row.All/2 {
		return true // it fits the half that is shared
	}
	part := a.row.All / 2 / a.book.countParts()
	if held+n <= part {
		return true
	}
	beyond := held + n - max(held, part)
	for _, h := range a.held {
		beyond += max(h-part, 0)
	}
	return beyond <= a.row.All-a.row.All/2
}

// Add adds n to what who holds, whatever the bounds say. It counts what is there already,
// as when the daemon starts and counts what it has on disk.
func (a *Account) Add(who identity.ID, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addHeld(who, n)
}

// addHeld adds n, which may be negative, to what who holds. Callers hold mu.
func (a *Account) addHeld(who identity.ID, n int64) {
	a.sum += n
	if a.held[who] += n; a.held[who] == 0 {
		delete(a.held, who)
	}
}

// Give subtracts n from what who holds. It panics if that is less.
func (a *Account) Give(who identity.ID, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held[who] < n {
		panic(fmt.Sprintf("budget: %s: %d given back of %d", a.row.Name, n, a.held[who]))
	}
	a.addHeld(who, -n)
}

// Held returns what who holds.
func (a *Account) Held(who identity.ID) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held[who]
}

// Refuse counts a refusal that the caller has decided, for a row that is not taken with
// Take.
func (a *Account) Refuse(who identity.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused[who]++
}

// Book holds all accounts of a daemon.
type Book struct {
	// Peers returns how many peers are trusted. A sum is shared in so many parts. It must
	// not block. Nil: one.
	Peers func() int

	mu       sync.Mutex
	accounts []*Account // in the order in which they were opened
}

// Open opens the account of a row.
func (b *Book) Open(r Row) *Account {
	a := &Account{row: r, book: b, held: make(map[identity.ID]int64), refused: make(map[identity.ID]uint64)}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accounts = append(b.accounts, a)
	return a
}

// countParts returns into how many parts the half that is set aside is divided.
func (b *Book) countParts() int64 {
	if b.Peers == nil {
		return 1
	}
	return max(int64(b.Peers()), 1)
}

// Rows returns the rows that have an account, in the order in which they were opened.
func (b *Book) Rows() []Row {
	b.mu.Lock()
	defer b.mu.Unlock()
	rows := make([]Row, len(b.accounts))
	for i, a := range b.accounts {
		rows[i] = a.row
	}
	return rows
}

// Usage says what one peer holds of one row.
type Usage struct {
	Row     Row
	Peer    identity.ID
	Held    int64
	Refused uint64 // how often it got no more
}

// Usage returns what peers hold and what they were refused, row by row; in each row, the
// peers that hold most first.
func (b *Book) Usage() []Usage {
	b.mu.Lock()
	accounts := slices.Clone(b.accounts)
	b.mu.Unlock()
	var all []Usage
	for _, a := range accounts {
		all = append(all, a.listUsage()...)
	}
	return all
}

func (a *Account) listUsage() []Usage {
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
	slices.SortFunc(all, func(x, y Usage) int {
		return cmp.Or(cmp.Compare(y.Held, x.Held), slices.Compare(x.Peer[:], y.Peer[:]))
	})
	return all
}

// Forget drops the counts of a peer's refusals, when it is untrusted. What it holds is
// given back by the callers of Take.
func (b *Book) Forget(who identity.ID) {
	b.mu.Lock()
	accounts := slices.Clone(b.accounts)
	b.mu.Unlock()
	for _, a := range accounts {
		a.mu.Lock()
		delete(a.refused, who)
		a.mu.Unlock()
	}
}
