package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/harness"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/kinds"
)

const (
	maxOpenRequests = 16               // queries and delegations that wait for the session
	maxSameNames    = 16               // sessions of one name that can be attached: claude, claude-2, …
	longestPause    = 15 * time.Second // between attempts to attach
	attachPatience  = 2 * time.Second  // that a tool call has for an attempt
)

// attachment is the session as an agent of the daemon.
type attachment struct {
	once sync.Once
	try  pace.Signal // attach now: somebody waits for it
	news pace.Signal // there may be news for the daemon: see currentInfo

	mu       sync.Mutex
	session  harness.Session // how it is woken; nil: not at all
	info     client.SessionInfo
	told     client.SessionInfo // what the daemon knows of info
	seen     chan struct{}      // closed when the program has said whether it can be woken
	name     string             // as which it is attached, or was; "": never yet
	key      string             // which the daemon gave it
	attached bool
	attempt  chan struct{} // closed when an attempt to attach has ended; then there is a new one
	problem  error         // of the last attempt
}

func (a *attachment) init() {
	a.try, a.news = pace.NewSignal(), pace.NewSignal()
	a.attempt = make(chan struct{})
	a.seen = make(chan struct{})
}

func (a *attachment) currentSession() harness.Session {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.session
}

// currentName returns the name as which the session is attached, or "".
func (a *attachment) currentName() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.attached {
		return ""
	}
	return a.name
}

// currentInfo returns what is known of the session. isNews reports whether the session is attached and the
// daemon does not know it.
func (a *attachment) currentInfo() (info client.SessionInfo, isNews bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.info, a.attached && a.info != a.told
}

// noteTold notes what the daemon knows of the session, or will when it is attached. The zero value means that
// this is not known.
func (a *attachment) noteTold(info client.SessionInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = info
}

// watchAttempt returns a channel that is closed when the next attempt to attach has ended.
func (a *attachment) watchAttempt() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.attempt
}

// errAttaching is why a session is not attached before the first attempt has ended.
var errAttaching = kinds.Errorf(kinds.NoAgent, "this session is being attached: call again in a moment")

// record notes how an attempt to attach, or being attached, has ended. err is nil if the session
// is attached now.
func (a *attachment) record(name, key string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.attached, a.problem = err == nil, err; a.attached {
		a.name, a.key = name, cmp.Or(key, a.key)
	}
	close(a.attempt)
	a.attempt = make(chan struct{})
	a.news.Set()
}

// beginAttaching finds the session of the program and keeps it attached until the server ends.
// Only the first call does something. It returns at once.
func (s *Server) beginAttaching(program *sdk.Implementation) {
	s.agent.once.Do(func() {
		var name, version string
		if program != nil {
			name, version = program.Name, program.Version
		}
		s.goOn(func(ctx context.Context) {
			s.findSession(ctx, name, version)
			s.goOn(s.keepDeclared)
			s.watchSession(ctx)
			s.keepAttached(ctx)
		})
	})
}

// findSession finds how the session is woken, and which program it runs in.
func (s *Server) findSession(ctx context.Context, program, version string) {
	info := client.SessionInfo{Harness: makeAgentName(program), Version: identity.CleanClaim(cutText(client.Line(version), client.MaxSessionText)), Begun: client.Time{Time: s.begun}}
	if dir, err := os.Getwd(); err == nil {
		sum := sha256.Sum256([]byte(dir))
		info.Folder = hex.EncodeToString(sum[:8])
	}
	var session harness.Session
	var err error
	if s.FindSession != nil {
		session, err = s.FindSession(ctx, program, version)
	}
	switch {
	case err != nil:
		s.logf("%v; messages wait for its next turn", err)
		info.Unwakeable = makeReason(err)
	case session == nil:
		info.Unwakeable = "acpctl knows no way to wake this program"
	default:
		info.Harness, info.Version = session.Harness()
	}
	s.agent.mu.Lock()
	s.agent.session, s.agent.info = session, info
	s.agent.mu.Unlock()
}

