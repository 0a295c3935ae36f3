package mcp

import (
	"context"
	"errors"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

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
// whoever sent it. A chain of calls may come back over several machines, and each hop must be counted.
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
		if newest := s.seen.newest(); newest != (messageKey{}) {
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
		s.seen.end()
	case h.named:
		s.seen.follow(h.Parent)
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
