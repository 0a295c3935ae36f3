package daemon

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// maxFilter bounds each list of a filter.
const maxFilter = 64

// subscription is what one connection wants copies of.
type subscription struct {
	client.SubscribeParams
	conn  *jsonrpc.Conn
	peers []identity.ID
}

// subscribers are the subscriptions, one a connection. Copies are for looking on:
// they count as delivered to nobody, and a subscriber that does not keep up loses
// some while nobody waits for it.
type subscribers struct {
	all atomic.Pointer[[]*subscription] // replaced, never changed; nil: none
	mu  sync.Mutex                      // taken by those who replace it
}

func (s *subscribers) list() []*subscription {
	if all := s.all.Load(); all != nil {
		return *all
	}
	return nil
}

// set replaces the subscription of a connection; nil ends it.
func (s *subscribers) set(conn *jsonrpc.Conn, sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := slices.DeleteFunc(slices.Clone(s.list()), func(old *subscription) bool { return old.conn == conn })
	if sub != nil {
		next = append(next, sub)
	}
	if len(next) == 0 {
		s.all.Store(nil)
		return
	}
	s.all.Store(&next)
}

// has reports whether a connection has a subscription.
func (s *subscribers) has(conn *jsonrpc.Conn) bool {
	return slices.ContainsFunc(s.list(), func(sub *subscription) bool { return sub.conn == conn })
}

// copy sends a message, of this topic if it is a notify, to those who want it.
func (s *subscribers) copy(env *wire.Envelope, topic string, direction client.MessageDirection) {
	for _, sub := range s.list() {
		if sub.wants(env, topic, direction) {
			if text, err := marshalRaw(&client.Message{Envelope: *env, Direction: direction}); err == nil {
				sub.notify(client.NotifyMessage, text)
			}
		}
	}
}

// event sends an event to those who want it.
func (s *subscribers) event(e client.Event) {
	for _, sub := range s.list() {
		f := sub.Events
		if (f.All || slices.Contains(f.Types, e.Type)) && (len(sub.peers) == 0 || slices.Contains(sub.peers, e.Peer)) {
			sub.notify(client.NotifyEvent, &e)
		}
	}
}

func (sub *subscription) wants(env *wire.Envelope, topic string, direction client.MessageDirection) bool {
	other := env.From
	if direction == client.Out {
		other = env.To
	}
	switch {
	case len(sub.Kinds) > 0 && !slices.Contains(sub.Kinds, env.Kind):
		return false
	case len(sub.peers) > 0 && !slices.Contains(sub.peers, other):
		return false
	case len(sub.Topics) == 0:
		return true
	}
	return env.Kind == kinds.KindNotify && registry.MatchLongest(sub.Topics, topic) >= 0
}

// notify writes to the subscriber. A full queue loses this copy; a connection that
// has ended is taken care of where it ends.
func (sub *subscription) notify(method string, params any) {
	if err := sub.conn.Notify(method, params); errors.Is(err, jsonrpc.ErrFull) {
		return
	}
}

// peerCount counts the connected peers.
type peerCount struct {
	mu    sync.Mutex // guards peers, and orders what is told
	peers int
}

// change counts a peer that is connected or not any more, and tells how many are.
func (c *peerCount) change(up bool, tell func(peers int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peers--; up {
		c.peers += 2
	}
	if tell != nil {
		tell(c.peers)
	}
}

// onEvent passes on what package peer tells; it does not block.
func (d *Daemon) onEvent(e peer.Event) {
	switch e.Type {
	case peer.EventUp, peer.EventDown:
		if e.Type == peer.EventUp {
			d.refusers.Delete(e.Peer)
		}
		d.connected.change(e.Type == peer.EventUp, d.options.Connected)
		d.lastConnections.record(e.Peer, e.Addr, e.At)
		d.updateTable(e.Peer)
		d.mail.SetConnected(e.Peer, e.Type == peer.EventUp)
		d.channels.SetConnected(e.Peer, e.Type == peer.EventUp)
	case peer.EventMoved:
		d.lastConnections.record(e.Peer, e.Addr, e.At)
		d.updateTable(e.Peer)
		return // it is in reach as before
	case peer.EventTrust:
		d.log.Info("trusted by invitation", "peer", e.Peer.Label(), "name", e.Name)
		d.warnNameHeir(identity.Peer{ID: e.Peer, Name: e.Name})
		d.updateTable(e.Peer)
	case peer.EventIdentityConflict:
		d.log.Warn("identity conflict", "peer", e.Peer.Label(), "addr", e.Addr, "detail", e.Detail)
	case peer.EventRefused:
		d.log.Warn("this daemon is not trusted there", "peer", e.Peer.Label())
		if _, ok := d.trust.Get(e.Peer); ok {
			d.refusers.Store(e.Peer, true)
		}
		d.calls.Go(func() { d.endRefused(e.Peer, e.At) })
	}
	name := e.Name
	if p, ok := d.trust.Get(e.Peer); ok {
		name = p.Name
	}
	details := make(map[string]string)
	if e.Addr != "" {
		details["addr"] = e.Addr
	}
	if e.Detail != "" {
		details["detail"] = e.Detail
	}
	d.publishEvent(client.EventType(e.Type), e.Peer, name, e.At, details)
}

func (d *Daemon) publishEvent(typ client.EventType, id identity.ID, name string, at time.Time, details any) {
	if d.subscribers.list() == nil {
		return
	}
	text, err := json.Marshal(details)
	if err != nil { // an address or reason is not UTF-8
		text = []byte("{}")
	}
	d.subscribers.event(client.Event{Type: typ, Peer: id, Name: name, At: at.UTC(), Details: text})
}
