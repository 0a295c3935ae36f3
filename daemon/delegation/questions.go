package delegation

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// MaxQuestions bounds the questions that may be asked back about one delegation.
const MaxQuestions = 16

// Question is what the agent that works on a given delegation asks back. It is open until it
// has an answer. It and its answer are on disk until the delegation ends.
type Question struct {
	ID      wire.MessageID
	content [sha256.Size]byte
	since   time.Time

	// Guarded by Table.mu.
	share    int64           // bytes of the peer's share that it takes, with its answer
	written  bool            // it is on disk
	answered bool            // its answer is on disk
	failure  error           // the error for those that wait, if no answer comes; else nil
	waiting  int             // exchanges that wait for the answer
	asking   bool            // an agent is being asked
	askedOf  *registry.Agent // the last one that was asked since the last repeat, or nil
}

// isOpen reports whether an answer is still to come.
func (q *Question) isOpen() bool { return q.written && !q.answered }

// findQuestion returns the question with an id. The caller holds Table.mu.
func (t *Delegation) findQuestion(id wire.MessageID) *Question {
	if i := slices.IndexFunc(t.questions, func(q *Question) bool { return q.ID == id }); i >= 0 {
		return t.questions[i]
	}
	return nil
}

// findUnanswered returns the question without an answer. There is one at most. The caller holds
// Table.mu.
func (t *Delegation) findUnanswered() *Question {
	if i := slices.IndexFunc(t.questions, func(q *Question) bool { return !q.answered }); i >= 0 {
		return t.questions[i]
	}
	return nil
}

// newOverError returns the error of a question about a delegation that has ended. The caller
// holds Table.mu.
func (t *Delegation) newOverError() error {
	if t.state == client.TaskCancelled {
		return kinds.Errorf(kinds.Cancelled, "ref: the delegation %s is cancelled: nothing is answered any more", t.ID)
	}
	return kinds.Errorf(kinds.NotFound, "ref: the delegation %s is over: nothing is answered any more", t.ID)
}

// restoreQuestions enters the questions that the last run of the daemon has left, the oldest first.
// An unanswered one before another was given up; only its removal was not written.
func (ts *Table) restoreQuestions(t *Delegation, found []*Question) {
	for _, q := range found {
		if old := t.findUnanswered(); old != nil && !q.answered {
			ts.dropQuestion(t, old, nil)
		}
		t.questions = append(t.questions, q)
		ts.questionBytes.AddUnchecked(t.Peer, q.share)
	}
}

// ackTime is how long a question about a taken delegation waits for the ack, because an agent may ask as
// soon as it has accepted. While the ack is being written, the question waits for that.
const ackTime = 5 * time.Second

// AwaitOpenForQuestions returns nil when something can be asked about a taken delegation: when its
// ack is recorded. It returns an error if the delegation is over, or is not accepted in time.
func (ts *Table) AwaitOpenForQuestions(ctx context.Context, t *Delegation) error {
	end := time.Now().Add(ackTime)
	for {
		ts.mu.Lock()
		if err := ts.checkOpen(t); err != nil || t.acked {
			ts.mu.Unlock()
			return err
		}
		changed, left, acking := t.awaitChange(), time.Until(end), t.acking
		ts.mu.Unlock()
		if left <= 0 && !acking {
			return kinds.Errorf(kinds.NotFound, "ref: the delegation %s is not accepted yet: accept it first", t.ID)
		}
		if err := waitFor(ctx, changed, left); err != nil {
			return err
		}
	}
}

// CheckOpenForQuestions returns an error if a delegation is over.
func (ts *Table) CheckOpenForQuestions(t *Delegation) error {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.checkOpen(t)
}

// checkOpen returns an error if a delegation is over. The caller holds mu.
func (ts *Table) checkOpen(t *Delegation) error {
	if t.isOverNow() || t.ending || ts.table[t.key()] != t {
		return t.newOverError()
	}
	return nil
}

