package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// Client calls a daemon. The zero value is ready: it connects with its first call, and
// again after the connection broke. Any number of goroutines may use it.
//
// If the connection breaks during a call, the call fails with daemon_unavailable; the details
// of the error say whether the message may have been delivered. The client never repeats such
// a message. The caller may repeat it with the same id.
//
// Errors are, or wrap, a *kinds.Error, a *jsonrpc.Error if the call or its answer was malformed, or
// the error of the context. Attach also returns a plain error if an agent is attached already.
type Client struct {
	// Socket is the path of the daemon's socket. If it is "", the client uses the one that
	// $ACP_SOCKET names, or if that is not set, the one for agents in [Home]. A program that
	// administers the daemon sets it to the owner's socket, acp.sock in [Home].
	Socket string
	// SpeakAs names an agent that another client has attached: this client makes its calls as
	// that agent. It is ignored while this client has an agent of its own. The zero value
	// names no agent.
	SpeakAs SpeakParams
	// Patience is how long the daemon may be silent. If it is 0, every call waits as long as
	// its context.
	//
	// A call that the daemon answers by itself, such as attach and subscribe, fails with
	// daemon_unavailable if the answer takes longer. A call that waits for a peer, or for a
	// delegation, continues as long as the daemon lives: the client asks it, by whoami. The
	// call fails with daemon_unavailable if that answer takes longer, but not before 2 s
	// after the call's own deadline. Wait has no deadline in this sense.
	Patience time.Duration

	mu            sync.Mutex
	conn          *jsonrpc.Conn
	handlersEnded chan struct{}  // closed when the handlers of the last connection and of all before it have returned
	agent         *attachedAgent // the agent that Attach keeps attached; nil: none
	agentOnConn   bool           // agent is attached on conn
	connecting    chan struct{}  // closed when the goroutine that connects is done; nil: none does
}

// Close ends the connection and waits for the handlers of an attached agent. A later call
// opens a new connection, and so does an Attach that is under way: end its context to stop
// it. Subscribe has a connection of its own, which stays. A handler must not call Close, which
// would wait for that handler for ever.
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

// connect returns the connection, with the agent attached if there is one.
func (c *Client) connect(ctx context.Context) (*jsonrpc.Conn, error) {
	for {
		c.mu.Lock()
		conn, agent := c.conn, c.agent
		if conn != nil && !conn.CanCall() {
			conn, c.agentOnConn = nil, false
		}
		if conn != nil && (agent == nil || c.agentOnConn && agent.declared == agent.session) {
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

		conn, err := c.openAndAttach(ctx, conn, agent)

		c.mu.Lock()
		agentGone := agent != nil && agent != c.agent // it has detached meanwhile
		if err == nil && !agentGone {
			c.conn, c.agentOnConn = conn, agent != nil
		}
		close(c.connecting)
		c.connecting = nil
		c.mu.Unlock()
		if agentGone && err == nil {
			conn.Close()
			continue
		}
		return conn, err
	}
}

// openAndAttach attaches agent, unless it is nil, to conn. If conn is nil, it opens a
// connection, which speaks as c.SpeakAs without an agent. It runs in one goroutine at a time.
// After an error it closes a connection that it has opened.
func (c *Client) openAndAttach(ctx context.Context, conn *jsonrpc.Conn, agent *attachedAgent) (*jsonrpc.Conn, error) {
	fresh := conn == nil
	if fresh {
		socket, err := dialSocket(ctx, c.Socket, SocketName)
		if err != nil {
			return nil, err
		}
		conn = jsonrpc.NewConn(socket, jsonrpc.Options{Handler: c.serveRequest})
		c.startConn(conn)
	}
	var err error
	switch {
	case agent != nil:
		// Only one goroutine at a time is here, so the params are its own. Key reads agent.key.
		c.mu.Lock()
		agent.params.Session = agent.session
		agent.declared = agent.session // also if the daemon refuses it: then calls go on as before
		c.mu.Unlock()
		var got Attached
		if err = c.callOnConn(ctx, conn, MethodAttach, &agent.params, &got); err == nil {
			agent.params.Key = got.Key
			c.mu.Lock()
			agent.key = got.Key
			c.mu.Unlock()
		}
	case fresh && c.SpeakAs != SpeakParams{}:
		err = c.callOnConn(ctx, conn, MethodSpeak, &c.SpeakAs, nil)
	}
	if err == nil {
		return conn, nil
	}
	if fresh {
		conn.Close()
	}
	return nil, err
}

// A method is called by one of these:
//   - callOnConn, on a connection that is being made ready: attach, speak, subscribe;
//   - callBounded, if the daemon answers by itself;
//   - callForPeer, if the daemon asks a peer;
//   - callWhileDaemonAlive, for wait, and within callForPeer.
//
// All but callOnConn use callMethod, which connects if need be and has no bound but ctx.

// callOnConn calls a method that the daemon answers by itself, on conn, which other calls may
// use too. It waits for Patience at most; if that is 0, as long as ctx.
func (c *Client) callOnConn(ctx context.Context, conn *jsonrpc.Conn, method string, params, result any) error {
	err := conn.CallFor(ctx, identity.ID{}, c.Patience, method, params, result)
	switch {
	case c.Patience > 0 && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return c.newSilenceError(method, c.Patience)
	case errors.Is(err, jsonrpc.ErrClosed):
		return newUnavailableError(true, "%s: the daemon went away", method)
	}
	return explainOlderDaemon(method, err)
}

// Key returns the key of the attached agent. It is a secret: with it in [Client.SpeakAs] another
// client speaks as the agent. It is "" before the agent was first attached, and after Attach has
// returned.
func (c *Client) Key() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agent == nil {
		return ""
	}
	return c.agent.key
}

