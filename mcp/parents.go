package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// parentFor is how long a message that was shown to the session is the parent of its calls.
const parentFor = 10 * time.Minute

// parentMemory knows what the calls of the session may follow from: the inbound messages that it was
// shown.
type parentMemory struct {
	mu      sync.Mutex
	shown   memory[messageKey, showing]
	woke    memory[messageKey, struct{}] // messages for which the session was woken, or is to be, and that were not shown since
	n       int                          // numbers that were given
	endedAt int                          // up to this number, nothing follows from what was shown
}

// showing says which of the messages was shown first, and when it was shown last.
type showing struct {
	number int
	last   time.Time
}

// note notes that an inbound message is shown now. A message that is shown again does not become newer
// than those that came after it, unless the session was woken for it since then: its peer pays for that
// turn. A session is woken once more for a message of which only a part was shown.
func (p *parentMemory) note(key messageKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, again := p.shown.get(key)
	_, woke := p.woke.get(key)
	p.woke.forget(key)
	if !again || woke {
		p.n++
		s.number = p.n
	}
	s.last = time.Now()
	p.shown.keep(key, s)
}

// noteWake notes that the session is woken for a message. It reports whether that is the first time.
func (p *parentMemory) noteWake(key messageKey) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, woke := p.woke.get(key)
	p.woke.keep(key, struct{}{})
	return !woke
}

// forgetWake undoes noteWake: the session was not woken for the message after all.
func (p *parentMemory) forgetWake(key messageKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.woke.forget(key)
}

// hasWoken reports whether the session was woken for a message that was not shown since.
func (p *parentMemory) hasWoken(key messageKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, woke := p.woke.get(key)
	return woke
}

// follow makes the message of that id, which the model has named, the newest.
func (p *parentMemory) follow(id wire.MessageID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range p.shown.keysOf(func(key messageKey) bool { return key.id == id }) {
		p.n++
		p.shown.keep(key, showing{p.n, time.Now()})
	}
}

// end ends what follows from the messages that were shown, also if they are shown again.
func (p *parentMemory) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endedAt = p.n
}

// newest returns the newest message that was shown in the last ten minutes, zero if there is none.
func (p *parentMemory) newest() (key messageKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest := p.endedAt
	for _, shown := range p.shown.order {
		if s, _ := p.shown.get(shown); s.number > newest && time.Since(s.last) <= parentFor {
			key, newest = shown, s.number
		}
	}
	return key
}

// head is the head of a call to a peer.
type head struct {
	client.Head
	thread string     // of the conversation, if the call has no parent: else it is the parent's
	named  bool       // the model has named the parent: without it the call fails
	user   bool       // the model says that its user asked for the call
	guess  messageKey // the message that the parent was guessed to be; zero: it was not guessed
}

// aboutUser is what the model writes in about if its user asked for the call.
const aboutUser = "user"

// newHead returns the head of a call to a peer: the id under which it is sent, and what it follows
// from. If the model does not name that, it is the newest message that the session was shown,
// whoever sent it: a chain of calls may come back over several machines, and its hops have to count.
func (s *Server) newHead(call *toolCall, id, about, thread string) (h head, err error) {
	h.ID, h.thread = wire.NewMessageID(), thread
	if id != "" {
		if h.ID, err = readID("id", id); err != nil {
			return h, err
		}
	}
	switch about {
	case "":
		h.Parent = s.Parent
		if newest := s.parents.newest(); newest != (messageKey{}) {
			h.Parent, h.Guessed, h.guess = newest.id, true, newest
		}
	case aboutUser:
		if !s.Parent.IsZero() {
			return h, kinds.Errorf(kinds.Invalid, "about: no user is here, as this program works for the message %s: leave it out, or name a message", s.Parent)
		}
		h.user = true
	default:
		if h.Parent, err = readID("about", about); err != nil {
			return h, err
		}
		h.named = true
	}
	call.sent, call.again = h.ID, describeRepeat(call.tool.name, h.ID)
	return h, nil
}

// describeRepeat says which call of a tool repeats what was sent under an id.
func describeRepeat(tool string, id wire.MessageID) string {
	return tool + " again with id " + id.String()
}

// sendWith calls send with the head of a call, and notes what later calls follow from. If the daemon no
// longer knows a parent that the model did not name, sendWith calls send again: first with the message
// that this program works for, and then without a parent.
func sendWith[R any](ctx context.Context, s *Server, h head, send func(client.Head) (R, error)) (R, error) {
	switch {
	case h.user:
		s.parents.end()
	case h.named:
		s.parents.follow(h.Parent)
	}
	for {
		if h.Parent.IsZero() {
			h.Thread = h.thread
		}
		r, err := send(h.Head)
		if h.named || h.Parent.IsZero() || !isParentUnknown(err) {
			return r, s.explainGuess(ctx, h, err)
		}
		next := s.Parent
		if h.Parent == s.Parent {
			next = wire.MessageID{}
		}
		h.Parent, h.Guessed, h.guess = next, false, messageKey{}
	}
}

// isParentUnknown reports whether the daemon does not know the parent of a call any more.
func isParentUnknown(err error) bool {
	e, ok := errors.AsType[*kinds.Error](err)
	return ok && e.Reason() == kinds.ReasonParentUnknown
}

// guessError is the error of a call that the daemon has refused for what it was taken to follow from.
type guessError struct {
	err    *kinds.Error
	remedy string
}

func (e *guessError) Error() string { return e.err.Error() }
func (e *guessError) Unwrap() error { return e.err }

// explainGuess says in an error from which message the call was taken to follow, if the call was
// refused for that and the model did not name it: because of its chain, or of the share of the peer
// that has woken the session.
func (s *Server) explainGuess(ctx context.Context, h head, err error) error {
	e, ok := errors.AsType[*kinds.Error](err)
	if !ok || e.From != "" || h.guess == (messageKey{}) || e.Code != kinds.LoopDetected && e.Reason() != kinds.ReasonShareUsed {
		return err
	}
	told := *e
	told.Message = "about: not given, so the call was taken to follow from message " + h.guess.id.String() + " of " + s.names.of(ctx, s, h.guess.from) + ": " + e.Message
	remedy := "If it does follow from that message: stop, and tell your user. If not, call again, with the id of the message that it is about in about"
	if s.Parent.IsZero() {
		remedy += ", or with about \"user\" if your user asked for it"
	}
	return &guessError{&told, remedy + "."}
}
