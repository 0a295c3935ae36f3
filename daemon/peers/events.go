package peers

import (
	"strings"
	"sync"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/peer"
)

// peerCount counts the connected peers.
type peerCount struct {
	mu    sync.Mutex // guards peers, and orders the calls of tell
	peers int
}

// update adds or removes a connected peer, and calls tell with the number of connected peers.
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

// count returns the number of connected peers.
func (c *peerCount) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peers
}

// CountConnected returns how many peers are connected.
func (s *Service) CountConnected() int { return s.connected.count() }

// HandleEvent handles an event of package peer and publishes those that are for people. It does not block.
func (s *Service) HandleEvent(e peer.Event) {
	var udpAddr string
	if e.Detail == string(peer.Direct) {
		udpAddr = e.Addr
	}
	e.Addr = shortenLinkAddr(e.Addr)
	switch e.Type {
	case peer.EventDialEnded, peer.EventAgents:
		return
	case peer.EventDecertified:
		s.refusers.Delete(e.Peer)
		s.Addresses.Update(e.Peer)
		return
	case peer.EventUp, peer.EventDown:
		if e.Type == peer.EventUp {
			s.refusers.Delete(e.Peer)
		}
		s.connected.update(e.Type == peer.EventUp, s.Connected)
		s.Addresses.RecordConnection(e.Peer, udpAddr, e.At)
	case peer.EventMoved:
		s.Addresses.RecordConnection(e.Peer, udpAddr, e.At)
	case peer.EventTrust:
		s.Log.Info("trusted by invitation", "peer", e.Peer.Label(), "name", e.Name)
		s.warnOfNewNameHolder(identity.Peer{ID: e.Peer, Name: e.Name})
		s.Addresses.Update(e.Peer)
	case peer.EventIdentityConflict:
		s.Log.Warn("identity conflict", "peer", e.Peer.Label(), "addr", e.Addr, "detail", e.Detail)
	case peer.EventRefused:
		s.Log.Warn("this daemon is not trusted there", "peer", e.Peer.Label())
		if _, ok := s.Trust.FindPeer(e.Peer); ok {
			s.refusers.Store(e.Peer, true)
		}
	}
	name := e.Name
	if p, ok := s.Trust.FindPeer(e.Peer); ok {
		name = p.Name
	}
	details := make(map[string]string)
	if e.Addr != "" {
		details["addr"] = e.Addr
	}
	if e.Detail != "" {
		details["detail"] = e.Detail
	}
	s.Publish(client.EventType(e.Type), e.Peer, name, e.At, details)
}

// shortenLinkAddr returns an address as people see it: on a relay without the peer's id.
func shortenLinkAddr(addr string) string {
	if strings.HasPrefix(addr, "relay:") {
		addr, _, _ = strings.Cut(addr, "/")
	}
	return addr
}
