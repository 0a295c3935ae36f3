package daemon

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// startWithDisk starts a daemon named desk on a disk of which the test says how many bytes
// are free: half of it at first.
func startWithDisk(t *testing.T) (desk *running, free *atomic.Uint64) {
	t.Helper()
	free = new(atomic.Uint64)
	free.Store(1 << 40)
	return startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, measure: func(string) (disk.Space, error) {
		return disk.Space{Free: free.Load(), Total: 1 << 41}, nil
	}}), free
}

// TestPeersAreRefusedOnALowDisk: below the floor what peers send is not kept, and they
// hear why; what is the user's own goes on, and all of it when there is space again.
// holds: security.md#on-this-machine
// holds: security.md#the-budget
func TestPeersAreRefusedOnALowDisk(t *testing.T) {
	t.Parallel()
	desk, free := startWithDisk(t)
	laptop := start(t, stateDir(t), "laptop")
	befriend(t, desk, laptop)
	desk.agent(client.AttachParams{Name: "reviewer", Kinds: []string{"delegate"}}, func(_ context.Context, r *jsonrpc.Request) { r.Respond(wire.Payload(accepted)) })
	intent := desk.web("planner").must(201, "POST", "intents", object{"title": "Ship it"})["id"].(string)
	caller := laptop.dial()
	notify := func() error {
		return caller.call("notify", client.NotifyParams{To: client.To("desk"), Head: client.Head{ID: wire.NewMessageID()}, Payload: kinds.EncodePayload(&kinds.Notify{Topic: "build"})}, nil)
	}
	delegate := func() error {
		return caller.call("delegate", client.DelegateParams{To: "desk", Head: client.Head{ID: wire.NewMessageID()}, Payload: kinds.EncodePayload(&kinds.Delegate{Task: "mend it"})}, nil)
	}
	post := func() (int, string) {
		answer := laptop.web("worker").do("POST", "intents/"+intent+"/channels", object{"name": "build"})
		defer answer.Body.Close()
		return answer.StatusCode, answer.Status
	}
	if err := notify(); err != nil {
		t.Fatal(err)
	}
	free.Store(1<<30 - 1)
	await.Until(t, "the floor is noticed", func() bool { return desk.space.IsLow() })
	for name, call := range map[string]func() error{"notify": notify, "delegate": delegate} {
		for range 10 {
			e := kinds.AsError(call())
			if e.Code != kinds.Overloaded || !e.Retryable || e.Delivered() != kinds.DeliveredNo || !strings.Contains(e.Message, "budget: free_space") {
				t.Fatalf("%s on a low disk: %v", name, e)
			}
		}
	}
	desk.agent(client.AttachParams{Name: "planner", Kinds: []string{"notify"}}, func(_ context.Context, r *jsonrpc.Request) { r.RespondError(errors.New("not now")) })
	if e := kinds.AsError(notify()); e.Code != kinds.Overloaded || e.Delivered() != "" {
		t.Errorf("a notify that an agent had, on a low disk: %v, delivered %q", e, e.Delivered())
	}
	if code, status := post(); code != http.StatusInsufficientStorage {
		t.Errorf("a channel on a low disk: %s", status)
	}
	if err := desk.space.CheckMailRoom(laptop.ID()); err == nil {
		t.Error("mail is taken on a low disk")
	}
	desk.web("planner").must(201, "POST", "intents", object{"title": "Also on a low disk"})
	held := get[client.Inbox](desk.dial(), "inbox", client.InboxParams{})
	if len(held.Messages) != 1 {
		t.Errorf("%d messages are held", len(held.Messages))
	}
	budget := get[client.Budget](desk.dial(), "budget", nil)
	refused := uint64(0)
	for _, u := range budget.Usage {
		if u.Row == "free_space" && u.Peer == laptop.ID() {
			refused = u.Refused
		}
	}
	for _, r := range budget.Rows {
		if r.Name == "free_space" && (r.Unit != "bytes_free" || r.Held != 1<<30-1 || r.All != 1<<30 || r.Peer != 1<<30) {
			t.Errorf("the budget tells of %+v", r)
		}
	}
	if refused < 21 {
		t.Errorf("the budget tells of %d refusals", refused)
	}
	free.Store(1 << 40)
	await.Until(t, "the space is noticed", func() bool { return !desk.space.IsLow() })
	for name, call := range map[string]func() error{"notify": notify, "delegate": delegate} {
		if err := call(); err != nil {
			t.Errorf("%s with space again: %v", name, err)
		}
	}
	if code, status := post(); code == http.StatusInsufficientStorage {
		t.Errorf("a channel with space again: %s", status)
	}
}

