package relay

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// refusals are what the server does not permit on a connection, as far as it has said so. Its operator
// may change that while the connection stays, and the server tells nobody: so the session tries again
// every [measureEvery] what was refused.
type refusals struct {
	subscribe atomic.Bool            // to the own subjects: nothing comes in
	name      atomic.Bool            // to subscribe to the own name
	publish   atomic.Pointer[string] // the last subject to which it permitted no packet; nil: none
}

// noteRefusal records what the server refuses, if err is about that.
func (s *session) noteRefusal(err error) {
	switch name := findNameOf(err); {
	case name != "" && says(err, "subscription"):
		s.refused.name.Store(true)
	case name != "":
		s.link.asks.fail(name, errAskRefused)
	case isSubscriptionRefused(err):
		s.refused.subscribe.Store(true)
		if s.link.session.Load() == s {
			s.link.setStanding(Deaf)
		}
	case errors.Is(err, nats.ErrPermissionViolation):
		if subject := findSubjectOf(err); strings.HasPrefix(subject, subjectPrefix) && strings.Trim(subject[len(subjectPrefix):], ".0123456789abcdef") == "" {
			s.refused.publish.Store(&subject)
		}
	}
}

// retryRefused tries again what the server has refused, and waits for its word. Only if it permits all of
// that does the state change.
func (s *session) retryRefused(ctx context.Context, observer Observer) error {
	name, subscribe, publish := s.refused.name.Swap(false), s.refused.subscribe.Swap(false), s.refused.publish.Swap(nil)
	before := s.conn.LastError()
	if name {
		s.leaveName()
		if err := s.subscribeName(); err != nil {
			return err
		}
	}
	if subscribe {
		s.packets.Unsubscribe()
		s.replies.Unsubscribe()
		if err := s.subscribe(observer); err != nil {
			return err
		}
	}
	if publish != nil {
		if err := s.conn.Publish(*publish, nil); err != nil { // who is there takes it for a challenge without a reply subject
			return err
		}
	}
	if !subscribe && publish == nil {
		return nil
	}
	if _, err := s.measure(ctx); err != nil {
		return err
	}
	if s.conn.LastError() == before {
		s.link.log.Info("relay: the server permits now what it refused")
		s.link.updateState(func(state *State) { state.Standing, state.Since, state.Refused = Connected, time.Now(), time.Time{} })
	}
	return nil
}
