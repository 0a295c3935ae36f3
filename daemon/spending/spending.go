// Package spending keeps what headless runs of agent programs cost: by day, peer and profile,
// on disk, so that a restart forgets nothing.
//
// A run is reserved before it begins, with the most that it may cost, and settled when it is
// over. A reserved amount is treated as spent until it is settled. If it is never settled, it stays
// spent. A day is one of the local calendar.
package spending

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
)

// Limits bound what runs may cost on one day.
type Limits struct {
	Runs    uint64 // of one peer
	Tokens  uint64 // of one peer
	Cost    Money  // of one peer
	CostAll Money  // of all peers together
}

// Money is an amount in millionths of a US dollar.
type Money int64

// maxAmount bounds a single amount: a million dollars, or as many tokens as these have millionths.
const maxAmount = 1e12

// newMoney returns an amount in dollars as Money, rounded up to a millionth. ok is false if it
// is negative, no number, or over a million dollars.
func newMoney(dollars float64) (m Money, ok bool) {
	micros := math.Ceil(math.Round(dollars*1e8) / 100)
	if !(micros >= 0 && micros <= maxAmount) {
		return 0, false
	}
	return Money(micros), true
}

// Dollars returns the amount in US dollars.
func (m Money) Dollars() float64 { return float64(m) / 1e6 }

const (
	// maxDays is how many days are kept, today among them.
	maxDays = 31

	maxOpen = 256 // reservations that can still be settled; the oldest go first
	openFor = 48 * time.Hour
)

// Table is what was spent. Its methods may be called from any goroutine; they wait for the
// disk.
type Table struct {
	db  *store.DB
	now func() time.Time // in the local zone

	mu      sync.Mutex
	refused map[identity.ID]string // why peers were refused last, on that day
	day     string                 // of refused
}

// newTable returns the table in db, whose schema is up to date.
func newTable(db *store.DB) *Table {
	return &Table{db: db, now: time.Now}
}

// Reservation is what a run may cost.
type Reservation struct {
	Peer    identity.ID
	Profile string
	Cost    Money
	Tokens  uint64
}

// checkReservation returns the Reservation that a caller wants, or an error that names the param.
func checkReservation(p *client.ReserveParams) (Reservation, error) {
	cost, ok := newMoney(p.MaxCost)
	switch {
	case !isProfileName(p.Profile):
		return Reservation{}, kinds.Errorf(kinds.Invalid, "%s: profile: %.64q: use lower-case letters, digits and hyphens, at most %d", client.MethodBudgetReserve, p.Profile, client.MaxProfileName)
	case !ok:
		return Reservation{}, kinds.Errorf(kinds.Invalid, "%s: max_cost: %v: use US dollars, from 0 to 1000000", client.MethodBudgetReserve, p.MaxCost)
	case p.MaxTokens > maxAmount:
		return Reservation{}, kinds.Errorf(kinds.Invalid, "%s: max_tokens: %d: too many", client.MethodBudgetReserve, p.MaxTokens)
	}
	return Reservation{Peer: p.Peer, Profile: p.Profile, Cost: cost, Tokens: p.MaxTokens}, nil
}

func isProfileName(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	return s != "" && len(s) <= client.MaxProfileName
}

// Reserve takes what a run may cost from the day's budget and returns the id to settle it
// under, and how often the peer was untrusted. If the budget does not hold it, the error is
// overloaded, to be retried when the next day begins.
func (t *Table) Reserve(ctx context.Context, r Reservation, l Limits) (id string, untrusts uint64, err error) {
	var key [16]byte
	rand.Read(key[:])
	now := t.now()
	day := now.Format(time.DateOnly)
	var over string
	err = t.db.Write(ctx, true, func(tx *store.Tx) error {
		over = ""
		if err := deleteOld(tx, now); err != nil {
			return err
		}
		spent, err := readSpent(tx, day, r.Peer)
		if err != nil {
			return err
		}
		all, err := readCostOfAll(tx, day)
		if err != nil {
			return err
		}
		if over = l.findExceeded(spent, all, r); over != "" {
			return nil
		}
		if untrusts, err = readUntrusts(tx, r.Peer); err != nil {
			return err
		}
		if err := addSpent(tx, day, r.Peer, r.Profile, 1, r.Cost, int64(r.Tokens)); err != nil {
			return err
		}
		return insertReservation(tx, key, day, now, r)
	})
	if err != nil {
		return "", 0, ownwords.Errorf("%s: %w", client.MethodBudgetReserve, err)
	}
	t.noteRefusal(day, r.Peer, over)
	if over != "" {
		e := kinds.Errorf(kinds.Overloaded, "%s: the budget of today has no room for another run of this peer, after what was spent and what the runs under way may cost: %s: wait until these have ended, or for tomorrow, or raise spending in config.yaml", client.MethodBudgetReserve, over)
		e.RetryAfterMS = uint64(nextDay(now).Sub(now).Milliseconds())
		e.Details = kinds.EncodePayload(map[string]string{"reason": string(kinds.ReasonBudgetUsed), "budget": over}).Object()
		return "", 0, e
	}
	return hex.EncodeToString(key[:]), untrusts, nil
}

