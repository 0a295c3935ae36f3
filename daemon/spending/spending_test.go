package spending

import (
	"errors"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
)

var usual = Limits{Runs: 3, Tokens: 1000, Cost: 5e6, CostAll: 8e6}

// table is a Table on a file, at a time that the test sets.
type table struct {
	*Table
	t    testing.TB
	path string
	now  time.Time
}

func open(t testing.TB) *table {
	t.Helper()
	o := &table{t: t, path: filepath.Join(t.TempDir(), "state.db"), now: time.Date(2026, 11, 23, 15, 0, 0, 0, time.Local)}
	o.reopen()
	return o
}

func (o *table) reopen() {
	o.t.Helper()
	if o.Table != nil {
		if err := o.db.Close(); err != nil {
			o.t.Fatal(err)
		}
	}
	o.Table = newTable(statedb.Open(o.t, o.path, schema.Migrate))
	o.Table.now = func() time.Time { return o.now }
}

func (o *table) reserve(peer byte, cost float64, tokens uint64) (string, error) {
	o.t.Helper()
	r, err := checkReservation(&client.ReserveParams{Peer: identity.ID{peer}, Profile: "claude", MaxCost: cost, MaxTokens: tokens})
	if err != nil {
		o.t.Fatal(err)
	}
	id, _, err := o.Reserve(o.t.Context(), r, usual)
	return id, err
}

func (o *table) mustReserve(peer byte, cost float64, tokens uint64) string {
	o.t.Helper()
	id, err := o.reserve(peer, cost, tokens)
	if err != nil {
		o.t.Fatal(err)
	}
	return id
}

// refused is a reservation that is refused for the day.
func (o *table) refused(peer byte, cost float64, tokens uint64) {
	o.t.Helper()
	_, err := o.reserve(peer, cost, tokens)
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.Code != kinds.Overloaded || !e.Retryable || e.RetryAfterMS != uint64(nextDay(o.now).Sub(o.now).Milliseconds()) || !strings.Contains(string(e.Details), `"budget":"`) {
		o.t.Fatalf("err = %v", err)
	}
	if len(o.ListRefused()) == 0 {
		o.t.Error("the owner hears nothing of it")
	}
}

func (o *table) settle(id string, cost float64, tokens uint64) {
	o.t.Helper()
	if _, err := o.Settle(o.t.Context(), &client.SettleParams{ID: id, Cost: cost, Tokens: tokens}, usual); err != nil {
		o.t.Fatal(err)
	}
}

func TestEachLimit(t *testing.T) {
	o := open(t)
	for range 3 {
		o.settle(o.mustReserve(1, 1, 100), 0, 0)
	}
	o.refused(1, 0, 0) // runs
	o.mustReserve(2, 0, 1000)
	o.refused(2, 0, 1)
	o.mustReserve(3, 5, 0)
	o.refused(3, 0.000001, 0)
	o.mustReserve(4, 3, 0)
	o.refused(4, 0.01, 0) // 8 dollars are reserved for all
	o.mustReserve(4, 0, 1)
}

// What is reserved counts until it is settled, over a restart too. What is settled above
// what was reserved counts as far as the peer's day goes.
// holds: security.md#agents-on-this-machine
func TestSettling(t *testing.T) {
	o := open(t)
	id := o.mustReserve(1, 5, 1000)
	o.refused(1, 1, 1)
	o.reopen()
	o.refused(1, 1, 1)
	o.settle(id, 1.25, 400)
	id = o.mustReserve(1, 3.75, 600)
	o.refused(1, 0.01, 0)
	o.settle(id, 4, 700)
	o.refused(1, 0.01, 0)
	rows, err := o.List(t.Context(), 0)
	if err != nil || len(rows) != 1 || rows[0] != (client.SpentRow{Day: "2026-11-23", Peer: identity.ID{1}, Profile: "claude", Runs: 2, Tokens: 1000, Cost: 5}) {
		t.Errorf("%+v, %v", rows, err)
	}
	if _, err := o.Settle(t.Context(), &client.SettleParams{ID: id}, usual); !errors.Is(err, &kinds.Error{Code: kinds.NotFound}) {
		t.Errorf("settled twice: %v", err)
	}
}

// A run that has not begun was none.
func TestRunsThatHaveNotBegun(t *testing.T) {
	o := open(t)
	for range usual.Runs + 1 {
		id := o.mustReserve(1, 5, 1000)
		o.refused(1, 1, 1)
		if _, err := o.Settle(t.Context(), &client.SettleParams{ID: id, NotBegun: true}, usual); err != nil {
			t.Fatal(err)
		}
	}
	if rows, err := o.List(t.Context(), 0); err != nil || len(rows) != 0 { // an agent can name ever new profiles
		t.Errorf("%+v, %v", rows, err)
	}
}