// startConn runs conn in a goroutine. It sets c.handlersEnded to a channel that is closed when
// the handlers of conn, and of all connections before it, have returned.
func (c *Client) startConn(conn *jsonrpc.Conn) {
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

// callMethod calls a method. If the connection turns out to be dead before anything was sent,
// callMethod replaces it once.
func (c *Client) callMethod(ctx context.Context, method string, params, result any) error {
	for mayRetry := true; ; mayRetry = false {
		conn, err := c.connect(ctx)
		if err == nil {
			err = explainOlderDaemon(method, conn.Call(ctx, method, params, result))
		}
		e, ok := errors.AsType[*kinds.Error](err)
		if !ok || !errors.Is(err, jsonrpc.ErrClosed) {
			return err
		}
		if e.Delivered() == kinds.DeliveredUnknown {
			return kinds.Errorf(kinds.DaemonUnavailable, "%s: the daemon went away before it answered: "+
				"whether the call took effect is unknown; %s", method, adviseRepeat(method)).WithDelivered(kinds.DeliveredUnknown)
		}
		if !mayRetry {
			return newUnavailableError(true, "%s: the daemon closes the connection at once: look at its log", method)
		}
	}
}

// callBounded calls a method that the daemon answers by itself. It waits for Patience at most;
// if that is 0, as long as ctx. The result is not nil, even with an error.
func callBounded[R any](ctx context.Context, c *Client, method string, params any) (*R, error) {
	return callWithin[R](ctx, c, c.Patience, method, params)
}

// callWithin is callBounded with another bound than Patience.
func callWithin[R any](ctx context.Context, c *Client, limit time.Duration, method string, params any) (*R, error) {
	bounded := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	r := new(R)
	err := c.callMethod(bounded, method, params, r)
	if limit > 0 && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = c.newSilenceError(method, limit)
	}
	return r, err
}

// callForPeer calls a method for which the daemon asks a peer, within deadline. It refuses a
// payload that is neither empty nor one JSON object; the daemon judges the rest. The result is
// not nil, even with an error.
func callForPeer[R any](ctx context.Context, c *Client, deadline time.Duration, method string, params any, payload wire.Payload) (*R, error) {
	r := new(R)
	if err := checkPayloadIsObject(payload); err != nil {
		return r, err
	}
	return r, c.callWhileDaemonAlive(ctx, deadline+grace, method, params, r)
}

// checkPayloadIsObject returns an error unless the payload is empty or one JSON object.
func checkPayloadIsObject(payload wire.Payload) error {
	if len(payload) > 0 && !jsonscan.IsObject(payload) {
		return kinds.Errorf(kinds.Invalid, "payload: expected one JSON object")
	}
	return nil
}

// Ping asks a peer's daemon for a sign of life, and waits for it as long as p.TimeoutMS says,
// 5 s if that is 0.
func (c *Client) Ping(ctx context.Context, p PingParams) (*PingAnswer, error) {
	return callForPeer[PingAnswer](ctx, c, timeoutOrDefault(p.TimeoutMS, kinds.ProbeDeadline), MethodPing, &p, nil)
}

// Discover asks what a peer's agents can do, and waits for the answer as long as p.TimeoutMS
// says, 5 s if that is 0. An answer of the last minute may be returned; p.Fresh prevents it.
func (c *Client) Discover(ctx context.Context, p DiscoverParams) (*Answer, error) {
	return callForPeer[Answer](ctx, c, timeoutOrDefault(p.TimeoutMS, kinds.ProbeDeadline), MethodDiscover, &p, nil)
}

