package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/acpd/acpd/internal/ownwords"
)

const (
	maxRetryPause = 5 * time.Minute
	settleTime    = 2 * time.Second // for nats.go to report an error that came before an answer
)

// forbidden is what the server does not permit on a connection, as far as it has said so. Its operator may
// change that while the connection stays, and the server tells nobody. So the session tries again what is
// forbidden: every [measureEvery], and more rarely the longer that lasts.
type forbidden struct {
	packets atomic.Bool            // the subscription of the own subject
	replies atomic.Bool            // the subscription of the subjects under it
	name    atomic.Bool            // the subscription of the own name
	publish atomic.Pointer[string] // the subject of the last packet that was refused; nil: none was
}

// isDeaf reports whether something does not come in.
func (f *forbidden) isDeaf() bool { return f.packets.Load() || f.replies.Load() }

// isAny reports whether anything is forbidden.
func (f *forbidden) isAny() bool { return f.isDeaf() || f.name.Load() || f.publish.Load() != nil }

// noteForbidden records what the server does not permit, if err is about that, and ends the asks for a name
// that are not permitted.
func (s *session) noteForbidden(err error) {
	subject := findSubjectOf(err)
	switch name := findNameOf(err); {
	case name != "" && isOfSubscription(err):
		s.forbidden.name.Store(true)
		if s.link.session.Load() == s {
			s.link.updateState(func(state *State) { state.Limit = s.findLimit() })
		}
	case name != "":
		s.link.asks.fail(name, errAskRefused)
	case isSubscriptionRefused(err):
		own := s.link.replies.ownSubject()
		which := []*atomic.Bool{&s.forbidden.packets, &s.forbidden.replies, &s.forbidden.name}
		switch subject { // none: there are too many
		case own:
			which = which[:1]
		case own + ".*":
			which = which[1:2]
		}
		for _, is := range which {
			is.Store(true)
		}
		if s.link.session.Load() == s {
			s.link.setStanding(Deaf)
		}
	case errors.Is(err, nats.ErrPermissionViolation) && isPacketSubject(subject):
		s.forbidden.publish.Store(&subject)
	}
}

// isPacketSubject reports whether this daemon may have published a packet or an answer to a subject. Its text
// is the server's, who is to choose no other one.
func isPacketSubject(subject string) bool {
	rest, ok := strings.CutPrefix(subject, subjectPrefix)
	return ok && strings.Trim(rest, ".0123456789abcdef") == ""
}

// retries says when a session tries again what is forbidden. Only serveSession uses it.
type retries struct {
	began, last time.Time        // zero: nothing is forbidden
	settled     <-chan time.Time // when what was tried last is taken for permitted, unless it was refused; nil if nothing is being tried
}

// isDue reports whether a quarter of the time has passed again for which something has been forbidden, within
// [measureEvery] and [maxRetryPause].
func (r *retries) isDue(now time.Time) bool {
	pause := min(max(measureEvery, now.Sub(r.began)/4), maxRetryPause)
	return now.Sub(r.last) > pause-measureEvery/2
}

// lookAfter measures the way to the server. If it is time, or somebody wants it now, it tries again what is forbidden,
// unless what it has tried before may still be refused.
func (s *session) lookAfter(ctx context.Context, observer Observer, isWanted bool) {
	if now := time.Now(); s.forbidden.isAny() && s.retries.settled == nil && (isWanted || s.retries.isDue(now)) {
		if s.retries.began.IsZero() {
			s.retries.began = now
		}
		s.retries.last = now
		s.tryForbidden(observer)
	}
	rtt, err := s.measure(ctx)
	if err != nil {
		return
	}
	s.link.updateState(func(state *State) { state.RTT = rtt })
	if !s.retries.last.IsZero() && s.retries.settled == nil { // the server has answered what was tried
		s.retries.settled = time.After(settleTime)
	}
}

// tryForbidden tries again what is forbidden, and nothing else. What is still forbidden is noted again. It returns an
// error if the connection has ended, which serveSession learns too.
func (s *session) tryForbidden(observer Observer) {
	if s.forbidden.packets.Swap(false) {
		s.packets.Unsubscribe()
		s.subscribePackets()
	}
	if s.forbidden.replies.Swap(false) {
		s.replies.Unsubscribe()
		s.subscribeReplies(observer)
	}
	if s.forbidden.name.Swap(false) {
		s.leaveName()
		s.subscribeName()
	}
	if subject := s.forbidden.publish.Swap(nil); subject != nil {
		s.conn.Publish(*subject, nil) // an empty message, which a peer drops
	}
}

// settle has the state tell what is permitted: what was tried, and has not been refused since.
func (s *session) settle() {
	tried, permitted := s.retries.last, false
	s.retries.settled = nil
	s.link.updateState(func(state *State) {
		state.Limit = s.findLimit()
		if s.forbidden.isDeaf() {
			return
		}
		if state.Standing == Deaf {
			state.Standing = Connected
		}
		if s.forbidden.publish.Load() == nil && !state.Refused.IsZero() {
			state.Since, state.Refused = time.Now(), time.Time{}
		}
		if permitted = !s.forbidden.isAny(); permitted && state.LastErrorAt.Before(tried) {
			state.LastError = nil
		}
	})
	if permitted {
		s.retries = retries{}
		s.link.log.Info("relay: the server permits now what it refused")
	}
}

// findLimit returns what does not work on a connection that carries packets; nil: nothing.
func (s *session) findLimit() error {
	if s.conn.MaxPayload() < headerLen+MTU {
		return s.link.describeError(nats.ErrMaxPayload)
	}
	if name := *s.link.name.Load(); name != "" && s.forbidden.name.Load() {
		return s.link.describeError(ownwords.Explain(nats.ErrPermissionViolation, fmt.Sprintf("the server permits no subscription to %q", nameSubject+name)))
	}
	return nil
}

// TryAgain has Run try at once what the server has forbidden, or to connect if it waits for that.
func (l *Link) TryAgain() { l.tryAgain.Set() }
