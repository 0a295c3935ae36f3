package remote

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
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
		err := db.Write(t.Context(), true, func(tx *store.Tx) error { return sqlSaveToldAgentRecord(tx, host, "planner", "none") })
		if err != nil {
			t.Fatal(err)
		}
	}
	q, err := openIntroductions(t.Context(), db, slog.New(slog.DiscardHandler), func(string) (string, bool) {
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
		q.wake.Set()
		await.Until(t, r, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return told[r]
		})
	}
}

// What is told while a host is forgotten is counted as what is there.
func TestRecordsOfAForgottenHostCountNoMore(t *testing.T) {
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
	q, err := openIntroductions(t.Context(), openStore(t), slog.New(slog.DiscardHandler), record, tell, nil)
	if err != nil {
		t.Fatal(err)
	}
	introduced := make(chan error, 1)
	go func() { introduced <- q.introduceAgent(context.Background(), desk.ID, "planner") }()
	await.Receive(t, "who tells", begun)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	q.deleteHost(over, desk.ID) // it does not get its turn
	close(end)
	if err := await.Receive(t, "the introduction", introduced); err != nil {
		t.Fatal(err)
	}
	if q.count != 1 || !slices.Equal(q.listHosts(), []identity.ID{desk.ID}) {
		t.Errorf("%d agents are known at %v", q.count, q.listHosts())
	}
	if err := q.deleteHost(t.Context(), desk.ID); err != nil || q.count != 0 || len(q.listHosts()) != 0 {
		t.Errorf("once it is forgotten: %d agents are known at %v: %v", q.count, q.listHosts(), err)
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
			peer, _ := desk.trust.FindPeer(laptop.key.ID())
			if err := desk.trust.Untrust(peer.ID); err != nil {
				t.Fatal(err)
			}
			desk.node.Disconnect(peer.ID)
			if known, err := desk.ListKnownPeers(t.Context()); err != nil || !slices.Contains(known, peer.ID) {
				t.Errorf("before it is forgotten: %v %v", known, err)
			}
			if err := desk.ForgetPeer(t.Context(), peer.ID); err != nil {
				t.Fatal(err)
			}
			if known, err := desk.ListKnownPeers(t.Context()); err != nil || slices.Contains(known, peer.ID) {
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

// A message that waited while its host had forgotten who sends it goes out when the host
// knows that again: access by a role is by the record.
func TestWhatWaitedGoesOnceItsSenderIsKnownAgain(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := desk.agent("planner"), laptop.agent("reviewer")
	reviewer.must(201, "POST", "agents/register", object{"role_id": "review"})
	intent := "intents/" + planner.must(201, "POST", "intents", object{"title": "Ship it"})["id"].(string)
	channel := "channels/" + planner.must(201, "POST", intent+"/channels", object{"name": "build"})["id"].(string)
	planner.must(200, "PUT", intent+"/acl", object{"default_policy": "closed", "entries": []object{
		{"principal_id": "review", "principal_type": "role", "permission": "write", "home": laptop.key.ID().String()},
	}})
	reviewer.must(200, "GET", channel, nil)
	peer, _ := desk.trust.FindPeer(laptop.key.ID())
	for n := range 5 { // what is told of the agent and what it has sent go on their ways at once
		if err := desk.trust.Untrust(peer.ID); err != nil {
			t.Fatal(err)
		}
		desk.node.Disconnect(peer.ID)
		await.Until(t, "apart", func() bool { _, up := laptop.node.Peer(desk.key.ID()); return !up })
		desk.stop() // nobody is there: its message waits
		id := reviewer.must(201, "POST", channel+"/messages", object{"message_type": "notify", "payload": object{"n": n}})["id"].(string)
		desk.start()
		if err := desk.ForgetPeer(t.Context(), peer.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := desk.trust.Trust(peer); err != nil {
			t.Fatal(err)
		}
		desk.node.Connect(peer.ID)
		laptop.node.Connect(desk.key.ID())
		await.Until(t, "the end of its wait", func() bool {
			m := find(reviewer.list("unsent"), "id", id)
			if m != nil && m["status"] == "refused" {
				t.Fatalf("it was refused: %v", m["refusal"])
			}
			return m == nil
		})
		reviewer.must(200, "GET", channel+"/messages/"+id, nil)
	}
}

// A host that came into reach is asked whom it knows before anything goes to it, and again
// where it could not say; not where it is of a version that cannot, and where it refuses to it
// says why to what comes.
func TestAHostIsAskedWhomItKnows(t *testing.T) {
	t.Parallel()
	const ask, tell, get = "GET /api/v1/records", "PUT /api/v1/agents/planner/record", "GET /api/v1/" + farChannel
	for _, r := range []struct {
		answer int   // the first to ask
		want   []int // what two requests of an agent are answered
		asked  []string
	}{
		{404, []int{410, 410}, []string{ask, get, get}},
		{403, []int{410, 410}, []string{ask, get, ask, tell, get}},
		{429, []int{503, 410}, []string{ask, ask, tell, get}},
		{503, []int{503, 410}, []string{ask, ask, tell, get}},
		{500, []int{502, 410}, []string{ask, ask, tell, get}},
		{200, []int{410, 410}, []string{ask, tell, get, get}},
	} {
		var mu sync.Mutex
		var asked []string // since the host has come into reach
		up := false
		c := home(t, func(context.Context) (Stream, error) {
			s := new(spoken)
			s.in = &answering{answer: func() string {
				request := strings.Join(strings.Fields(s.said())[:2], " ")
				status := map[string]int{ask: 200, tell: 204, get: 410}[request]
				if status == 0 {
					return "HTTP/1.1 503 Later\r\nConnection: close\r\n\r\n{}" // it is followed, too
				}
				mu.Lock()
				defer mu.Unlock()
				if up {
					asked = append(asked, request)
				}
				if up && len(asked) == 1 {
					status = r.answer
				}
				return fmt.Sprintf("HTTP/1.1 %d So\r\nConnection: close\r\n\r\n{\"agents\":[]}", status)
			}}
			return s, nil
		})
		if status, got := local[object](t, c, "planner", "POST", "agents/register", `{"role_id": "review"}`); status != 201 {
			t.Fatal(status, got)
		}
		local[object](t, c, "planner", "GET", farChannel, "")
		mu.Lock()
		up = true
		mu.Unlock()
		c.SetPeerConnected(desk.ID, true)
		for i, want := range r.want {
			if status, got := local[object](t, c, "planner", "GET", farChannel, ""); status != want || status != 410 && got["delivered"] != "no" {
				t.Errorf("%d: request %d is answered %d %v, want %d", r.answer, i, status, got, want)
			}
		}
		mu.Lock()
		if !slices.Equal(asked, r.asked) {
			t.Errorf("%d: it was asked %q, want %q", r.answer, asked, r.asked)
		}
		mu.Unlock()
	}
}

// answering reads what answer returns when it is first read.
type answering struct {
	answer func() string
	io.Reader
}

func (r *answering) Read(b []byte) (int, error) {
	if r.Reader == nil {
		r.Reader = strings.NewReader(r.answer())
	}
	return r.Reader.Read(b)
}
