package watch

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// subscription selects the messages and events that one connection gets copies of.
type subscription struct {
	client.SubscribeParams
	conn   *local.Conn
	peers  []identity.ID
	missed missed
}

// subscribers holds the subscriptions, one for each connection.
type subscribers struct {
	all atomic.Pointer[[]*subscription] // replaced, never changed; nil if nobody has subscribed yet
	mu  sync.Mutex                      // held while all is replaced
}

func (s *subscribers) list() []*subscription {
	if all := s.all.Load(); all != nil {
		return *all
	}
	return nil
}

// replace sets the subscription of a connection; nil ends it.
func (s *subscribers) replace(conn *local.Conn, sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := slices.DeleteFunc(slices.Clone(s.list()), func(old *subscription) bool { return old.conn == conn })
	if sub != nil {
		next = append(next, sub)
	}
	s.all.Store(&next)
}

// HasSubscribers reports whether somebody has subscribed.
func (s *Service) HasSubscribers() bool { return len(s.subscribers.list()) > 0 }

// IsSubscribed reports whether a connection has a subscription.
func (s *Service) IsSubscribed(conn *local.Conn) bool {
	return slices.ContainsFunc(s.subscribers.list(), func(sub *subscription) bool { return sub.conn == conn })
}

// sendMessage sends an envelope of p to the subscribers that want it. A copy is not a delivery.
func (s *Service) sendMessage(p *peer.Passing, env *wire.Envelope, direction client.MessageDirection) {
	for _, sub := range s.subscribers.list() {
		if sub.wantsMessage(p, env) {
			if text, err := local.MarshalVerbatimJSON(&client.Message{Envelope: *env, Direction: direction}); err == nil {
				if sub.conn.Notify(client.NotificationMessage, text) != nil { // the subscriber does not keep up
					s.lostCopies.Add(1, copyOfMessage)
					sub.miss(client.Missed{Messages: 1})
				}
			}
		}
	}
}

// sendEvent sends an event to the subscribers that want it.
func (s *Service) sendEvent(e client.Event) {
	for _, sub := range s.subscribers.list() {
		f := sub.Events
		if (f.All || slices.Contains(f.Types, e.Type)) && (len(sub.peers) == 0 || slices.Contains(sub.peers, e.Peer)) {
			if sub.conn.Notify(client.NotificationEvent, &e) != nil {
				s.lostCopies.Add(1, copyOfEvent)
				sub.miss(client.Missed{Events: 1})
			}
		}
	}
}

func (sub *subscription) wantsMessage(p *peer.Passing, env *wire.Envelope) bool {
	switch {
	case len(sub.Kinds) > 0 && !slices.Contains(sub.Kinds, env.Kind):
		return false
	case len(sub.peers) > 0 && !slices.Contains(sub.peers, p.Peer()):
		return false
	case len(sub.Topics) == 0:
		return true
	}
	return env.Kind == kinds.KindNotify && registry.MatchLongestDomain(sub.Topics, p.Topic) >= 0
}

// missed holds the numbers of what a subscriber did not get and has not been notified of yet.
type missed struct {
	mu        sync.Mutex
	untold    client.Missed
	isTelling bool // a goroutine tells it
}

// miss notes what a subscriber did not get. The subscriber is notified when it has read enough. miss does not block.
func (sub *subscription) miss(more client.Missed) {
	m := &sub.missed
	m.mu.Lock()
	defer m.mu.Unlock()
	m.untold.Messages += more.Messages
	m.untold.Events += more.Events
	if !m.isTelling {
		m.isTelling = true
		go sub.tellMissed()
	}
}

// tellMissed notifies a subscriber of what it has missed, until nothing is left or its connection has ended.
func (sub *subscription) tellMissed() {
	for {
		untold, any := sub.missed.take()
		if !any {
			return
		}
		e := client.Event{Type: client.EventMissed, At: time.Now().UTC(), Details: jsontext.Value(kinds.EncodePayload(&untold))}
		if sub.conn.NotifyWhenRoom(context.Background(), client.NotificationEvent, &e) != nil {
			return // the connection has ended
		}
	}
}

// take returns what the next notification reports. Without anything to report it returns false, and isTelling ends.
func (m *missed) take() (untold client.Missed, any bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	untold, m.untold = m.untold, client.Missed{}
	m.isTelling = untold != client.Missed{}
	return untold, m.isTelling
}

// serveSubscribe sets what a connection gets copies of, in place of what it had set before.
func (s *Service) serveSubscribe(_ context.Context, c *local.Conn, p *client.SubscribeParams) (any, error) {
	if len(p.Kinds) > local.MaxFilterItems || len(p.Topics) > local.MaxFilterItems || len(p.Events.Types) > local.MaxFilterItems {
		return nil, kinds.Errorf(kinds.Invalid, "subscribe: at most %d kinds, topics and types", local.MaxFilterItems)
	}
	for _, typ := range p.Events.Types {
		if all := client.EventTypes(); !slices.Contains(all, typ) {
			var names []string
			for _, t := range all {
				names = append(names, string(t))
			}
			return nil, kinds.Errorf(kinds.Invalid, "subscribe: events: %.64q: expected true, or some of %s", typ, strings.Join(names, ", "))
		}
	}
	peers, err := s.ResolvePeers(p.Peers, c.IsGuest)
	if err != nil {
		return nil, err
	}
	s.subscribers.replace(c, &subscription{SubscribeParams: *p, conn: c, peers: peers})
	return nil, nil
}
