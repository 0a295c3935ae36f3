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

// wake wakes the session for a message of the inbox, or for a request. The daemon hands the request over at
// the same time, so the wake or the request may be here first. A message that the model was shown to its end,
// and a request that is not open, wake nobody. If the program is busy, wake returns when the turn has ended. It
// continues if the connection to the daemon breaks.
func (s *Server) wake(ctx context.Context, in *client.Inbound) (answer *client.WakeAnswer, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.logPanic("wake", r)
			answer, err = nil, errPanic
		}
	}()
	session := s.agent.currentSession()
	switch {
	case in.Wake == nil || session == nil:
		return nil, nil
	case in.Wake.Test:
		return s.testWake(ctx, session, in), nil
	case in.Kind != kinds.KindQuery && in.Kind != kinds.KindDelegate:
		unread, done := s.seen.watch(&in.Envelope)
		defer done()
		return s.post(unread, session, in, nil), nil
	}
	r := s.requests.await(ctx, keyOf(&in.Envelope), s.timing.handover)
	if r == nil {
		return nil, nil
	}
	whole := *r.Inbound // a wake has only the beginning of a long one
	whole.Wake = in.Wake
	return s.post(r.unread, session, &whole, r), nil
}

// testWake wakes the session for its owner. Nothing is kept, as it is for no message.
func (s *Server) testWake(ctx context.Context, session harness.Session, in *client.Inbound) *client.WakeAnswer {
	ctx, cancel := context.WithTimeout(ctx, s.timing.wake)
	defer cancel()
	_, err := session.Post(ctx, harness.Post{
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

// post gives the session's program a line about a waiting message, and its text where the program has a place
// for it. The line has nothing of the peer but the petname that the owner gave. post waits for the end of a
// turn, unless unread ends before. The answer is not Posted only if the line certainly was not given. r is nil
// if the message is in the inbox.
func (s *Server) post(unread context.Context, session harness.Session, in *client.Inbound, r *openRequest) *client.WakeAnswer {
	if unread.Err() != nil {
		return nil
	}
	who, isOwn := in.Name, client.IsOwnReport(&in.Envelope)
	if isOwn {
		who = client.OwnReporter
	}
	p := harness.Post{
		Message: in.ID, Sender: in.From, Came: time.UnixMilli(int64(in.TS)), Unattended: in.Wake.Unattended,
		Pointer: "1 message from " + who + " waits, id " + in.ID.String() + ". Call acp_inbox.",
	}
	shown := waitingMessage{Envelope: &in.Envelope, open: r}
	message := newPeerMessage(&in.Envelope, in.Name)
	if client.ReadFileReport(&in.Envelope) != nil { // which no peer can send
		message.Answer = describeTaking(in.ID)
	}
	if isOwn {
		p.Untrusted = describeOwnReport(&in.Envelope)
	} else if text := shown.describeDeadline(" of its arrival") + client.RenderPeerMessage(message); len(text) <= client.PeerPageSize {
		p.Untrusted = text
	}
	key := keyOf(&in.Envelope)
	switch {
	case r == nil:
		if p.Untrusted != "" {
			p.Given = "1 message from " + who + " comes with this line, id " + in.ID.String() + ". It needs no answer."
		}
		s.seen.keepReply(key, newReplyWay(&in.Envelope))
	case r.posted.Swap(true):
		return &client.WakeAnswer{Posted: true} // for the same query, which has come again
	case !r.claim():
		return nil
	default:
		p.Came = r.arrived
		p.Abandoned = func() bool { return s.requests.isUnwanted(r) }
		p.Unanswered = func(program string) { s.endUnanswered(r, program) }
	}
	again := s.seen.wake(key) // it may read the message before Post returns
	ctx, cancel := context.WithCancel(s.life)
	defer cancel()
	defer context.AfterFunc(unread, cancel)()
	done, err := session.Post(ctx, p)
	isRead := ctx.Err() != nil
	answer := &client.WakeAnswer{Posted: err == nil || errors.Is(err, harness.ErrHeld) || errors.Is(err, harness.ErrGone), Proven: done.Proven}
	if r != nil {
		r.posted.Store(answer.Posted)
		if !answer.Posted {
			r.sights.Add(-1)
		}
	}
	if !answer.Posted && !again {
		s.seen.unwake(key)
	}
	if done.Proven {
		s.seen.show(key)
		s.markRead(&in.Envelope, r)
	}
	if err == nil || isRead {
		return answer
	}
	s.logf("message %s from %s waits for the next turn: %v", in.ID, in.Name, err)
	if !answer.Posted {
		answer.Refused = makeReason(err)
	}
	answer.NeedsPerson = errors.Is(err, harness.ErrUnattended) || errors.Is(err, harness.ErrHeld) || errors.Is(err, harness.ErrNoTurn)
	return answer
}

// markRead notes that a message was shown to its end, so that the session is not woken for it.
// request is nil if the message is in the inbox.
func (s *Server) markRead(e *wire.Envelope, request *openRequest) {
	if request != nil {
		request.read()
		return
	}
	s.seen.read(e)
}
