package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A result as large as a message may be is read back, with the last partial one, as large as
// those may be, before it, and stays out of the lists.
func TestLargeResultsAreReadBack(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	asker := desk.dial()
	outcome := "é" + long(wire.DefaultMaxMessage-1024)
	report := func(ref wire.MessageID, payload wire.Payload) { // repeats it if the receipt is late, as it may be on a loaded machine
		t.Helper()
		p := client.ResultParams{Head: client.Head{ID: wire.NewMessageID()}, Ref: ref, Payload: payload}
		await.Until(t, "the result is reported", func() bool {
			err := worker.call("result", p, nil)
			if err != nil && !errors.Is(err, &kinds.Error{Code: kinds.Timeout}) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	for range 3 {
		given := delegateTo(asker, "laptop", kinds.EncodePayload(&kinds.Delegate{Task: outcome}))
		some := outcome[:kinds.MaxPartial-64]
		report(given.ID, kinds.EncodePayload(&kinds.Result{Status: "partial", Outcome: some}))
		if s := asker.state(given.ID); len(s.Partial) < len(some) {
			t.Errorf("%d bytes of the partial result", len(s.Partial))
		}
		final := completed(outcome)
		report(given.ID, final)
		for name, l := range map[string]*program{"wait": asker, "task": worker} {
			s := get[client.Task](l, name, client.WaitParams{ID: given.ID})
			if string(s.Result) != string(final) || s.Partial != nil || s.Task != s.Outcome || s.Outcome != "é"+long(client.MaxBeginning-5)+"…" {
				t.Errorf("%s: %d and %d bytes, task %q, outcome %q", name, len(s.Result), len(s.Partial), s.Task, s.Outcome)
			}
		}
	}
	all := get[client.Tasks](asker, "tasks", nil)
	if len(all.Tasks) != 3 || all.Next != 0 {
		t.Errorf("%d tasks, next %d", len(all.Tasks), all.Next)
	}
	n := 0
	for p := (client.InboxParams{}); ; { // each of the three needs an answer of its own
		in := get[client.Inbox](asker, "inbox", p)
		n += len(in.Messages)
		if p.After = in.Next; p.After == 0 {
			break
		}
	}
	if n != 3 {
		t.Errorf("%d results are in the inbox", n)
	}
}

// Full tables, with texts that are as long as can be in JSON, are listed in answers
// that fit the smallest line there is.
func TestFullTablesAreListed(t *testing.T) {
	t.Parallel()
	d := startConfigured(t, "desk", "max_message: 65536\n")
	for _, direction := range []client.TaskDirection{client.Given, client.Taken} {
		for range delegation.MaxDelegations {
			e, _, err := d.delegations.AddDelegation(t.Context(), &delegation.Delegation{Direction: direction, Peer: identity.ID{1}, ID: wire.NewMessageID(), Created: time.Now()}, strings.Repeat("\x00", 1000))
			if err == nil { // without a report it is over, and counts as none of its peer's
				_, err = d.delegations.RecordPartial(t.Context(), e, delegation.Partial{})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	l := d.dial()
	seen := make(map[wire.MessageID]bool)
	for p := (client.TasksParams{}); ; {
		page := get[client.Tasks](l, "tasks", p)
		for _, row := range page.Tasks {
			seen[row.ID] = true
		}
		if p.After = page.Next; p.After == 0 {
			break
		}
	}
	if len(seen) != 2*delegation.MaxDelegations {
		t.Errorf("%d of %d are listed", len(seen), 2*delegation.MaxDelegations)
	}
	page := get[client.Tasks](l, "tasks", client.TasksParams{Limit: 2, After: 10})
	if len(page.Tasks) != 2 || page.Next != 8 {
		t.Errorf("%d tasks, next %d", len(page.Tasks), page.Next)
	}
	l.refused(kinds.Invalid, "tasks", client.TasksParams{Limit: -1})
}

// Payloads are spliced as they were written, wherever a result or a copy holds one.
func TestPayloadsAreSpliced(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	const text = `"\ud83d\ude00 \/ \u0041"`
	const ack = `{"accepted":true,"x":` + text + `}`
	laptop.agent(client.AttachParams{Name: "reviewer", Kinds: []string{"delegate", "cancel"}}, say(ack))
	copies := make(chan string, 64)
	raw := laptop.raw()
	raw.line(`{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{"kinds":["notify"]}}`)
	go func() {
		for raw.Scan() {
			copies <- raw.Scanner.Text()
		}
	}()
	asker, worker := desk.dial(), laptop.dial()
	holds := func(l *program, method string, params any) {
		t.Helper()
		var result jsontext.Value
		if l.must(method, params, &result); !strings.Contains(string(result), text) {
			t.Errorf("%s: %s", method, result)
		}
	}
	asker.must("notify", client.NotifyParams{To: client.To("laptop"), Payload: wire.Payload(`{"topic":"t","data":` + text + `}`)}, nil)
	if c := await.Receive(t, "copy", copies); !strings.Contains(c, text) {
		t.Errorf("copy: %s", c)
	}
	holds(worker, "inbox", client.InboxParams{})
	p := client.DelegateParams{Head: client.Head{ID: wire.NewMessageID()}, To: "laptop", Payload: task1("")}
	holds(asker, "delegate", p)
	worker.must("result", client.ResultParams{Ref: p.ID, Payload: wire.Payload(`{"status":"completed","outcome":` + text + `}`)}, nil)
	holds(asker, "wait", client.WaitParams{ID: p.ID})
	holds(worker, "task", client.TaskParams{ID: p.ID})
	p.ID = wire.NewMessageID()
	holds(asker, "delegate", p)
	holds(asker, "cancel", client.CancelParams{Ref: p.ID})
}
