package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// small are rows with bounds that a test can go past ten times, quickly. What is counted
// and who is refused is the same with those of package budget.
func small() budgetRows {
	return budgetRows{
		budget.MailUnderWay,
		budget.Descriptors.WithSum(8),
		budget.Row{Name: budget.MailFiles.Name, Peer: 10, All: 40},
		budget.Row{Name: budget.MailBytes.Name, Unit: budget.Bytes, Peer: 20_000, All: 80_000},
		budget.Row{Name: budget.MailLedger.Name, Peer: 30, All: 120},
	}
}

// filled is two sides, of which the laptop has small rows.
func filled(t testing.TB) (desk, laptop *side) {
	t.Helper()
	desk, laptop = desks(t)
	laptop.rows = small()
	laptop.start()
	laptop.bind("demo", "planner", desk)
	desk.start()
	return desk, laptop
}

// delivers sends a message of a size to the laptop's reviewer.
func (s *side) delivers(to *side, name string, size int) *wire.MailReply {
	s.t.Helper()
	letter := text1("planner", "reviewer", name)
	letter += "#" + strings.Repeat("x", max(size-len(letter)-1, 0))
	return s.says(to, letterOf("demo", "reviewer", name+".yaml", letter), letter)
}

// refusedBy checks that a reply is that a row of the budget is used up, for now.
func refusedBy(t *testing.T, r *wire.MailReply, row budget.Row) {
	t.Helper()
	if r.Result != wire.MailRetry || r.Code != string(kinds.Overloaded) || r.Scope != "" || !strings.Contains(r.Message, "budget: "+row.Name+": ") {
		t.Fatalf("%+v, expected %s of %s by %s", r, wire.MailRetry, kinds.Overloaded, row.Name)
	}
}

// TestUnreadShare: a peer that is ten times past its share of unread files, or bytes, has
// what its share holds; a restart changes nothing; what the agent has dealt with is free.
// holds: security.md#against-trusted-peers
// holds: security.md#the-budget
func TestUnreadShare(t *testing.T) {
	desk, laptop := filled(t)
	who := desk.key.ID()
	deliver := func(from, to, size, stored int, row budget.Row) {
		t.Helper()
		for n := from; n < to; n++ {
			r := desk.delivers(laptop, fmt.Sprintf("m-%d", n), size)
			if n < from+stored {
				if r.Result != wire.MailStored {
					t.Fatalf("message %d: %+v", n, r)
				}
				continue
			}
			refusedBy(t, r, row)
		}
	}
	full := func(files int) {
		t.Helper()
		if n := len(laptop.files("reviewer")); n != files {
			t.Fatalf("%d files, expected %d", n, files)
		}
		await.Until(t, "the laptop counts what lies there", func() bool { return laptop.ledger.accounts.files.HeldBy(who) == int64(files) })
	}
	most := int(laptop.rows.files.Peer)
	deliver(0, 10*most, 1000, most, laptop.rows.files)
	full(most)
	if r := desk.delivers(laptop, "m-0", 1000); r.Result != wire.MailDuplicate {
		t.Errorf("what is stored is asked for again: %+v", r)
	}
	laptop.noDebris("reviewer")

	restart := func() {
		t.Helper()
		laptop.stop()
		laptop.start()
	}
	restart()
	full(most)
	refusedBy(t, desk.delivers(laptop, "m-10", 1000), laptop.rows.files)

	// Read by one and archived by another.
	if err := os.Mkdir(filepath.Join(laptop.inbox("reviewer"), "archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	for n := range most {
		path := filepath.Join(laptop.inbox("reviewer"), fmt.Sprintf("m-%d.yaml", n))
		if n%2 == 0 {
			os.Remove(path)
		} else if err := os.Rename(path, filepath.Join(laptop.inbox("reviewer"), "archive", filepath.Base(path))); err != nil {
			t.Fatal(err)
		}
	}
	full(0)
	if n := laptop.ledger.accounts.bytes.HeldBy(who); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
	restart()
	full(0)

	// The same of bytes.
	size := int(laptop.rows.bytes.Peer) / 4
	deliver(1000, 1040, size, 4, laptop.rows.bytes)
	full(4)
	if n := laptop.ledger.accounts.bytes.HeldBy(who); n != int64(4*size) {
		t.Errorf("%d bytes are held", n)
	}
	restart()
	full(4)
	refusedBy(t, desk.delivers(laptop, "m-2000", size), laptop.rows.bytes)

	// An inbox that is gone holds nothing.
	away := laptop.inbox("reviewer") + ".away"
	if err := os.Rename(laptop.inbox("reviewer"), away); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "nothing is held", func() bool { return laptop.ledger.accounts.bytes.HeldBy(who) == 0 })
	if err := os.Rename(away, laptop.inbox("reviewer")); err != nil {
		t.Fatal(err)
	}
	full(4)
}