// BeginQuestion enters a question of the peer about a delegation that was given to it. The question also
// serves as the ack. A repeat gets the existing question. The caller waits for the answer,
// by [Table.WatchQuestion], and then calls [Table.LeaveQuestion].
//
// One question is open at a time. If nobody waits for the answer to it any more, a new one takes its
// place.
func (ts *Table) BeginQuestion(ctx context.Context, t *Delegation, env *wire.Envelope, content [sha256.Size]byte) (*Question, error) {
	ts.mu.Lock()
	if err := ts.checkOpen(t); err != nil {
		ts.mu.Unlock()
		return nil, err
	}
	if q := t.findQuestion(env.ID); q != nil {
		defer ts.mu.Unlock()
		if q.content != content {
			return nil, kinds.Errorf(kinds.Invalid, "id: %s was used for another question: a repeat has the same content, anything else needs an id of its own", env.ID)
		}
		q.waiting++
		if q.failure = nil; !q.asking {
			q.askedOf = nil
		}
		return q, nil
	}
	replaced := t.findUnanswered()
	switch {
	case ts.isOthersID(t.Peer, env.ID):
		ts.mu.Unlock()
		return nil, kinds.Errorf(kinds.Invalid, "id: %s was used for something else: a question needs an id of its own", env.ID)
	case replaced != nil && (replaced.waiting > 0 || !replaced.written):
		ts.mu.Unlock()
		return nil, kinds.Errorf(kinds.Overloaded, "another question about the delegation %s is open: wait for its answer, or give it up", t.ID)
	case t.asked >= MaxQuestions:
		ts.mu.Unlock()
		return nil, kinds.Errorf(kinds.Overloaded, "%d questions were asked about the delegation %s, the most there may be: go on without, or end it", MaxQuestions, t.ID)
	}
	q := &Question{ID: env.ID, content: content, since: time.Now(), share: int64(len(env.Payload)) + kinds.MaxQuestion, waiting: 1}
	if err := ts.questionBytes.Reserve(t.Peer, q.share); err != nil {
		ts.mu.Unlock()
		return nil, kinds.Errorf(kinds.Overloaded, "too many questions about delegations wait here (%v): try again when some are answered", err)
	}
	if replaced != nil {
		ts.dropQuestion(t, replaced, kinds.Errorf(kinds.Cancelled, "another question about the delegation took its place"))
	}
	t.questions = append(t.questions, q)
	t.asked++
	ts.mu.Unlock()

	err := ts.db.Write(ctx, false, func(tx *store.Tx) error {
		if replaced != nil {
			if err := deleteQuestion(tx, t.Row, replaced.ID); err != nil {
				return err
			}
		}
		return insertQuestion(tx, t, q, env.Payload.Object())
	})
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if err != nil {
		ts.dropQuestion(t, q, err)
		t.asked--
		return nil, ownwords.Errorf("enter the question: %w", err)
	}
	if q.failure != nil { // the delegation has ended meanwhile
		return nil, q.failure
	}
	q.written = true
	if t.state == client.TaskSent || t.state == client.TaskUnknown {
		t.state = client.TaskAccepted
	}
	ts.notifyWaiters(t)
	return q, nil
}

// isOthersID reports whether a delegation that was given to another peer, or a question of another
// peer, has an id: [Table.FindQuestion] finds questions only by these ids. The caller holds mu.
func (ts *Table) isOthersID(peer identity.ID, id wire.MessageID) bool {
	for _, t := range ts.table {
		if t.Direction == client.Given && t.Peer != peer && (t.ID == id || t.findQuestion(id) != nil) {
			return true
		}
	}
	return false
}

// dropQuestion removes a question from the table, if it is there. Those that wait for it get why as their
// error. The caller holds mu.
func (ts *Table) dropQuestion(t *Delegation, q *Question, why error) {
	i := slices.Index(t.questions, q)
	if i < 0 {
		return
	}
	t.questions = slices.Delete(t.questions, i, i+1)
	ts.questionBytes.Release(t.Peer, q.share)
	q.share = 0
	if !q.answered {
		q.failure = why
	}
	ts.notifyWaiters(t)
}

// dropQuestions removes all questions of a delegation that has ended from the table. The caller holds mu.
func (ts *Table) dropQuestions(t *Delegation) {
	for len(t.questions) > 0 {
		ts.dropQuestion(t, t.questions[0], t.newOverError())
	}
}

// LeaveQuestion ends the wait of one caller of [Table.BeginQuestion]. The question stays.
func (ts *Table) LeaveQuestion(q *Question) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	q.waiting--
}

