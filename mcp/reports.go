package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// report is a message that reports on a delegation, and how it is sent.
type report struct {
	params client.ResultParams
	send   func(context.Context, client.ResultParams) (*client.Receipt, error)
}

// reportOn sends a result of a delegation. The final one ends it here. If the peer is away, the
// result is sent again and again for as long as a tool call waits, and then on behind it. If the
// daemon of this machine is away, the call returns at once.
func (s *Server) reportOn(ctx context.Context, r *openRequest, a *replyArguments) (*result, error) {
	what, err := s.newReport(r, a)
	if err != nil {
		return nil, err
	}
	if a.Status == replyPartial {
		receipt, err := what.send(ctx, what.params)
		if err != nil {
			return nil, err
		}
		s.requests.forgetPartialID(r, what.params.Payload) // the same may be said again later
		return &result{State: string(receipt.State), ID: r.ID, From: r.Name, Text: "The report is sent. The delegation continues."}, nil
	}
	pending := &result{State: "pending", ID: r.ID, From: r.Name}
	if !s.requests.beginReply(r, what) {
		pending.Text = "Its result is already kept, and is sent as soon as possible: you need not do anything. The text of this call is not sent."
		return pending, nil
	}
	type sent struct {
		receipt *client.Receipt
		err     error
	}
	ended, late, noDaemon := make(chan sent), make(chan struct{}), pace.NewSignal()
	defer close(late)
	s.goOn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, s.timing.keep)
		defer cancel()
		var out sent
		out.receipt, out.err = s.sendPatiently(ctx, what, noDaemon)
		switch {
		case out.err == nil:
			s.requests.remove(r, "its result was sent")
		case kinds.AsError(out.err).Code == kinds.NotFound:
			s.requests.remove(r, "nobody waits for its result any more")
		}
		s.requests.endReply(r)
		select {
		case ended <- out:
		case <-late:
			s.noteLateRefusal(r, out.err)
		}
	})
	limit := time.NewTimer(s.timing.wait)
	defer limit.Stop()
	select {
	case out := <-ended:
		if out.err != nil {
			return nil, out.err
		}
		return &result{State: string(out.receipt.State), ID: r.ID, From: r.Name, Text: "The result is " + string(out.receipt.State) + ": " + describeReceipt(out.receipt.State)}, nil
	case <-noDaemon:
		pending.Text = "No daemon answers on this machine: tell your user. The result is kept here, and sent when one does, while this session lasts: nothing else to do."
		return pending, nil
	case <-limit.C:
	case <-ctx.Done():
	}
	pending.Text = r.Name + " cannot be reached now. The result is sent as soon as it can, while this session lasts."
	return pending, nil
}

// noteLateRefusal tells the model with its next result that a result which was pending was not taken.
func (s *Server) noteLateRefusal(r *openRequest, err error) {
	if err == nil || s.life.Err() != nil {
		return
	}
	remedy := ": answer again with acp_reply"
	code := nameCode(kinds.AsError(err).Code)
	if code == kinds.NotFound {
		remedy = ": nobody waits for it any more"
	}
	s.notices.add(r.From, "the result for the delegation "+r.ID.String()+" was not taken: "+string(code)+remedy)
}

// newReport returns the message by which the model reports on a delegation.
func (s *Server) newReport(r *openRequest, a *replyArguments) (*report, error) {
	send, kind, payload := s.Daemon.SendResult, kinds.KindResult, any(newResult(a))
	if a.Status == replyRefused {
		send, kind, payload = s.Daemon.SendError, kinds.KindError, kinds.NewDeclined(a.Text)
	}
	content, err := newPayload(kind, payload)
	if err != nil {
		return nil, err
	}
	id := s.requests.newReplyID(keyOf(&r.Envelope), content)
	if a.Status == replyPartial {
		id = s.requests.findPartialID(r, content)
	}
	return &report{client.ResultParams{Head: client.Head{ID: id}, Ref: r.ID, Payload: content}, send}, nil
}

// findPartialID returns the id of a partial result: the same one for the same content, until forgetPartialID is called
// because it was sent.
func (t *requestTable) findPartialID(r *openRequest, content wire.Payload) wire.MessageID {
	key := t.newReplyID(keyOf(&r.Envelope), content)
	t.mu.Lock()
	defer t.mu.Unlock()
	id, ok := r.partials.get(key)
	if !ok {
		id = wire.NewMessageID()
	}
	r.partials.keep(key, id)
	return id
}

// forgetPartialID makes the next partial result of that content a new one.
func (t *requestTable) forgetPartialID(r *openRequest, content wire.Payload) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.partials.forget(t.newReplyID(keyOf(&r.Envelope), content))
}

// newResult returns a partial or final result.
func newResult(a *replyArguments) *kinds.Result {
	r := &kinds.Result{Status: a.Status, Outcome: a.Text, Data: a.Data}
	switch a.Status {
	case replyFailed:
		r.Error = new(string(kinds.Internal))
	case replyPartial:
		r.Progress, r.Message = a.Progress, cutText(a.Text, 1024)
	}
	return r
}

// sendPatiently sends a report until the peer has it, refuses it, or ctx ends. It repeats it under
// the same id, at once when the session was attached again. It sets noDaemon when no daemon answers.
func (s *Server) sendPatiently(ctx context.Context, what *report, noDaemon pace.Signal) (*client.Receipt, error) {
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 15*time.Second) {
		attached := s.agent.watchAttempt()
		receipt, err := what.send(ctx, what.params)
		e, ok := errors.AsType[*kinds.Error](err)
		if err == nil || !ok || !e.Retryable || ctx.Err() != nil {
			return receipt, err
		}
		if e.Code == kinds.DaemonUnavailable {
			noDaemon.Set()
		}
		select {
		case <-attached:
			pause = 100 * time.Millisecond
		case <-time.After(max(pause, time.Duration(e.RetryAfterMS)*time.Millisecond)):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// beginReply keeps a final report while it is sent. It reports false if there is one already.
func (t *requestTable) beginReply(r *openRequest, final *report) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.final != nil {
		return false
	}
	r.final = final
	return true
}

// findFinal returns the final report that is being sent, or nil.
func (t *requestTable) findFinal(r *openRequest) *report {
	t.mu.Lock()
	defer t.mu.Unlock()
	return r.final
}

func (t *requestTable) endReply(r *openRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.final = nil
}
