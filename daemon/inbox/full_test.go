package inbox

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// hold puts messages of a peer, of 5 KB, into the table, and returns their keys.
func hold(t testing.TB, db *store.DB, n int, from identity.ID, kind, agent string) (keys []MessageKey) {
	t.Helper()
	err := db.Write(t.Context(), false, func(tx *store.Tx) error {
		keys = nil
		for range n {
			env := &wire.Envelope{V: 1, ID: wire.NewMessageID(), From: from, To: identity.ID{9}, Kind: kind, Payload: wire.Payload(`{"topic":"t","data":"` + strings.Repeat("x", 5000) + `"}`)}
			var text bytes.Buffer
			if err := env.Append(&text); err != nil {
				return err
			}
			if err := insertHeldMessage(tx, env, agent, "", text.Bytes()); err != nil {
				return err
			}
			keys = append(keys, MessageKey{from, env.ID})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// What is listed for an agent is its own, of the peers and kinds that are asked for. The peers take
// turns, and none has more than its number.
func TestListKeys(t *testing.T) {
	db := statedb.New(t, schema.Migrate)
	b := openedInbox(t, db)
	desk, laptop, other := identity.ID{1}, identity.ID{2}, identity.ID{3}
	hold(t, db, 3, desk, kinds.KindResult, "claude")
	hold(t, db, 3, desk, kinds.KindNotify, "")
	hold(t, db, 3, desk, kinds.KindNotify, "codex")
	hold(t, db, 3, other, kinds.KindNotify, "claude")
	ofDesk := hold(t, db, 5, desk, kinds.KindNotify, "claude")
	ofLaptop := append(hold(t, db, 1, laptop, kinds.KindNotify, "claude"), hold(t, db, 1, laptop, kinds.KindResult, "claude")...)
	taken := ofDesk[0]
	if removed, err := b.TakeMessage(t.Context(), taken, "claude"); err != nil || !removed {
		t.Fatal(removed, err)
	}
	keys, err := b.ListKeys(t.Context(), "claude", map[identity.ID][]string{desk: {kinds.KindNotify}, laptop: {kinds.KindNotify, kinds.KindResult}}, 3)
	if err != nil || len(keys) != 5 {
		t.Fatal(keys, err)
	}
	for i, k := range keys { // the order of peers in one round is any
		if i < 4 && !slices.Contains([]MessageKey{ofDesk[1+i/2], ofLaptop[i/2]}, k) || i == 4 && k != ofDesk[3] {
			t.Errorf("number %d is %v", i, k)
		}
	}
}

// A full inbox costs an agent little that has few messages there, or of a few peers.
func TestAFullInboxIsNotRead(t *testing.T) {
	db := statedb.New(t, schema.Migrate)
	for _, query := range []string{
		"SELECT peer, id FROM daemon_inbox WHERE agent = 'claude' AND peer = x'01' AND" + isHeld + " AND kind IN ('notify') ORDER BY seq LIMIT 9",
		"SELECT count(*) FROM (SELECT 1 FROM daemon_inbox WHERE agent IN ('', 'claude') AND" + isHeld + " LIMIT 99)",
	} {
		if plan := explain(t, db, query); !strings.Contains(plan, "daemon_inbox_by_agent") || strings.Contains(plan, "TEMP B-TREE FOR ORDER") {
			t.Errorf("%s: %s", query, plan)
		}
	}
	// A page is found without reading what it leaves out: that would be sorted with its envelopes.
	query, args := newHeldQuery(&client.InboxParams{}, new("claude"), nil, 9)
	if plan := explain(t, db, query, args...); !strings.HasPrefix(plan, "SEARCH daemon_inbox USING INTEGER PRIMARY KEY (rowid=?); ") || !strings.Contains(plan, "COVERING INDEX daemon_inbox_by_agent") {
		t.Errorf("%s: %s", query, plan)
	}
	query, args = newHeldQuery(&client.InboxParams{}, nil, []identity.ID{{1}}, 9)
	if plan := explain(t, db, query, args...); !strings.HasPrefix(plan, "SEARCH daemon_inbox USING INTEGER PRIMARY KEY (rowid=?); ") || !strings.Contains(plan, "COVERING INDEX") {
		t.Errorf("%s: %s", query, plan)
	}
}

// Messages that are named by their ids are found by them, whoever sent them: also two of one id, which an
// older acpd has taken.
func TestMessagesAreFoundByTheirIDs(t *testing.T) {
	db := statedb.New(t, schema.Migrate)
	keys := append(hold(t, db, 2, identity.ID{1}, kinds.KindNotify, "claude"), hold(t, db, 1, identity.ID{2}, kinds.KindNotify, "claude")...)
	statedb.Exec(t, db, "UPDATE daemon_inbox SET id = ? WHERE peer = ?", keys[0].ID[:], keys[2].Peer[:])
	b := openedInbox(t, db)
	for id, want := range map[wire.MessageID]int{keys[0].ID: 2, keys[1].ID: 1, keys[2].ID: 0} {
		peers := b.findSendersOf([]wire.MessageID{id}, nil)
		query, args := newHeldQuery(&client.InboxParams{IDs: []wire.MessageID{id}}, new("claude"), peers, 9)
		if plan := explain(t, db, query, args...); len(peers) != max(want, 1) || !strings.Contains(plan, "(peer=? AND id=?") {
			t.Errorf("%d of %d: %s", len(peers), want, plan)
		}
		list, err := b.List(t.Context(), &client.InboxParams{IDs: []wire.MessageID{id}}, nil, nil, 1<<20)
		if err != nil || len(list.Messages) != want {
			t.Errorf("%d are listed, want %d: %v", len(list.Messages), want, err)
		}
	}
}

// explain returns how SQLite runs a query.
func explain(t *testing.T, db *store.DB, query string, args ...any) string {
	t.Helper()
	plan, err := store.ReadValue(t.Context(), db, func(tx *store.Tx) ([]string, error) {
		return store.ReadRows(tx, "EXPLAIN QUERY PLAN "+query, func(scan func(...any) error) (line string, err error) {
			var n int
			err = scan(&n, &n, &n, &line)
			return line, err
		}, args...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "; ")
}

// A page is read as far as it has room, and the next one goes on there.
func TestPagesOfLargeMessages(t *testing.T) {
	db := statedb.New(t, schema.Migrate)
	b := openedInbox(t, db)
	keys := hold(t, db, 7, identity.ID{1}, kinds.KindNotify, "claude")
	for _, room := range []int{0, 5000, 12000, 1 << 20} {
		var after uint64
		var got []MessageKey
		for pages := 0; ; pages++ {
			rows, err := store.ReadValue(t.Context(), db, func(tx *store.Tx) ([]heldRow, error) {
				return readHeldMessages(tx, &client.InboxParams{After: after}, new("claude"), nil, 100, room)
			})
			if most := max(2, 1+room/5000); err != nil || len(rows) > most {
				t.Fatalf("room for %d bytes: %d rows are read, want %d at most: %v", room, len(rows), most, err)
			}
			list, err := b.List(t.Context(), &client.InboxParams{After: after}, new("claude"), nil, room)
			if err != nil || len(list.Messages) == 0 || pages > len(keys) {
				t.Fatalf("room for %d bytes: page %d has %d messages: %v", room, pages, len(list.Messages), err)
			}
			for _, m := range list.Messages {
				got = append(got, MessageKey{m.Envelope.From, m.Envelope.ID})
			}
			if after = list.Next; after == 0 {
				break
			}
		}
		if !slices.Equal(got, keys) {
			t.Errorf("room for %d bytes: listed are %d messages, want %d", room, len(got), len(keys))
		}
	}
}

// BenchmarkFullInbox measures what an agent costs that comes back to a full inbox of others'.
func BenchmarkFullInbox(b *testing.B) {
	db := statedb.New(b, schema.Migrate)
	wanted := make(map[identity.ID][]string)
	for i := range 4 {
		wanted[identity.ID{byte(i + 1)}] = []string{kinds.KindNotify, kinds.KindResult}
		hold(b, db, int(budget.Inbox.Peer), identity.ID{byte(i + 1)}, kinds.KindNotify, "claude")
		hold(b, db, 20, identity.ID{byte(i + 1)}, kinds.KindResult, "claude")
	}
	box := openedInbox(b, db)
	for name, run := range map[string]func() error{
		"list":  func() error { _, err := box.ListKeys(b.Context(), "claude", wanted, 108); return err },
		"count": func() error { _, _, err := box.CountMessages(b.Context(), "codex", 99); return err },
		"read a page": func() error {
			_, err := box.List(b.Context(), &client.InboxParams{Limit: 10}, new("claude"), nil, 1<<20)
			return err
		},
		"read what a peer sent": func() error {
			_, err := box.List(b.Context(), &client.InboxParams{Limit: 10}, nil, []identity.ID{{1}}, 1<<20)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