// findExceeded returns which limit a reservation would exceed, or "".
func (l Limits) findExceeded(spent amounts, all Money, r Reservation) string {
	switch {
	case spent.runs+1 > l.Runs:
		return strconv.FormatUint(l.Runs, 10) + " runs a day"
	case spent.tokens+r.Tokens > l.Tokens:
		return strconv.FormatUint(l.Tokens, 10) + " tokens a day"
	case spent.cost+r.Cost > l.Cost:
		return fmt.Sprintf("%.2f US dollars a day", l.Cost.Dollars())
	case all+r.Cost > l.CostAll:
		return fmt.Sprintf("%.2f US dollars a day for all peers", l.CostAll.Dollars())
	}
	return ""
}

// Settle replaces the reserved amount by what a run has cost. A cost above the reservation is recorded
// only up to the peer's limits of a day, so that it takes nothing from other peers
// beyond that; cut reports that it was higher. A run that has not begun is removed. Settle returns
// not_found if nothing is reserved under the id: it was settled, or is too old.
func (t *Table) Settle(ctx context.Context, p *client.SettleParams, l Limits) (cut bool, err error) {
	cost, ok := newMoney(p.Cost)
	if !ok || p.Tokens > maxAmount || p.NotBegun && (cost > 0 || p.Tokens > 0) {
		return false, kinds.Errorf(kinds.Invalid, "%s: cost, tokens: %v, %d: use US dollars from 0 to 1000000, and tokens from 0 to 1000000000000; both 0 with not_begun", client.MethodBudgetSettle, p.Cost, p.Tokens)
	}
	var key [16]byte
	if b, err := hex.DecodeString(p.ID); err == nil && len(b) == len(key) {
		key = [16]byte(b)
	} else {
		return false, kinds.Errorf(kinds.Invalid, "%s: id: %.64q: use the one that %s has returned", client.MethodBudgetSettle, p.ID, client.MethodBudgetReserve)
	}
	found, runs := false, 0
	if p.NotBegun {
		runs = -1
	}
	err = t.db.Write(ctx, true, func(tx *store.Tx) error {
		day, r, ok, err := takeReservation(tx, key)
		found = ok
		if err != nil || !ok {
			return err
		}
		spent, err := readSpent(tx, day, r.Peer)
		if err != nil {
			return err
		}
		counted, tokens := min(cost, max(r.Cost, l.Cost-spent.cost+r.Cost)), int64(p.Tokens)
		tokens = min(tokens, max(int64(r.Tokens), int64(l.Tokens)-int64(spent.tokens)+int64(r.Tokens)))
		cut = counted < cost || tokens < int64(p.Tokens)
		if err := addSpent(tx, day, r.Peer, r.Profile, runs, counted-r.Cost, tokens-int64(r.Tokens)); err != nil {
			return err
		}
		return deleteUnspent(tx, day, r.Peer, r.Profile)
	})
	switch {
	case err != nil:
		return false, ownwords.Errorf("%s: %w", client.MethodBudgetSettle, err)
	case !found:
		return false, kinds.Errorf(kinds.NotFound, "%s: id: nothing is reserved under it: it is settled, or too old, and stays spent", client.MethodBudgetSettle)
	}
	return cut, nil
}

// List returns what was spent on the last days, today among them, without the peers' names.
func (t *Table) List(ctx context.Context, days int) ([]client.SpentRow, error) {
	if days < 0 || days > maxDays {
		return nil, kinds.Errorf(kinds.Invalid, "%s: days: %d: use a number from 1 to %d", client.MethodBudgetSpent, days, maxDays)
	}
	since := t.now().AddDate(0, 0, 1-max(days, 1)).Format(time.DateOnly)
	rows, err := store.ReadValue(ctx, t.db, func(tx *store.Tx) ([]client.SpentRow, error) { return readSpentSince(tx, since) })
	if err != nil {
		return nil, ownwords.Errorf("%s: %w", client.MethodBudgetSpent, err)
	}
	return rows, nil
}

// CountUntrust increases the number of untrusts that Reserve returns for a peer. Amounts that were
// spent for the peer stay spent. For a peer that has had no run it writes nothing.
func (t *Table) CountUntrust(ctx context.Context, peer identity.ID) error {
	t.mu.Lock()
	delete(t.refused, peer)
	t.mu.Unlock()
	known, err := store.ReadValue(ctx, t.db, func(tx *store.Tx) (bool, error) { return hasSpent(tx, peer) })
	if err != nil || !known {
		return err
	}
	return t.db.Write(ctx, true, func(tx *store.Tx) error { return addUntrust(tx, peer) })
}

// noteRefusal remembers why a peer was refused on a day, or that it was not.
func (t *Table) noteRefusal(day string, peer identity.ID, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.day != day || t.refused == nil {
		t.day, t.refused = day, make(map[identity.ID]string)
	}
	if why == "" {
		delete(t.refused, peer)
	} else {
		t.refused[peer] = why
	}
}

// ListRefused returns the peers whose last run of today was refused, each with the limit that
// it would have exceeded.
func (t *Table) ListRefused() map[identity.ID]string {
	t.mu.Lock()
	defer t.mu.Unlock()
	refused := make(map[identity.ID]string)
	if t.day == t.now().Format(time.DateOnly) {
		for peer, why := range t.refused {
			refused[peer] = why
		}
	}
	return refused
}

// nextDay returns when the day after that of now begins, in the zone of now.
func nextDay(now time.Time) time.Time {
	y, m, d := now.Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, now.Location())
}
