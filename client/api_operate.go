package client

import (
	"context"
	"time"
)

// The methods for the person who runs a daemon, except status and budget.
const (
	MethodReload = "reload"
	MethodDrain  = "drain"
)

// Reloaded is the result of reload, which has no params: config.yaml was read, and is in effect.
type Reloaded struct {
	Changed  []SettingChange `json:"changed"`  // against what counted before, in the order of acpd --settings; then the certificate and the revocations whose files have changed
	Deferred []string        `json:"deferred"` // settings that differ from those of the start, and take effect at the next one
	Warnings []string        `json:"warnings"` // names that nobody who is trusted has; what is wrong with the certificate of the daemon
}

// SettingChange is a setting, or an entry of a setting, that has changed.
type SettingChange struct {
	Setting  string `json:"setting"`           // as in policy.laptop
	From     string `json:"from"`              // the value on one line, at most 260 bytes; "none" for an entry that is not there, "default" for a value that is not set
	To       string `json:"to"`                // the same
	Deferred bool   `json:"deferred,omitzero"` // it takes effect at the next start
}

// DrainParams are the params of drain.
type DrainParams struct {
	TimeoutMS uint64 `json:"timeout_ms,omitzero"` // after which the daemon ends, whatever is open; 0: 10 minutes; up to MaxDrain
}

// MaxDrain bounds how long a daemon drains before it ends.
const MaxDrain = 24 * time.Hour

// Drain says of a daemon that drains what is open.
type Drain struct {
	Until time.Time  `json:"until"` // when the daemon ends, whatever is open then
	Open  []OpenWork `json:"open"`
}

// OpenWork is what somebody here has under way.
type OpenWork struct {
	Agent string `json:"agent,omitzero"` // an attached agent that works on queries and delegations; "": calls of this daemon's programs to peers, and files on their way
	Count int    `json:"count"`
}

// Drained is the result of drain. The daemon ends when it has been sent.
type Drained struct {
	AllEnded bool       `json:"all_ended"`
	Open     []OpenWork `json:"open"` // what was under way when the time was over
}

// Reload makes the daemon read config.yaml again. If that is not valid, the error has a line for each
// fault, and the settings stay as they were.
func (c *Client) Reload(ctx context.Context) (*Reloaded, error) {
	return callBounded[Reloaded](ctx, c, MethodReload, nil)
}

// Drain makes the daemon take no new work, and waits until what is under way has ended, or until
// the time is over. Then the daemon ends. If the call is given up, the daemon drains all the same.
func (c *Client) Drain(ctx context.Context, p DrainParams) (*Drained, error) {
	r := new(Drained)
	return r, c.callWhileDaemonAlive(ctx, c.Patience, MethodDrain, &p, r)
}
