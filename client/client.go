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

// Client calls a daemon. The zero value is ready: it connects with its first call, and
// again after the connection broke. Any number of goroutines may use it.
//
// A call under way when the connection breaks fails with daemon_unavailable; the details
// of the error say whether the message may have been delivered. The client never repeats
// a message whose fate is unknown. The caller may, with the same id.
//
// Errors are *kinds.Error, and *jsonrpc.Error if the call as such was malformed.
type Client struct {
	// Socket is the path of the daemon's socket. "": the one that $ACP_SOCKET names, or if
	// that is not set, the one in [Home].
	Socket string
	// As names the agent for which this client calls, while another client has it attached.
	// The zero value: no agent, or the one that this client attaches.
	As SpeakParams
	// Patience bounds the calls that the daemon answers by itself, attach and subscribe
	// among them: without an answer they fail with daemon_unavailable. A call that asks a
	// peer fails so 2 s after its own deadline. A call that waits for the end of a
	// delegation fails so if the daemon does not answer another call in that time.
	// 0: every call waits as long as its context.
	Patience time.Duration

	mu             sync.Mutex
	conn           *jsonrpc.Conn
	handlersEnded  chan struct{}  // closed when conn's handlers have returned, and all before it
	attached       *attachedAgent // or about to be
	attachedOnConn bool           // attached is attached on conn
	connecting     chan struct{}  // closed when the goroutine that connects is done; nil: none does
}

// Close ends the connection and waits for the handlers of an attached agent. A
// later call opens a new connection; Attach and Subscribe end with their contexts.
func (c *Client) Close() error {
	c.mu.Lock()
	conn, ended := c.conn, c.handlersEnded
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
		conn, agent := c.conn, c.attached
		if conn != nil && !conn.CanCall() {
			conn, c.attachedOnConn = nil, false
		}
		if conn != nil && (agent == nil || c.attachedOnConn) {
			c.mu.Unlock()
			return conn, nil
		}
		if other := c.connecting; other != nil {
			c.mu.Unlock()
			select {
			case <-other:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		c.connecting = make(chan struct{})
		c.mu.Unlock()

		conn, err := c.openConn(ctx, conn, agent)

		c.mu.Lock()
		stale := agent != nil && agent != c.attached // it has detached meanwhile
		if err == nil && !stale {
			c.conn, c.attachedOnConn = conn, agent != nil
		}
		close(c.connecting)
		c.connecting = nil
		c.mu.Unlock()
		if stale && err == nil {
			conn.Close()
			continue
		}
		return conn, err
	}
}

// openConn opens a connection unless conn is one, and attaches the agent to it if there
// is one.
func (c *Client) openConn(ctx context.Context, conn *jsonrpc.Conn, agent *attachedAgent) (*jsonrpc.Conn, error) {
	fresh := conn == nil
	if fresh {
		stream, err := dial(ctx, c.Socket, SocketName)
		if err != nil {
			return nil, err
		}
		conn = jsonrpc.NewConn(stream, jsonrpc.Options{Handler: c.serveRequest})
		c.runConn(conn)
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
		err = c.silenceError(method, c.Patience)
	}
	if errors.Is(err, jsonrpc.ErrClosed) {
		err = errUnavailable(true, "%s: the daemon went away", method)
	}
	return nil, err
}

// Key returns the key of the attached agent, or "" if no agent is or was attached: a
// secret, with which another client can speak [Client.As] the agent.
func (c *Client) Key() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached != nil {
		if key := c.attached.key.Load(); key != nil {
			return *key
		}
	}
	return ""
}

// runConn runs a connection in a goroutine and notes when its handlers have ended.
func (c *Client) runConn(conn *jsonrpc.Conn) {
	ended := make(chan struct{})
	c.mu.Lock()
	before := c.handlersEnded
	c.handlersEnded = ended
	c.mu.Unlock()
	go func() {
		defer close(ended)
		conn.Run(context.Background())
		if before != nil {
			<-before
		}
	}()
}

// call calls a method. If the connection turns out to be dead before anything was sent,
// call replaces it once.
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
			return errUnavailable(true, "%s: the daemon closes the connection at once: look at its log", method)
		}
	}
}

// callNew is [Client.call] with a new result.
func callNew[R any](ctx context.Context, c *Client, method string, params any) (*R, error) {
	r := new(R)
	if err := c.call(ctx, method, params, r); err != nil {
		return nil, err
	}
	return r, nil
}

