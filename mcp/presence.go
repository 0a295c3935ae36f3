package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/kinds"
)

// declarePatience bounds how long the daemon may take to hear that a session can be woken now.
const declarePatience = 5 * time.Second

// watchSession keeps what the daemon knows of the session true, if its program tells when it can be
// woken. It returns when that is known first, or after a moment.
func (s *Server) watchSession(ctx context.Context) {
	watcher, ok := s.agent.currentSession().(harness.Watcher)
	if !ok {
		return
	}
	s.goOn(func(ctx context.Context) {
		watcher.Watch(ctx, func(p harness.Presence) { s.notePresence(ctx, p) })
	})
	select {
	case <-s.agent.seen:
	case <-time.After(attachPatience):
	case <-ctx.Done():
	}
}

// notePresence takes word of the session's program.
func (s *Server) notePresence(ctx context.Context, p harness.Presence) {
	a := &s.agent
	a.mu.Lock()
	a.info.Unwakeable, a.info.Asks = a.stopped, p.Asks
	if p.Unwakeable != nil {
		a.info.Unwakeable = makeReason(p.Unwakeable)
	}
	if !isClosed(a.seen) {
		close(a.seen)
	}
	attached := a.attached
	a.mu.Unlock()
	if attached {
		s.declareSession(ctx)
	}
}

// declareSession tells the daemon of the attached session what is so now.
func (s *Server) declareSession(ctx context.Context) {
	info := s.agent.currentInfo()
	ctx, cancel := context.WithTimeout(ctx, declarePatience)
	defer cancel()
	if err := s.Daemon.DeclareSession(ctx, &info); err != nil {
		s.logf("the daemon does not know what is so of the session: %v", err)
	}
}

// maxUntaken is how many messages in a row a version that no test has seen may not take.
const maxUntaken = 3

// noteTaken keeps count of the messages that the session's program has not taken one after the other,
// and ends waking a session whose version is newer than those that were tested when there are too many:
// it may take them in another form. The session is not woken then until its program is started anew, and
// its owner reads why. What the model does with a turn plays no part, and no other session's posts: so
// neither a peer nor an outage of a model ends waking.
func (s *Server) noteTaken(ctx context.Context, session harness.Session, err error) {
	newer := harness.NewerThanTested(session.Harness())
	a := &s.agent
	a.mu.Lock()
	switch {
	case err == nil, errors.Is(err, harness.ErrHeld):
		a.untaken = 0
	case errors.Is(err, harness.ErrNotTaken):
		a.untaken++
	}
	if newer == "" || a.untaken < maxUntaken || a.stopped != "" {
		a.mu.Unlock()
		return
	}
	why := fmt.Sprintf("it is %s, and did not take %d messages in a row: update acpctl, then start it again; the last one was %s", newer, maxUntaken, makeReason(err))
	a.stopped = cutText(why, client.MaxReason)
	a.info.Unwakeable = a.stopped
	attached := a.attached
	a.mu.Unlock()
	if attached {
		s.declareSession(ctx)
	}
}

// endUnanswered ends a request whose turn was interrupted, because the program asked its user in it and got
// no answer.
func (s *Server) endUnanswered(r *openRequest, program string) {
	why := kinds.Errorf(kinds.Timeout, "its owner was asked by %s, and has not answered: ask again when somebody is there", program)
	if r.Kind == kinds.KindQuery {
		s.requests.give(r, outcome{err: why})
		return
	}
	if !s.requests.remove(r, "its turn was interrupted, as nobody answered what "+program+" asked") {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.timing.farewell)
	defer cancel()
	if _, err := s.Daemon.SendError(ctx, client.ResultParams{Ref: r.ID, Payload: kinds.EncodePayload(why)}); err != nil {
		s.logf("the sender of delegation %s does not know that it has ended: %v", r.ID, err)
	}
}
