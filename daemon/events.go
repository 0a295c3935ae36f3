package daemon

import (
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/peer"
)

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

// handlePeerEvent handles an event of package peer and publishes those that are for people. It does not block.
func (d *Daemon) handlePeerEvent(e peer.Event) {
	var udpAddr string
	if e.Detail == string(peer.Direct) {
		udpAddr = e.Addr
	}
	e.Addr = shortenLinkAddr(e.Addr)
	switch e.Type {
	case peer.EventDialEnded:
		d.measures.CountDial(e.Err)
		return
	case peer.EventDecertified:
		d.handleDecertified(e.Peer)
		return
	case peer.EventUp, peer.EventDown:
		if e.Type == peer.EventUp {
			d.refusers.Delete(e.Peer)
		}
		d.connected.update(e.Type == peer.EventUp, d.options.Connected)
		d.recordConnection(e.Peer, udpAddr, e.At)
		d.updateAddrTable(e.Peer)
		if e.Type == peer.EventDown || d.permissions.MayUseBridge(e.Peer, config.PolicyMail) {
			d.mail.SetConnected(e.Peer, e.Type == peer.EventUp)
		}
		if e.Type == peer.EventDown || d.permissions.MayUseBridge(e.Peer, config.PolicyChannel) {
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
		d.calls.Go(func() { d.tasks.EndRefusedBy(e.Peer, e.At) })
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
	d.watch.Publish(client.EventType(e.Type), e.Peer, name, e.At, details)
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
