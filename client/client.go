package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Client calls a daemon. The zero value is ready: it connects with its first
// call, and again after the connection broke. Any number of goroutines may use it.
//
// A call in flight when the connection breaks fails with daemon_unavailable; the
// error's details say whether the message may have been delivered. The client
// never repeats one whose fate is unknown: the caller may, with the same id.
//
// Errors are *kinds.Error, and *RPCError where the call as such was malformed.
type Client struct {
	// Socket is the path of the daemon's socket; "": $ACP_SOCKET, and only where that is
	// not set the one in [Home].
	Socket string
	// As is the agent that calls are made as, beside the connection on which that is
	// attached; the zero value: none, or the agent that this client attaches.
	As SpeakParams
	// Patience bounds the calls that the daemon answers by itself, those that attach
	// and subscribe too: without an answer they fail with daemon_unavailable and say
	// what was seen. What asks a peer fails so when its own deadline has passed, 2 s
	// later, and what waits for the end of a delegation when the daemon does not answer
	// something else in that time. 0: all wait as long as their contexts.
	Patience time.Duration

	mu      sync.Mutex
	conn    *jsonrpc.Conn
	ended   chan struct{} // closed when conn's handlers have returned, and all before it
	agent   *agent        // attached, or about to be
	joined  bool          // agent is attached on conn
	pending chan struct{} // closed when the one who connects is done; nil: nobody does
}

// Close ends the connection and waits for the handlers of an attached agent. A
// later call opens a new connection; Attach and Subscribe end with their contexts.
func (c *Client) Close() error {
	c.mu.Lock()
	conn, ended := c.conn, c.ended
	c.mu.Unlock()
	if conn != nil {
		conn.Close()
		<-ended
	}
	return nil
}

// connect returns the connection, with the agent attached where there is one.
func (c *Client) connect(ctx context.Context) (*jsonrpc.Conn, error) {
	for {
		c.mu.Lock()
		conn, agent := c.conn, c.agent
		if conn != nil && !conn.CanCall() {
			conn, c.joined = nil, false
		}
		if conn != nil && (agent == nil || c.joined) {
			c.mu.Unlock()
			return conn, nil
		}
		if other := c.pending; other != nil {
			c.mu.Unlock()
			select {
			case <-other:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		c.pending = make(chan struct{})
		c.mu.Unlock()

		conn, err := c.renew(ctx, conn, agent)

		c.mu.Lock()
		stale := agent != nil && agent != c.agent // it has detached meanwhile
		if err == nil && !stale {
			c.conn, c.joined = conn, agent != nil
		}
		close(c.pending)
		c.pending = nil
		c.mu.Unlock()
		if stale && err == nil {
			conn.Close()
			continue
		}
		return conn, err
	}
}

// renew opens a connection unless conn is one, and attaches the agent to it.
func (c *Client) renew(ctx context.Context, conn *jsonrpc.Conn, agent *agent) (*jsonrpc.Conn, error) {
	fresh := conn == nil
	if fresh {
		stream, err := dial(ctx, c.Socket, SocketName)
		if err != nil {
			return nil, err
		}
		conn = jsonrpc.NewConn(stream, jsonrpc.Options{Handler: c.serve})
		c.start(conn)
	}
	var err error
	method := MethodAttach
	switch {
	case agent != nil:
		// Only one goroutine at a time is here, so the params are its own.
		var got Attached
		if err = conn.CallWithin(ctx, c.Patience, method, &agent.params, &got); err == nil {
			agent.params.Key = got.Key
			agent.key.Store(&got.Key)
		}
	case fresh && c.As != SpeakParams{}:
		method = MethodSpeak
		err = conn.CallWithin(ctx, c.Patience, method, &c.As, nil)
	}
	if err == nil {
		return conn, nil
	}
	if fresh {
		conn.Close()
	}
	if c.Patience > 0 && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = c.silence(method, c.Patience)
	}
	if errors.Is(err, jsonrpc.ErrClosed) {
		err = unavailable(true, "%s: the daemon went away", method)
	}
	return nil, err
}

// Key returns the key of the agent that is attached, "" where none is, or none was yet:
// a secret, with which another client can speak [Client.As] the agent.
func (c *Client) Key() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agent != nil {
		if key := c.agent.key.Load(); key != nil {
			return *key
		}
	}
	return ""
}

func (c *Client) start(conn *jsonrpc.Conn) {
	ended := make(chan struct{})
	c.mu.Lock()
	before := c.ended
	c.ended = ended
	c.mu.Unlock()
	go func() {
		defer close(ended)
		conn.Run(context.Background())
		if before != nil {
			<-before
		}
	}()
}

