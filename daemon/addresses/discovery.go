package addresses

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/discovery"
	"github.com/acpd/acpd/identity"
)

// hintPause is the least time between two dials of a peer that the network causes (protocol, section 8):
// anybody can cause them.
const hintPause = 5 * time.Second

// runDiscovery finds peers on the local network until ctx ends. It begins anew if a reload
// has changed its settings.
func (s *Service) runDiscovery(ctx context.Context) error {
	udp, ok := s.Node().Addr().(*net.UDPAddr)
	if !ok {
		return nil
	}
	for ctx.Err() == nil {
		lap, end := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() {
			select {
			case <-s.settingsChanged:
				end()
			case <-lap.Done():
			}
		})
		how := s.Config().Discovery
		var err error
		if how.MDNS == config.On {
			err = discovery.RunMDNS(lap, discovery.Config{
				Self: s.Self, Name: s.Name, Listen: udp.AddrPort(), Include: how.Include, Exclude: how.Exclude,
				Table: s.table, Rewired: s.handleInterfaceChange, Logger: s.Log,
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

// handleChange publishes what happened to a peer on the network, and dials a trusted
// one.
func (s *Service) handleChange(c discovery.Change) {
	id, name := c.Entry.ID, c.Entry.Claim
	if s.Trust.IsBlocked(id) {
		return
	}
	p, trusted := s.Trust.FindPeer(id)
	if trusted {
		name = p.Name
	}
	details := make(map[string]string)
	if len(c.Entry.Addrs) > 0 {
		details["addr"] = c.Entry.Addrs[0].HostPort
	}
	switch c.Event {
	case discovery.Discovered:
		s.Publish(client.EventDiscovered, id, name, time.Now(), details)
	case discovery.Lost:
		s.Publish(client.EventLost, id, name, time.Now(), nil)
	}
	s.Log.Debug("discovery", "event", c.Event, "peer", id.Label(), "name", name, "addrs", len(c.Entry.Addrs))
	if trusted && p.Certificate == nil && c.Event != discovery.Lost { // others are dialled on demand
		s.dialOnHint(id)
	}
}

// handleInterfaceChange checks the connections to all trusted peers, or dials them: after a
// change of interfaces, connections may be dead and peers in reach again. Peers on a relay get
// the new addresses.
func (s *Service) handleInterfaceChange() {
	s.Node().AddrsChanged()
	for _, p := range s.Trust.Peers() {
		s.dialOnHint(p.ID)
	}
}

// dialOnHint makes the node check its connection to a trusted peer, or dial it. It does
// nothing if discovery has done so within hintPause: that dial continues in the background.
func (s *Service) dialOnHint(id identity.ID) {
	if s.dialHints.allowDial(id, time.Now()) {
		s.Node().Connect(id)
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
