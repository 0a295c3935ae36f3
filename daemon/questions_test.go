package daemon

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

const (
	which      = `{"question":"Which branch?","deadline_ms":600000}`
	brief      = `{"question":"Which branch?","deadline_ms":50}`
	mainBranch = `{"summary":"main","own":[1.50]}`
)

// asks makes a call that asks back, and returns where its end comes.
func asks(l *program, ref, id wire.MessageID, payload string) <-chan questionEnd {
	ends := make(chan questionEnd, 1)
	go func() {
		var end questionEnd
		end.err = l.call("query", client.QueryParams{Head: client.Head{ID: id}, Ref: ref, Payload: wire.Payload(payload)}, &end.answer)
		ends <- end
	}()
	return ends
}

type questionEnd struct {
	answer client.Answer
	err    error
}

func wantAnswer(t *testing.T, when string, ends <-chan questionEnd) {
	t.Helper()
	if end := await.Receive(t, when, ends); end.err != nil || string(end.answer.Payload) != mainBranch {
		t.Errorf("%s: %s, %v", when, end.answer.Payload, end.err)
	}
}

func wantCode(t *testing.T, when string, code kinds.Code, ends <-chan questionEnd) *kinds.Error {
	t.Helper()
	end := await.Receive(t, when, ends)
	e, ok := errors.AsType[*kinds.Error](end.err)
	if !ok || e.Code != code {
		t.Errorf("%s: %s, %v, want %s", when, end.answer.Payload, end.err, code)
	}
	return e
}

// asksBriefly asks with little time, which on a busy machine may be over before the question comes, until it is
// there.
func asksBriefly(t *testing.T, desk *running, asker *program, ref, id wire.MessageID) {
	t.Helper()
	l := desk.dial()
	await.Until(t, "the question is there", func() bool {
		wantCode(t, "without an answer", kinds.Timeout, asks(asker, ref, id, brief))
		s := l.state(ref)
		return s.Question != nil && s.Question.ID == id
	})
}

// wantAnswerInTime asks, until there is time enough, for an answer that is there.
func wantAnswerInTime(t *testing.T, when string, asker *program, ref, id wire.MessageID, payload string) {
	t.Helper()
	await.Until(t, when, func() bool {
		end := await.Receive(t, when, asks(asker, ref, id, payload))
		if errors.Is(end.err, &kinds.Error{Code: kinds.Timeout}) {
			return false
		}
		if end.err != nil || string(end.answer.Payload) != mainBranch {
			t.Errorf("%s: %s, %v", when, end.answer.Payload, end.err)
		}
		return true
	})
}

// question waits until a question is open, as the delegator sees it.
func (l *program) question(ref wire.MessageID, after uint64) *client.QuestionBack {
	l.t.Helper()
	s := new(client.Task)
	l.must("wait", client.WaitParams{ID: ref, AfterQuestions: &after}, s)
	if s.State != client.TaskAccepted || s.Question == nil {
		l.t.Fatalf("%+v", s)
	}
	return s.Question
}

// wantOpen checks how many delegations status says are open.
func (r *running) wantOpen(when string, given, taken, questions int) {
	r.t.Helper()
	s := get[client.Status](r.dial(), "status", nil)
	if s.TasksGiven != given || s.TasksTaken != taken || s.QuestionsOpen != questions {
		r.t.Errorf("%s: %d given, %d taken, %d questions: want %d, %d, %d", when, s.TasksGiven, s.TasksTaken, s.QuestionsOpen, given, taken, questions)
	}
}