// callDaemon is [callNew] for what the daemon answers by itself: without an answer it
// fails after Patience.
func callDaemon[R any](ctx context.Context, c *Client, method string, params any) (*R, error) {
	if c.Patience <= 0 {
		return callNew[R](ctx, c, method, params)
	}
	bounded, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	r, err := callNew[R](bounded, c, method, params)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, c.silenceError(method, c.Patience)
	}
	return r, err
}

// callPeerWithPayload is [callPeer] for params with a payload. It checks only that the
// payload does not break the line; the daemon judges the rest.
func callPeerWithPayload[R any](ctx context.Context, c *Client, deadline time.Duration, method string, params any, payload wire.Payload) (*R, error) {
	if err := checkPayload(payload); err != nil {
		return nil, err
	}
	return callPeer[R](ctx, c, deadline, method, params)
}

// callPeer is [callNew] for what the daemon asks a peer, which takes deadline at most.
func callPeer[R any](ctx context.Context, c *Client, deadline time.Duration, method string, params any) (*R, error) {
	r := new(R)
	if err := c.callWatched(ctx, deadline+grace, method, params, r); err != nil {
		return nil, err
	}
	return r, nil
}

// checkPayload returns an error unless the payload is empty or one JSON object.
func checkPayload(payload wire.Payload) error {
	if len(payload) > 0 && !jsonrpc.IsObject(payload) {
		return kinds.Errorf(kinds.Invalid, "payload: expected one JSON object")
	}
	return nil
}

// Ping asks a peer's daemon for a sign of life.
func (c *Client) Ping(ctx context.Context, p PingParams) (*Answer, error) {
	return callPeer[Answer](ctx, c, timeoutOr(p.TimeoutMS, probeTimeout), MethodPing, &p)
}

// Discover asks what a peer's agents can do.
func (c *Client) Discover(ctx context.Context, p DiscoverParams) (*Answer, error) {
	return callPeer[Answer](ctx, c, timeoutOr(p.TimeoutMS, probeTimeout), MethodDiscover, &p)
}

// Query asks a peer's agent a question and waits for the response.
func (c *Client) Query(ctx context.Context, p QueryParams) (*Answer, error) {
	var deadline time.Duration // nobody asks for it without Patience
	if c.Patience > 0 {
		deadline = queryTimeout(p.Payload)
	}
	return callPeerWithPayload[Answer](ctx, c, deadline, MethodQuery, &p, p.Payload)
}

// Delegate hands over a task and waits for the ack; see [Client.Wait].
func (c *Client) Delegate(ctx context.Context, p DelegateParams) (*Delegated, error) {
	deadline := ackTimeout
	if c.Patience > 0 {
		deadline = delegateTimeout(p.Payload)
	}
	return callPeerWithPayload[Delegated](ctx, c, deadline, MethodDelegate, &p, p.Payload)
}

// Cancel asks for the end of a delegation.
func (c *Client) Cancel(ctx context.Context, p CancelParams) (*CancelAnswer, error) {
	return callPeerWithPayload[CancelAnswer](ctx, c, ackTimeout, MethodCancel, &p, p.Payload)
}

// Notify tells one peer; p.To is made by [To].
func (c *Client) Notify(ctx context.Context, p NotifyParams) (*Receipt, error) {
	p.To.List = false
	return callPeerWithPayload[Receipt](ctx, c, receiptTimeout, MethodNotify, &p, p.Payload)
}

// NotifyAll tells several peers, each with a message of its own. The receipts are
// in the order of p.To; some may hold errors.
func (c *Client) NotifyAll(ctx context.Context, p NotifyParams) ([]Receipt, error) {
	p.To.List = true
	r, err := callPeerWithPayload[[]Receipt](ctx, c, receiptTimeout, MethodNotify, &p, p.Payload)
	if err != nil {
		return nil, err
	}
	return *r, nil
}

// Result reports on a delegation that was taken.
func (c *Client) Result(ctx context.Context, p ResultParams) (*Receipt, error) {
	return callPeerWithPayload[Receipt](ctx, c, receiptTimeout, MethodResult, &p, p.Payload)
}

