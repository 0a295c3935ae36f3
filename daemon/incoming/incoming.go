// Package incoming takes the messages that peers send: it answers pings and discoveries, passes queries and
// notifications to agents, and what belongs to delegations to package tasks.
//
// A message is handled once, however often it comes. No two messages that are known at a time have one id.
//
// It leaves to package permissions what a peer may send, and to package agents which agent gets it.
package incoming

import (
	"time"

	"github.com/acpd/acpd/daemon/agents"
	"github.com/acpd/acpd/daemon/tasks"
)

// Deps is what a [Service] needs of the rest of the daemon.
type Deps struct {
	agents.Deps
	Started time.Time // when this daemon was
	Agents  *agents.Service
	Tasks   *tasks.Service
}

// Service takes messages. Its methods may be called from any goroutine.
type Service struct{ Deps }

// New returns a service to which nothing has come.
func New(d Deps) *Service { return &Service{d} }
