package openintent

import (
	"context"
	"log/slog"

	"github.com/acpd/acpd/openintent/object"
)

// Caller identifies the agent or operator that makes a request, as the receiver of the request
// has established it.
type Caller struct {
	Agent string // the agent's id; an operator that names none is "operator"

	// Operator sees and manages everything. It may act as any agent, by naming
	// one as sender; then that agent's rights apply.
	Operator bool

	// Home is the id of the daemon that the agent talks to, empty for this one.
	// It must be proven, and that daemon must be the one that speaks for Agent.
	Home string

	name string // of the agent, on intents that live here
}

// Call is one request to the engine. It holds the caller, and what the caller's daemon and other
// hosts are charged for until the caller has its answer. One goroutine uses it.
type Call struct {
	e       *Engine
	ctx     context.Context
	Caller  Caller
	Size    int  // bytes that it may have written, without headRoom
	Removes bool // it removes something, for which there is always room on the disk
	held    int  // bytes of the answer that the caller's daemon is charged for
	told    hostCharges
}

// NewCall begins a call, for as long as ctx lasts. [Call.End] ends it.
func (e *Engine) NewCall(ctx context.Context) *Call { return &Call{e: e, ctx: ctx} }

// Context returns the context of the call.
func (c *Call) Context() context.Context { return c.ctx }

// End gives back all that was charged for the call.
func (c *Call) End() {
	c.refundCaller(c.held)
	c.RefundHosts()
}

// SetCaller sets the caller.
func (c *Call) SetCaller(who Caller) { c.Caller = c.e.fillCallerName(who) }

// LogError logs a failure that the call has caused. The log bounds failures that
// agents of other daemons cause.
func (c *Call) LogError(what string, about ...any) {
	if cfg := &c.e.cfg; c.Caller.Home != "" && cfg.PeerLog != nil {
		cfg.PeerLog.WriteLimited(peerAccountKey(c.Caller.Home), slog.LevelError, what, about...)
	} else {
		cfg.Log.Error(what, about...)
	}
}

// ListByteLimit returns how many bytes the caller's list may have: fewer for another daemon,
// which puts the lists of several together.
func (c *Call) ListByteLimit() int {
	if c.Caller.Home != "" {
		return maxGathered
	}
	return object.MaxListBytes
}

// resolveActingCaller returns the caller on whose behalf a body that names an agent acts: the
// caller itself, or, if an operator names another agent, that agent.
func (c *Call) resolveActingCaller(field, agent string) (Caller, error) {
	if agent == "" || agent == c.Caller.Agent || agent == c.Caller.name {
		return c.Caller, nil
	}
	if !c.Caller.Operator {
		return Caller{}, object.NewError("sender_mismatch", "%s: you are another agent", field)
	}
	if !object.IsAgentID(agent) {
		return Caller{}, object.NewAgentIDError(field)
	}
	return c.e.fillCallerName(Caller{Agent: agent}), nil
}