// The agent that works on a delegation asks the one that gave it, which answers.
func TestTheDelegatorIsAskedBack(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker, key := laptop.guestAgent(client.AttachParams{Name: "reviewer"}, say(accepted))
	asked, leave := make(chan *client.Inbound, 1), make(chan struct{})
	planner, _ := desk.guestAgent(client.AttachParams{Name: "planner", MaxConcurrent: 1}, func(_ context.Context, r *jsonrpc.Request) {
		if r.Method == "query" {
			asked <- bind(t, r)
			<-leave
			r.Respond(wire.Payload(mainBranch))
		}
	})
	bystander, _ := desk.guestAgent(client.AttachParams{Name: "bystander"}, func(_ context.Context, r *jsonrpc.Request) {
		t.Errorf("the bystander got a %s", r.Method)
	})
	given := get[client.DelegateAnswer](planner, "delegate", client.DelegateParams{Head: client.Head{Thread: "release"}, To: "laptop", Payload: task1(`,"deadline_ms":60000`)})
	speaker := laptop.guest(nil)
	speaker.must("speak", client.SpeakParams{Name: "reviewer", Key: key}, nil)
	id := wire.NewMessageID()
	ends := asks(speaker, given.ID, id, which)
	in := await.Receive(t, "the question", asked)
	if in.ID != id || *in.Ref != given.ID || in.FromAgent != "reviewer" || in.Name != "laptop" || in.Thread != "release" || in.Hops != 1 || string(in.Payload) != which || in.Delegation == nil ||
		in.Delegation.Task != "mend it" || in.Delegation.Question == nil || in.DeadlineMS == 0 || in.DeadlineMS > 60000 {
		t.Errorf("%+v %+v", in, in.Delegation)
	}
	q := planner.question(given.ID, 0)
	desk.wantOpen("asked", 1, 0, 1)
	laptop.wantOpen("asked", 0, 1, 0)
	if q.ID != id || q.Text != "Which branch?" || time.Since(q.Since.Time).Abs() > time.Minute {
		t.Errorf("%+v", q)
	}
	all := get[client.Tasks](planner, "tasks", nil)
	if len(all.Tasks) != 1 || all.Tasks[0].Question == nil || all.Tasks[0].Question.Text != "Which branch?" || all.Tasks[0].State != client.TaskAccepted {
		t.Errorf("%+v", all)
	}
	// Nobody else answers it.
	for _, ref := range []wire.MessageID{id, given.ID} {
		bystander.refused(kinds.NotFound, "answer", client.AnswerParams{Ref: ref, Payload: wire.Payload(mainBranch)})
	}
	close(leave)
	wantAnswer(t, "the answer", ends)
	desk.wantOpen("answered", 1, 0, 0)
	if s := planner.state(given.ID); s.Question != nil || s.Questions != 1 || s.State != client.TaskAccepted {
		t.Errorf("%+v", s)
	}
	planner.refused(kinds.NotFound, "answer", client.AnswerParams{Ref: id, Payload: wire.Payload(mainBranch)})
	wantAnswer(t, "a repeat", asks(speaker, given.ID, id, which))
	wantCode(t, "other content under the id", kinds.Invalid, asks(speaker, given.ID, id, `{"question":"Which one?"}`))
	worker.must("result", client.ResultParams{Ref: given.ID, Payload: completed("done")}, nil)
	wantCode(t, "after the end", kinds.NotFound, asks(speaker, given.ID, id, which))
	laptop.wantOpen("after the end", 0, 0, 0)
	if n := desk.questionBytes(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

// An agent has as long as the delegation lasts, and is asked once, however often the question is
// repeated. What it says then is kept for the next repeat.
func TestAnAgentIsAskedOnce(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	var asked atomic.Int64
	leave, gaveUp := make(chan struct{}), make(chan struct{}, 1)
	planner := desk.agent(client.AttachParams{Name: "planner"}, func(ctx context.Context, r *jsonrpc.Request) {
		asked.Add(1)
		select {
		case <-leave:
			r.Respond(wire.Payload(mainBranch))
		case <-ctx.Done():
			gaveUp <- struct{}{}
		}
	})
	short := brief[:len(brief)-3] + "1000}" // but enough for an answer that is there
	given, id := delegateTo(planner, "laptop", task1("")), wire.NewMessageID()
	for range 3 {
		wantCode(t, "while the agent thinks", kinds.Timeout, asks(worker, given.ID, id, short))
	}
	close(leave)
	await.Until(t, "the answer is kept", func() bool { return desk.dial().state(given.ID).Question == nil })
	wantAnswerInTime(t, "then", worker, given.ID, id, short)
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}

	// Somebody else answers first: the agent is told to stop.
	leave = make(chan struct{})
	ends := asks(worker, given.ID, wire.NewMessageID(), which)
	await.Until(t, "asked", func() bool { return asked.Load() == 2 })
	desk.dial().must("answer", client.AnswerParams{Ref: given.ID, Payload: wire.Payload(mainBranch)}, nil)
	wantAnswer(t, "from the shell", ends)
	await.Receive(t, "the agent's rpc.cancel", gaveUp)
}

// An agent that is away is asked when it is back, and one that fails says so.
func TestAnAgentThatIsAwayOrFails(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	attach := func(h handler) *program { return desk.agent(client.AttachParams{Name: "planner"}, h) }
	gone := make(chan struct{}, 1)
	planner := attach(func(ctx context.Context, _ *jsonrpc.Request) { gone <- struct{}{}; <-ctx.Done() })
	given := delegateTo(planner, "laptop", task1(""))
	ends := asks(worker, given.ID, wire.NewMessageID(), which)
	await.Receive(t, "asked", gone)
	planner.Close()
	desk.awaitLeft("planner")
	deaf := desk.agent(client.AttachParams{Name: "planner", Kinds: []string{"result"}}, nil)
	deaf.Close()
	desk.awaitLeft("planner")
	planner = attach(say(mainBranch))
	wantAnswer(t, "when it is back", ends)
	planner.Close()
	desk.awaitLeft("planner")

	say := atomic.Pointer[func(r *jsonrpc.Request)]{}
	attach(func(_ context.Context, r *jsonrpc.Request) { (*say.Load())(r) })
	for name, c := range map[string]struct {
		answer func(r *jsonrpc.Request)
		code   kinds.Code
		stays  bool
	}{
		"refuses":      {func(r *jsonrpc.Request) { r.RespondError(kinds.Errorf(kinds.NotAuthorized, "not for you")) }, kinds.NotAuthorized, false},
		"breaks":       {func(r *jsonrpc.Request) { r.RespondError(errors.New("out of paper")) }, kinds.Internal, false},
		"says nothing": {func(r *jsonrpc.Request) { r.Respond(wire.Payload(`{}`)) }, kinds.Internal, false},
		"says much":    {func(r *jsonrpc.Request) { r.Respond(wire.Payload(`{"summary":"` + long(kinds.MaxQuestion) + `"}`)) }, kinds.TooLarge, false},
		"is busy":      {func(r *jsonrpc.Request) { r.RespondError(kinds.Errorf(kinds.Overloaded, "later")) }, kinds.Overloaded, true},
	} {
		say.Store(&c.answer)
		id := wire.NewMessageID()
		if e := wantCode(t, name, c.code, asks(worker, given.ID, id, which)); e != nil && e.From != desk.ID().String() {
			t.Errorf("%s: %+v", name, e)
		}
		s := desk.dial().state(given.ID)
		if (s.Question != nil) != c.stays {
			t.Errorf("%s: %+v", name, s)
		}
		if c.stays {
			answer := func(r *jsonrpc.Request) { r.Respond(wire.Payload(mainBranch)) }
			say.Store(&answer)
			wantAnswer(t, name+", and then does not", asks(worker, given.ID, id, which))
		}
	}
	// It does not take queries: a person may answer.
	deafAnswer := func(r *jsonrpc.Request) { r.RespondError(jsonrpc.NewMethodNotFound("query")) }
	say.Store(&deafAnswer)
	id := wire.NewMessageID()
	asksBriefly(t, desk, worker, given.ID, id)
	desk.dial().must("answer", client.AnswerParams{Ref: id, Payload: wire.Payload(mainBranch)}, nil)
	wantAnswerInTime(t, "a person answers", worker, given.ID, id, brief)
}

// A question comes to the session that delegated, and wakes it if its owner lets answers do so. The next one does so
// too if it was answered: by the session itself, or by a person.
func TestQuestionsWakeWhoDelegated(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
	s := desk.session("claude")
	given := delegateTo(s.program, "laptop", task1(""))
	answers := func() { s.release <- wire.Payload(mainBranch) }
	for i, answer := range []func(){
		answers,
		answers,
		func() {
			desk.dial().must("answer", client.AnswerParams{Ref: given.ID, Payload: wire.Payload(mainBranch)}, nil)
		},
		answers,
	} {
		next := s.nextRequest
		switch i {
		case 0:
			next = func() *client.Inbound { return s.next(false) }
		case 1:
			desk.dial().must("wake.answers", client.WakeAnswersParams{On: true, Agent: "claude"}, nil)
		default:
			time.Sleep(300 * time.Millisecond) // the pause between two wakes
		}
		id := wire.NewMessageID()
		ends := asks(worker, given.ID, id, which)
		if in := next(); in.Kind != kinds.KindQuery || in.ID != id || in.Delegation == nil || in.Delegation.ID != given.ID {
			t.Errorf("question %d: %+v", i, in)
		}
		answer()
		wantAnswer(t, "the answer", ends)
		await.Until(t, "the session is not asked any more", func() bool { return s.working.Load() == 0 })
	}
	if len(s.told) > 0 {
		t.Errorf("it is told again: %+v", <-s.told)
	}
}

// A question ends with its delegation, on both sides, whoever ends it and in whatever way.
func TestAQuestionEndsWithItsDelegation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more string
		end  func(desk, laptop *running, worker *program, ref wire.MessageID)
		code kinds.Code
	}{
		"cancelled": {"", func(desk, _ *running, _ *program, ref wire.MessageID) {
			desk.dial().must("cancel", client.CancelParams{Ref: ref}, nil)
		}, kinds.Cancelled},
		"completed": {"", func(_, _ *running, worker *program, ref wire.MessageID) {
			worker.must("result", client.ResultParams{Ref: ref, Payload: completed("done")}, nil)
		}, kinds.NotFound},
		"expired": {`,"deadline_ms":3000`, func(*running, *running, *program, wire.MessageID) {}, kinds.NotFound},
		"untrusted": {"", func(desk, _ *running, _ *program, _ wire.MessageID) {
			desk.dial().must("untrust", client.UntrustParams{Peer: "laptop"}, nil)
		}, ""},
		"untrusted by them": {"", func(_, laptop *running, _ *program, _ wire.MessageID) {
			laptop.dial().must("untrust", client.UntrustParams{Peer: "desk"}, nil)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk, laptop := pair(t)
			worker := laptop.agent(client.AttachParams{Name: "reviewer"}, say(accepted))
			asked, gaveUp := make(chan struct{}, 1), make(chan struct{}, 1)
			planner := desk.agent(client.AttachParams{Name: "planner"}, func(ctx context.Context, r *jsonrpc.Request) {
				if r.Method == "query" {
					asked <- struct{}{}
					<-ctx.Done()
					gaveUp <- struct{}{}
				} else {
					r.Respond(nil)
				}
			})
			given := delegateTo(planner, "laptop", task1(c.more))
			id := wire.NewMessageID()
			ends := asks(worker, given.ID, id, which)
			if q := planner.question(given.ID, 0); q.ID != id {
				t.Errorf("%+v", q)
			}
			await.Receive(t, "asked", asked)
			c.end(desk, laptop, worker, given.ID)
			end := await.Receive(t, "the end", ends)
			if e := kinds.AsError(end.err); end.err == nil || c.code != "" && e.Code != c.code {
				t.Errorf("the asker hears %v", end.err)
			}
			await.Receive(t, "the agent's rpc.cancel", gaveUp)
			await.Until(t, "nothing is left", func() bool { return desk.questionBytes() == 0 })
			if s := planner.state(given.ID); s.Question != nil || !s.State.IsFinal() {
				t.Errorf("%+v", s)
			}
			if err := await.Receive(t, "a repeat", asks(worker, given.ID, id, brief)).err; err == nil {
				t.Error("a repeat is answered")
			}
			desk.dial().refused(kinds.NotFound, "answer", client.AnswerParams{Ref: id, Payload: wire.Payload(mainBranch)})
		})
	}
}
