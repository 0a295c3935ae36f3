package kept

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// sweepNow sweeps, as Run does, until all agents are told.
func (d *desk) sweepNow() {
	d.t.Helper()
	d.sweep(d.t.Context())
	d.Calls.Wait()
}

// TestARestartWhileAMessageIsSent: such a query ends as unknown, of which its sender is told once; what was not being
// sent stays kept.
func TestARestartWhileAMessageIsSent(t *testing.T) {
	d := open(t)
	sent, next := d.mustKeep(laptop, "", "planner", 0), d.mustKeep(laptop, "", "planner", 0)
	m := d.claimFirst(recipient{laptop, ""}, nil, func(error) {})
	if err := d.write(t.Context(), true, func(tx *store.Tx) error { return updateSending(tx, m) }); err != nil {
		t.Fatal(err)
	}
	d.reopen()
	// A try that fails before the first sweep does not make it one that may be sent.
	d.noteTry(t.Context(), recipient{laptop, ""}, 0, away)
	d.is(sent, client.TaskSent)
	if m := d.claimFirst(recipient{laptop, ""}, nil, func(error) {}); m == nil || m.id != next {
		t.Fatalf("%+v is sent next", m)
	}
	d.reopen()
	for range 2 {
		d.sweepNow()
		task := d.is(sent, client.TaskUnknown)
		if !task.Over || !strings.Contains(task.Outcome, mayHaveArrived) {
			t.Errorf("%+v", task)
		}
		d.isTold(sent, kinds.Internal)
		d.reopen()
	}
	if task := d.is(next, client.TaskKept); task.Kept.Tries != 1 {
		t.Errorf("%+v", task.Kept)
	}
}

// TestEndsAreShownForADay: then their rows go.
func TestEndsAreShownForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t)
		id, kept := d.mustKeep(laptop, "", "planner", 0), d.envelope(laptop, "", kinds.KindQuery, question(0))
		if err := d.sendOrKeep(kept, of(""), uint64(client.MaxKeep.Milliseconds()), away); kinds.AsError(err).Code != kinds.Kept {
			t.Fatal(err)
		}
		if _, err := d.Withdraw(t.Context(), nil, "", id, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(endedFor) // on the virtual clock
		d.isTold(id, kinds.Cancelled)
		d.is(id, client.TaskWithdrawn)
		time.Sleep(time.Second) // on the virtual clock
		d.sweepNow()
		if task, n := d.task(id), d.rows(); task != nil || n != 1 {
			t.Errorf("%+v, %d rows", task, n)
		}
		d.is(kept.ID, client.TaskKept)
		d.isTold(id, kinds.Cancelled)
	})
}

// TestWithdrawal: it ends a message of which its sender, and nobody else among the agents, may decide. It ends a try
// that is under way, and what it then may say is that the message may have arrived.
func TestWithdrawal(t *testing.T) {
	d := open(t)
	planner, tester := of("planner"), of("tester")
	id := d.mustKeep(laptop, "", "planner", 0)
	if task, err := d.Withdraw(t.Context(), &tester, "", id, ""); task != nil || err != nil || d.task(id).Over {
		t.Errorf("another agent withdraws it: %+v, %v", task, err)
	}
	task, err := d.Withdraw(t.Context(), &planner, "", id, "not needed")
	if err != nil || task.State != client.TaskWithdrawn || task.Outcome != "withdrawn: not needed" {
		t.Errorf("%+v, %v", task, err)
	}
	if task = d.is(id, client.TaskWithdrawn); parseError(t, task.Result).Code != kinds.Cancelled {
		t.Errorf("%s", task.Result)
	}
	if task, err := d.Withdraw(t.Context(), &planner, "", id, ""); err != nil || task.State != client.TaskWithdrawn || task.Outcome != "withdrawn: not needed" {
		t.Errorf("again: %+v, %v", task, err)
	}
	d.isTold(id, kinds.Cancelled)

	sent := d.mustKeep(laptop, "", "", 0)
	trying, stop := context.WithCancelCause(t.Context())
	m := d.claimFirst(recipient{laptop, ""}, nil, stop)
	done := make(chan *client.Task, 1)
	go func() {
		task, err := d.Withdraw(t.Context(), nil, "", sent, "")
		if err != nil {
			t.Error(err)
		}
		done <- task
	}()
	<-trying.Done()
	d.end(t.Context(), m, newFailedEnding(trying, m, kinds.NewErrorFromCause(context.Cause(trying))))
	d.release(m)
	if task := await.Receive(t, "the withdrawal", done); task.State != client.TaskUnknown || !task.Over {
		t.Errorf("%+v", task)
	}
	given := d.mustKeep(laptop, "", "", 0)
	gone, cancel := context.WithCancel(t.Context())
	if d.claimFirst(recipient{laptop, ""}, nil, func(error) { cancel() }) == nil {
		t.Fatal("nothing is sent")
	}
	if _, err := d.Withdraw(gone, nil, "", given, ""); !errors.Is(err, &kinds.Error{Code: kinds.Cancelled}) {
		t.Errorf("a caller that has gone away: %v", err)
	}
	d.is(given, client.TaskKept)
}

