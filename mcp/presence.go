package mcp

import (
	"context"
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
	a.gone, a.info.Unwakeable = p.Gone, ""
	if p.Unwakeable != nil {
		a.info.Unwakeable = makeReason(p.Unwakeable)
	}
	info, leave := a.info, a.leave
	select {
	case <-a.seen:
	default:
		close(a.seen)
	}
	a.mu.Unlock()
	switch {
	case leave == nil:
		a.try.Set()
	case p.Gone != nil:
		leave()
	default:
		ctx, cancel := context.WithTimeout(ctx, declarePatience)
		defer cancel()
		if err := s.Daemon.DeclareSession(ctx, &info); err != nil {
			s.logf("the daemon does not know what is so of the session: %v", err)
		}
	}
}

// attachWhilePresent attaches the session until ctx ends, or its program says that it is no agent any
// more. The error is why it is not attached.
func (s *Server) attachWhilePresent(ctx context.Context, p client.AttachParams, h client.Handler) error {
	a := &s.agent
	present, leave := context.WithCancel(ctx)
	defer leave()
	a.mu.Lock()
	gone, info := a.gone, a.info
	if gone == nil {
		a.leave = leave
	}
	a.mu.Unlock()
	if gone == nil {
		p.Session = &info
		err := s.Daemon.Attach(present, p, h)
		a.mu.Lock()
		a.leave, gone = nil, a.gone
		a.mu.Unlock()
		if gone == nil {
			return err
		}
	}
	return kinds.Errorf(kinds.NoAgent, "this session is not attached: %s", makeReason(gone))
}
