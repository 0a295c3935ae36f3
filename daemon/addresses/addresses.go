// Package addresses knows where peers are: at the addresses that a person gave, at those that the local
// network names, and where they were last connected, which is kept on disk. It finds peers on the local
// network, and is found there itself.
//
// It leaves to others how the network is asked (package discovery), and when an address is dialled (package
// peer).
package addresses

import (
	"cmp"
	"context"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/discovery"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/store"
)

// Deps is what addresses need of their daemon.
type Deps struct {
	Self   identity.ID
	Name   string // what the daemon calls itself
	DB     *store.DB
	Trust  *identity.TrustStore
	Config func() *config.Config // the settings as they are now
	Node   func() *peer.Node     // opened after the service, since it asks for addresses
	Log    *slog.Logger

	// Publish hands an event to the subscribers of the local API.
	Publish func(typ client.EventType, id identity.ID, name string, at time.Time, details any)
}

// Service has the addresses of the peers of one daemon. It is safe for concurrent use.
type Service struct {
	Deps

	table    *discovery.Table
	updating sync.Mutex // held while the addresses of a peer are recorded, or read and entered in the table
	last     *lastConnections

	settingsChanged pace.Signal // set if the settings of discovery have changed
	dialHints       dialHints   // only the goroutine of discovery uses it
}

// Open reads where peers were last connected.
func Open(ctx context.Context, deps Deps) (*Service, error) {
	last, err := store.ReadValue(ctx, deps.DB, readPeerAddrs)
	if err != nil {
		return nil, err
	}
	s := &Service{Deps: deps, last: newLastConnections(deps.DB, last), settingsChanged: pace.NewSignal(), dialHints: make(dialHints)}
	s.table = discovery.NewTable(s.Trust.IsTrusted, s.handleChange)
	for _, p := range s.Trust.Peers() {
		s.Update(p.ID)
	}
	return s, nil
}

// Run finds peers on the local network, and writes to disk where peers are, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.runDiscovery(ctx) })
	saver := pace.Saver{What: "the addresses of peers", Changed: s.last.changed, Pause: addrsPause, Save: s.last.save, Log: s.Log}
	g.Go(func() error { return saver.Run(ctx) })
	return g.Wait()
}

// Reload enters what has changed in the settings, and connects to the peers for which it has.
func (s *Service) Reload(old, next *config.Config) {
	for _, p := range s.Trust.Peers() {
		if !reflect.DeepEqual(old.Peers[p.Name], next.Peers[p.Name]) || !reflect.DeepEqual(old.Peers[p.ID.String()], next.Peers[p.ID.String()]) {
			s.Update(p.ID)
			s.Node().Connect(p.ID)
		}
	}
	if !reflect.DeepEqual(old.Discovery, next.Discovery) {
		s.settingsChanged.Set()
	}
}

// UpdateConfigured enters the addresses that config.yaml gives to ids. Keys may show certificates there.
func (s *Service) UpdateConfigured() {
	for ref := range s.Config().Peers {
		if id, err := identity.ParseID(ref); err == nil {
			s.Update(id)
		}
	}
}

// Update enters the addresses of a peer in the table, apart from those that the network names. If the
// peer is not trusted, its last address is forgotten, and it has only the addresses that config.yaml gives
// its id if there are authorities. It is called after each change of trust, settings or connections.
func (s *Service) Update(id identity.ID) {
	s.updating.Lock()
	defer s.updating.Unlock()
	s.updateLocked(id)
}

// updateLocked is called with updating held.
func (s *Service) updateLocked(id identity.ID) {
	var configured, worked []string
	if p, ok := s.Trust.FindPeer(id); ok {
		configured = s.listConfigured(p)
		if addr := s.last.get(id).addr; addr != "" {
			worked = []string{addr}
		}
	} else {
		s.last.forgetPeer(id)
		if s.Trust.HasAuthorities() && !s.Trust.IsBlocked(id) {
			configured = s.Config().Peers[id.String()].Addrs // where it may show a certificate
		}
	}
	s.table.SetAddrs(id, discovery.Static, configured...)
	s.table.SetAddrs(id, discovery.Worked, worked...)
}

// listConfigured returns the addresses that a person gave for a trusted peer, those of config.yaml before
// those of the trust store.
func (s *Service) listConfigured(p identity.Peer) []string {
	cfg := s.Config()
	return slices.Concat(cfg.Peers[p.ID.String()].Addrs, cfg.Peers[p.Name].Addrs, p.Addrs)
}

// RecordConnection remembers where a peer is or was connected, by its UDP address; "" on another link.
func (s *Service) RecordConnection(id identity.ID, addr string, at time.Time) {
	s.updating.Lock() // no RecordTrust comes between what is asked here and what is recorded
	defer s.updating.Unlock()
	if _, certified := s.Trust.IsCertified(id); certified {
		s.last.recordInMemory(id, addr, at)
	} else {
		s.last.record(id, addr, at)
	}
	s.updateLocked(id)
}

// RecordTrust remembers where a peer is that the owner trusts from now on: where it was when it was trusted before,
// or at addr, where it called at the time at; "" if it did not.
func (s *Service) RecordTrust(id identity.ID, addr string, at time.Time) {
	s.updating.Lock()
	defer s.updating.Unlock()
	before := s.last.takeOldAddr(id)
	addr = cmp.Or(addr, before)
	if last := s.last.get(id); last.inMemory { // it was a peer by its certificate
		addr, at = cmp.Or(addr, last.addr), last.at
	}
	if addr != "" {
		s.last.record(id, addr, at)
	}
	s.updateLocked(id)
}

// ForgetLast forgets where a peer was last connected, and not when.
func (s *Service) ForgetLast(id identity.ID) { s.last.forgetAddr(id) }

// FindLast returns where a peer was last connected, and when in this run of the daemon; zero if it was not.
func (s *Service) FindLast(id identity.ID) (addr string, at time.Time) {
	last := s.last.get(id)
	return last.addr, last.at
}

// TakeDialAddrs returns the addresses at which a peer is dialled now. Where it was connected before is
// none of them while the daemon stays on relays.
func (s *Service) TakeDialAddrs(id identity.ID) []string {
	if s.Node().StaysOnRelays() {
		return s.table.TakeDialAddrs(id, discovery.Worked)
	}
	return s.table.TakeDialAddrs(id)
}

// List returns all that is known of addresses, ordered by id.
func (s *Service) List() []discovery.Entry { return s.table.Entries() }
