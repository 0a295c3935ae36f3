// Package agents serves the agents that are attached to a daemon. They attach and leave, are handed messages
// of peers, and read in the inbox the messages that no agent has taken.
//
// A message is handed once an agent has confirmed it. Otherwise it is stored in the inbox before its sender gets
// the receipt. The place for a query or a delegation is chosen here, and no peer may have all of them.
//
// It leaves to package registry which agents there are, and to package sessions how a session is woken.
package agents

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/admin"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/daemon/known"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/measures"
	"github.com/acpd/acpd/daemon/peers"
	"github.com/acpd/acpd/daemon/permissions"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/daemon/sessions"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/metrics"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// Deps is what the services that carry messages need of the rest of the daemon.
type Deps struct {
	known.Deps
	Name        string // what this daemon calls itself
	Registry    *registry.Registry
	Trust       *identity.TrustStore
	Node        *peer.Node
	Known       *known.Messages
	Sessions    *sessions.Service
	Peers       *peers.Service
	Permissions *permissions.Permissions
	Drain       *admin.Drain
	Space       *admin.Space
	Budget      *budget.Book
	PeerLog     *budget.Log
	Log         *slog.Logger
}

// Service serves agents. Its methods may be called from any goroutine.
type Service struct {
	Deps
	SlowTakers *budget.Account // of messages for which some agents still have time

	// AddKeptSenders adds the agents that have sent what is kept; it must be set before the first use.
	AddKeptSenders func(to map[string]bool)
	// TakeKeptReport returns the message that reports the end of a message that was kept, and the agent for which it is, and
	// records that the agent knows that end; it must be set before the first use.
	TakeKeptReport func(ctx context.Context, who *registry.Credential, id wire.MessageID) (report inbox.MessageKey, agent string, ended bool)

	places    *budget.Account
	awaited   awaitedAgents
	lines     agentLog
	attaching sync.Mutex // held while an agent is attached or detached, so that each step finds what the last one left
}

// New returns a service to which no agent is attached.
func New(d Deps) *Service {
	return &Service{Deps: d, places: d.Budget.OpenAccount(budget.Places), SlowTakers: d.Budget.OpenAccount(budget.SlowTakers), lines: agentLog{to: d.Log}}
}

// Methods returns the methods by which agents attach, and read the inbox.
func (s *Service) Methods() map[string]local.Method {
	return map[string]local.Method{
		client.MethodAttach: local.ForAgents(s.serveAttach),
		client.MethodSpeak:  local.ForAgents(s.serveSpeak),
		client.MethodInbox:  local.ForAgents(s.serveInbox).WithVerbatimPayloads(),
		client.MethodShown:  local.ForAgents(s.serveShown),
		client.MethodAck:    local.ForAgents(s.serveAck).WithDiskReserve(s.Space.Reserve),
	}
}

// ListFamilies returns the metrics of agents, and of what they work on.
func (s *Service) ListFamilies() []metrics.Family {
	_, active, attached := s.Registry.SummarizeLoad()
	open := s.Delegations.CountOpen()
	return []metrics.Family{
		{Name: "acpd_agents_attached", Type: metrics.Gauge, Help: "Agents that are attached.", Write: metrics.One(attached)},
		{Name: "acpd_tasks_active", Type: metrics.Gauge, Help: "Queries and delegations on which agents here work.", Write: metrics.One(active)},
		{Name: "acpd_delegations_open", Type: metrics.Gauge, Help: "Delegations that are not over: taken from peers (in), and given to them (out).", Write: measures.InAndOut(open.Taken, open.Given)},
	}
}

// MaskLocalError logs what went wrong on this machine, such as a full disk. It returns an
// error for the sender, without paths and texts of the system.
func (s *Service) MaskLocalError(env *wire.Envelope, err error) error {
	if _, coded := errors.AsType[*kinds.Error](err); err == nil || coded || kinds.AsError(err).Code != kinds.Internal {
		return err
	}
	s.PeerLog.WriteLimited(env.From, slog.LevelError, "message not taken", "kind", env.Kind, "id", env.ID, "peer", env.From.Label(), "err", err)
	if disk.IsFullError(err) {
		return kinds.Errorf(kinds.Overloaded, "%s: the receiver's disk is full: its owner has to free some space; try again later", env.Kind)
	}
	return kinds.Errorf(kinds.Internal, "%s: the receiver failed: its log says why", env.Kind)
}
