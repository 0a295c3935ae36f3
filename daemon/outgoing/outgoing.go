// Package outgoing sends what the programs of this machine want to tell peers, or to ask them: pings, queries,
// notifications, and the question which agents a peer has.
//
// It finds the peer that a caller means, checks that the caller may call it, and says from which message the call
// follows. Delegations, which outlive their call, are given by package tasks in the same way.
package outgoing

import (
	"context"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/admin"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/known"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/sessions"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/peer"
)

// Deps is what a [Service] needs of the rest of the daemon.
type Deps struct {
	Self        identity.ID // this daemon
	Name        string      // what it calls itself
	Node        *peer.Node
	Trust       *identity.TrustStore
	Registry    *registry.Registry
	Delegations *delegation.Table
	Known       *known.Messages
	Sessions    *sessions.Service
	Drain       *admin.Drain

	Config func() *config.Config
	// ResolveOrIntroduce returns the peer that ref means. It may search for it for searchTime().
	ResolveOrIntroduce func(ctx context.Context, c *local.Conn, ref string, searchTime func() time.Duration) (identity.Peer, error)
	// IsOwnCertifiedName reports whether this daemon has a name by its own certificate.
	IsOwnCertifiedName func(name string) bool
	// ListStrangers returns the strangers that have called, or are on the network.
	ListStrangers func() []peer.Pending
	// ExplainBlocked returns the error for a name that means a blocked key, nil for any other.
	ExplainBlocked func(op, ref string) error
	// Ask serves a query that refers to a delegation.
	Ask func(ctx context.Context, c *local.Conn, r *jsonrpc.Request, p *client.QueryParams) (any, error)
}

// Service sends messages. Its methods may be called from any goroutine.
type Service struct {
	Deps
	capabilities *capabilityCache
}

// New returns a service that has sent nothing.
func New(d Deps) *Service { return &Service{Deps: d, capabilities: newCapabilityCache()} }

// Forget forgets which agents a peer has.
func (s *Service) Forget(peer identity.ID) { s.capabilities.forgetPeer(peer) }