// call calls a method. A connection that turns out to be dead before anything was
// sent is replaced once.
func (c *Client) call(ctx context.Context, method string, params, result any) error {
	for again := true; ; again = false {
		conn, err := c.connect(ctx)
		if err == nil {
			err = conn.Call(ctx, method, params, result)
		}
		e, ok := errors.AsType[*kinds.Error](err)
		if !ok || !errors.Is(err, jsonrpc.ErrClosed) {
			return err
		}
		if e.Delivered() == kinds.DeliveredUnknown {
			return kinds.Errorf(kinds.DaemonUnavailable, "%s: the daemon went away before it answered: "+
				"whether the call took effect is unknown; repeat it with the same id", method).WithDelivered(kinds.DeliveredUnknown)
		}
		if !again {
			return unavailable(true, "%s: the daemon closes the connection at once: look at its log", method)
		}
	}
}

// result is [Client.call] with a fresh result.
func result[R any](ctx context.Context, c *Client, method string, params any) (*R, error) {
	r := new(R)
	if err := c.call(ctx, method, params, r); err != nil {
		return nil, err
	}
	return r, nil
}

// own is [result] for what the daemon answers by itself, so that it should be quick.
func own[R any](ctx context.Context, c *Client, method string, params any) (*R, error) {
	if c.Patience <= 0 {
		return result[R](ctx, c, method, params)
	}
	bounded, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	r, err := result[R](bounded, c, method, params)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, c.silence(method, c.Patience)
	}
	return r, err
}

// carry is [asked] for params with a payload, which must not break the line that
// carries it; what it says is for the daemon to judge.
func carry[R any](ctx context.Context, c *Client, deadline time.Duration, method string, params any, payload wire.Payload) (*R, error) {
	if err := delimited(payload); err != nil {
		return nil, err
	}
	return asked[R](ctx, c, deadline, method, params)
}

// asked is [result] for what the daemon asks a peer, which takes that long at most.
func asked[R any](ctx context.Context, c *Client, deadline time.Duration, method string, params any) (*R, error) {
	r := new(R)
	if err := c.watched(ctx, deadline+grace, method, params, r); err != nil {
		return nil, err
	}
	return r, nil
}

func delimited(payload wire.Payload) error {
	if len(payload) > 0 && !jsonrpc.IsObject(payload) {
		return kinds.Errorf(kinds.Invalid, "payload: expected one JSON object")
	}
	return nil
}

// Ping asks a peer's daemon for a sign of life.
func (c *Client) Ping(ctx context.Context, p PingParams) (*Answer, error) {
	return asked[Answer](ctx, c, or(p.TimeoutMS, probeTime), MethodPing, &p)
}

// Discover asks what a peer's agents can do.
func (c *Client) Discover(ctx context.Context, p DiscoverParams) (*Answer, error) {
	return asked[Answer](ctx, c, or(p.TimeoutMS, probeTime), MethodDiscover, &p)
}

// Query asks a peer's agent a question and waits for the response.
func (c *Client) Query(ctx context.Context, p QueryParams) (*Answer, error) {
	var deadline time.Duration // nobody asks for it without Patience
	if c.Patience > 0 {
		deadline = queryTime(p.Payload)
	}
	return carry[Answer](ctx, c, deadline, MethodQuery, &p, p.Payload)
}

// Delegate hands over a task and waits for the ack; see [Client.Wait].
func (c *Client) Delegate(ctx context.Context, p DelegateParams) (*Delegated, error) {
	deadline := ackTime
	if c.Patience > 0 {
		deadline = givingTime(p.Payload)
	}
	return carry[Delegated](ctx, c, deadline, MethodDelegate, &p, p.Payload)
}

// Cancel asks for the end of a delegation.
func (c *Client) Cancel(ctx context.Context, p CancelParams) (*CancelAnswer, error) {
	return carry[CancelAnswer](ctx, c, ackTime, MethodCancel, &p, p.Payload)
}

// Notify tells one peer; p.To is made by [To].
func (c *Client) Notify(ctx context.Context, p NotifyParams) (*Receipt, error) {
	p.To.List = false
	return carry[Receipt](ctx, c, receiptTime, MethodNotify, &p, p.Payload)
}

// NotifyAll tells several peers, each with a message of its own. The receipts are
// in the order of p.To; some may hold errors.
func (c *Client) NotifyAll(ctx context.Context, p NotifyParams) ([]Receipt, error) {
	p.To.List = true
	r, err := carry[[]Receipt](ctx, c, receiptTime, MethodNotify, &p, p.Payload)
	if err != nil {
		return nil, err
	}
	return *r, nil
}

