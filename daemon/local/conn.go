package local

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"regexp"
	"runtime/debug"
	"sync/atomic"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
)

// Conn is one local connection.
type Conn struct {
	*jsonrpc.Conn
	IsGuest bool // it came through the agents' folder

	server   *Server
	key      registry.KeyHash                    // of a guest that is not an agent, so that what it sent belongs to it
	speaksAs atomic.Pointer[registry.Credential] // the agent as which it calls, or nil if it calls as the one that it attached
	shutdown <-chan struct{}                     // closed when the daemon ends it
}

// NewConn returns the connection that c, accepted at a socket, makes. ctx ends when the daemon does.
func (s *Server) NewConn(ctx context.Context, c net.Conn, at *Socket) *Conn {
	conn := &Conn{server: s, IsGuest: at.guests, shutdown: ctx.Done()}
	if conn.IsGuest {
		rand.Read(conn.key[:])
	}
	conn.Conn = jsonrpc.NewConn(c, jsonrpc.Options{
		SplicePayloads: true,
		MaxLine:        s.MaxMessage() + jsonrpc.LineMargin,
		InputLimit:     at.InputLimit,
		RequestLimit:   at.RequestLimit,
		UnreadRoom:     at.UnreadRoom,
		MaxUnread:      MaxUnreadBytes / 2,
		Handler:        conn.answerRequest,
		PushBack:       true,
	})
	return conn
}

// isIdle reports whether nothing is under way on the connection, and nobody is to be
// reached by it.
func (c *Conn) isIdle() bool {
	if c.IsBusy() || c.server.Agents.FindByConn(c.Conn) != nil {
		return false
	}
	for _, isInUse := range c.server.IsInUse {
		if isInUse(c) {
			return false
		}
	}
	return true
}

// Serve serves the connection to its end.
func (c *Conn) Serve(ctx context.Context) {
	err := c.Run(ctx)
	// No handler runs any more, so nothing attaches, subscribes or watches after this.
	for _, end := range c.server.Ended {
		end(c)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		c.server.Log.Debug("local connection ended", "err", err)
	}
}

// IsEndedByDaemon reports whether the connection ends because the daemon does.
func (c *Conn) IsEndedByDaemon() bool {
	select {
	case <-c.shutdown:
		return true
	default:
		return false
	}
}

// SpeakAs makes the connection call as an agent.
func (c *Conn) SpeakAs(as registry.Credential) { c.speaksAs.Store(&as) }

// Credential returns the credential under which the connection calls.
func (c *Conn) Credential() registry.Credential {
	agents := c.server.Agents
	if a := agents.FindByConn(c.Conn); a != nil {
		return registry.Credential{Name: a.Name, KeyHash: a.KeyHash}
	}
	if as := c.speaksAs.Load(); as != nil && agents.CheckCredential(*as) == nil {
		return *as
	}
	return registry.Credential{KeyHash: c.key}
}

// GuestCredential returns the credential of a guest, which may see only its own. It returns nil for the
// daemon's owner, who may see all.
func (c *Conn) GuestCredential() *registry.Credential {
	if !c.IsGuest {
		return nil
	}
	as := c.Credential()
	return &as
}

// InboxAgent returns the name of the agent whose inbox a guest may use, or nil for the daemon's
// owner. It returns an error, which begins with op, if the guest is not an agent.
func (c *Conn) InboxAgent(op string) (*string, error) {
	as := c.GuestCredential()
	switch {
	case as == nil:
		return nil, nil
	case as.Name == "":
		return nil, kinds.Errorf(kinds.NotAuthorized, "%s: only an agent has one here: attach first, or speak as an agent that is attached", op)
	}
	return &as.Name, nil
}

// answerRequest answers one request, in a goroutine of its own.
func (c *Conn) answerRequest(ctx context.Context, _ *jsonrpc.Conn, r *jsonrpc.Request) {
	m, ok := c.server.Methods[r.Method]
	if !ok {
		r.RespondError(jsonrpc.NewMethodNotFound(r.Method))
		return
	}
	if c.IsGuest && !m.ForGuests {
		r.RespondError(kinds.Errorf(kinds.NotAuthorized, "%s: this is for whoever the daemon belongs to, and not served to agents: ask that person", r.Method))
		return
	}
	result, err := c.callMethod(ctx, m, r)
	if err != nil {
		r.RespondError(c.explainError(r.Method, err))
		return
	}
	r.Respond(result)
}

// callMethod calls a method. If the method panics, only the call fails: no
// program of this machine may end the daemon by a call.
func (c *Conn) callMethod(ctx context.Context, m Method, r *jsonrpc.Request) (result any, err error) {
	defer func() {
		if v := recover(); v != nil {
			c.server.Log.Error("a method panicked", "method", r.Method, "panic", v, "stack", string(debug.Stack()))
			err = kinds.Errorf(kinds.Internal, "%s: the daemon failed to do this: its log says why", r.Method)
		}
	}()
	return m.Serve(ctx, c, r)
}

// explainError returns the error that a caller gets.
func (c *Conn) explainError(method string, err error) error {
	_, isOfCall := errors.AsType[*jsonrpc.Error](err) // it quotes what the caller has sent
	if cause := ownwords.FindForeign(err); cause != "" && !isOfCall {
		c.server.Log.Debug("a call failed", "method", method, "cause", cause)
	}
	return c.MaskErrorAddrs(c.explainShutdownError(method, explainFullDiskError(err)))
}

// explainFullDiskError returns err, but overloaded if a disk has no room for what was asked: that
// may work later, and nothing was done.
func explainFullDiskError(err error) error {
	if !disk.IsFullError(err) {
		return err
	}
	return kinds.Errorf(kinds.Overloaded, "%v", err)
}

// explainShutdownError returns daemon_unavailable instead of cancelled if the daemon ends while a
// caller waits.
func (c *Conn) explainShutdownError(method string, err error) error {
	e := kinds.AsError(err)
	if !c.IsEndedByDaemon() || e.Code != kinds.Cancelled || e.From != "" {
		return err
	}
	told := kinds.Errorf(kinds.DaemonUnavailable, "%s: the daemon is shutting down: try again when it is back", method)
	told.Details = e.Details
	return told
}

// hostPort matches text that reads like host:port.
var hostPort = regexp.MustCompile(`(\[[0-9A-Fa-f:.%\w-]+\]|[\w.%-]+):\d{1,5}\b`)

// MaskErrorAddrs takes addresses out of an error of this daemon if a guest is to read it: agents
// know their peers by name. What is said of a message that is kept has no addresses, and a time that looks like one.
func (c *Conn) MaskErrorAddrs(err error) error {
	e, ok := errors.AsType[*kinds.Error](err)
	if !c.IsGuest || !ok || e.From != "" || e.Code == kinds.Kept || !hostPort.MatchString(e.Message) && !hostPort.MatchString(e.Quoted) {
		return err
	}
	told := *e
	told.Message, told.Quoted = MaskAddrs(e.Message), MaskAddrs(e.Quoted)
	return &told
}

// MaskAddrs takes addresses out of a text that an agent may read.
func MaskAddrs(text string) string { return hostPort.ReplaceAllString(text, "its address") }
