package kept

import (
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// endAs ends a message that is kept, as a try does.
func (d *desk) endAs(id wire.MessageID, e *ending) {
	d.t.Helper()
	if m := d.messages[id]; !d.claim(m, func(error) {}) {
		d.t.Fatalf("%s is claimed", id)
	} else if err := d.end(d.t.Context(), m, e); err != nil {
		d.t.Error(err)
	} else {
		d.release(m)
	}
}

// answer returns the end of a query that the peer has answered.
func (d *desk) answer(id wire.MessageID, payload string) *ending {
	request := d.envelope(laptop, "", kinds.KindQuery, question(0))
	request.ID = id
	reply := wire.NewReply(request, kinds.KindResponse, wire.Payload(payload))
	reply.FromAgent = "reviewer"
	return newAnswered(reply)
}

// reports returns the reports of the end of a message that are in the inbox.
func (d *desk) reports(id wire.MessageID) (all []wire.Envelope) {
	d.t.Helper()
	for _, env := range d.inbox() {
		if env.Ref != nil && *env.Ref == id {
			all = append(all, env)
		}
	}
	return all
}

// TestAnAnswerIsReported as a result of the peer and its agent, which says what the response says.
func TestAnAnswerIsReported(t *testing.T) {
	d := open(t)
	id := d.mustKeep(laptop, "", "planner", 0)
	d.endAs(id, d.answer(id, `{"summary":"42","data":{"n":12345678901234567890}}`))
	if all := d.reports(id); len(all) != 0 {
		t.Errorf("%+v is told by whoever ends it, who may not wait for an agent", all)
	}
	for range 2 {
		d.sweepNow()
		all := d.reports(id)
		if len(all) != 1 || all[0].From != laptop || all[0].FromAgent != "reviewer" || all[0].Kind != kinds.KindResult || all[0].Agent != "planner" ||
			string(all[0].Payload) != `{"status":"completed","outcome":"42","data":{"n":12345678901234567890}}` {
			t.Fatalf("%+v", all)
		}
		if task := d.is(id, client.TaskCompleted); task.Outcome != "42" || string(task.Result) != string(all[0].Payload) {
			t.Errorf("%+v: %s", task, task.Result)
		}
		d.reopen()
	}
}

// TestAnAnswerOfAPeerThatIsNotKnownNow, as one with a certificate after a restart, is told when the peer is known again.
// What else the inbox has of that peer stays there.
func TestAnAnswerOfAPeerThatIsNotKnownNow(t *testing.T) {
	d := open(t)
	id := d.mustKeep(laptop, "", "planner", 0)
	note := wire.NewEnvelope(laptop, d.Self, kinds.KindNotify, wire.Payload(`{"topic":"build"}`))
	if err := d.Inbox.AddMessage(t.Context(), note, "", ""); err != nil {
		t.Fatal(err)
	}
	d.endAs(id, d.answer(id, `{"summary":"42"}`))
	if err := d.Trust.Untrust(laptop); err != nil {
		t.Fatal(err)
	}
	d.sweepNow()
	if all := d.inbox(); len(all) != 1 || all[0].ID != note.ID {
		t.Fatalf("the inbox has %+v", all)
	}
	if _, err := d.Trust.Trust(identity.Peer{ID: laptop, Name: "laptop"}); err != nil {
		t.Fatal(err)
	}
	d.sweepNow()
	if all := d.reports(id); len(all) != 1 || all[0].From != laptop || len(d.inbox()) != 2 {
		t.Errorf("%+v", all)
	}
}

// TestAReceiptIsReported by a result of this daemon, whose outcome says what the receipt said.
func TestAReceiptIsReported(t *testing.T) {
	d := open(t)
	for _, state := range []client.TaskState{client.TaskHanded, client.TaskHeld} {
		env := d.envelope(laptop, "", kinds.KindNotify, wire.Payload(`{"topic":"build"}`))
		if err := d.keepFor(60e9, env, "planner", away); client.FindKept(err) == nil {
			t.Fatal(err)
		}
		d.endAs(env.ID, newArrived(state))
		d.sweepNow()
		all := d.reports(env.ID)
		if len(all) != 1 || all[0].From != d.Self || all[0].Kind != kinds.KindResult {
			t.Fatalf("%+v", all)
		}
		if said, err := kinds.ParsePayload[kinds.Result](all[0].Payload); err != nil || said.Status != "completed" || said.Outcome != string(state) {
			t.Errorf("%s: %v", all[0].Payload, err)
		}
		d.is(env.ID, state)
	}
}

// TestTakeReport: an agent that has the end from wait is not told it any more, also if it is the first.
func TestTakeReport(t *testing.T) {
	d := open(t)
	planner, tester := of("planner"), of("tester")
	early, late, kept := d.mustKeep(laptop, "", "planner", 0), d.mustKeep(laptop, "", "planner", 0), d.mustKeep(laptop, "", "planner", 0)
	d.endAs(late, d.answer(late, `{"summary":"42"}`))
	d.sweepNow()
	if _, err := d.Withdraw(t.Context(), nil, "", early, ""); err != nil {
		t.Fatal(err)
	}
	for _, not := range []func() bool{
		func() bool { _, _, ended := d.TakeReport(t.Context(), &tester, early); return ended },
		func() bool { _, _, ended := d.TakeReport(t.Context(), &planner, kept); return ended },
		func() bool { _, _, ended := d.TakeReport(t.Context(), &planner, wire.NewMessageID()); return ended },
	} {
		if not() {
			t.Error("another agent, or one whose message is still kept, took a report")
		}
	}
	for id, from := range map[wire.MessageID]identity.ID{early: d.Self, late: laptop} {
		report, agent, ended := d.TakeReport(t.Context(), &planner, id)
		if want := (inbox.MessageKey{Peer: from, ID: d.messages[id].endID}); report != want || agent != "planner" || !ended {
			t.Errorf("%+v of %s, %v", report, agent, ended)
		}
	}
	d.reopen()
	d.sweepNow()
	if n := len(d.reports(early)); n != 0 {
		t.Errorf("what the agent knows is told %d times", n)
	}
	if all := d.reports(late); len(all) != 1 || all[0].ID != d.messages[late].endID {
		t.Errorf("%+v", all)
	}
	if d.WasSentBy("tester", early) || !d.WasSentBy("planner", early) || !d.WasSentBy("planner", kept) || d.WasSentBy("planner", wire.NewMessageID()) {
		t.Error("WasSentBy is wrong")
	}
}

// TestAnEndThatIsNotOnDisk: a message that was sent stays one that was sent, whatever is tried meanwhile.
func TestAnEndThatIsNotOnDisk(t *testing.T) {
	d := open(t)
	id := d.mustKeep(laptop, "", "planner", 0)
	next := d.mustKeep(laptop, "", "planner", 0)
	statedb.Exec(t, d.DB, "UPDATE daemon_kept SET state = ? WHERE id = ?", client.TaskSent, id[:])
	mend := d.full("UPDATE")
	m := d.claimFirst(recipient{laptop, ""}, nil, func(error) {})
	if err := d.end(t.Context(), m, d.answer(id, `{"summary":"42"}`)); err == nil || m.id != id {
		t.Fatalf("%s: %v", m.id, err)
	}
	d.release(m)
	mend()
	d.noteTry(t.Context(), m.recipient(), 0, away)
	d.reopen()
	if m := d.claimFirst(recipient{laptop, ""}, nil, func(error) {}); m == nil || m.id != next {
		t.Errorf("%+v is sent", m)
	}
}

// TestARowThatIsGone: a try of it ends, and with it nothing else.
func TestARowThatIsGone(t *testing.T) {
	d := open(t)
	id := d.mustKeep(laptop, "", "planner", 0)
	statedb.Exec(t, d.DB, "DELETE FROM daemon_kept")
	if d.sendNext(t.Context(), recipient{laptop, ""}, make(map[string]bool)) {
		t.Error("it goes on")
	}
	if task := d.task(id); task.State != client.TaskKept {
		t.Errorf("%+v", task)
	}
}

// keepFor keeps a message that did not arrive.
func (d *desk) keepFor(time time.Duration, env *wire.Envelope, by string, why error) error {
	return d.SendOrKeep(d.t.Context(), env, of(by), uint64(time.Milliseconds()), func() error { return why })
}