// TestUnreadOfAll: other peers have their part, whatever one takes, and what one takes
// of a message that does not come is given back.
// holds: security.md#against-trusted-peers
// holds: security.md#the-budget
func TestUnreadOfAll(t *testing.T) {
	desk, laptop := filled(t)
	tower := newSide(t, "tower")
	for _, s := range [][2]*side{{laptop, tower}, {tower, laptop}} {
		if _, err := s[0].trust.Trust(identity.Peer{ID: s[1].key.ID(), Name: s[1].name, Addrs: []string{s[1].addr}}); err != nil {
			t.Fatal(err)
		}
	}
	tower.start()
	laptop.bind("demo", "tester", tower)
	for n := range 10 * int(laptop.rows.files.Peer) {
		desk.delivers(laptop, fmt.Sprintf("d-%d", n), 1000)
	}
	letter := text1("tester", "reviewer", "x")
	if r := tower.says(laptop, letterOf("demo", "reviewer", "t.yaml", letter), letter); r.Result != wire.MailStored {
		t.Errorf("another peer: %+v", r)
	}
	for n := range 10 * int(laptop.rows.files.Peer) {
		m := letterOf("demo", "reviewer", fmt.Sprintf("cut-%d.yaml", n), letter)
		if r := tower.says(laptop, m, letter[1:]); r.Result != wire.MailRefused {
			t.Fatalf("%+v", r)
		}
	}
	if n := laptop.ledger.accounts.files.HeldBy(tower.key.ID()); n != 1 {
		t.Errorf("%d files are held", n)
	}
}

// TestLedgerShare: messages that are dealt with at once fill the ledger, and no more than
// a peer's share of it. Rows that are over for 30 days make room.
// holds: security.md#against-trusted-peers
// holds: security.md#the-budget
func TestLedgerShare(t *testing.T) {
	desk, laptop := filled(t)
	who := desk.key.ID()
	most := int(laptop.rows.arrivals.Peer)
	for n := range 2 * most {
		name := fmt.Sprintf("m-%d", n)
		r := desk.delivers(laptop, name, 100)
		if n >= most {
			refusedBy(t, r, laptop.rows.arrivals)
			continue
		}
		if r.Result != wire.MailStored {
			t.Fatalf("message %d: %+v", n, r)
		}
		if err := os.Remove(filepath.Join(laptop.inbox("reviewer"), name+".yaml")); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "it is free", func() bool { return laptop.ledger.accounts.files.HeldBy(who) == 0 })
	}
	rows := func() (n int) {
		statedb.Query(t, laptop.db, &n, "SELECT COUNT(*) FROM oacp_arrival")
		return n
	}
	if n := rows(); n != most || laptop.ledger.accounts.arrivals.HeldBy(who) != int64(most) {
		t.Errorf("%d rows, %d counted", n, laptop.ledger.accounts.arrivals.HeldBy(who))
	}
	laptop.eventuallyReported()
	laptop.stop()
	laptop.start()
	refusedBy(t, desk.delivers(laptop, "after", 100), laptop.rows.arrivals)
	statedb.Exec(t, laptop.db, "UPDATE oacp_arrival SET at = ? WHERE file < 'm-2'", time.Now().Add(-shortRetention-time.Hour).UnixMilli())
	before := rows()
	if r := desk.delivers(laptop, "after", 100); r.Result != wire.MailStored {
		t.Errorf("when there are old rows: %+v", r)
	}
	if n := rows(); n >= before || laptop.ledger.accounts.arrivals.HeldBy(who) != int64(n) {
		t.Errorf("%d rows, %d counted", n, laptop.ledger.accounts.arrivals.HeldBy(who))
	}
}