// Query asks a peer's agent a question and waits for the response, until the deadline that
// the payload names, or for 30 s. With p.Ref it asks back: the question goes to the agent that
// gave the delegation. That may take its time: after timeout or unreachable, repeat the call with the
// same id. It returns at once if the answer was given meanwhile.
func (c *Client) Query(ctx context.Context, p QueryParams) (*Answer, error) {
	var deadline time.Duration
	if c.Patience > 0 { // nothing else needs the deadline, and parsing the payload costs
		deadline = parseQueryTimeout(p.Payload)
	}
	return callFromHandler(ctx, &p.Head, func() (*Answer, error) {
		return callForPeer[Answer](ctx, c, deadline, MethodQuery, &p, p.Payload)
	})
}

// Delegate gives a peer's agent a task and waits for its answer, a kinds.Ack, for at most 30 s.
// [Client.Wait] waits for the end of the delegation.
func (c *Client) Delegate(ctx context.Context, p DelegateParams) (*DelegateAnswer, error) {
	var deadline time.Duration
	if c.Patience > 0 { // as in Query
		deadline = parseDelegateTimeout(p.Payload)
	}
	return callFromHandler(ctx, &p.Head, func() (*DelegateAnswer, error) {
		return callForPeer[DelegateAnswer](ctx, c, deadline, MethodDelegate, &p, p.Payload)
	})
}

// Cancel asks a peer's agent to end a delegation and waits for its answer, a kinds.Ack, 30 s at
// most. The delegation ends later; see [Client.Wait].
func (c *Client) Cancel(ctx context.Context, p CancelParams) (*CancelAnswer, error) {
	return callForPeer[CancelAnswer](ctx, c, kinds.AckDeadline, MethodCancel, &p, p.Payload)
}

// Notify sends a notice to one peer: p.To is what [To] returns. It waits for the receipt for at most 5 s,
// unless p.Wait is false.
func (c *Client) Notify(ctx context.Context, p NotifyParams) (*Receipt, error) {
	p.To.List = false
	return callFromHandler(ctx, &p.Head, func() (*Receipt, error) {
		return callForPeer[Receipt](ctx, c, kinds.ReceiptDeadline, MethodNotify, &p, p.Payload)
	})
}

// NotifyAll sends a message to each of several peers: p.To is [ToAll] of them. It waits like
// [Client.Notify]. The receipts are in the order of p.To. A receipt may hold an error
// though NotifyAll returns none.
func (c *Client) NotifyAll(ctx context.Context, p NotifyParams) ([]Receipt, error) {
	p.To.List = true
	r, err := callFromHandler(ctx, &p.Head, func() (*[]Receipt, error) {
		return callForPeer[[]Receipt](ctx, c, kinds.ReceiptDeadline, MethodNotify, &p, p.Payload)
	})
	return *r, err
}

// SendResult sends a partial or the final result of the delegation p.Ref, which this daemon's
// agents have taken, and waits for the receipt, 5 s at most. Before, a partial result waits
// for its turn: four of a delegation leave in a second. If another call brings a newer one
// meanwhile, that leaves instead, and the state of the older one is [Replaced].
func (c *Client) SendResult(ctx context.Context, p ResultParams) (*Receipt, error) {
	return callForPeer[Receipt](ctx, c, kinds.ReceiptDeadline, MethodResult, &p, p.Payload)
}

// SendError ends the delegation p.Ref, which this daemon's agents have taken, with an error, and
// waits for the receipt, 5 s at most.
func (c *Client) SendError(ctx context.Context, p ResultParams) (*Receipt, error) {
	return callForPeer[Receipt](ctx, c, kinds.ReceiptDeadline, MethodError, &p, p.Payload)
}

// Whoami returns the daemon's id, name, version, addresses and state directory.
func (c *Client) Whoami(ctx context.Context) (*Whoami, error) {
	return callBounded[Whoami](ctx, c, MethodWhoami, nil)
}

// Status returns what Whoami does, and the daemon's load, attached agents, counts of messages
// and warnings.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	return callBounded[Status](ctx, c, MethodStatus, nil)
}

// SessionState returns what waits for the attached agent, or for the one that the client
// speaks as, and what the daemon's owner should know of it.
func (c *Client) SessionState(ctx context.Context) (*SessionState, error) {
	return callBounded[SessionState](ctx, c, MethodSession, nil)
}

// Budget returns the limits on what peers may use of the daemon, and what each uses now.
func (c *Client) Budget(ctx context.Context) (*Budget, error) {
	return callBounded[Budget](ctx, c, MethodBudget, nil)
}

// BudgetOf returns what Budget does, and what only one peer uses.
func (c *Client) BudgetOf(ctx context.Context, peer string) (*Budget, error) {
	return callBounded[Budget](ctx, c, MethodBudget, &BudgetParams{Peer: peer})
}

