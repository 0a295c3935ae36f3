package inbox

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// fillInbox fills the inbox with messages of a peer until it is refused, at most ten
// times its share, and returns how many were held.
func fillInbox(t *testing.T, b *Inbox, from byte, kind string, size int) (held int64) {
	t.Helper()
	env := &wire.Envelope{V: 1, From: identity.ID{from}, To: identity.ID{2}, Kind: kind, Payload: wire.Payload(`{"topic":"t","data":"` + strings.Repeat("x", size) + `"}`)}
	for range 10 * budget.Inbox.Peer {
		env.ID = wire.NewMessageID()
		if err := b.AddMessage(t.Context(), env, "", ""); errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
			return held
		} else if err != nil {
			t.Fatal(err)
		}
		held++
	}
	t.Fatal("ten times a peer's share was held")
	return 0
}

func openedInbox(t testing.TB, db *store.DB) *Inbox {
	t.Helper()
	b, err := OpenInbox(t.Context(), db, &budget.Book{Peers: func() int { return 4 }}, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// holds: security.md#the-budget
func TestInboxIsShared(t *testing.T) {
	db := statedb.New(t, schema.Migrate)
	b := openedInbox(t, db)
	if n := fillInbox(t, b, 1, kinds.KindNotify, 10); n != budget.Inbox.Peer {
		t.Errorf("%d messages of one peer are held, want %d", n, budget.Inbox.Peer)
	}
	// What was asked for is kept aside, and other peers have their own share.
	if n := fillInbox(t, b, 1, kinds.KindResult, 10); n != budget.Results.Peer {
		t.Errorf("beside a full inbox %d results are held, want %d", n, budget.Results.Peer)
	}
	if n := fillInbox(t, b, 3, kinds.KindNotify, 1<<20); n != 15 {
		t.Errorf("%d messages of 1 MiB of another peer are held, want 15", n)
	}
	b = openedInbox(t, db) // as after a restart
	if n := fillInbox(t, b, 1, kinds.KindNotify, 10); n != 0 {
		t.Errorf("after a restart %d more are held", n)
	}
	if n := fillInbox(t, b, 3, kinds.KindNotify, 1<<20); n != 0 {
		t.Errorf("after a restart %d more are held", n)
	}
	for _, peer := range []identity.ID{{1}, {3}} {
		if err := b.DeletePeerMessages(t.Context(), peer); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []*budget.Account{b.unrequested.messages, b.unrequested.bytes, b.requested.messages, b.requested.bytes} {
		if n := a.HeldBy(identity.ID{1}) + a.HeldBy(identity.ID{3}); n != 0 || len(b.held) != 0 {
			t.Errorf("%s: %d held after purge", a.Row().Name, n)
		}
	}
}

// A removal makes all other writers wait, so it goes in slices.
func TestRemovalsAreSmallWrites(t *testing.T) {
	db := statedb.New(t, schema.Migrate)
	b := openedInbox(t, db)
	fillInbox(t, b, 1, kinds.KindNotify, 10)
	largest := 0
	db.ObserveWrites(func(c store.Cost) { largest = max(largest, c.Rows) })
	removed := 0
	for removed < int(budget.Inbox.Peer) {
		list, err := b.List(t.Context(), &client.InboxParams{Limit: MaxListed}, nil, nil, 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		gone, err := b.Acknowledge(t.Context(), &client.AckParams{UpTo: list.Messages[len(list.Messages)-1].Seq}, nil, nil)
		if err != nil || len(gone) == 0 {
			t.Fatalf("%d removed: %v", len(gone), err)
		}
		removed += len(gone)
	}
	if removed != int(budget.Inbox.Peer) || len(b.held) != 0 {
		t.Errorf("%d removed, %d left", removed, len(b.held))
	}
	if largest > MaxRowsPerWrite {
		t.Errorf("one write changed %d rows, want at most %d", largest, MaxRowsPerWrite)
	}
}

// A message that is held a second time, since its sender has sent so much meanwhile that
// its first run is forgotten, takes the place of the first, also in its sender's share.
func TestAMessageThatIsHeldTwiceCountsOnce(t *testing.T) {
	var book budget.Book
	b := &Inbox{held: make(map[MessageKey]heldSize), senders: make(map[wire.MessageID]identity.ID), unrequested: accounts{book.OpenAccount(budget.Inbox), book.OpenAccount(budget.NewInboxBytesRow(1 << 20))}}
	key := MessageKey{identity.ID{1}, wire.MessageID{1}}
	for _, n := range []int64{100, 200} {
		if err := b.reserveShare(key, heldSize{bytes: n}); err != nil {
			t.Fatal(err)
		}
	}
	if m, n := b.unrequested.messages.HeldBy(key.Peer), b.unrequested.bytes.HeldBy(key.Peer); m != 1 || n != 200 {
		t.Errorf("%d messages of %d bytes count", m, n)
	}
	b.releaseShares([]MessageKey{key})
	if m, n := b.unrequested.messages.HeldBy(key.Peer), b.unrequested.bytes.HeldBy(key.Peer); m != 0 || n != 0 {
		t.Errorf("%d messages of %d bytes count when none is held", m, n)
	}
}

// What agents took of a peer goes with it too, where that alone is left.
func TestStartFindsWhatAgentsTookOfABlockedPeer(t *testing.T) {
	db := statedb.New(t, schema.Migrate)
	b := openedInbox(t, db)
	env := &wire.Envelope{V: 1, ID: wire.NewMessageID(), From: identity.ID{1}, To: identity.ID{2}, Kind: kinds.KindNotify, Payload: wire.Payload(`{"topic":"t"}`)}
	if err := b.AddMessage(t.Context(), env, "", ""); err != nil {
		t.Fatal(err)
	}
	statedb.Exec(t, db, "INSERT INTO daemon_taken (seq, size, agent, at) SELECT seq, size, 'reviewer', 0 FROM daemon_inbox")
	if got, err := openedInbox(t, db).ListSenders(t.Context()); err != nil || !slices.Equal(got, []identity.ID{{1}}) {
		t.Errorf("left of %v: %v", got, err)
	}
}

// What agents took is bounded in number and bytes, the oldest go, and a message of the
// same name that comes again is held again.
// holds: security.md#agents-on-this-machine
func TestTakenIsBounded(t *testing.T) {
	db := statedb.New(t, schema.Migrate)
	b, planner := openedInbox(t, db), "planner"
	took := func(n, size int) (seqs []uint64) {
		t.Helper()
		for range n {
			env := &wire.Envelope{V: 1, ID: wire.NewMessageID(), From: identity.ID{1}, To: identity.ID{2}, Kind: kinds.KindNotify, Payload: wire.Payload(`{"topic":"t","data":"` + strings.Repeat("x", size) + `"}`)}
			for range 2 { // taken, and then it comes again
				if err := b.AddMessage(t.Context(), env, "", ""); err != nil {
					t.Fatal(err)
				}
				if _, err := b.List(t.Context(), &client.InboxParams{}, &planner, nil, 1<<30); err != nil {
					t.Fatal(err)
				}
				if gone, err := b.Acknowledge(t.Context(), &client.AckParams{IDs: []wire.MessageID{env.ID}}, new(planner), nil); !slices.Equal(gone, []MessageKey{{env.From, env.ID}}) || err != nil {
					t.Fatal(gone, err)
				}
			}
		}
		all, err := b.List(t.Context(), &client.InboxParams{Taken: true, Limit: 1000}, nil, nil, 1<<30)
		if err != nil || len(b.held) != 0 {
			t.Fatalf("%d held: %v", len(b.held), err)
		}
		for _, m := range all.Messages {
			seqs = append(seqs, m.Seq)
		}
		return seqs
	}
	if got := took(5, 5<<20); len(got) != 3 || got[2] != 10 {
		t.Errorf("of 5 of 5 MiB are left: %v", got)
	}
	if err := db.Write(t.Context(), false, func(tx *store.Tx) error {
		for range maxTaken {
			env := &wire.Envelope{V: 1, ID: wire.NewMessageID(), From: identity.ID{1}, To: identity.ID{2}, Kind: kinds.KindNotify, Payload: wire.Payload(`{"topic":"t"}`)}
			var text bytes.Buffer
			if err := errors.Join(env.Append(&text), insertHeldMessage(tx, env, "", "", text.Bytes())); err != nil {
				return err
			}
		}
		_, err := moveHeldToTaken(tx, "reviewer", time.Now().UnixMilli(), "agent = ''", maxTaken)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if got := took(10, 1); len(got) != maxTaken || got[0] <= 20 || got[maxTaken-1] != 10+maxTaken+20 {
		t.Errorf("%d are left, from %d to %d", len(got), got[0], got[len(got)-1])
	}
}
