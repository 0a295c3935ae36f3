package openintent

import (
	"context"
	"log/slog"

	"github.com/go-json-experiment/json/jsontext"
)

// Call is what one request asks of the engine: who asks, and what the daemon of the caller and
// other hosts are charged for until the caller has its answer. One goroutine uses it.
type Call struct {
	e       *Engine
	ctx     context.Context
	Caller  Caller
	Size    int  // bytes that it may have written, beside headRoom
	Removes bool // it removes something, for which there is always room on the disk
	held    int  // bytes of the answer that the caller's daemon is charged for
	told    toldBytes
}

// Begin begins a call, for as long as ctx lasts. [Call.End] ends it.
func (e *Engine) Begin(ctx context.Context) *Call { return &Call{e: e, ctx: ctx} }

// Context returns the context of the call.
func (c *Call) Context() context.Context { return c.ctx }

// End gives back all that was charged for the call.
func (c *Call) End() {
	c.give(c.held)
	c.LetGo()
}

// SetCaller says who makes the call.
func (c *Call) SetCaller(who Caller) { c.Caller = c.e.known(who) }

// LogError logs a failure that the call has caused. What agents of other daemons cause is
// bounded.
func (c *Call) LogError(what string, about ...any) {
	if cfg := &c.e.cfg; c.Caller.Home != "" && cfg.Lines != nil {
		cfg.Lines.Add(peerOf(c.Caller.Home), slog.LevelError, what, about...)
	} else {
		cfg.Log.Error(what, about...)
	}
}

// ListRoom returns how many bytes the caller's list may have: fewer for another daemon,
// which puts the lists of several together.
func (c *Call) ListRoom() int {
	if c.Caller.Home != "" {
		return maxGathered
	}
	return MaxListBytes
}

// CheckObject makes sure that v is an object, in one line; none at all is an empty one.
func CheckObject(field string, v *jsontext.Value) error {
	if *v == nil || v.Kind() == 'n' {
		*v = jsontext.Value("{}")
		return nil
	}
	if v.Kind() != '{' {
		return Invalid(field, "an object is needed")
	}
	if err := v.Compact(); err != nil {
		return Invalid(field, "an object is needed")
	}
	return nil
}

// as returns who acts when a body names an agent: the caller, or, for an
// operator, that agent.
func (c *Call) as(field, agent string) (Caller, error) {
	if agent == "" || agent == c.Caller.Agent || agent == c.Caller.name {
		return c.Caller, nil
	}
	if !c.Caller.Operator {
		return Caller{}, Refuse("sender_mismatch", "%s: you are another agent", field)
	}
	if !ValidAgentID(agent) {
		return Caller{}, BadAgentID(field)
	}
	return c.e.known(Caller{Agent: agent}), nil
}

// actor is as for bodies where the name alone matters.
func (c *Call) actor(field, agent string) (string, error) {
	who, err := c.as(field, agent)
	return who.name, err
}

// MaxDepth bounds how deep a body nests. What is stored of it nests a little deeper, by the
// steps of a patch at most, and SQLite reads no more than 1,000 levels when a daemon starts.
const MaxDepth = 256