// The day is the local one: at its midnight a new budget begins, and a run of yesterday is
// settled yesterday.
func TestDays(t *testing.T) {
	o := open(t)
	o.now = time.Date(2026, 11, 23, 23, 59, 59, 0, time.Local)
	id := o.mustReserve(1, 5, 1000)
	o.refused(1, 1, 0)
	o.now = o.now.Add(2 * time.Second)
	if len(o.ListRefused()) != 0 {
		t.Error("a refusal of yesterday is told")
	}
	o.mustReserve(1, 5, 1000)
	o.settle(id, 1, 10)
	rows, err := o.List(t.Context(), 2)
	if err != nil || len(rows) != 2 || rows[0].Day != "2026-11-24" || rows[0].Cost != 5 || rows[1].Day != "2026-11-23" || rows[1].Cost != 1 {
		t.Errorf("%+v, %v", rows, err)
	}
	o.now = o.now.AddDate(0, 0, maxDays)
	o.mustReserve(1, 1, 1)
	if n := o.count("daemon_spent"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

// count counts the rows of a table.
func (o *table) count(name string) (n int) {
	o.t.Helper()
	statedb.Query(o.t, o.db, &n, "SELECT count(*) FROM "+name)
	return n
}

// Those who reserve at the same time never get more together than there is.
func TestAtTheSameTime(t *testing.T) {
	o := open(t)
	var got sync.Map
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			r := Reservation{Peer: identity.ID{byte(i % 5)}, Profile: "codex", Cost: 1e6}
			if _, _, err := o.Reserve(t.Context(), r, usual); err == nil {
				got.Store(i, true)
			}
		})
	}
	all.Wait()
	n := 0
	for range got.Range {
		n++
	}
	if n != 8 {
		t.Errorf("%d of 8 dollars were given", n)
	}
}

func TestUntrustsAreCounted(t *testing.T) {
	o := open(t)
	r := Reservation{Peer: identity.ID{1}, Profile: "codex"}
	for want := range uint64(3) {
		if _, got, err := o.Reserve(t.Context(), r, usual); err != nil || got != want {
			t.Errorf("%d, %v; want %d", got, err, want)
		}
		if err := o.CountUntrust(t.Context(), r.Peer); err != nil {
			t.Error(err)
		}
		o.reopen()
	}
	o.refused(1, 0, 0) // what was spent stays spent
}

func TestReservationsAreBounded(t *testing.T) {
	o := open(t)
	o.mustReserve(1, 0, 0)
	limits := Limits{Runs: 2 * maxOpen, Tokens: 1, Cost: 1, CostAll: 1}
	var ids []string
	for range maxOpen + 1 {
		id, _, err := o.Reserve(t.Context(), Reservation{Peer: identity.ID{2}, Profile: "codex"}, limits)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		o.now = o.now.Add(time.Second)
	}
	for _, id := range []string{ids[1], ids[maxOpen]} {
		o.settle(id, 0, 0)
		o.mustReserve(4, 0, 0)
		o.now = o.now.Add(time.Second)
		limits.Runs++
	}
	if _, err := o.Settle(t.Context(), &client.SettleParams{ID: ids[0]}, limits); !errors.Is(err, &kinds.Error{Code: kinds.NotFound}) {
		t.Errorf("the oldest one is settled: %v", err)
	}
	if n := o.count("daemon_reserved"); n != maxOpen {
		t.Errorf("%d", n)
	}
	o.now = o.now.Add(openFor + time.Hour)
	last := o.mustReserve(3, 0, 0)
	o.settle(last, 0, 0)
	if n := o.count("daemon_reserved"); n != 0 {
		t.Errorf("%d", n)
	}
}

