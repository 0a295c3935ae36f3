// Package tasks carries delegations: it gives tasks of the agents here to peers, takes tasks of peers for the agents
// here, and passes results, cancellations and the questions about them.
//
// A delegation is in the table before its first byte leaves, and before an agent gets it. An ack is on disk before
// anybody has it.
//
// It leaves to package delegation the states and deadlines, and what is kept.
package tasks

import (
	"context"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/kept"
	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/daemon/outgoing"
)

// Deps is what a [Service] needs of the rest of the daemon.
type Deps struct {
	agents.Deps
	Agents   *agents.Service
	Outgoing *outgoing.Service
	Kept     *kept.Service
}

// Service carries delegations. Its methods may be called from any goroutine.
type Service struct {
	Deps
	partials *budget.Account // only for refusals
}

// New returns a service for the delegations of a table.
func New(d Deps) *Service { return &Service{Deps: d, partials: d.Budget.OpenAccount(budget.Partials)} }

// Run reports at their peers the delegations that have ended here, until ctx ends.
func (s *Service) Run(ctx context.Context) error { return s.Delegations.Run(ctx, s.ReportEnd) }

// Methods returns the methods of delegations. Questions about them are asked by [Service.Ask].
func (s *Service) Methods() map[string]local.Method {
	return map[string]local.Method{
		client.MethodDelegate: local.ForAgents(s.serveDelegate).WithVerbatimPayloads(),
		client.MethodCancel:   local.ForAgents(s.serveCancel).WithVerbatimPayloads(),
		client.MethodAnswer:   local.ForAgents(s.serveAnswer),
		client.MethodResult:   local.ForAgents(s.serveResult),
		client.MethodError:    local.ForAgents(s.serveError),
		client.MethodTasks:    local.ForAgents(s.serveTasks),
		client.MethodTask:     local.ForAgents(s.serveTask).WithVerbatimPayloads(),
		client.MethodWait:     local.ForAgents(s.serveWait).WithVerbatimPayloads(),
	}
}
