package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// attachSlowReviewer attaches an agent with four places, which answers the question "slow" when leave is closed.
func attachSlowReviewer(t *testing.T, to *running) (leave chan struct{}) {
	t.Helper()
	leave = make(chan struct{})
	to.agent(client.AttachParams{Name: "reviewer", MaxConcurrent: 4}, func(ctx context.Context, r *jsonrpc.Request) {
		if parse[kinds.Query](t, bind(t, r).Payload).Question == "slow" {
			<-leave
		}
		r.Respond(wire.Payload(`{"summary":""}`))
	})
	return leave
}

// A peer that asks for ever leaves a place of the agent to another one.
// holds: security.md#the-budget
func TestPeerLeavesAPlaceToOthers(t *testing.T) {
	t.Parallel()
	hog, laptop := pair(t)
	desk := start(t, stateDir(t), "planner")
	befriend(t, desk, laptop)
	desk.dial().must("ping", client.PingParams{To: "laptop"}, nil) // a place is left only while another peer is connected
	leave := attachSlowReviewer(t, laptop)
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
	var b client.Budget
	laptop.dial().must("budget", nil, &b)
	for _, u := range b.Usage {
		if u.Row == budget.Places.Name && (u.Peer != hog.ID() || u.Name != "desk" || u.Refused != 37) {
			t.Errorf("budget shows %+v, want 37 refusals of the hog", u)
		}
	}
}

// What peers have piled up for an agent that reads slowly takes neither the room nor the
// turn of another one's query.
// holds: security.md#the-budget
func TestPeersTakeTurnsAtAnAgent(t *testing.T) {
	t.Parallel()
	hog, laptop := pair(t)
	hog2, desk := start(t, stateDir(t), "second"), start(t, stateDir(t), "planner")
	befriend(t, hog2, laptop)
	befriend(t, desk, laptop)
	agent := laptop.raw()
	agent.line(`{"jsonrpc":"2.0","id":1,"method":"attach","params":{"name":"reviewer","max_concurrent":64}}`)
	var asking sync.WaitGroup
	defer asking.Wait()
	said := make(chan error, 1)
	sent := make(map[*running][]wire.MessageID)
	ask := func(d *running, question string) {
		caller, id := d.dial(), wire.NewMessageID()
		sent[d] = append(sent[d], id)
		asking.Go(func() {
			err := caller.call("query", client.QueryParams{Head: client.Head{ID: id}, To: "laptop", Payload: query(question)}, nil)
			if d == desk {
				said <- err
			}
		})
	}
	waiting := func(d *running) (n int) {
		for _, id := range sent[d] {
			if !laptop.known.FindDeadline(id).IsZero() {
				n++
			}
		}
		return n
	}
	const each = 3 // as many as a peer may have in memory
	for range each {
		ask(hog, long(900<<10))
		ask(hog2, long(900<<10))
	}
	await.Until(t, "the agent's queue is full", func() bool { return waiting(hog)+waiting(hog2) >= 5 })
	ask(desk, "quick")
	await.Until(t, "the query is queued or refused", func() bool { return waiting(desk) == 1 || len(said) == 1 })
	for before := 0; len(said) == 0; before++ {
		if before > 3 {
			t.Fatalf("the query waits behind %d lines of others", before)
		}
		if !agent.Scan() {
			t.Fatal(agent.Err())
		}
		var asked struct {
			ID     int `json:"id"`
			Params struct {
				From identity.ID `json:"from"`
			} `json:"params"`
		}
		if err := json.Unmarshal(agent.Bytes(), &asked); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(agent, `{"jsonrpc":"2.0","id":%d,"result":{"summary":""}}`+"\n", asked.ID)
		if asked.Params.From == desk.ID() {
			break
		}
	}
	if err := await.Receive(t, "an answer", said); err != nil {
		t.Error(err)
	}
	agent.Close() // the others' queries end
}

// A peer that counts by its certificate has half of an agent's places, while one that the owner trusts is
// connected.
// holds: security.md#the-budget
func TestACertifiedPeerLeavesHalfOfThePlaces(t *testing.T) {
	t.Parallel()
	_, hog, build := fleet(t, "", "policy: {desk.corp: {kinds: [ping, query]}}\n")
	laptop := start(t, stateDir(t), "laptop")
	befriend(t, laptop, build)
	asker := hog.dial()
	asker.reach("build-7.corp")
	leave := attachSlowReviewer(t, build)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer close(leave)
	refused := make(chan error, 10)
	for range 10 {
		asking.Go(func() {
			if err := asker.call("query", client.QueryParams{To: "build-7.corp", Payload: query("slow")}, nil); err != nil {
				refused <- err
			}
		})
	}
	for range 8 {
		err := await.Receive(t, "refusal", refused)
		if !errors.Is(err, &kinds.Error{Code: kinds.Overloaded, RetryAfterMS: 1000}) || !strings.Contains(err.Error(), "of certified peers") {
			t.Fatalf("the certified peer was refused with %v", err)
		}
	}
	laptop.dial().must("query", client.QueryParams{To: "build-7", Payload: query("quick")}, nil)
}