func parseError(t *testing.T, p wire.Payload) *kinds.Error {
	t.Helper()
	e, err := kinds.ParsePayload[kinds.Error](p)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestAnEndThatCannotBeWritten: its caller hears so, and it takes effect. It is told once, and written when there is room.
// Until then the message is not sent.
func TestAnEndThatCannotBeWritten(t *testing.T) {
	d := open(t)
	id := d.mustKeep(laptop, "", "planner", 0)
	mend := d.full("UPDATE")
	statedb.Exec(t, d.DB, "CREATE TRIGGER full_inbox BEFORE INSERT ON daemon_inbox BEGIN SELECT RAISE(ABORT, 'full'); END")
	if _, err := d.Withdraw(t.Context(), nil, "", id, ""); err == nil {
		t.Error("it is on the disk")
	}
	for range 2 {
		task := d.task(id)
		if task.State != client.TaskWithdrawn || !task.Over || parseError(t, task.Result).Code != kinds.Cancelled {
			t.Errorf("%+v: %s", task, task.Result)
		}
		if m := d.claimFirst(recipient{laptop, ""}, nil, func(error) {}); m != nil {
			t.Error("it is sent")
		}
		if all := d.inbox(); len(all) != 0 {
			t.Errorf("%+v", all)
		}
		d.sweepNow()
	}
	statedb.Exec(t, d.DB, "DROP TRIGGER full_inbox")
	d.sweepNow()
	d.isTold(id, kinds.Cancelled)
	mend()
	d.sweepNow()
	d.is(id, client.TaskWithdrawn)
	d.reopen()
	d.sweepNow()
	d.isTold(id, kinds.Cancelled)
}

// TestAMessageThatIsBeingWritten: no try takes it, and it is not withdrawn before it is on the disk.
func TestAMessageThatIsBeingWritten(t *testing.T) {
	d := open(t)
	writing, goOn := make(chan struct{}), make(chan struct{})
	go d.DB.Write(t.Context(), false, func(*store.Tx) error { close(writing); <-goOn; return nil })
	<-writing
	kept := make(chan wire.MessageID, 1)
	go func() {
		id, err := d.keep(laptop, "", "", 0)
		if err != nil {
			t.Error(err)
		}
		kept <- id
	}()
	await.Until(t, "it is entered", func() bool { return len(d.List(nil)) == 1 })
	if m := d.claimFirst(recipient{laptop, ""}, nil, func(error) {}); m != nil {
		t.Error("it is sent")
	}
	close(goOn)
	id := await.Receive(t, "the message", kept)
	if m := d.claimFirst(recipient{laptop, ""}, nil, func(error) {}); m == nil || m.id != id {
		t.Errorf("%+v is sent", m)
	}
}

// TestADelegationIsGiven: what is kept becomes an ordinary delegation by its ack, is refused by its agent, or stays kept;
// a cancelled one has its end in the table of delegations alone.
func TestADelegationIsGiven(t *testing.T) {
	d := open(t)
	keep := func() wire.MessageID {
		t.Helper()
		env := d.envelope(laptop, "", kinds.KindDelegate, wire.Payload(`{"task":"mend it"}`))
		if err := d.sendOrKeep(env, of("planner"), 60_000, away); kinds.AsError(err).Code != kinds.Kept {
			t.Fatal(err)
		}
		return env.ID
	}
	// enter makes it a delegation in a state, as giving it does.
	enter := func(request kinds.Checked, state client.TaskState) {
		t.Helper()
		of := &delegation.Delegation{Direction: client.Given, Peer: request.To, ID: request.ID, Agent: "planner", Created: time.Now()}
		if _, _, err := d.Delegations.AddDelegation(t.Context(), of, "mend it"); err != nil {
			t.Fatal(err)
		}
		if state == client.TaskCancelled {
			_, err := d.Delegations.EndDelegation(t.Context(), of, delegation.Ending{State: state})
			if err != nil {
				t.Fatal(err)
			}
		} else if err := d.Delegations.SetState(t.Context(), of, state); err != nil {
			t.Fatal(err)
		}
	}
	cancelled := kinds.Errorf(kinds.Cancelled, "the delegation was cancelled before it was accepted")
	for what, c := range map[string]struct {
		ack     *kinds.Ack
		err     error
		entered client.TaskState // in the table of delegations, or ""
		state   client.TaskState // "": it is not kept any more
		told    kinds.Code       // "": nothing
	}{
		"no ack yet":  {err: away, state: client.TaskKept},
		"accepted":    {ack: &kinds.Ack{Accepted: true}, entered: client.TaskAccepted},
		"refused":     {ack: &kinds.Ack{Code: kinds.Overloaded}, state: client.TaskRefused, told: kinds.NotAuthorized},
		"forbidden":   {err: kinds.Errorf(kinds.NotAuthorized, "no"), state: client.TaskRefused, told: kinds.NotAuthorized},
		"no answer":   {err: kinds.Errorf(kinds.Timeout, "late"), entered: client.TaskUnknown, state: client.TaskUnknown, told: kinds.Internal},
		"called back": {err: cancelled, entered: client.TaskCancelled},
	} {
		t.Run(what, func(t *testing.T) {
			id := keep()
			d.sweepNow()
			before := len(d.inbox())
			d.gives = func(request kinds.Checked) (*kinds.Ack, error) {
				if request.ID != id {
					t.Errorf("%s is given", request.ID)
				}
				if c.entered != "" {
					enter(request, c.entered)
				}
				return c.ack, c.err
			}
			if ended := d.sendNext(t.Context(), recipient{laptop, ""}, make(map[string]bool)); ended != (c.state != client.TaskKept) {
				t.Errorf("ended: %v", ended)
			}
			d.sweepNow()
			if n := len(d.inbox()) - before; n != map[bool]int{true: 1}[c.told != ""] {
				t.Errorf("%d more are in the inbox", n)
			} else if n == 1 {
				d.isTold(id, c.told)
			}
			m := d.messages[id]
			if c.state == "" && m != nil || c.state != "" && m.state != c.state {
				t.Errorf("%+v", m)
			}
			if c.entered != "" && c.state == "" && (d.task(id) != nil || slices.ContainsFunc(d.List(nil), func(task client.Task) bool { return task.ID == id })) {
				t.Error("it is shown beside the delegation")
			}
			if c.state == client.TaskKept {
				if _, err := d.Withdraw(t.Context(), nil, "", id, ""); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	// After a restart, the table of delegations has the say.
	for state, want := range map[client.TaskState]client.TaskState{client.TaskAccepted: "", client.TaskUnknown: client.TaskUnknown} {
		id := keep()
		env, err := d.readEnvelope(t.Context(), d.messages[id])
		if err != nil {
			t.Fatal(err)
		}
		enter(kinds.Checked{Envelope: env}, state)
		d.reopen()
		d.sweepNow()
		if m := d.messages[id]; want == "" && m != nil || want != "" && m.state != want {
			t.Errorf("%s: %+v", state, m)
		}
	}
}

// TestWhoIsAskedAnewBeforeATry: a message is refused if its peer is not trusted any more, has lost its name to another,
// or the settings forbid it; nothing is sent then.
func TestWhoIsAskedAnewBeforeATry(t *testing.T) {
	for what, change := range map[string]func(*desk) error{
		"may not be called": func(d *desk) error {
			d.MayCall = func(who registry.Credential, to identity.Peer) error {
				if who != of("planner") || to.ID != laptop {
					t.Errorf("%s calls %s", who.Name, to.Name)
				}
				return kinds.Errorf(kinds.NotAuthorized, "the settings forbid it")
			}
			return nil
		},
		"not trusted": func(d *desk) error {
			return d.Trust.Untrust(laptop)
		},
		"its name is another's": func(d *desk) error {
			_, err := d.Trust.Trust(identity.Peer{ID: laptop, Name: "tower"})
			if err == nil {
				_, err = d.Trust.Trust(identity.Peer{ID: phone, Name: "laptop"})
			}
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			d := open(t)
			id := d.mustKeep(laptop, "", "planner", 0)
			if err := change(d); err != nil {
				t.Fatal(err)
			}
			if !d.sendNext(t.Context(), recipient{laptop, ""}, make(map[string]bool)) {
				t.Error("it has not ended")
			}
			d.is(id, client.TaskRefused)
			d.isTold(id, kinds.NotAuthorized)
		})
	}
	t.Run("has another name", func(t *testing.T) {
		d := open(t)
		id := d.mustKeep(laptop, "", "planner", 0)
		if _, err := d.Trust.Trust(identity.Peer{ID: laptop, Name: "tower"}); err != nil {
			t.Fatal(err)
		}
		if e := d.checkMaySend(d.messages[id]); e != nil {
			t.Error(e)
		}
		if task := d.is(id, client.TaskKept); task.Peer != "tower" {
			t.Errorf("%+v", task)
		}
	})
}

// TestEndWith ends what is kept for a peer, and nothing else.
func TestEndWith(t *testing.T) {
	d := open(t)
	first, second, ofPhone := d.mustKeep(laptop, "", "planner", 0), d.mustKeep(laptop, "reviewer", "planner", 0), d.mustKeep(phone, "", "planner", 0)
	if err := d.EndWith(t.Context(), laptop, "laptop"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []wire.MessageID{first, second} {
		d.is(id, client.TaskRefused)
		d.isTold(id, kinds.NotAuthorized)
	}
	d.is(ofPhone, client.TaskKept)
	want := []client.TaskState{client.TaskKept, client.TaskKept, client.TaskKept, client.TaskRefused, client.TaskRefused}
	for i, e := range d.events {
		if e.State != want[i] || e.Kind != kinds.KindQuery {
			t.Errorf("event %d is %+v", i, e)
		}
	}
	if len(d.events) != len(want) {
		t.Errorf("%d events", len(d.events))
	}
}
