// Package watch shows the owner of a daemon what passes: copies of messages and events for those that
// subscribe, the messages of the last time, the calls that are open, and how many messages there were of
// each kind.
//
// A program that sends or answers messages never waits for one that watches. A watcher that reads too slowly loses
// some messages, and gets a notification of how many.
//
// Package traffic decides what is kept of messages, and for how long.
package watch

import (
	"context"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/traffic"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/metrics"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// Deps is what a service needs of the rest of the daemon.
type Deps struct {
	Trust        *identity.TrustStore
	Delegations  *delegation.Table
	ResolvePeers func(names []string, forGuest bool) ([]identity.ID, error)
	MaxListBytes func() int // how many bytes the rows of one answer may fill
	Log          *slog.Logger
}

// Service serves those that watch, and observes all messages for them. Its methods may be called from any
// goroutine.
type Service struct {
	Deps
	Traffic *traffic.Recorder

	messages    *metrics.Counts // messages and replies, by direction and kind
	lostCopies  *metrics.Counts // that subscribers did not get, by what they are of
	subscribers subscribers
}

// The values of the label of lostCopies.
const (
	copyOfMessage = "message"
	copyOfEvent   = "event"
)

// New returns a service that nobody uses yet.
func New(d Deps) *Service {
	direction, kind := metrics.ClosedLabel{Name: "direction", Values: []string{string(client.In), string(client.Out)}}, metrics.ClosedLabel{Name: "kind"}
	for _, k := range kinds.ListKinds() {
		kind.Values = append(kind.Values, k.Name)
	}
	s := &Service{
		Deps: d, messages: metrics.NewCounts(direction, kind),
		lostCopies: metrics.NewCounts(metrics.ClosedLabel{Name: "of", Values: []string{copyOfMessage, copyOfEvent}}),
	}
	s.Traffic = traffic.NewRecorder(s.findPetname, d.Trust.IsBlocked)
	return s
}

// Methods returns the methods of those that watch.
func (s *Service) Methods() map[string]local.Method {
	return map[string]local.Method{
		client.MethodSubscribe: local.ForOwner(s.serveSubscribe),
		client.MethodTraffic:   local.ForOwner(s.serveTraffic).WithVerbatimPayloads(),
	}
}

// KeepHistory sets whether messages are kept while nobody watches.
func (s *Service) KeepHistory(keep bool) {
	if keep {
		s.Traffic.SetHistory(traffic.History)
	} else {
		s.Traffic.SetHistory(traffic.Bounds{})
	}
}

// Began is of [peer.Observer].
func (s *Service) Began(p *peer.Passing) {
	s.Traffic.Began(p)
	s.observe(p, p.Envelope, p.Inbound)
}

// Ended is of [peer.Observer].
func (s *Service) Ended(p *peer.Passing) {
	s.Traffic.Ended(p)
	if p.Reply != nil {
		s.observe(p, p.Reply, !p.Inbound)
	}
}

// observe adds an envelope that passes to the metrics, logs it and copies it to subscribers.
func (s *Service) observe(p *peer.Passing, env *wire.Envelope, inbound bool) {
	direction := traffic.DirectionOf(inbound)
	s.messages.Add(1, string(direction), env.Kind)
	if s.Log.Enabled(context.Background(), slog.LevelDebug) {
		s.Log.Debug(string(direction), "kind", env.Kind, "id", env.ID, "peer", p.Peer().Label(), "ref", env.Ref)
	}
	s.sendMessage(p, env, direction)
}

// CountMessages returns the numbers of messages and replies, by kind. It leaves out kinds that have not passed.
func (s *Service) CountMessages(direction client.MessageDirection) map[string]uint64 {
	all := make(map[string]uint64)
	for _, k := range kinds.ListKinds() {
		if n := s.messages.Get(string(direction), k.Name); n > 0 {
			all[k.Name] = n
		}
	}
	return all
}

// ListFamilies returns the metrics of what is counted here.
func (s *Service) ListFamilies() []metrics.Family {
	return []metrics.Family{
		{Name: "acpd_messages_total", Type: metrics.Counter, Help: "Messages, requests and replies, by direction and kind, whatever became of them.", Write: s.messages.Write},
		{Name: "acpd_subscriber_copies_lost_total", Type: metrics.Counter, Help: "Copies of messages and events that a subscriber did not get because it reads too slowly.", Write: s.lostCopies.Write},
	}
}

// Publish sends an event to those that have subscribed to it.
func (s *Service) Publish(typ client.EventType, id identity.ID, name string, at time.Time, details any) {
	if !s.HasSubscribers() {
		return
	}
	text, err := json.Marshal(details, json.Deterministic(true))
	if err != nil { // an address or reason is not UTF-8
		text = []byte("{}")
	}
	s.sendEvent(client.Event{Type: typ, Peer: id, Name: name, At: at.UTC(), Details: text})
}

// IsUsing reports whether a connection has subscribed, or watches.
func (s *Service) IsUsing(c *local.Conn) bool { return s.IsSubscribed(c) || s.Traffic.IsWatching(c) }

// EndConn ends the subscription of a connection that has ended, and its watching.
func (s *Service) EndConn(c *local.Conn) {
	s.subscribers.replace(c, nil)
	s.Traffic.EndWatch(c)
}

// findPetname returns the petname of a trusted peer, "" of any other.
func (s *Service) findPetname(id identity.ID) string {
	p, _ := s.Trust.FindPeer(id)
	return p.Name
}
