package client

import (
	"context"
	"encoding/base64"
	"time"

	"github.com/acpd/acpd/kinds"
)

// The methods for the person who runs a daemon, beside status and budget.
const (
	MethodReload   = "reload"
	MethodLogLevel = "log.level"
	MethodDrain    = "drain"
	MethodPprof    = "debug.pprof"
)

// Reloaded is the result of reload, which has no params: config.yaml was read, and counts.
type Reloaded struct {
	Changed  []SettingChange `json:"changed"`  // against what counted before, in the order of acpd --settings; then the certificate and the revocations whose files have changed
	Deferred []string        `json:"deferred"` // settings that differ from those of the start, and count from the next one
	Warnings []string        `json:"warnings"` // names that nobody who is trusted has; what is wrong with the certificate of the daemon
}

// SettingChange is a setting, or an entry of a setting, that has changed.
type SettingChange struct {
	Setting  string `json:"setting"`           // as in policy.laptop
	From     string `json:"from"`              // the value on one line, at most 260 bytes; "none" for an entry that is not there, "default" for a value that is not set
	To       string `json:"to"`                // the same
	Deferred bool   `json:"deferred,omitzero"` // it counts from the next start
}

// LogLevelParams are the params of log.level.
type LogLevelParams struct {
	Level string `json:"level,omitzero"` // debug, info, warn or error; "": nothing changes
	Secs  uint64 `json:"secs,omitzero"`  // for how long; 0: 10 minutes; up to MaxLogLevelTime
}

// MaxLogLevelTime bounds how long a level of the log counts that log.level has set.
const MaxLogLevelTime = 24 * time.Hour

// LogLevel is the result of log.level.
type LogLevel struct {
	Level string `json:"level"` // that counts now
	Usual string `json:"usual"` // that of config.yaml or the command line
	Until Time   `json:"until"` // until when Level counts instead of Usual; null: it is the usual one
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
	Agent string `json:"agent,omitzero"` // an attached agent that works on queries and delegations; "": calls of this daemon's programs to peers
	Count int    `json:"count"`
}

// Drained is the result of drain. The daemon ends when it has been sent.
type Drained struct {
	AllEnded bool       `json:"all_ended"`
	Open     []OpenWork `json:"open"` // what was under way when the time was over
}

// ListMeasuredProfiles returns the profiles of debug.pprof that are measured for a time.
func ListMeasuredProfiles() []string { return []string{"cpu", "block", "mutex"} }

// ListStateProfiles returns the profiles of debug.pprof of what is there at one moment.
func ListStateProfiles() []string { return []string{"heap", "allocs", "goroutine", "threadcreate"} }

// PprofParams are the params of debug.pprof.
type PprofParams struct {
	Profile string `json:"profile,omitzero"` // cpu, heap, allocs, goroutine, threadcreate, block or mutex
	Secs    uint64 `json:"secs,omitzero"`    // cpu, block, mutex: how long is measured; 0: 10 s; up to MaxPprofTime
	Offset  int    `json:"offset,omitzero"`  // Next of the answer that this one continues, on the same connection and without the other params
}

// MaxPprofTime bounds how long a profile is measured.
const MaxPprofTime = 2 * time.Minute

// Pprof is the result of debug.pprof: a part of a profile in the format of pprof, which has
// names of functions and counts, and nothing of what they worked on.
type Pprof struct {
	Data string `json:"data"` // in base64
	Size int    `json:"size"` // of the whole profile, in bytes
	Next int    `json:"next"` // the Offset that continues; 0: there is no more
}

// Reload makes the daemon read config.yaml again. If that is not valid, the error says so, line by
// line, and what counted before counts on.
func (c *Client) Reload(ctx context.Context) (*Reloaded, error) {
	return callBounded[Reloaded](ctx, c, MethodReload, nil)
}

// LogLevel returns the level of the log. If p has one it sets that before, for a time.
func (c *Client) LogLevel(ctx context.Context, p LogLevelParams) (*LogLevel, error) {
	return callBounded[LogLevel](ctx, c, MethodLogLevel, &p)
}

// Drain makes the daemon take no new work, and waits until what is under way has ended, or until
// the time is over. Then the daemon ends. If the call is given up, the daemon drains all the same.
func (c *Client) Drain(ctx context.Context, p DrainParams) (*Drained, error) {
	r := new(Drained)
	return r, c.callWhileDaemonAlive(ctx, c.Patience, MethodDrain, &p, r)
}

// Pprof returns a profile of the daemon. It takes as long as p.Secs.
func (c *Client) Pprof(ctx context.Context, p PprofParams) ([]byte, error) {
	var all []byte
	for {
		r := new(Pprof)
		if err := c.callWhileDaemonAlive(ctx, time.Duration(p.Secs)*time.Second+grace, MethodPprof, &p, r); err != nil {
			return nil, err
		}
		part, err := base64.StdEncoding.DecodeString(r.Data)
		if err != nil {
			return nil, kinds.Errorf(kinds.Internal, "debug.pprof: the daemon's answer is not in base64")
		}
		if all = append(all, part...); r.Next == 0 {
			return all, nil
		}
		p = PprofParams{Offset: r.Next}
	}
}