// Error ends a delegation that was taken with an error.
func (c *Client) Error(ctx context.Context, p ResultParams) (*Receipt, error) {
	return callPeerWithPayload[Receipt](ctx, c, receiptTimeout, MethodError, &p, p.Payload)
}

// Whoami returns who the daemon is.
func (c *Client) Whoami(ctx context.Context) (*Whoami, error) {
	return callDaemon[Whoami](ctx, c, MethodWhoami, nil)
}

// Status returns how the daemon is.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	return callDaemon[Status](ctx, c, MethodStatus, nil)
}

// Budget returns what peers may cost the daemon, and what they do.
func (c *Client) Budget(ctx context.Context) (*Budget, error) {
	return callDaemon[Budget](ctx, c, MethodBudget, nil)
}

// Peers returns all peers that the daemon knows of, strangers included.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	r, err := callDaemon[Peers](ctx, c, MethodPeers, nil)
	if err != nil {
		return nil, err
	}
	return r.Peers, nil
}

// Tasks returns the delegations, given and taken, the newest first.
func (c *Client) Tasks(ctx context.Context) ([]Task, error) {
	var all []Task
	for p := (TasksParams{}); ; {
		r, err := callDaemon[Tasks](ctx, c, MethodTasks, &p)
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
	return callDaemon[Task](ctx, c, MethodTask, &TaskParams{ID: id})
}

// Wait waits until a delegation is final, or as p says.
func (c *Client) Wait(ctx context.Context, p WaitParams) (*Task, error) {
	t := new(Task)
	if err := c.callWatched(ctx, c.Patience, MethodWait, &p, t); err != nil {
		return nil, err
	}
	return t, nil
}

// Inbox returns held messages and removes none.
func (c *Client) Inbox(ctx context.Context, p InboxParams) (*Inbox, error) {
	return callDaemon[Inbox](ctx, c, MethodInbox, &p)
}

// Shown says that messages which Inbox has returned with Peek were shown. From then on
// Ack may remove them.
func (c *Client) Shown(ctx context.Context, p ShownParams) error {
	_, err := callDaemon[struct{}](ctx, c, MethodShown, &p)
	return err
}

// Ack removes messages that Inbox has returned.
func (c *Client) Ack(ctx context.Context, p AckParams) (*Acked, error) {
	return callDaemon[Acked](ctx, c, MethodAck, &p)
}

// Invite opens an invitation.
func (c *Client) Invite(ctx context.Context, p InviteParams) (*Invitation, error) {
	return callDaemon[Invitation](ctx, c, MethodInvite, &p)
}

// Invitations returns the open invitations, without their secrets.
func (c *Client) Invitations(ctx context.Context) ([]OpenInvitation, error) {
	r, err := callDaemon[Invitations](ctx, c, MethodInvitations, nil)
	if err != nil {
		return nil, err
	}
	return r.Invitations, nil
}

// Revoke ends open invitations. A peer that has joined by one of them stays trusted.
func (c *Client) Revoke(ctx context.Context, p RevokeParams) (*Revoked, error) {
	return callDaemon[Revoked](ctx, c, MethodRevoke, &p)
}

// Join accepts an invitation.
func (c *Client) Join(ctx context.Context, uri string) (*NamedPeer, error) {
	return callPeer[NamedPeer](ctx, c, joinTimeout, MethodJoin, &JoinParams{URI: uri})
}

// Trust trusts a peer from now on.
func (c *Client) Trust(ctx context.Context, p TrustParams) (*NamedPeer, error) {
	return callDaemon[NamedPeer](ctx, c, MethodTrust, &p)
}

// Untrust ends trust in a peer, closes its connections and blocks its key. That holds
// when Untrust returns; the result names what is not on disk yet.
func (c *Client) Untrust(ctx context.Context, peer string) (*Untrusted, error) {
	return callDaemon[Untrusted](ctx, c, MethodUntrust, &UntrustParams{Peer: peer})
}

// Pending returns the strangers that wait for trust.
func (c *Client) Pending(ctx context.Context) ([]PendingPeer, error) {
	r, err := callDaemon[Pending](ctx, c, MethodPending, nil)
	if err != nil {
		return nil, err
	}
	return r.Pending, nil
}

// Policy returns whether a peer may send a kind, and the rule that decides.
func (c *Client) Policy(ctx context.Context, p PolicyParams) (*Policy, error) {
	return callDaemon[Policy](ctx, c, MethodPolicy, &p)
}
