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

// hintPause is how long what the network says about a peer brings about no second
// dial (protocol, section 8): anybody can say it.
const hintPause = 5 * time.Second

// runDiscovery finds peers on the local network until ctx ends, anew where reload
// has changed how.
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
			err = discovery.Run(lap, discovery.Config{
				Self: d.id, Name: d.name, Listen: udp.AddrPort(), Include: how.Include, Exclude: how.Exclude,
				Table: d.table, Rewired: d.onRewired, Logger: d.log,
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

// onChange is told what happened to a peer on the network.
func (d *Daemon) onChange(c discovery.Change) {
	id, name := c.Entry.ID, c.Entry.Claim
	if d.trust.Blocked(id) {
		return
	}
	p, trusted := d.trust.Get(id)
	if trusted {
		name = p.Name
	}
	details := make(map[string]string)
	if len(c.Entry.Addrs) > 0 {
		details["addr"] = c.Entry.Addrs[0].HostPort
	}
	switch c.Event {
	case discovery.Discovered:
		d.publishEvent(client.EventDiscovered, id, name, time.Now(), details)
	case discovery.Lost:
		d.publishEvent(client.EventLost, id, name, time.Now(), nil)
	}
	d.log.Debug("discovery", "event", c.Event, "peer", id.Label(), "name", name, "addrs", len(c.Entry.Addrs))
	if trusted && c.Event != discovery.Lost {
		d.dialHint(id)
	}
}

// onRewired is told that the interfaces are others: connections may be dead, and
// peers in reach again.
func (d *Daemon) onRewired() {
	for _, p := range d.trust.Peers() {
		d.dialHint(p.ID)
	}
}

// dialHint proves the connection to a trusted peer or dials it, unless discovery has
// made it do so a moment ago. Then the dial of that moment goes on in the background.
func (d *Daemon) dialHint(id identity.ID) {
	if d.dialHints.allow(id, time.Now()) {
		d.node.Connect(id)
	}
}

// dialHints is when discovery last brought about a dial of each peer that has been
// trusted in this run.
type dialHints map[identity.ID]time.Time

// allow reports whether discovery may bring about another now.
func (h dialHints) allow(id identity.ID, now time.Time) bool {
	if now.Sub(h[id]) < hintPause {
		return false
	}
	h[id] = now
	return true
}

// updateTable tells the table where a peer is, apart from what the network says: nowhere
// if it is not trusted, and then where it was is forgotten too. Call it when any of
// that has changed.
func (d *Daemon) updateTable(id identity.ID) {
	d.updatingTable.Lock()
	defer d.updatingTable.Unlock()
	var configured, worked []string
	if p, ok := d.trust.Get(id); ok {
		configured = d.configuredAddrs(p)
		if addr := d.lastConnections.get(id).addr; addr != "" {
			worked = []string{addr}
		}
	} else {
		d.lastConnections.forget(id)
	}
	d.table.Set(id, discovery.Static, configured...)
	d.table.Set(id, discovery.Worked, worked...)
}

// configuredAddrs returns where a person said that a trusted peer is: config.yaml goes
// before the trust store.
func (d *Daemon) configuredAddrs(p identity.Peer) []string {
	cfg := d.config.Load()
	return slices.Concat(cfg.Peers[p.ID.String()].Addrs, cfg.Peers[p.Name].Addrs, p.Addrs)
}
