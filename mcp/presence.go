package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

// declarePause is between the first two attempts to tell the daemon of a change. It doubles up to longestPause.
const declarePause = 100 * time.Millisecond

// watchSession keeps what the daemon knows of the session up to date, if its program tells when it can be
// woken. It returns when the program has told that for the first time, or after a moment.
func (s *Server) watchSession(ctx context.Context) {
	watcher, ok := s.agent.currentSession().(harness.Watcher)
	if !ok {
		return
	}
	s.goOn(func(ctx context.Context) {
		watcher.Watch(ctx, s.notePresence)
	})
	select {
	case <-s.agent.seen:
	case <-time.After(attachPatience):
	case <-ctx.Done():
	}
}

// notePresence notes what the session's program says of itself.
func (s *Server) notePresence(p harness.Presence) {
	a := &s.agent
	a.mu.Lock()
	defer a.mu.Unlock()
	a.info.Unwakeable, a.info.Asks = a.stopped, p.Asks
	if p.Unwakeable != nil {
		a.info.Unwakeable = makeReason(p.Unwakeable)
	}
	if !isClosed(a.seen) {
		close(a.seen)
	}
	a.news.Set()
}

// keepDeclared reports each change of the attached session to the daemon until ctx ends. Nothing else does, so
// no change overtakes a later one. After an error it reports the change again after a pause.
func (s *Server) keepDeclared(ctx context.Context) {
	for pause := declarePause; pace.Gather(ctx, s.agent.news, 0) == nil; {
		info, isNews := s.agent.currentInfo()
		if !isNews {
			continue
		}
		err := s.Daemon.DeclareSession(ctx, &info)
		if err == nil {
			pause = declarePause
			s.agent.noteTold(info)
			continue
		}
		s.agent.noteTold(client.SessionInfo{}) // it may be sent yet, when the connection is renewed
		if pause == declarePause {
			s.logf("the daemon does not know yet what has changed about the session: %v", err)
		}
		pace.Sleep(ctx, pause)
		pause = min(2*pause, longestPause)
		s.agent.news.Set()
	}
}

// maxUntaken is how many messages in a row a version that was not tested may leave untaken.
const maxUntaken = 3

// noteTaken counts the messages in a row that the session's program has not taken. If there are too many, and
// the program is newer than every version that was tested, the session is not woken any more: the program may
// take messages in another form. Its owner can read the reason. It is woken again once the program was restarted.
// Whatever the model does with a turn does not matter, and neither do posts to other sessions: so neither a peer
// nor an outage of a model ends waking.
func (s *Server) noteTaken(session harness.Session, err error) {
	newer := harness.NewerThanTested(session.Harness())
	a := &s.agent
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil, errors.Is(err, harness.ErrHeld):
		a.untaken = 0
	case errors.Is(err, harness.ErrNotTaken):
		a.untaken++
	}
	if newer == "" || a.untaken < maxUntaken || a.stopped != "" {
		return
	}
	why := fmt.Sprintf("it is %s, and did not take %d messages in a row: update acpctl, then start it again; the last one was %s", newer, maxUntaken, makeReason(err))
	a.stopped = cutText(why, client.MaxReason)
	a.info.Unwakeable = a.stopped
	a.news.Set()
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
