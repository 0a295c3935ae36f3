package carrier

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/store"
)

// A host that takes its time to hear of an agent keeps no news from the others.
func TestNoHostWaitsToHearOfAgents(t *testing.T) {
	t.Parallel()
	slow, quick := identity.ID{1}, identity.ID{2}
	var mu sync.Mutex
	record, told := "first", map[string]bool{}
	end := make(chan struct{})
	tell := func(_ context.Context, host identity.ID, _, record string) (bool, error) {
		if host == slow {
			<-end
			return true, nil
		}
		mu.Lock()
		defer mu.Unlock()
		told[record] = true
		return true, nil
	}
	db := openStore(t)
	for _, host := range []identity.ID{slow, quick} {
		err := db.Write(t.Context(), true, func(tx *store.Tx) error { return sqlSaveGuest(tx, host, "planner", "none") })
		if err != nil {
			t.Fatal(err)
		}
	}
	q, err := openRecords(t.Context(), db, slog.New(slog.DiscardHandler), func(string) (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		return record, false
	}, tell, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { q.run(ctx, func() []identity.ID { return []identity.ID{slow, quick} }) })
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	t.Cleanup(func() { close(end) })
	for _, r := range []string{"first", "second", "third"} {
		mu.Lock()
		record = r
		mu.Unlock()
		q.wake.up()
		await.Until(t, r, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return told[r]
		})
	}
}

// What is told while a host is forgotten is counted as what is there.
func TestGuestsOfAForgottenHostCountNoMore(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	calls := 0
	record := func(string) (string, bool) {
		if calls++; calls == 2 { // the first is before the turn of who tells
			close(begun)
			<-end
		}
		return "record", false
	}
	tell := func(context.Context, identity.ID, string, string) (bool, error) { return true, nil }
	q, err := openRecords(t.Context(), openStore(t), slog.New(slog.DiscardHandler), record, tell, nil)
	if err != nil {
		t.Fatal(err)
	}
	introduced := make(chan error, 1)
	go func() { introduced <- q.introduce(context.Background(), desk.ID, "planner") }()
	await.From(t, "who tells", begun)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	q.drop(over, desk.ID) // it does not get its turn
	close(end)
	if err := await.From(t, "the introduction", introduced); err != nil {
		t.Fatal(err)
	}
	if q.count != 1 || !slices.Equal(q.known(), []identity.ID{desk.ID}) {
		t.Errorf("%d agents are known at %v", q.count, q.known())
	}
	if err := q.drop(t.Context(), desk.ID); err != nil || q.count != 0 || len(q.known()) != 0 {
		t.Errorf("once it is forgotten: %d agents are known at %v: %v", q.count, q.known(), err)
	}
}

// What a daemon knows of another's agents goes when that is trusted no more, and is told
// again when it is trusted again, though its agents have done nothing since; what names
// them here stays.
func TestRecordsGoWithTrust(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"connected": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk, laptop := pair(t)
			planner, reviewer := desk.agent("planner"), laptop.agent("reviewer")
			reviewer.must(201, "POST", "agents/register", object{"role_id": "review", "name": "The reviewer"})
			intent := "intents/" + planner.must(201, "POST", "intents", object{"title": "Ship it"})["id"].(string)
			at := "reviewer@" + laptop.key.ID().String()
			channel := "channels/" + planner.must(201, "POST", intent+"/channels", object{"name": "build", "members": []string{"planner", at}})["id"].(string)
			reviewer.must(200, "GET", channel, nil)
			if a := planner.must(200, "GET", "agents/"+at, nil); a["role_id"] != "review" || a["status"] != "active" {
				t.Fatalf("before: %v", a)
			}
			peer, _ := desk.trust.Get(laptop.key.ID())
			if err := desk.trust.Untrust(peer.ID); err != nil {
				t.Fatal(err)
			}
			desk.node.Disconnect(peer.ID)
			if known, err := desk.Known(t.Context()); err != nil || !slices.Contains(known, peer.ID) {
				t.Errorf("before it is forgotten: %v %v", known, err)
			}
			if err := desk.Forget(t.Context(), peer.ID); err != nil {
				t.Fatal(err)
			}
			if known, err := desk.Known(t.Context()); err != nil || slices.Contains(known, peer.ID) {
				t.Errorf("once it is forgotten: %v %v", known, err)
			}
			desk.again()
			planner = desk.agent("planner")
			planner.must(404, "GET", "agents/"+at, nil)
			if list := planner.list("agents"); find(list, "agent_id", "reviewer") != nil {
				t.Errorf("listed: %v", list)
			}
			if restart {
				laptop.stop()
			}
			if _, err := desk.trust.Trust(peer); err != nil {
				t.Fatal(err)
			}
			if restart {
				laptop.start()
			}
			desk.node.Connect(peer.ID)
			laptop.node.Connect(desk.key.ID())
			await.Until(t, "the record", func() bool {
				answer := planner.do("GET", "agents/"+at, nil) // of what is known here
				defer answer.Body.Close()
				var a object
				return answer.StatusCode == 200 && json.UnmarshalRead(answer.Body, &a) == nil && a["role_id"] == "review" && a["name"] == "The reviewer"
			})
			if ch := planner.must(200, "GET", channel, nil); !slices.Contains(ch["members"].([]any), any(at)) {
				t.Errorf("its members: %v", ch["members"])
			}
		})
	}
}
