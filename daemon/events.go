package daemon

import (
	"context"
	"slices"
	"strings"
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

// maxFilterItems bounds each list of a filter.
const maxFilterItems = 64

// subscription is the wish of one connection for copies of messages, and for events.
type subscription struct {
	client.SubscribeParams
	conn  *jsonrpc.Conn
	peers []identity.ID
}

// subscribers holds the subscriptions, one for each connection. A copy never counts as
// delivery. A subscriber that reads slowly loses some copies, and nobody waits for it.
type subscribers struct {
	all atomic.Pointer[[]*subscription] // replaced, never changed; nil: none
	mu  sync.Mutex                      // held while all is replaced

	measures *measures
}

func (s *subscribers) list() []*subscription {
	if all := s.all.Load(); all != nil {
		return *all
	}
	return nil
}

// replace sets the subscription of a connection; nil ends it.
func (s *subscribers) replace(conn *jsonrpc.Conn, sub *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := slices.DeleteFunc(slices.Clone(s.list()), func(old *subscription) bool { return old.conn == conn })
	if sub != nil {
		next = append(next, sub)
	}
	s.all.Store(&next)
}

// isSubscribed reports whether a connection has a subscription.
func (s *subscribers) isSubscribed(conn *jsonrpc.Conn) bool {
	return slices.ContainsFunc(s.list(), func(sub *subscription) bool { return sub.conn == conn })
}

// sendMessage sends a message to the subscribers that want it. topic is that of a notify.
func (s *subscribers) sendMessage(env *wire.Envelope, topic string, direction client.MessageDirection) {
	for _, sub := range s.list() {
		if sub.wantsMessage(env, topic, direction) {
			if text, err := marshalVerbatimJSON(&client.Message{Envelope: *env, Direction: direction}); err == nil {
				if sub.conn.Notify(client.NotificationMessage, text) != nil { // the subscriber does not keep up
					s.measures.countLostCopy(copyOfMessage)
				}
			}
		}
	}
}

// sendEvent sends an event to the subscribers that want it.
func (s *subscribers) sendEvent(e client.Event) {
	for _, sub := range s.list() {
		f := sub.Events
		if (f.All || slices.Contains(f.Types, e.Type)) && (len(sub.peers) == 0 || slices.Contains(sub.peers, e.Peer)) {
			if sub.conn.Notify(client.NotificationEvent, &e) != nil {
				s.measures.countLostCopy(copyOfEvent)
			}
		}
	}
}

func (sub *subscription) wantsMessage(env *wire.Envelope, topic string, direction client.MessageDirection) bool {
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
	return env.Kind == kinds.KindNotify && registry.MatchLongestDomain(sub.Topics, topic) >= 0
}

// peerCount counts the connected peers.
type peerCount struct {
	mu    sync.Mutex // guards peers, and orders the calls of tell
	peers int
}

// update counts a peer that is connected, or no longer, and calls tell with the number of
// connected peers.
func (c *peerCount) update(up bool, tell func(peers int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peers--; up {
		c.peers += 2
	}
	if tell != nil {
		tell(c.peers)
	}
}

// count returns how many peers are connected.
func (c *peerCount) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peers
}

// handlePeerEvent handles an event of package peer and publishes it. It does not block.
func (d *Daemon) handlePeerEvent(e peer.Event) {
	var udpAddr string
	if e.Detail == string(peer.Direct) {
		udpAddr = e.Addr
	}
	e.Addr = shortenLinkAddr(e.Addr)
	switch e.Type {
	case peer.EventUp, peer.EventDown:
		if e.Type == peer.EventUp {
			d.refusers.Delete(e.Peer)
		}
		d.connected.update(e.Type == peer.EventUp, d.options.Connected)
		d.recordConnection(e.Peer, udpAddr, e.At)
		d.updateAddrTable(e.Peer)
		if e.Type == peer.EventDown || d.isNamedFor(e.Peer, policyMail) {
			d.mail.SetConnected(e.Peer, e.Type == peer.EventUp)
		}
		if e.Type == peer.EventDown || d.isNamedFor(e.Peer, policyChannel) {
			d.channels.SetPeerConnected(e.Peer, e.Type == peer.EventUp)
		}
	case peer.EventMoved:
		d.recordConnection(e.Peer, udpAddr, e.At)
		d.updateAddrTable(e.Peer)
	case peer.EventTrust:
		d.log.Info("trusted by invitation", "peer", e.Peer.Label(), "name", e.Name)
		d.warnOfNewNameHolder(identity.Peer{ID: e.Peer, Name: e.Name})
		d.updateAddrTable(e.Peer)
	case peer.EventIdentityConflict:
		d.log.Warn("identity conflict", "peer", e.Peer.Label(), "addr", e.Addr, "detail", e.Detail)
	case peer.EventRefused:
		d.log.Warn("this daemon is not trusted there", "peer", e.Peer.Label())
		if _, ok := d.trust.FindPeer(e.Peer); ok {
			d.refusers.Store(e.Peer, true)
		}
		d.calls.Go(func() { d.endDelegationsRefusedBy(e.Peer, e.At) })
	}
	name := e.Name
	if p, ok := d.trust.FindPeer(e.Peer); ok {
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

// shortenLinkAddr returns an address as people see it: on a relay without the peer's id.
func shortenLinkAddr(addr string) string {
	if strings.HasPrefix(addr, "relay:") {
		addr, _, _ = strings.Cut(addr, "/")
	}
	return addr
}

// recordConnection remembers where a peer is or was connected.
func (d *Daemon) recordConnection(id identity.ID, addr string, at time.Time) {
	if _, certified := d.trust.IsCertified(id); certified {
		d.lastConnections.recordInMemory(id, addr, at)
	} else {
		d.lastConnections.record(id, addr, at)
	}
}

// isNamedFor reports whether a bridge has to do with a peer: the owner trusts it, or a rule of policy
// that is for its certificate allows it what the bridge carries.
func (d *Daemon) isNamedFor(id identity.ID, kind string) bool {
	p, ok := d.trust.FindPeer(id)
	return ok && (p.Certificate == nil || d.permissions.decideByPolicy(p, kind, "").Allowed)
}

func (d *Daemon) publishEvent(typ client.EventType, id identity.ID, name string, at time.Time, details any) {
	if len(d.subscribers.list()) == 0 {
		return
	}
	text, err := json.Marshal(details)
	if err != nil { // an address or reason is not UTF-8
		text = []byte("{}")
	}
	d.subscribers.sendEvent(client.Event{Type: typ, Peer: id, Name: name, At: at.UTC(), Details: text})
}

func (d *Daemon) serveSubscribe(_ context.Context, s *localConn, p *client.SubscribeParams) (any, error) {
	if len(p.Kinds) > maxFilterItems || len(p.Topics) > maxFilterItems || len(p.Events.Types) > maxFilterItems {
		return nil, kinds.Errorf(kinds.Invalid, "subscribe: at most %d kinds, topics and types", maxFilterItems)
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
	peers, err := d.resolvePeers(p.Peers)
	if err != nil {
		return nil, err
	}
	d.subscribers.replace(s.conn, &subscription{SubscribeParams: *p, conn: s.conn, peers: peers})
	return nil, nil
}