func TestWhatIsInvalid(t *testing.T) {
	for _, p := range []client.ReserveParams{
		{}, {Profile: "Claude"}, {Profile: "a b"}, {Profile: "claude", MaxCost: -1}, {Profile: "claude", MaxCost: 1e7}, {Profile: "claude", MaxTokens: 1e13},
		{Profile: "a-name-that-is-far-too-long-for-a-profile"},
	} {
		if _, err := checkReservation(&p); !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	o := open(t)
	for _, p := range []client.SettleParams{{}, {ID: "x"}, {ID: "00"}, {ID: "00112233445566778899aabbccddeeff", Cost: -1}, {ID: "00112233445566778899aabbccddeeff00"}, {ID: "00112233445566778899aabbccddeeff", Cost: 1, NotBegun: true}, {ID: "00112233445566778899aabbccddeeff", Tokens: 1, NotBegun: true}, {ID: "00112233445566778899aabbccddeeff", Tokens: 1e13}} {
		if _, err := o.Settle(t.Context(), &p, usual); !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for _, days := range []int{-1, maxDays + 1} {
		if _, err := o.List(t.Context(), days); !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
			t.Errorf("%d: %v", days, err)
		}
	}
}

// What was reserved counts as it was settled, also if the limits are lower by then. What is more is cut,
// be it cost or tokens.
func TestWhatIsCut(t *testing.T) {
	for _, c := range []struct {
		cost   float64
		tokens uint64
		limits Limits
		cut    bool
		want   client.SpentRow
	}{
		{4, 900, Limits{Cost: 1e6, Tokens: 10}, false, client.SpentRow{Cost: 4, Tokens: 900}},
		{6, 900, usual, true, client.SpentRow{Cost: 5, Tokens: 900}},
		{4, 1100, usual, true, client.SpentRow{Cost: 4, Tokens: 1000}},
	} {
		o := open(t)
		id := o.mustReserve(1, 5, 1000)
		cut, err := o.Settle(t.Context(), &client.SettleParams{ID: id, Cost: c.cost, Tokens: c.tokens}, c.limits)
		rows, _ := o.List(t.Context(), 0)
		if err != nil || cut != c.cut || len(rows) != 1 || rows[0].Cost != c.want.Cost || rows[0].Tokens != c.want.Tokens {
			t.Errorf("%v dollars, %d tokens: cut %v, %+v, %v", c.cost, c.tokens, cut, rows, err)
		}
	}
}

// A peer is told of as refused until a run of it is not, until it is untrusted, and for that day. There
// are 64 of them at most.
func TestWhoIsRefused(t *testing.T) {
	o := open(t)
	o.refused(1, 6, 0)
	if why := o.ListRefused()[identity.ID{1}]; why != "5.00 US dollars a day" {
		t.Errorf("refused for %q", why)
	}
	o.refused(1, 0, 1001)
	if why := o.ListRefused()[identity.ID{1}]; why != "1000 tokens a day" {
		t.Errorf("then refused for %q", why)
	}
	o.mustReserve(1, 0, 0)
	if len(o.ListRefused()) != 0 {
		t.Error("a peer that has a run is told of as refused")
	}
	o.refused(2, 6, 0)
	if err := o.CountUntrust(t.Context(), identity.ID{2}); err != nil || len(o.ListRefused()) != 0 {
		t.Errorf("untrusted: %v, %v", o.ListRefused(), err)
	}
	o.refused(3, 6, 0)
	o.now = o.now.AddDate(0, 0, 1)
	o.refused(4, 6, 0)
	if all := o.ListRefused(); len(all) != 1 || all[identity.ID{3}] != "" {
		t.Errorf("a day later %v are told", all)
	}
	if n := o.count("daemon_untrusts"); n != 0 {
		t.Errorf("%d untrusts are written of peers that have had no run", n)
	}
}

// A list of what was spent is bounded, whatever profiles there were.
func TestListsAreBounded(t *testing.T) {
	o := open(t)
	err := o.db.Write(t.Context(), false, func(tx *store.Tx) error {
		for i := range 10001 {
			if err := addSpent(tx, "2026-11-23", identity.ID{1}, "p-"+strconv.Itoa(i), 1, 1, 1); err != nil {
				return err
			}
		}
		return nil
	})
	if rows, failed := o.List(t.Context(), 1); err != nil || failed != nil || len(rows) != 10000 {
		t.Errorf("%d rows, %v, %v", len(rows), err, failed)
	}
}

func TestMoney(t *testing.T) {
	for _, dollars := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -0.01, 1e6 + 1} {
		if m, ok := newMoney(dollars); ok {
			t.Errorf("%v is %v", dollars, m)
		}
	}
	if _, err := checkReservation(&client.ReserveParams{Profile: "gpt-5"}); err != nil {
		t.Error(err)
	}
	for dollars, want := range map[float64]Money{0: 0, 0.1: 100_000, math.Nextafter(0.3, 1): 300_000, 5: 5_000_000, 0.0000001: 1, 0.30000001: 300_000 + 1} {
		if got, ok := newMoney(dollars); !ok || got != want {
			t.Errorf("%v: %v, want %v", dollars, got, want)
		}
	}
}