// TestAFullDiskTellsThatNothingArrived: the sender of a message that finds no room on the disk may send it anew.
func TestAFullDiskTellsThatNothingArrived(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.agent(client.AttachParams{Name: "reviewer", Kinds: []string{"delegate"}}, func(_ context.Context, r *jsonrpc.Request) {
		r.Respond(wire.Payload(`{"accepted":false,"code":"not_authorized"}`))
	})
	if err := laptop.store.Write(t.Context(), false, func(tx *store.Tx) error {
		return tx.EachRow("PRAGMA max_page_count = 1", func(func(...any) error) error { return nil })
	}); err != nil {
		t.Fatal(err)
	}
	caller := desk.dial()
	for method, params := range map[string]any{
		"notify":   client.NotifyParams{To: client.To("laptop"), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "build", Data: jsontext.Value(`"` + long(10_000) + `"`)})},
		"delegate": client.DelegateParams{To: "laptop", Payload: kinds.EncodePayload(&kinds.Delegate{Task: "mend it"})},
	} {
		e := new(kinds.Error)
		for n := 0; e.Code != kinds.Overloaded && n < 1000; n++ { // until what was free in the file is used up
			if err := caller.call(method, params, nil); err != nil {
				e = kinds.AsError(err)
			}
		}
		if e.Code != kinds.Overloaded || e.From != laptop.ID().String() || e.Delivered() != kinds.DeliveredNo || !strings.Contains(e.Message, "disk is full") {
			t.Errorf("%s: %v, delivered %q", method, e, e.Delivered())
		}
	}
}

// TestReserveWaitsForNoPeer: what asks a peer has the reserve only to write what it
// said.
func TestReserveWaitsForNoPeer(t *testing.T) {
	t.Parallel()
	desk := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, measure: func(string) (disk.Space, error) {
		return disk.Space{}, nil
	}})
	laptop := start(t, stateDir(t), "laptop")
	befriend(t, desk, laptop)
	reserve := func() bool {
		_, err := os.Stat(desk.home.filePath("reserve"))
		return err == nil
	}
	laptop.agent(client.AttachParams{Name: "reviewer", Kinds: []string{"delegate"}}, func(_ context.Context, r *jsonrpc.Request) {
		if !reserve() {
			t.Errorf("a peer is asked to %s, and the reserve is spent", r.Method)
		}
		r.Respond(wire.Payload(accepted))
	})
	asker := desk.dial()
	given := delegateTo(asker, "laptop", task1(""))
	asker.must("cancel", client.CancelParams{Ref: given.ID}, nil)
	if s := asker.state(given.ID); s.State != client.TaskCancelled {
		t.Errorf("%+v", s)
	}
}