// makeReason returns in one line for the daemon's owner why a session was not woken. The line has only
// printable characters, as the daemon accepts no others.
func makeReason(err error) string {
	why := ownwords.Of(err)
	if e, ok := errors.AsType[*harness.Error](err); ok {
		why = e.Reason()
	}
	line := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, client.Line(why))
	return cutText(line, client.MaxReason)
}

// makeAgentName makes the name of an agent from that of an MCP client, such as claude-code.
func makeAgentName(program string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, program)
	name = strings.Trim(name[:min(len(name), 28)], "-")
	for _, known := range []string{"claude", "codex", "opencode"} {
		if strings.HasPrefix(name, known) {
			return known
		}
	}
	if identity.CheckName(name) == nil {
		return name
	}
	return "session"
}

// keepAttached keeps the session attached until ctx ends. The client renews a broken connection
// by itself. Here is what it leaves to its caller: a daemon that is not there at first, and a
// name that another agent has.
func (s *Server) keepAttached(ctx context.Context) {
	p := *s.Attach
	p.MaxConcurrent = maxOpenRequests
	base := cmp.Or(p.Name, s.agent.info.Harness)
	for pause, n := time.Second, 1; ; {
		p.Name = numberName(base, n)
		info, _ := s.agent.currentInfo()
		h := client.Handler{Query: s.takeQuery, Delegate: s.takeDelegation, Cancel: s.takeCancel, Wake: s.wake}
		h.OnAttached = func() {
			pause = time.Second
			s.agent.record(p.Name, s.Daemon.Key(), nil)
		}
		p.Session = &info
		s.agent.noteTold(info)
		err := s.Daemon.Attach(ctx, p, h)
		if ctx.Err() != nil {
			s.agent.record("", "", ctx.Err())
			return
		}
		s.agent.mu.Lock()
		p.Key = s.agent.key
		s.agent.mu.Unlock()
		if isNameTaken(err) && n < maxSameNames {
			n++
			continue
		}
		if n = 1; isNameTaken(err) {
			err = kinds.Errorf(kinds.Overloaded, "%d agents named like %s are attached already: choose another name with --name", maxSameNames, base)
		}
		if last := s.agent.whyNotAttached(); last == nil || last.Error() != err.Error() {
			s.logf("not attached: %v", err)
		}
		s.agent.record("", "", err)
		select {
		case <-s.agent.try:
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, longestPause)
	}
}

// numberName returns the n-th name that begins with base: claude, claude-2, claude-3.
func numberName(base string, n int) string {
	if n == 1 {
		return base
	}
	return fmt.Sprintf("%s-%d", base, n)
}

// isNameTaken reports whether another agent has, or is kept, the name.
func isNameTaken(err error) bool {
	e, ok := errors.AsType[*kinds.Error](err)
	return ok && e.Reason() == kinds.ReasonNameTaken
}

// awaitAttached waits until the session is attached, if it is to be. It begins an attempt and
// waits for its end, so that the first call after the daemon is back comes from the agent.
// It returns an error only if no daemon answers, or ctx ends.
func (s *Server) awaitAttached(ctx context.Context) error {
	if s.Attach == nil {
		return nil
	}
	s.agent.mu.Lock()
	attached, attempt, begun := s.agent.attached, s.agent.attempt, s.agent.problem != error(errAttaching)
	s.agent.mu.Unlock()
	if attached {
		return nil
	}
	if begun {
		s.agent.try.Set()
	}
	select {
	case <-attempt:
	case <-time.After(attachPatience):
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.agent.whyNotAttached(); errors.Is(err, &kinds.Error{Code: kinds.DaemonUnavailable}) {
		return err
	}
	return nil // what needs no agent works all the same
}

// whyNotAttached returns the error of the last attempt to attach, or nil if the session is attached.
func (a *attachment) whyNotAttached() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.attached {
		return nil
	}
	return a.problem
}
