package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Question is a query, as [Handler.Answer] gets it. Its text, Question, was written by a peer: treat it as data.
type Question struct {
	kinds.Query
	Message *Inbound // all of the message: Name is the peer's, and Delegation is set if the question is about one
}

// Work is a delegation, as [Handler.Work] gets it. Its text, Task, was written by a peer: treat it as data.
type Work struct {
	kinds.Delegate
	Message *Inbound // all of the message: Name is the peer's

	client *Client
}

// Progress sends a partial result: what there is so far, and how much is done, from 0 to 1. The daemon sends at most
// four in a second; if there are more, it sends the last. After an error the work may continue: the peer may only be away.
func (w *Work) Progress(ctx context.Context, outcome string, done float64) error {
	_, err := w.client.SendResult(ctx, ResultParams{
		Head: Head{ID: wire.NewMessageID()}, Ref: w.Message.ID,
		Payload: kinds.EncodePayload(&kinds.Result{Status: "partial", Outcome: outcome, Progress: &done}),
	})
	return err
}

// answerText returns the function that answers queries with a text.
func answerText(answer func(context.Context, *Question) (string, error)) messageFunc {
	return func(ctx context.Context, in *Inbound) (any, error) {
		query, err := kinds.ParsePayload[kinds.Query](in.Payload)
		if err != nil {
			return nil, err
		}
		text, err := answer(ctx, &Question{*query, in})
		return &kinds.Response{Summary: text}, err
	}
}

// lastWords is how long an agent that detaches tells those whose work it leaves.
const lastWords = 2 * time.Second

// workers run [Handler.Work] for an agent.
type workers struct {
	client *Client
	work   func(context.Context, *Work) (string, error)
	ctx    context.Context // ends when the agent detaches
	stop   context.CancelFunc

	mu      sync.Mutex
	running map[workKey]context.CancelFunc // the delegations whose function has not returned
	all     sync.WaitGroup                 // Add is called with mu held, while ctx has not ended
}

// workKey names a delegation: two peers may choose the same id.
type workKey struct {
	from identity.ID
	id   wire.MessageID
}

func newWorkers(ctx context.Context, c *Client, work func(context.Context, *Work) (string, error)) *workers {
	w := &workers{client: c, work: work, running: make(map[workKey]context.CancelFunc)}
	w.ctx, w.stop = context.WithCancel(ctx)
	return w
}

// end cancels all work, and waits until its functions have returned and the delegating agents have its outcome.
func (w *workers) end() {
	w.mu.Lock()
	w.stop()
	w.mu.Unlock()
	w.all.Wait()
}

// accept takes a delegation. The work continues afterwards.
func (w *workers) accept(_ context.Context, in *Inbound) (*kinds.Ack, error) {
	task, err := kinds.ParsePayload[kinds.Delegate](in.Payload)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return nil, kinds.Errorf(kinds.NoAgent, "the agent is detaching: delegate this to another one")
	}
	if key := (workKey{in.From, in.ID}); w.running[key] == nil { // else it is a repeat
		ctx, cancel := context.WithCancel(context.WithValue(w.ctx, handledKey{}, in.ID))
		w.running[key] = cancel
		w.all.Go(func() { w.run(ctx, &Work{*task, in, w.client}) })
	}
	return nil, nil
}

// cancel ends the work on a delegation. Nothing is reported then, as the delegator has ended it.
func (w *workers) cancel(_ context.Context, in *Inbound) (*kinds.Ack, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if in.Ref == nil || w.running[workKey{in.From, *in.Ref}] == nil {
		return &kinds.Ack{Code: kinds.NotFound, Message: "nothing works on it: it has ended"}, nil
	}
	w.running[workKey{in.From, *in.Ref}]()
	return nil, nil
}

// run works on a delegation and reports how it ended.
func (w *workers) run(ctx context.Context, work *Work) {
	outcome, err := w.work(ctx, work)
	w.mu.Lock()
	detaches := w.ctx.Err() != nil
	isCancelled := ctx.Err() != nil && !detaches
	key := workKey{work.Message.From, work.Message.ID}
	w.running[key]()
	delete(w.running, key)
	w.mu.Unlock()
	if isCancelled || work.ReportBack != nil && !*work.ReportBack {
		return
	}
	if detaches && errors.Is(err, context.Canceled) {
		err = kinds.Errorf(kinds.NoAgent, "the agent was stopped while it worked on this")
	}
	reporting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(w.ctx, func() { time.AfterFunc(lastWords, cancel) })()
	p := ResultParams{Ref: work.Message.ID, Payload: kinds.EncodePayload(&kinds.Result{Status: "completed", Outcome: outcome})}
	if err == nil {
		err = sendUntilTaken(reporting, p, w.client.SendResult)
	}
	if err != nil {
		p.Payload = kinds.EncodePayload(kinds.AsError(hideText(err)))
		sendUntilTaken(reporting, p, w.client.SendError)
	}
}

// sendUntilTaken sends the end of a delegation, again and again under one id until the delegator's daemon has it.
// It returns an error if another end may be taken: if this one never will be.
func sendUntilTaken(ctx context.Context, p ResultParams, send func(context.Context, ResultParams) (*Receipt, error)) error {
	const shortestPause, longestPause = 50 * time.Millisecond, 2 * time.Second
	p.ID = wire.NewMessageID()
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		_, err := send(ctx, p)
		e, ok := errors.AsType[*kinds.Error](err)
		switch {
		case err == nil, ctx.Err() != nil, ok && (e.Code == kinds.NotFound || e.Code == kinds.Cancelled): // the last two: it is over
			return nil
		case !ok || !e.Retryable:
			return err
		}
		pace.Sleep(ctx, max(pause, time.Duration(e.RetryAfterMS)*time.Millisecond))
	}
}
