// Package scenario is what programs in several languages do with one daemon, and what each of them
// must see. The programs are in program (Go), scenario.py and scenario.mjs.
package scenario

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Transcript returns what a program of that name prints.
func Transcript(name string) string { return strings.ReplaceAll(transcript, "NAME", name) }

const transcript = `who: laptop
answer: You asked: é "1" 😀
answers: You asked: 0, You asked: 0, You asked: 0
error: unknown_peer false 0
error: no_agent true 0
error: overloaded true 1500
error: invalid false 0
back: NAME was asked by desk: and you?
progress: part 0 0.25
progress: part 1 0.75
result: completed done {"n":[1,2]}
failed: failed unknown_domain not here
failed: failed not_authorized no
cancelled: true cancelled
receipts: held unknown_peer
inbox: 1 true hello
removed: 1
`

// Programs returns the command lines of the programs, but for the name, by their languages. goProgram
// is the built one of Go.
func Programs(t *testing.T, folder, goProgram, python, node string) map[string][]string {
	t.Helper()
	folder, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]string{
		"go":     {goProgram},
		"python": {python, filepath.Join(folder, "scenario.py")},
		"node":   {node, filepath.Join(folder, "scenario.mjs")},
	}
}

// StartDesk attaches the agents that the programs talk to: echo, which answers, and worker. They
// end with the test.
func StartDesk(t *testing.T, desk *live.Machine) {
	t.Helper()
	desk.Attach(client.AttachParams{Name: "echo", MaxConcurrent: 64}, client.Handler{
		Query: func(ctx context.Context, in *client.Inbound) (any, error) {
			q, err := kinds.ParsePayload[kinds.Query](in.Payload)
			if err != nil {
				return nil, err
			}
			verb, name, _ := strings.Cut(q.Question, " ")
			switch verb {
			case "busy":
				e := kinds.Errorf(kinds.Overloaded, "come back")
				e.RetryAfterMS = 1500
				return nil, e
			case "ask":
				a, err := desk.Client.Query(ctx, client.QueryParams{Head: client.Head{Parent: in.ID}, To: "laptop/" + name, Payload: kinds.EncodePayload(&kinds.Query{Question: "and you?"})})
				if err != nil {
					return nil, err
				}
				return a.Payload, nil
			case "write":
				_, err := desk.Client.Notify(ctx, client.NotifyParams{To: client.To("laptop/" + name), Payload: kinds.EncodePayload(&kinds.Notify{Topic: "hello"})})
				return &kinds.Response{}, err
			}
			return &kinds.Response{Summary: "You asked: " + q.Question}, nil
		},
	})

	var mu sync.Mutex
	next := make(map[wire.MessageID]chan struct{}) // by the delegations that wait for it
	var working sync.WaitGroup
	t.Cleanup(working.Wait)
	report := func(send func(context.Context, client.ResultParams) (*client.Receipt, error), id wire.MessageID, payload any) {
		if _, err := send(context.Background(), client.ResultParams{Ref: id, Payload: kinds.EncodePayload(payload)}); err != nil {
			t.Errorf("%T: %v", payload, err)
		}
	}
	work := func(id wire.MessageID, task string, goOn chan struct{}) {
		switch task {
		case "steps":
			for n := range 2 {
				progress := 0.25 + float64(n)/2
				report(desk.Client.SendResult, id, &kinds.Result{Status: "partial", Outcome: fmt.Sprintf("part %d", n), Progress: &progress})
				<-goOn
			}
			report(desk.Client.SendResult, id, &kinds.Result{Status: "completed", Outcome: "done", Data: []byte(`{"n":[1,2]}`)})
		case "fail":
			report(desk.Client.SendError, id, kinds.Errorf(kinds.UnknownDomain, "not here"))
		case "refuse me":
			report(desk.Client.SendError, id, kinds.Errorf(kinds.NotAuthorized, "no"))
		}
	}
	desk.Attach(client.AttachParams{Name: "worker", MaxConcurrent: 64, Topics: []string{"next"}}, client.Handler{
		Delegate: func(_ context.Context, in *client.Inbound) (*kinds.Ack, error) {
			task, err := kinds.ParsePayload[kinds.Delegate](in.Payload)
			if err != nil {
				return nil, err
			}
			goOn := make(chan struct{}, 2)
			mu.Lock()
			next[in.ID] = goOn
			mu.Unlock()
			working.Go(func() { work(in.ID, task.Task, goOn) })
			return nil, nil
		},
		Cancel: func(context.Context, *client.Inbound) (*kinds.Ack, error) { return nil, nil },
		Notify: func(_ context.Context, in *client.Inbound) error {
			note, err := kinds.ParsePayload[kinds.Notify](in.Payload)
			var id wire.MessageID
			if err == nil {
				err = json.Unmarshal(note.Data, &id)
			}
			mu.Lock()
			defer mu.Unlock()
			if next[id] != nil {
				next[id] <- struct{}{}
			}
			return err
		},
	})
}