// ReserveRun takes from the day's budget of a peer what a headless run may cost. If the budget
// does not hold that, the error is overloaded. [Client.SettleRun] gives back what the run did
// not use.
func (c *Client) ReserveRun(ctx context.Context, p ReserveParams) (*Reserved, error) {
	return callBounded[Reserved](ctx, c, MethodBudgetReserve, &p)
}

// SettleRun says what a run has cost that [Client.ReserveRun] has reserved.
func (c *Client) SettleRun(ctx context.Context, p SettleParams) error {
	_, err := callBounded[struct{}](ctx, c, MethodBudgetSettle, &p)
	return err
}

// Spent returns what headless runs have cost, and what they may cost on one day.
func (c *Client) Spent(ctx context.Context, p SpentParams) (*Spent, error) {
	return callBounded[Spent](ctx, c, MethodBudgetSpent, &p)
}

// Peers returns all peers that the daemon knows of, strangers included.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	r, err := callBounded[Peers](ctx, c, MethodPeers, nil)
	return r.Peers, err
}

// Tasks returns the delegations, given and taken, the newest first. It asks page by page, so
// a delegation that changes meanwhile may be returned as it was.
func (c *Client) Tasks(ctx context.Context) ([]Task, error) {
	var all []Task
	for p := (TasksParams{}); ; {
		r, err := c.TasksPage(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, r.Tasks...)
		if p.After = r.Next; p.After == 0 {
			return all, nil
		}
	}
}

// TasksPage returns a page of what Tasks returns. For the page that follows, set p.After to its Next.
func (c *Client) TasksPage(ctx context.Context, p TasksParams) (*Tasks, error) {
	return callBounded[Tasks](ctx, c, MethodTasks, &p)
}

// Task returns one delegation, with its payloads.
func (c *Client) Task(ctx context.Context, id wire.MessageID) (*Task, error) {
	return callBounded[Task](ctx, c, MethodTask, &TaskParams{ID: id})
}

// Answer answers the question that the agent which works on a delegation has asked back. The
// answer is on disk when Answer returns: the one that asked has it then, or gets it when it
// repeats its question.
func (c *Client) Answer(ctx context.Context, p AnswerParams) (*Answered, error) {
	if err := checkPayloadIsObject(p.Payload); err != nil {
		return nil, err
	}
	return callBounded[Answered](ctx, c, MethodAnswer, &p)
}

// Wait waits until a delegation is final, has more partial results than p.AfterPartials, or a
// question beyond the first p.AfterQuestions waits for an answer.
// If p.TimeoutMS passes first, the error is timeout.
func (c *Client) Wait(ctx context.Context, p WaitParams) (*Task, error) {
	t := new(Task)
	return t, c.callWhileDaemonAlive(ctx, c.Patience, MethodWait, &p, t)
}

// Inbox returns a page of the messages that the inbox holds, or with p.Taken of those that
// agents took from it, and removes none. For the page that follows, set p.After to its Next.
func (c *Client) Inbox(ctx context.Context, p InboxParams) (*Inbox, error) {
	return callBounded[Inbox](ctx, c, MethodInbox, &p)
}

// MarkShown tells the daemon that messages which Inbox has returned with Peek were shown: from
// then on Ack may remove them.
func (c *Client) MarkShown(ctx context.Context, p ShownParams) error {
	_, err := callBounded[struct{}](ctx, c, MethodShown, &p)
	return err
}

// Ack removes messages from the inbox: those that p selects and Inbox has returned. It has
// nothing to do with a kinds.Ack, the answer to delegate and cancel. What Inbox returned with
// Peek counts only when [Client.MarkShown] has named it.
func (c *Client) Ack(ctx context.Context, p AckParams) (*Acked, error) {
	return callBounded[Acked](ctx, c, MethodAck, &p)
}

// Probe dials each address of a trusted peer, and returns what answers there. If it has a pipe, that
// is started. It blocks for some seconds where nothing answers, for up to 20 where a command logs in.
func (c *Client) Probe(ctx context.Context, peer string) ([]ProbedAddr, error) {
	r, err := callForPeer[Probe](ctx, c, kinds.PipeProbeDeadline, MethodProbe, &ProbeParams{Peer: peer}, nil)
	return r.Addrs, err
}

// Policy returns whether the configuration allows a peer to send a kind of message, and which
// rule decides.
func (c *Client) Policy(ctx context.Context, p PolicyParams) (*Policy, error) {
	return callBounded[Policy](ctx, c, MethodPolicy, &p)
}

// Certificate returns the certificate that the daemon shows to others, and the authorities whose certificates
// are valid there; with a file, the certificate in it.
func (c *Client) Certificate(ctx context.Context, p CertificateParams) (*Certificates, error) {
	return callBounded[Certificates](ctx, c, MethodCertificate, &p)
}