// TestUnderWayShare: a peer that has its share under way, or the descriptors that a process may open,
// gets no further place, ten times over, and nothing lies in the inbox.
// holds: security.md#against-trusted-peers
// holds: security.md#the-budget
func TestUnderWayShare(t *testing.T) {
	for name, c := range map[string]struct {
		sides func(testing.TB) (desk, laptop *side)
		most  int
		row   budget.Row
	}{
		"places":      {bound, int(budget.MailUnderWay.Peer), budget.MailUnderWay},
		"descriptors": {filled, 8 / openedByEach, budget.Descriptors},
	} {
		t.Run(name, func(t *testing.T) {
			desk, laptop := c.sides(t)
			who, a := desk.key.ID(), &laptop.ledger.accounts
			var open []*peer.Stream
			for n := range c.most {
				open = append(open, desk.begins(t, laptop, n))
			}
			await.Until(t, "all places are taken", func() bool { return a.underWay.HeldBy(who) == int64(c.most) })
			for n := range 10 * c.most {
				refusedBy(t, desk.delivers(laptop, fmt.Sprintf("n-%d", n), 100), c.row)
			}
			for _, s := range open {
				s.Cancel()
			}
			await.Until(t, "all places are free", func() bool {
				return a.underWay.HeldBy(who)+a.opened.HeldBy(who)+a.files.HeldBy(who)+a.bytes.HeldBy(who) == 0
			})
			if got := laptop.files("reviewer"); len(got) != 0 {
				t.Errorf("the inbox holds %v", got)
			}
			laptop.noDebris("reviewer")
			if got := desk.delivers(laptop, "last", 100).Result; got != wire.MailStored {
				t.Errorf("afterwards: %s", got)
			}
		})
	}
}

// begins begins a delivery and does not end it.
func (s *side) begins(t *testing.T, to *side, n int) *peer.Stream {
	t.Helper()
	letter := text1("planner", "reviewer", fmt.Sprint(n))
	m := letterOf("demo", "reviewer", fmt.Sprintf("m-%d.yaml", n), letter)
	m.V = wire.MailVersion
	request, err := wire.AppendMailRequest(nil, m)
	if err != nil {
		t.Fatal(err)
	}
	stream := s.opens(to)
	stream.Write(append(request, letter[:10]...))
	return stream
}

// TestRows: the daemon's rows are those of the table.
// holds: security.md#against-trusted-peers
func TestRows(t *testing.T) {
	desk, _ := desks(t)
	desk.start()
	for a, want := range map[*budget.Account][2]int64{
		desk.ledger.accounts.underWay: {16, 256}, desk.ledger.accounts.opened: {32, 0}, desk.ledger.accounts.files: {1000, 100_000}, desk.ledger.accounts.bytes: {128 << 20, 1 << 30}, desk.ledger.accounts.arrivals: {100_000, 1_000_000},
	} {
		if r := a.Row(); r.Peer != want[0] || r.All != want[1] {
			t.Errorf("%+v, expected %v", r, want)
		}
	}
}

// TestSameName: files of one name are numbered up to a bound, and none beyond it is
// written, or compared with those that are there, unless it has the size of one.
// holds: security.md#against-trusted-peers
func TestSameName(t *testing.T) {
	desk, laptop := bound(t)
	for n := range 10 * maxNumbered {
		letter := text1("planner", "reviewer", fmt.Sprintf("%d", n))
		r := desk.says(laptop, letterOf("demo", "reviewer", "a.yaml", letter), letter)
		if n < maxNumbered && r.Result != wire.MailStored || n >= maxNumbered && (r.Result != wire.MailRetry || r.Scope != wire.MailScopeMessage || !strings.Contains(r.Message, "16 messages of the name a.yaml")) {
			t.Fatalf("message %d: %+v", n, r)
		}
	}
	if got := laptop.files("reviewer"); len(got) != maxNumbered {
		t.Errorf("%d files", len(got))
	}
	if n := laptop.ledger.accounts.arrivals.HeldBy(desk.key.ID()); n != maxNumbered {
		t.Errorf("the ledger has %d rows, of which a start has to settle some", n)
	}
	laptop.noDebris("reviewer")
	os.Remove(filepath.Join(laptop.inbox("reviewer"), "a_7.yaml"))
	letter := text1("planner", "reviewer", "again")
	if r := desk.says(laptop, letterOf("demo", "reviewer", "a.yaml", letter), letter); r.Result != wire.MailStored {
		t.Errorf("when one is read: %+v", r)
	}
	if got := laptop.files("reviewer"); got["a_7.yaml"] != letter {
		t.Errorf("it is not a_7.yaml: %d files", len(got))
	}
}

