package daemon

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/discovery"
	"github.com/acpd/acpd/identity"
)

// hintPause is the least time between two dials of a peer because of what the network says
// (protocol, section 8): anybody can say it.
const hintPause = 5 * time.Second

// runDiscovery finds peers on the local network until ctx ends. It begins anew if a reload
// has changed its settings.
func (d *Daemon) runDiscovery(ctx context.Context) error {
	udp, ok := d.node.Addr().(*net.UDPAddr)
	if !ok {
		return nil
	}
	for ctx.Err() == nil {
		lap, end := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() {
			select {
			case <-d.rediscover:
				end()
			case <-lap.Done():
			}
		})
		how := d.config.Load().Discovery
		var err error
		if how.MDNS == config.On {
			err = discovery.RunMDNS(lap, discovery.Config{
				Self: d.id, Name: d.name, Listen: udp.AddrPort(), Include: how.Include, Exclude: how.Exclude,
				Table: d.table, Rewired: d.handleInterfaceChange, Logger: d.log,
			})
		} else {
			<-lap.Done()
		}
		end()
		watching.Wait()
		if err != nil {
			return err
		}
	}
	return nil
}

// handleDiscoveryChange publishes what happened to a peer on the network, and dials a trusted
// one.
func (d *Daemon) handleDiscoveryChange(c discovery.Change) {
	id, name := c.Entry.ID, c.Entry.Claim
	if d.trust.IsBlocked(id) {
		return
	}
	p, trusted := d.trust.FindPeer(id)
	if trusted {
		name = p.Name
	}
	details := make(map[string]string)
	if len(c.Entry.Addrs) > 0 {
		details["addr"] = c.Entry.Addrs[0].HostPort
	}
	switch c.Event {
	case discovery.Discovered:
		d.watch.Publish(client.EventDiscovered, id, name, time.Now(), details)
	case discovery.Lost:
		d.watch.Publish(client.EventLost, id, name, time.Now(), nil)
	}
	d.log.Debug("discovery", "event", c.Event, "peer", id.Label(), "name", name, "addrs", len(c.Entry.Addrs))
	if trusted && p.Certificate == nil && c.Event != discovery.Lost { // others are dialled on demand
		d.dialOnHint(id)
	}
}

// handleInterfaceChange checks the connections to all trusted peers, or dials them: after a
// change of interfaces, connections may be dead and peers in reach again. Peers on a relay are
// told the new addresses.
func (d *Daemon) handleInterfaceChange() {
	d.node.AddrsChanged()
	for _, p := range d.trust.Peers() {
		d.dialOnHint(p.ID)
	}
}

// dialOnHint has the node check its connection to a trusted peer, or dial it. It does
// nothing if discovery has done so within hintPause: that dial goes on in the background.
func (d *Daemon) dialOnHint(id identity.ID) {
	if d.dialHints.allowDial(id, time.Now()) {
		d.node.Connect(id)
	}
}

// dialHints holds, for each peer that has been trusted in this run, when discovery last
// caused a dial.
type dialHints map[identity.ID]time.Time

// allowDial reports whether discovery may cause another dial now, and records it.
func (h dialHints) allowDial(id identity.ID, now time.Time) bool {
	if now.Sub(h[id]) < hintPause {
		return false
	}
	h[id] = now
	return true
}

// updateAddrTable enters the addresses of a peer in the table, apart from those that the
// network tells of. If the peer is not trusted it has none, but for those that config.yaml gives its id
// where certificates count, and its last address is forgotten. Callers call it after a change of any of that.
func (d *Daemon) updateAddrTable(id identity.ID) {
	d.updatingTable.Lock()
	defer d.updatingTable.Unlock()
	var configured, worked []string
	if p, ok := d.trust.FindPeer(id); ok {
		configured = d.listConfiguredAddrs(p)
		if addr := d.lastConnections.get(id).addr; addr != "" {
			worked = []string{addr}
		}
	} else {
		d.lastConnections.forgetPeer(id)
		if d.trust.HasAuthorities() && !d.trust.IsBlocked(id) {
			configured = d.config.Load().Peers[id.String()].Addrs // where it may show that it is a peer
		}
	}
	d.table.SetAddrs(id, discovery.Static, configured...)
	d.table.SetAddrs(id, discovery.Worked, worked...)
}

// listConfiguredAddrs returns the addresses that a person gave for a trusted peer, those of
// config.yaml before those of the trust store.
func (d *Daemon) listConfiguredAddrs(p identity.Peer) []string {
	cfg := d.config.Load()
	return slices.Concat(cfg.Peers[p.ID.String()].Addrs, cfg.Peers[p.Name].Addrs, p.Addrs)
}
