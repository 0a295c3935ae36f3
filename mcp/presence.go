package mcp

import (
	"context"
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
	a.info.Unwakeable, a.info.Asks = "", p.Asks
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
