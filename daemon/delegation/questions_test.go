package delegation

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/schema"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// FuzzQuestions lets a peer, an agent and a person do with the questions of a delegation what they
// like, in any order, with restarts of the daemon in between. One question is open at a time,
// sixteen are asked at most, an answer stays as it is, the peer's share is exact, and disk and
// memory agree.
// holds: security.md#the-budget
func FuzzQuestions(f *testing.F) {
	for _, seed := range []string{"aA", "aRA", "aLbA", "aAbAcA", "aLRbLRA", "aAaRa", "aCbA", "aAEb", "aLbLcLdLeLfLgLhLiLjLkLlLmLnLoLpLqLrL", "aAARaF", "aLaLFA"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 100 {
			return
		}
		db := statedb.New(t, schema.Migrate)
		var book *budget.Book
		open := func() *Table {
			book = new(budget.Book)
			ts, err := OpenTable(t.Context(), db, registry.NewRegistry(), book, func(*Delegation) {}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			return ts
		}
		ts, peer, id := open(), identity.ID{1}, wire.NewMessageID()
		e, _, err := ts.AddDelegation(t.Context(), &Delegation{Direction: client.Given, Peer: peer, ID: id, Reports: true}, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := ts.RecordAck(t.Context(), e, true, wire.Payload(`{"accepted":true}`), nil); err != nil {
			t.Fatal(err)
		}
		var last *Question
		waiting := false
		leave := func() {
			if waiting {
				ts.LeaveQuestion(last)
				waiting = false
			}
		}
		answers, over := make(map[wire.MessageID]string), false
		for i, step := range steps {
			switch {
			case 'a' <= step && step <= 'z': // the peer asks, or repeats
				env := wire.NewEnvelope(peer, identity.ID{2}, kinds.KindQuery, wire.Payload(`{"question":"`+string(step)+`"}`))
				env.ID, env.Ref = wire.MessageID{step}, &id
				repeats := last != nil && last.ID == env.ID && waiting
				q, err := ts.BeginQuestion(t.Context(), e, env, sha256.Sum256(env.Payload))
				if err != nil {
					if kinds.AsError(err).Code == kinds.Internal {
						t.Fatal(err)
					}
					break
				}
				if over {
					t.Fatal("a question about a delegation that is over")
				}
				leave()
				if last, waiting = q, true; repeats && q.answered {
					ts.LeaveQuestion(q)
					waiting = false
				}
				answered, _, failure := ts.WatchQuestion(e, q)
				if want, known := answers[q.ID]; known != answered || failure != nil {
					t.Fatalf("step %d: answered %t, %v", i, answered, failure)
				} else if answered {
					if got, err := ts.ReadAnswer(t.Context(), e, q); err != nil || string(got) != want {
						t.Fatalf("step %d: %s, %v, want %s", i, got, err, want)
					}
				}
			case step == 'A' && last != nil:
				answer := wire.Payload(`{"summary":"` + string(rune('0'+i%10)) + `"}`)
				if err := ts.RecordAnswer(t.Context(), e, last, answer); err == nil {
					if _, before := answers[last.ID]; before || over {
						t.Fatal("two answers, or one after the end")
					}
					answers[last.ID] = string(answer)
				} else if !errors.Is(err, &kinds.Error{Code: kinds.NotFound}) {
					t.Fatal(err)
				}
			case step == 'L':
				leave()
			case step == 'F' && last != nil: // the agent fails, for now
				ts.EndAsking(e, last, errors.New("later"))
			case step == 'C' && last != nil: // the agent refuses
				leave()
				if err := ts.CloseQuestion(t.Context(), e, last, errors.New("no")); err != nil {
					t.Fatal(err)
				}
			case step == 'R':
				waiting, last = false, nil
				ts = open()
				e = ts.Find(client.Given, peer, id)
			case step == 'E':
				leave()
				if _, err := ts.EndDelegation(t.Context(), e, Ending{State: client.TaskCompleted}); err != nil {
					t.Fatal(err)
				}
				over = true
			}
			checkQuestions(t, ts, book, e, over)
		}
	})
}

// checkQuestions fails the test unless memory, disk and the budget agree about the questions of a
// delegation.
func checkQuestions(t *testing.T, ts *Table, book *budget.Book, e *Delegation, over bool) {
	t.Helper()
	onDisk, err := store.ReadValue(context.WithoutCancel(t.Context()), ts.db, readQuestions)
	if err != nil {
		t.Fatal(err)
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var share int64
	unanswered := 0
	for _, q := range e.questions {
		share += q.share
		if !q.answered {
			unanswered++
		}
		i := -1
		for j, d := range onDisk[e.Row] {
			if d.ID == q.ID {
				i = j
			}
		}
		if i < 0 || onDisk[e.Row][i].answered != q.answered || onDisk[e.Row][i].share != q.share || onDisk[e.Row][i].content != q.content {
			t.Fatalf("a question that the disk has otherwise: %+v", q)
		}
	}
	if len(onDisk[e.Row]) != len(e.questions) || unanswered > 1 || e.asked > MaxQuestions || over && len(e.questions) > 0 {
		t.Fatalf("%d questions, of which %d are open, %d were asked, %d are on disk", len(e.questions), unanswered, e.asked, len(onDisk[e.Row]))
	}
	for _, u := range book.ListUsage() {
		if u.Row == budget.Questions && u.Held == share {
			return
		}
	}
	if share != 0 {
		t.Fatalf("questions take %d bytes, which the budget does not say: %+v", share, book.ListUsage())
	}
}

// What an agent asks right after it has accepted waits until its word is on disk; what it asks
// before, or instead, is refused.
func TestQuestionsWaitForTheAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := table(t)
		taken := func() *Delegation {
			e, _, err := ts.AddDelegation(t.Context(), &Delegation{Direction: client.Taken, Peer: identity.ID{1}, ID: wire.NewMessageID(), Reports: true, Created: time.Now()}, "")
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		one, other, never := taken(), taken(), taken()
		begun := time.Now()
		time.AfterFunc(time.Second, func() {
			if err := ts.RecordAck(t.Context(), one, true, wire.Payload(`{"accepted":true}`), nil); err != nil {
				t.Error(err)
			}
			if _, err := ts.EndDelegation(t.Context(), other, Ending{State: client.TaskCancelled}); err != nil {
				t.Error(err)
			}
		})
		if err := ts.AwaitOpenForQuestions(t.Context(), one); err != nil || time.Since(begun) != time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		synctest.Wait()
		if err := ts.AwaitOpenForQuestions(t.Context(), other); !errors.Is(err, &kinds.Error{Code: kinds.Cancelled}) {
			t.Error(err)
		}
		if err := ts.AwaitOpenForQuestions(t.Context(), never); !errors.Is(err, &kinds.Error{Code: kinds.NotFound}) || time.Since(begun) != time.Second+ackTime {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

// On a slow disk a question waits for as long as the ack is being written.
func TestQuestionsWaitForASlowAck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := table(t)
		e, _, err := ts.AddDelegation(t.Context(), &Delegation{Direction: client.Taken, Peer: identity.ID{1}, ID: wire.NewMessageID(), Reports: true, Created: time.Now()}, "")
		if err != nil {
			t.Fatal(err)
		}
		go ts.db.Write(t.Context(), false, func(*store.Tx) error { time.Sleep(3 * ackTime); return nil })
		synctest.Wait()
		go ts.RecordAck(t.Context(), e, true, wire.Payload(`{"accepted":true}`), nil)
		if err := ts.AwaitOpenForQuestions(t.Context(), e); err != nil {
			t.Error(err)
		}
	})
}

// A question whose removal the disk did not take is not there beside the one that replaced it.
func TestAQuestionThatCouldNotBeRemoved(t *testing.T) {
	ts := table(t)
	e := ts.enter(t, client.Given, 0)
	ask := func() *Question {
		t.Helper()
		env := wire.NewEnvelope(e.Peer, identity.ID{2}, kinds.KindQuery, wire.Payload(`{"question":"?"}`))
		q, err := ts.BeginQuestion(t.Context(), e, env, sha256.Sum256(env.Payload))
		if err != nil {
			t.Fatal(err)
		}
		ts.LeaveQuestion(q)
		return q
	}
	refused := ask()
	statedb.Exec(t, ts.db, "CREATE TRIGGER kept BEFORE DELETE ON daemon_question BEGIN SELECT raise(ABORT, 'the disk is full'); END")
	if err := ts.CloseQuestion(t.Context(), e, refused, errors.New("no")); err == nil {
		t.Error("it was removed")
	}
	statedb.Exec(t, ts.db, "DROP TRIGGER kept")
	last := ask()
	again := ts.reopen(t).Find(client.Given, e.Peer, e.ID)
	if len(again.questions) != 1 || again.questions[0].ID != last.ID || again.asked != 2 {
		t.Errorf("%+v, %d were asked", again.questions, again.asked)
	}
}
