// Package peers knows whom the daemon trusts, and serves the methods that show and change that: trust,
// untrust, rosters, invitations, the lists of peers and strangers. It finds the peer that a name or an id
// means, starts the commands through which packets reach some of them, and publishes what happens to the
// connections of peers.
//
// It leaves to others what trust means for a connection (package peer), what a peer may send, and where
// peers are (package addresses).
package peers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/addresses"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/organisation"
	"github.com/acpd/acpd/daemon/relays"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/pipe"
)

// Deps is what peers need of their daemon.
type Deps struct {
	Self         identity.ID
	Name         string          // what the daemon calls itself
	Dir          string          // the state directory
	PQ           identity.PQHash // of the daemon's post-quantum key
	Trust        *identity.TrustStore
	Node         *peer.Node
	Addresses    *addresses.Service
	Relays       *relays.Service
	Organisation *organisation.Service
	Reserve      *disk.Reserve // for what frees space
	Log          *slog.Logger

	Direct config.Switch         // reach.direct at the start
	Config func() *config.Config // the settings as they are now

	// Forget forgets what others keep of a peer in memory.
	Forget func(id identity.ID)
	// Removals returns what removes from the disk what an untrusted peer has left there, in this order.
	Removals func() []Removal
	// IsInUse reports whether an agent, a subscription or a watch has a connection.
	IsInUse func(*local.Conn) bool
	// Publish hands an event to the subscribers of the local API.
	Publish func(typ client.EventType, id identity.ID, name string, at time.Time, details any)
	// Connected, if set, is called with the number of connected peers when that changes.
	Connected func(peers int)
}

// Service has the peers of one daemon. It is safe for concurrent use.
type Service struct {
	Deps
	Pipes *pipe.Link // of the node

	leftovers leftovers
	connected peerCount
	refusers  sync.Map // ids of trusted peers that have said that they do not trust this daemon, until they are connected

	namesMu sync.Mutex             // guards holders
	holders map[string]identity.ID // whose key each petname last was
}

// Open adds the link of pipes to the node.
func Open(deps Deps) (*Service, error) {
	s := &Service{Deps: deps, leftovers: leftovers{wake: pace.NewSignal()}, holders: make(map[string]identity.ID)}
	for _, b := range s.Trust.Blocks() {
		s.holders[b.Name] = b.ID
	}
	for _, p := range s.Trust.Peers() {
		s.holders[p.Name] = p.ID
	}
	s.Pipes = pipe.NewLink(pipe.Options{Command: s.findPipe, Log: s.Log})
	return s, s.Node.AddLink(pipeLink{s.Pipes})
}

// ListLinks returns the names of the links other than UDP on which strangers may be.
func (s *Service) ListLinks() []string { return append(s.Relays.ListLinks(), s.Pipes.Name()) }

// Run writes what is not in the trust store's files yet, which are pins of first meetings and what untrust could not
// write, and removes what untrust could not remove, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	saver := pace.Saver{What: "trust store", Changed: s.Trust.UnsavedSignal(), Pause: pinsPause, Log: s.Log, Save: func(context.Context) error {
		return s.Reserve.RunWithReserve(s.Trust.Save)
	}}
	g.Go(func() error { return saver.Run(ctx) })
	g.Go(func() error { return s.runLeftoverRemoval(ctx) })
	return g.Wait()
}

// Methods returns the methods of the local API for peers.
func (s *Service) Methods() map[string]local.Method {
	return map[string]local.Method{
		client.MethodPeers:       local.ForAgents(s.servePeers),
		client.MethodPending:     local.ForOwner(s.servePending),
		client.MethodProbe:       local.ForOwner(s.serveProbe),
		client.MethodTrust:       local.ForOwner(s.serveTrust),
		client.MethodTrustRoster: local.ForOwner(s.serveTrustRoster),
		client.MethodUntrust:     local.ForOwner(s.serveUntrust),
		client.MethodInvite:      local.ForOwner(s.serveInvite),
		client.MethodInvitations: local.ForOwner(s.serveInvitations),
		client.MethodRevoke:      local.ForOwner(s.serveRevoke),
		client.MethodJoin:        local.ForOwner(s.serveJoin),
		client.MethodPipe:        {Serve: s.servePipe},
	}
}