// WatchQuestion reports whether a question is answered, or why no answer comes. If neither, changed is
// closed when that may be different, or when the agent that delegated has come back.
func (ts *Table) WatchQuestion(t *Delegation, q *Question) (answered bool, changed <-chan struct{}, failure error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if q.answered || q.failure != nil {
		return q.answered, nil, q.failure
	}
	return false, t.awaitChange(), nil
}

// ReadAnswer returns the recorded answer to a question.
func (ts *Table) ReadAnswer(ctx context.Context, t *Delegation, q *Question) (wire.Payload, error) {
	answer, err := store.ReadValue(ctx, ts.db, func(tx *store.Tx) ([]byte, error) { return readAnswer(tx, t.Row, q.ID) })
	if err == nil && answer == nil { // the delegation has ended since
		ts.mu.Lock()
		defer ts.mu.Unlock()
		err = t.newOverError()
	}
	return answer, err
}

// ClaimQuestion reports whether an agent is to be asked now: nobody else is, and this one was not
// asked before. The caller then asks it and calls [Table.EndAsking].
func (ts *Table) ClaimQuestion(q *Question, a *registry.Agent) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if q.asking || q.askedOf == a || q.answered || q.failure != nil {
		return false
	}
	q.asking, q.askedOf = true, a
	return true
}

// EndAsking ends what ClaimQuestion began. If failure is not nil, those that wait for an answer now
// get it as their error. The question stays open.
func (ts *Table) EndAsking(t *Delegation, q *Question, failure error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	q.asking = false
	if !q.answered && q.failure == nil {
		q.failure = failure
	}
	ts.notifyWaiters(t)
}

// RecordAnswer records the answer to a question, on disk when it returns. The first one wins;
// the error is not_found if there is an answer already, or if the question no longer exists.
func (ts *Table) RecordAnswer(ctx context.Context, t *Delegation, q *Question, answer wire.Payload) error {
	var won bool
	err := ts.db.Write(context.WithoutCancel(ctx), true, func(tx *store.Tx) (err error) {
		won, err = updateAnswer(tx, t.Row, q.ID, answer.Object())
		return err
	})
	ts.mu.Lock()
	defer ts.mu.Unlock()
	switch {
	case err != nil:
		return ownwords.Errorf("record the answer: %w", err)
	case !won || !slices.Contains(t.questions, q):
		return kinds.Errorf(kinds.NotFound, "ref: the question %s is answered already, or is no more", q.ID)
	}
	unused := max(kinds.MaxQuestion-int64(len(answer)), 0)
	ts.questionBytes.Release(t.Peer, unused)
	q.share -= unused
	q.answered, q.failure = true, nil
	ts.notifyWaiters(t)
	return nil
}

// CloseQuestion ends a question without an answer. Those that wait for it get why as their error.
func (ts *Table) CloseQuestion(ctx context.Context, t *Delegation, q *Question, why error) error {
	ts.mu.Lock()
	if !q.answered {
		ts.dropQuestion(t, q, why)
	}
	ts.mu.Unlock()
	return ts.db.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error { return deleteUnansweredQuestion(tx, t.Row, q.ID) })
}

// FindQuestion returns an open question by its id or that of its delegation. It searches the
// delegations of the holder by, or all if by is nil. ok is false if it finds no question.
func (ts *Table) FindQuestion(by *registry.Credential, id wire.MessageID) (t *Delegation, q *Question, ok bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.table {
		if t.Direction != client.Given || by != nil && t.KeyHash != by.KeyHash {
			continue
		}
		if q := t.findUnanswered(); q != nil && q.isOpen() && (q.ID == id || t.ID == id) {
			return t, q, true
		}
	}
	return nil, nil, false
}

// TimeLeft returns how long a delegation may still last.
func (t *Delegation) TimeLeft() time.Duration {
	over, _ := t.deadlines()
	return time.Until(over)
}

// tellWaitingQuestions wakes those that wait for an answer of the agent of a name. The caller
// holds mu.
func (ts *Table) tellWaitingQuestions(name string) {
	for _, t := range ts.table {
		if t.Direction != client.Given || t.Agent != name {
			continue
		}
		if q := t.findUnanswered(); q != nil && q.waiting > 0 {
			ts.notifyWaiters(t)
		}
	}
}