// Result reports on a delegation that was taken.
func (c *Client) Result(ctx context.Context, p ResultParams) (*Receipt, error) {
	return carry[Receipt](ctx, c, receiptTime, MethodResult, &p, p.Payload)
}

// Error ends a delegation that was taken with an error.
func (c *Client) Error(ctx context.Context, p ResultParams) (*Receipt, error) {
	return carry[Receipt](ctx, c, receiptTime, MethodError, &p, p.Payload)
}

// Whoami returns who the daemon is.
func (c *Client) Whoami(ctx context.Context) (*Whoami, error) {
	return own[Whoami](ctx, c, MethodWhoami, nil)
}

// Status returns how the daemon is.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	return own[Status](ctx, c, MethodStatus, nil)
}

// Budget returns what peers may cost the daemon, and what they do.
func (c *Client) Budget(ctx context.Context) (*Budget, error) {
	return own[Budget](ctx, c, MethodBudget, nil)
}

// Peers returns all peers that the daemon knows of, strangers included.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	r, err := own[Peers](ctx, c, MethodPeers, nil)
	if err != nil {
		return nil, err
	}
	return r.Peers, nil
}

// Tasks returns the delegations, given and taken, the newest first.
func (c *Client) Tasks(ctx context.Context) ([]Task, error) {
	var all []Task
	for p := (TasksParams{}); ; {
		r, err := own[Tasks](ctx, c, MethodTasks, &p)
		if err != nil {
			return nil, err
		}
		all = append(all, r.Tasks...)
		if p.After = r.Next; p.After == 0 {
			return all, nil
		}
	}
}

// Task returns one delegation.
func (c *Client) Task(ctx context.Context, id wire.MessageID) (*Task, error) {
	return own[Task](ctx, c, MethodTask, &TaskParams{ID: id})
}

// Wait waits until a delegation is final, or as p says.
func (c *Client) Wait(ctx context.Context, p WaitParams) (*Task, error) {
	t := new(Task)
	if err := c.watched(ctx, c.Patience, MethodWait, &p, t); err != nil {
		return nil, err
	}
	return t, nil
}

// Inbox returns held messages and removes none.
func (c *Client) Inbox(ctx context.Context, p InboxParams) (*Inbox, error) {
	return own[Inbox](ctx, c, MethodInbox, &p)
}

// Shown says that messages which Inbox has returned, with Peek, were shown: from then on
// Ack may remove them.
func (c *Client) Shown(ctx context.Context, p ShownParams) error {
	_, err := own[struct{}](ctx, c, MethodShown, &p)
	return err
}

// Ack removes messages that Inbox has returned.
func (c *Client) Ack(ctx context.Context, p AckParams) (*Acked, error) {
	return own[Acked](ctx, c, MethodAck, &p)
}

// Invite opens an invitation.
func (c *Client) Invite(ctx context.Context, p InviteParams) (*Invitation, error) {
	return own[Invitation](ctx, c, MethodInvite, &p)
}

// Invitations returns the open invitations, without their secrets.
func (c *Client) Invitations(ctx context.Context) ([]OpenInvitation, error) {
	r, err := own[Invitations](ctx, c, MethodInvitations, nil)
	if err != nil {
		return nil, err
	}
	return r.Invitations, nil
}

// Revoke ends open invitations. Who has joined by one of them stays trusted.
func (c *Client) Revoke(ctx context.Context, p RevokeParams) (*Revoked, error) {
	return own[Revoked](ctx, c, MethodRevoke, &p)
}

// Join accepts an invitation.
func (c *Client) Join(ctx context.Context, uri string) (*NamedPeer, error) {
	return asked[NamedPeer](ctx, c, joinTime, MethodJoin, &JoinParams{URI: uri})
}

// Trust trusts a peer from now on.
func (c *Client) Trust(ctx context.Context, p TrustParams) (*NamedPeer, error) {
	return own[NamedPeer](ctx, c, MethodTrust, &p)
}

// Untrust ends trust in a peer, closes its connections and blocks its key. That
// counts when it returns; the result names what could not be written to disk yet.
func (c *Client) Untrust(ctx context.Context, peer string) (*Untrusted, error) {
	return own[Untrusted](ctx, c, MethodUntrust, &UntrustParams{Peer: peer})
}

// Pending returns the strangers that wait for trust.
func (c *Client) Pending(ctx context.Context) ([]PendingPeer, error) {
	r, err := own[Pending](ctx, c, MethodPending, nil)
	if err != nil {
		return nil, err
	}
	return r.Pending, nil
}

// Policy returns whether a peer may send a kind, and the rule that decides.
func (c *Client) Policy(ctx context.Context, p PolicyParams) (*Policy, error) {
	return own[Policy](ctx, c, MethodPolicy, &p)
}
