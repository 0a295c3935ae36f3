// Package outgoing sends what the programs of this machine want to tell peers, or to ask them: pings, queries,
// notifications, and the question which agents a peer has.
//
// It finds the peer that a caller means, checks that the caller may call it, and says from which message the call
// follows. Delegations, which outlive their call, are given by package tasks in the same way.
package outgoing

import (
	"context"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/kept"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/organisation"
	"github.com/acpd/acpd/identity"
)

// Deps is what a [Service] needs of the rest of the daemon.
type Deps struct {
	agents.Deps
	Organisation *organisation.Service
	Kept         *kept.Service

	Config func() *config.Config
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
