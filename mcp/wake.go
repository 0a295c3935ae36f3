package mcp

import (
	"context"
	"errors"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// wakeup is one wake of the session, for a message.
type wakeup struct {
	*client.Inbound
	request *openRequest    // the request that the message is, or nil if it is in the inbox
	came    time.Time       // when it came, or was sent: one that comes again later is another message
	read    <-chan struct{} // closed when it was shown to its end
	ended   <-chan struct{} // closed when it is not open any more; nil: it is no request
}

// wake wakes the session for a message of the inbox, or for a request. The daemon hands the request over at
// the same time, so the wake or the request may be here first. A message that the model was shown to its end
// wakes nobody. If the program is busy, wake returns when the turn has ended. It continues if the connection to
// the daemon breaks.
func (s *Server) wake(ctx context.Context, in *client.Inbound) (answer *client.WakeAnswer, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.logPanic("wake", r)
			answer, err = nil, errPanic
		}
	}()
	if in.Wake == nil || s.agent.currentSession() == nil {
		return nil, nil
	}
	if in.Wake.Test {
		return s.testWake(ctx, in), nil
	}
	w, done := s.beginWake(ctx, in)
	if w == nil {
		return nil, nil
	}
	defer done()
	return s.post(s.life, w), nil
}

// testWake wakes the session for its owner. Nothing is kept, as it is for no message.
func (s *Server) testWake(ctx context.Context, in *client.Inbound) *client.WakeAnswer {
	ctx, cancel := context.WithTimeout(ctx, s.timing.wake)
	defer cancel()
	_, err := s.agent.currentSession().Post(ctx, harness.Post{
		Message: in.ID, Sender: in.From, Came: time.UnixMilli(int64(in.TS)), Unattended: in.Wake.Unattended,
		Pointer: "Your user tries whether acpd can begin a turn here. It can: say so in one sentence, and do nothing else.",
	})
	switch {
	case err == nil:
		return &client.WakeAnswer{Posted: true}
	case ctx.Err() != nil:
		return &client.WakeAnswer{Refused: "it is busy, or does not say that it is idle: try again when its turn has ended"}
	}
	return &client.WakeAnswer{Refused: makeReason(err)}
}

// beginWake returns what a wake for a message needs to know, or nil if the session needs no wake: the
// message was shown to its end, or is a request that is not open. The caller calls done when the
// wake is over.
func (s *Server) beginWake(ctx context.Context, in *client.Inbound) (w *wakeup, done func()) {
	w = &wakeup{Inbound: in}
	if in.Kind == kinds.KindQuery || in.Kind == kinds.KindDelegate {
		r := s.requests.await(ctx, keyOf(&in.Envelope), s.timing.handover)
		if r == nil {
			return nil, nil
		}
		whole := *r.Inbound // a wake has the beginning of a long one
		whole.Wake = in.Wake
		w.Inbound = &whole
		w.request, w.came, w.read, w.ended, done = r, r.arrived, r.shown, r.ended, func() {}
	} else {
		w.came = time.UnixMilli(int64(in.TS))
		w.read, done = s.seen.watch(&in.Envelope)
	}
	if isClosed(w.read) {
		done()
		return nil, nil
	}
	return w, done
}

// post gives the session's program a line about a waiting message. The line has nothing of the
// peer but the petname that the owner gave. post waits for the end of a turn, unless the message is read
// or ends before. The answer is not Posted only if the line certainly was not given.
func (s *Server) post(ctx context.Context, w *wakeup) *client.WakeAnswer {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.goOn(func(context.Context) {
		select {
		case <-w.read:
			cancel()
		case <-w.ended:
			cancel()
		case <-ctx.Done():
		}
	})
	p := harness.Post{
		Message:    w.ID,
		Sender:     w.From,
		Came:       w.came,
		Pointer:    "1 message from " + w.Name + " waits, id " + w.ID.String() + ". Call acp_inbox.",
		Unattended: w.Wake.Unattended,
	}
	shown := waitingMessage{Envelope: &w.Envelope, open: w.request}
	if text := shown.describeDeadline(" of its arrival") + client.RenderPeerMessage(newPeerMessage(&w.Envelope, w.Name)); len(text) <= client.PeerPageSize {
		p.Untrusted = text
	}
	if r := w.request; r == nil {
		if p.Untrusted != "" {
			p.Given = "1 message from " + w.Name + " comes with this line, id " + w.ID.String() + ". It needs no answer."
		}
		s.seen.keepReply(keyOf(&w.Envelope), newReplyWay(&w.Envelope))
	} else if r.posted.Swap(true) {
		return &client.WakeAnswer{Posted: true} // for the same query, which has come again
	} else {
		p.Abandoned = func() bool { return s.requests.isUnwanted(r) }
		p.Unanswered = func(program string) { s.endUnanswered(r, program) }
	}
	key := keyOf(&w.Envelope)
	again := s.seen.wake(key) // it may read the message before Post returns
	session := s.agent.currentSession()
	done, err := session.Post(ctx, p)
	answer := new(client.WakeAnswer)
	answer.Posted = err == nil || errors.Is(err, harness.ErrHeld) || errors.Is(err, harness.ErrGone)
	answer.Proven = done.Proven
	if !answer.Posted && !again {
		s.seen.unwake(key)
	}
	if w.request != nil {
		w.request.posted.Store(answer.Posted)
	}
	if ctx.Err() == nil {
		s.noteTaken(session, err)
	}
	if err != nil && ctx.Err() == nil {
		s.logf("message %s from %s waits for the next turn: %v", w.ID, w.Name, err)
		if !answer.Posted {
			answer.Refused = makeReason(err)
		}
		answer.NeedsPerson = errors.Is(err, harness.ErrUnattended) || errors.Is(err, harness.ErrHeld) || errors.Is(err, harness.ErrNoTurn)
	}
	if done.Proven {
		s.seen.show(key)
		s.markRead(&w.Envelope, w.request)
	}
	return answer
}

// markRead notes that a message was shown to its end, so that the session is not woken for it.
// request is nil if the message is in the inbox.
func (s *Server) markRead(e *wire.Envelope, request *openRequest) {
	if request != nil {
		s.requests.markShown(request)
	} else {
		s.seen.read(e)
	}
}