// TestResultsAreRefusedOnALowDisk: what a peer reports is its writes too.
// holds: security.md#on-this-machine
func TestResultsAreRefusedOnALowDisk(t *testing.T) {
	t.Parallel()
	desk, free := startWithDisk(t)
	laptop := start(t, stateDir(t), "laptop")
	befriend(t, desk, laptop)
	worker := laptop.agent(client.AttachParams{Name: "reviewer", Kinds: []string{"delegate"}}, func(_ context.Context, r *jsonrpc.Request) { r.Respond(wire.Payload(accepted)) })
	asker := desk.dial()
	given := delegateTo(asker, "laptop", task1(""))
	report := func(status string) error {
		return worker.call("result", client.ResultParams{Ref: given.ID, Head: client.Head{ID: wire.NewMessageID()}, Payload: kinds.EncodePayload(&kinds.Result{Status: status, Outcome: "done"})}, nil)
	}
	free.Store(1<<30 - 1)
	await.Until(t, "the floor is noticed", func() bool { return desk.space.IsLow() })
	for _, status := range []string{"partial", "completed"} {
		if e := kinds.AsError(report(status)); e.Code != kinds.Overloaded || !strings.Contains(e.Message, "budget: free_space") {
			t.Errorf("%s on a low disk: %v", status, e)
		}
	}
	if s := asker.state(given.ID); s.State != client.TaskAccepted || s.Partials != 0 {
		t.Errorf("on a low disk: %+v", s)
	}
	free.Store(1 << 40)
	await.Until(t, "the space is noticed", func() bool { return !desk.space.IsLow() })
	if err := report("completed"); err != nil {
		t.Errorf("with space again: %v", err)
	}
	if s := asker.state(given.ID); s.State != client.TaskCompleted {
		t.Errorf("with space again: %+v", s)
	}
}

// Strangers are shown by the link on which they are, and under no id.
func TestUsageOfStrangers(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	l := desk.dial()
	l.must("relay.add", client.RelayAddParams{URL: "tls://127.0.0.1:1", Name: "hub", NoCheck: true}, nil)
	account := desk.budget.OpenAccount(budget.LogLines)
	for _, link := range []string{"", "relay:hub", "pipe", "relay:gone"} {
		if err := account.Reserve(budget.StrangersOn(link), 1); err != nil {
			t.Fatal(err)
		}
	}
	b := get[client.Budget](l, "budget", nil)
	shown := make(map[string]int)
	for _, u := range b.Usage {
		if u.Row == budget.LogLines.Name && u.Peer.IsZero() {
			shown[u.Name]++
		}
	}
	for _, name := range []string{"strangers", "strangers on relay:hub", "strangers on pipe", "strangers on a relay that was removed"} {
		if shown[name] != 1 {
			t.Errorf("%s: %d rows of %v", name, shown[name], shown)
		}
	}
}

// A peer that asks for ever leaves a place of the agent to another one.
// holds: security.md#the-budget
func TestPeerLeavesAPlaceToOthers(t *testing.T) {
	t.Parallel()
	hog, laptop := pair(t)
	desk := start(t, stateDir(t), "planner")
	befriend(t, desk, laptop)
	desk.dial().must("ping", client.PingParams{To: "laptop"}, nil) // a place is left only while another peer is connected
	leave := make(chan struct{})
	laptop.agent(client.AttachParams{Name: "reviewer", MaxConcurrent: 4}, func(ctx context.Context, r *jsonrpc.Request) {
		if parse[kinds.Query](t, bind(t, r).Payload).Question == "slow" {
			<-leave
		}
		r.Respond(wire.Payload(`{"summary":""}`))
	})
	var asking sync.WaitGroup
	defer asking.Wait()
	defer close(leave)
	refused := make(chan error, 40)
	asker := hog.dial()
	for range 40 {
		asking.Go(func() {
			if err := asker.call("query", client.QueryParams{To: "laptop", Payload: query("slow")}, nil); err != nil {
				refused <- err
			}
		})
	}
	for range 37 {
		if err := await.Receive(t, "refusal", refused); !errors.Is(err, &kinds.Error{Code: kinds.Overloaded, RetryAfterMS: 1000}) {
			t.Fatalf("the hog was refused with %v", err)
		}
	}
	desk.dial().must("query", client.QueryParams{To: "laptop", Payload: query("quick")}, nil)
	b := get[client.Budget](laptop.dial(), "budget", nil)
	for _, u := range b.Usage {
		if u.Row == budget.Places.Name && (u.Peer != hog.ID() || u.Name != "desk" || u.Refused != 37) {
			t.Errorf("budget shows %+v, want 37 refusals of the hog", u)
		}
	}
}