// TestPruneSlices: what is over for long is forgotten in writes of a few rows each.
func TestPruneSlices(t *testing.T) {
	desk, laptop := desks(t)
	laptop.start()
	const rows = 10 * pruneSlice
	old := time.Now().Add(-retention - time.Hour).UnixMilli()
	err := laptop.db.Write(t.Context(), true, func(tx *store.Tx) error {
		for n := range rows {
			a := &arrival{key: arrivalKey{desk.key.ID(), mailbox{"demo", "reviewer"}, fmt.Sprint(n), [32]byte{1}}, state: []arrivalState{consumed, reported}[n%2]}
			if err := errors.Join(sqlAddArrival(tx, a), sqlPutDelivery(tx, desk.key.ID(), mailbox{"demo", "x"}, fmt.Sprint(n), [32]byte{}, time.UnixMilli(old))); err != nil {
				return err
			}
		}
		if _, err := tx.Exec("UPDATE oacp_arrival SET at = ?", old); err != nil {
			return err
		}
		_, err := tx.Exec("UPDATE oacp_delivered SET gone = TRUE")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	laptop.ledger.accounts.arrivals.AddUnchecked(desk.key.ID(), rows)
	laptop.stop()
	db := statedb.Open(t, filepath.Join(laptop.dir, "state.db"))
	var costs []int
	db.ObserveWrites(func(c store.Cost) { costs = append(costs, c.Rows) })
	laptop.Mailer.cfg.DB = db
	laptop.pruneOldRows(t.Context())
	if slices.Max(costs) > pruneSlice || len(costs) < 2*rows/pruneSlice {
		t.Errorf("%d writes of %v rows", len(costs), costs)
	}
	if n := laptop.ledger.accounts.arrivals.HeldBy(desk.key.ID()); n != 0 {
		t.Errorf("%d rows are counted", n)
	}
	err = db.Read(t.Context(), func(tx *store.Tx) error {
		var left int
		err := tx.QueryRow("SELECT (SELECT COUNT(*) FROM oacp_arrival) + (SELECT COUNT(*) FROM oacp_delivered)").Scan(&left)
		if left != 0 {
			t.Errorf("%d rows are left", left)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{
		"SELECT peer FROM oacp_arrival WHERE peer = x'00' AND at < 1 AND state IN ('consumed', 'reported') ORDER BY at LIMIT 1",
		"SELECT project FROM oacp_delivered WHERE gone AND at < 1 ORDER BY at LIMIT 1", "SELECT peer FROM oacp_arrival WHERE peer = x'00' AND state = 'consumed'",
	} {
		err := db.Read(t.Context(), func(tx *store.Tx) error {
			return tx.EachRow("EXPLAIN QUERY PLAN "+query, func(scan func(...any) error) error {
				var id, parent, unused int
				var what string
				err := scan(&id, &parent, &unused, &what)
				if !strings.HasPrefix(what, "SEARCH") {
					t.Errorf("%s: %s", query, what)
				}
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestGate: of one peer one is let in at a time, and others go past those that wait.
// holds: security.md#against-trusted-peers
func TestGate(t *testing.T) {
	g := newParseSlots(2)
	enter := func(who byte) (leave func()) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
		defer cancel()
		leave, err := g.takeSlot(ctx, identity.ID{who})
		if err != nil {
			t.Fatal(err)
		}
		return leave
	}
	first := enter(1)
	ended, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	var mu sync.Mutex
	inside, most := 1, 1
	for range 16 {
		waiting.Go(func() {
			leave := enter(1)
			mu.Lock()
			inside++
			most = max(most, inside)
			mu.Unlock()
			mu.Lock()
			inside--
			mu.Unlock()
			leave()
		})
		waiting.Go(func() {
			if leave, err := g.takeSlot(ended, identity.ID{1}); err == nil {
				leave()
			}
		})
	}
	enter(2)()
	enter(3)()
	cancel()
	mu.Lock()
	inside--
	mu.Unlock()
	first()
	waiting.Wait()
	if most != 1 {
		t.Errorf("%d of one peer inside", most)
	}
	if len(g.all) != 0 {
		t.Errorf("%d slots are not given back", len(g.all))
	}
}
