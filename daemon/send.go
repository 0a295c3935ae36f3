package daemon

import (
	"context"
	"errors"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

const (
	probeTime  = 5 * time.Second // for ping and discover, unless the caller says otherwise
	recipients = 16              // of one notify that are sent to at the same time
)

// resolve finds whom a caller means by PEER or PEER/AGENT.
func (d *Daemon) resolve(to string) (p identity.Peer, agent string, err error) {
	name, agent, _ := strings.Cut(to, "/")
	p, err = d.trust.Resolve(name)
	if err == nil {
		return p, agent, nil
	}
	if len(name) >= 6 && strings.HasPrefix(d.id.String(), name) {
		return p, "", kinds.Errorf(kinds.Invalid, "to: %s is this daemon itself: name a peer", name)
	}
	return p, "", kinds.Errorf(kinds.UnknownPeer, "to: %s", err)
}

// resolveAll finds the peers of a filter.
func (d *Daemon) resolveAll(names []string) ([]identity.ID, error) {
	if len(names) > maxFilter {
		return nil, kinds.Errorf(kinds.Invalid, "peers: %d are too many: at most %d", len(names), maxFilter)
	}
	ids := make([]identity.ID, 0, len(names))
	for _, name := range names {
		p, err := d.trust.Resolve(name)
		if err != nil {
			return nil, kinds.Errorf(kinds.UnknownPeer, "peers: %s", err)
		}
		ids = append(ids, p.ID)
	}
	return ids, nil
}

// compose makes the envelope of a call; package peer completes and checks it.
func (d *Daemon) compose(kind string, h *client.Head, to string, payload wire.Payload) (*wire.Envelope, identity.Peer, error) {
	p, agent, err := d.resolve(to)
	if err != nil {
		return nil, p, err
	}
	c, err := d.follow(h)
	if err != nil {
		return nil, p, err
	}
	id := h.ID
	if id.IsZero() {
		id = wire.NewMessageID()
	}
	return &wire.Envelope{ID: id, Kind: kind, Payload: payload, Agent: agent, Thread: c.thread, Hops: c.hops, Trace: c.trace}, p, nil
}

// follow returns what a message takes over from the one that led to it. Known are
// the exchanges that are open, what repeats remembers, and the tasks taken.
func (d *Daemon) follow(h *client.Head) (chain, error) {
	if h.Parent.IsZero() {
		return chain{thread: h.Thread}, nil
	}
	if h.Thread != "" {
		return chain{}, kinds.Errorf(kinds.Invalid, "thread: it follows from parent: leave one of them out")
	}
	c, ok := d.exchanges.find(h.Parent)
	if !ok {
		c, ok = d.repeats.find(h.Parent)
	}
	if !ok {
		t := d.tasks.find(h.Parent, client.Taken)
		if t == nil {
			return chain{}, kinds.Errorf(kinds.NotFound, "parent: %s is no inbound message that is still known: leave it out where the chain begins", h.Parent)
		}
		c = t.chain
	}
	c.hops++
	return c, nil
}

// exchange sends env and returns its reply.
func (d *Daemon) exchange(ctx context.Context, to identity.ID, env *wire.Envelope) (*wire.Envelope, time.Duration, error) {
	d.count.out(env.Kind)
	d.copyOut(to, env)
	reply, rtt, err := d.node.Exchange(ctx, to, env)
	if err != nil {
		return nil, rtt, err
	}
	d.count.in(reply.Kind)
	d.subscribers.copy(reply, client.In)
	return reply, rtt, nil
}

// send sends a message and, with wait, returns what its receipt says.
func (d *Daemon) send(ctx context.Context, to identity.ID, env *wire.Envelope, wait bool) (peer.Outcome, error) {
	d.count.out(env.Kind)
	d.copyOut(to, env)
	return d.node.Send(ctx, to, env, wait)
}

// copyOut is the copy for subscribers, as the envelope will be.
func (d *Daemon) copyOut(to identity.ID, env *wire.Envelope) {
	if d.subscribers.list() == nil {
		return
	}
	full := *env
	full.V, full.From, full.To, full.TS = wire.Version, d.id, to, uint64(time.Now().UnixMilli())
	d.subscribers.copy(&full, client.Out)
}

func answer(env, reply *wire.Envelope, rtt time.Duration) *client.Answer {
	return &client.Answer{ID: env.ID, From: reply.From, Kind: reply.Kind, RTTUS: uint64(rtt.Microseconds()), Payload: reply.Payload}
}

// within bounds a call by what its caller asked for.
func within(ctx context.Context, ms uint64) (context.Context, context.CancelFunc) {
	limit := probeTime
	if ms > 0 {
		limit = time.Duration(min(ms, uint64(kinds.MaxQueryDeadline.Milliseconds()))) * time.Millisecond
	}
	return context.WithTimeout(ctx, limit)
}

func (d *Daemon) ping(ctx context.Context, _ *session, p *client.PingParams) (any, error) {
	env, to, err := d.compose(kinds.KindPing, &p.Head, p.To, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := within(ctx, p.TimeoutMS)
	defer cancel()
	reply, rtt, err := d.exchange(ctx, to.ID, env)
	if err != nil {
		return nil, err
	}
	return answer(env, reply, rtt), nil
}

func (d *Daemon) query(ctx context.Context, _ *session, p *client.QueryParams) (any, error) {
	env, to, err := d.compose(kinds.KindQuery, &p.Head, p.To, p.Payload)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, deadlineOf(p.Payload))
	defer cancel()
	reply, rtt, err := d.exchange(ctx, to.ID, env)
	if err != nil {
		return nil, err
	}
	return answer(env, reply, rtt), nil
}

// deadlineOf returns a query's deadline. A payload that is not valid is refused
// where all of it is checked, with a better message.
func deadlineOf(payload wire.Payload) time.Duration {
	q, err := kinds.Parse[kinds.Query](payload)
	if err != nil || q.Deadline() > kinds.MaxQueryDeadline {
		return kinds.DefaultQueryDeadline
	}
	return q.Deadline()
}

func (d *Daemon) discover(ctx context.Context, _ *session, p *client.DiscoverParams) (any, error) {
	env, to, err := d.compose(kinds.KindDiscover, &p.Head, p.To, nil)
	if err != nil {
		return nil, err
	}
	about, connected := d.node.Peer(to.ID)
	key := discoveryKey{to.ID, env.Agent}
	if !p.Fresh && connected {
		if known := d.discoveries.get(key, about.Boot); known != nil {
			return known, nil
		}
	}
	ctx, cancel := within(ctx, p.TimeoutMS)
	defer cancel()
	reply, rtt, err := d.exchange(ctx, to.ID, env)
	if err != nil {
		return nil, err
	}
	found := answer(env, reply, rtt)
	if about, connected = d.node.Peer(to.ID); connected {
		d.discoveries.put(key, about.Boot, found)
	}
	return found, nil
}

// delegate gives a task to a peer: the entry exists before the first byte leaves,
// and the ack is on disk before the caller has it. A repeat of a call whose ack is
// known gets that; any other is sent again, and the peer knows it by its id.
func (d *Daemon) delegate(ctx context.Context, s *session, p *client.DelegateParams) (any, error) {
	env, to, err := d.compose(kinds.KindDelegate, &p.Head, p.To, p.Payload)
	if err != nil {
		return nil, err
	}
	row, _ := kinds.Lookup(kinds.KindDelegate)
	if err := row.CheckPayload(p.Payload); err != nil {
		return nil, err
	}
	what, err := kinds.Parse[kinds.Delegate](p.Payload)
	if err != nil {
		return nil, err
	}
	t := &task{
		direction: client.Given, peer: to.ID, id: env.ID, hash: contentOf(env), agent: s.name(),
		chain: chainOf(env), reports: what.Reports(), created: time.Now(),
	}
	if what.DeadlineMS > 0 {
		t.deadline = t.created.Add(what.Deadline())
	}
	hash := t.hash
	t, fresh, err := d.tasks.begin(ctx, t, what.Task)
	if err != nil {
		return nil, err
	}
	given := func(ack wire.Payload) *client.Delegated {
		return &client.Delegated{ID: env.ID, From: to.ID, Payload: ack}
	}
	if !fresh {
		if t.hash != hash {
			return nil, kinds.Errorf(kinds.Invalid, "id: %s was used for another delegate: a repeat has the same content, anything else needs an id of its own", env.ID)
		}
		if state, acked := d.tasks.stateOf(t); acked {
			ack, err := d.tasks.ackOf(ctx, t)
			if err != nil {
				return nil, err
			}
			d.log.Debug("repeat", "id", env.ID, "state", state)
			return given(ack), nil
		}
		if err := d.tasks.set(ctx, t, client.TaskSent); err != nil {
			return nil, err
		}
	}

	ctx, cancel := context.WithTimeout(ctx, ackTime)
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	defer d.tasks.abortable(t, abort)()
	reply, _, err := d.exchange(ctx, to.ID, env)
	if err != nil {
		return nil, d.notGiven(ctx, t, fresh, err)
	}
	ack, err := kinds.Parse[kinds.Ack](reply.Payload)
	if err != nil {
		return nil, err
	}
	state := client.TaskAccepted
	if !ack.Accepted {
		state = client.TaskRefused
	}
	if err := d.tasks.ack(ctx, t, state, reply.Payload); err != nil {
		return nil, err
	}
	return given(reply.Payload), nil
}

// errCancelled is why the exchange of a delegation ends that is cancelled before
// its ack.
var errCancelled = kinds.Errorf(kinds.Cancelled, "the delegation was cancelled before it was accepted")

// notGiven enters what is known of a delegation that has no ack, and returns the
// error for the caller.
func (d *Daemon) notGiven(ctx context.Context, t *task, fresh bool, err error) error {
	e := kinds.AsError(err)
	var fail error
	switch {
	case errors.Is(context.Cause(ctx), errCancelled):
		e = errCancelled
		_, fail = d.tasks.end(ctx, t, ending{state: client.TaskCancelled, outcome: e.Message})
	case e.Delivered() == kinds.DeliveredNo && fresh:
		fail = d.tasks.drop(ctx, t) // as if it had never been
	case e.Delivered() == kinds.DeliveredNo:
		fail = d.tasks.set(ctx, t, client.TaskUnknown) // what an earlier attempt did is
	case e.From != "":
		fail = d.tasks.refuse(ctx, t, e.Message)
	case e.Delivered() == "" && !e.Retryable && e.Code != kinds.Cancelled:
		fail = d.tasks.drop(ctx, t) // refused on this side
	default:
		fail = d.tasks.set(ctx, t, client.TaskUnknown)
	}
	if fail != nil {
		d.log.Error("delegation", "id", t.id, "err", fail)
	}
	return e
}

// cancel ends a delegation that was given: by ending its exchange while that has
// no answer, else by asking the peer.
func (d *Daemon) cancel(ctx context.Context, _ *session, p *client.CancelParams) (any, error) {
	t := d.tasks.find(p.Ref, client.Given)
	to := p.To
	if to == "" {
		if t == nil {
			return nil, kinds.Errorf(kinds.NotFound, "ref: %s names no delegation of this daemon: say in `to` whom it went to", p.Ref)
		}
		to = t.peer.String()
	}
	env, whom, err := d.compose(kinds.KindCancel, &p.Head, to, p.Payload)
	if err != nil {
		return nil, err
	}
	env.Ref = &p.Ref
	if t != nil && t.peer != whom.ID {
		return nil, kinds.Errorf(kinds.NotFound, "ref: the delegation %s went to %s, not to %s", p.Ref, d.nameOf(t.peer), whom.Name)
	}
	if t != nil {
		if state, _ := d.tasks.stateOf(t); final(state) {
			return &client.CancelAnswer{Ref: p.Ref, Payload: notAccepted(state)}, nil
		}
		if d.tasks.interrupt(t, errCancelled) {
			return &client.CancelAnswer{Ref: p.Ref, Payload: kinds.Encode(&kinds.Ack{Accepted: true})}, nil
		}
		env.Thread, env.Hops, env.Trace = t.chain.thread, t.chain.hops, t.chain.trace
	}
	ctx, cancel := context.WithTimeout(ctx, ackTime)
	defer cancel()
	reply, _, err := d.exchange(ctx, whom.ID, env)
	if err != nil {
		return nil, err
	}
	ack, err := kinds.Parse[kinds.Ack](reply.Payload)
	if err != nil {
		return nil, err
	}
	if t != nil && ack.Accepted {
		if err := d.cancelled(ctx, t, env); err != nil {
			return nil, err
		}
	}
	return &client.CancelAnswer{Ref: p.Ref, Payload: reply.Payload}, nil
}

// notify tells one peer, or several at the same time, each with a message of its own.
func (d *Daemon) notify(ctx context.Context, _ *session, p *client.NotifyParams) (any, error) {
	wait := p.Wait == nil || *p.Wait
	if !p.To.List {
		return d.notifyOne(ctx, &p.Head, p.To.Names[0], p.Payload, wait)
	}
	if !p.ID.IsZero() {
		return nil, kinds.Errorf(kinds.Invalid, "id: a list of recipients gets an id for each: leave it out, or notify one")
	}
	receipts := make([]client.Receipt, len(p.To.Names))
	var g errgroup.Group
	g.SetLimit(recipients)
	for i, to := range p.To.Names {
		g.Go(func() error {
			r, err := d.notifyOne(ctx, &p.Head, to, p.Payload, wait)
			if err != nil {
				r = &client.Receipt{Error: kinds.AsError(err)}
			}
			r.To = to
			receipts[i] = *r
			return nil
		})
	}
	g.Wait()
	return receipts, nil
}

func (d *Daemon) notifyOne(ctx context.Context, h *client.Head, name string, payload wire.Payload, wait bool) (*client.Receipt, error) {
	env, to, err := d.compose(kinds.KindNotify, h, name, payload)
	if err != nil {
		return nil, err
	}
	state, err := d.send(ctx, to.ID, env, wait)
	if err != nil {
		return nil, err
	}
	return &client.Receipt{ID: env.ID, State: string(state)}, nil
}

func (d *Daemon) result(ctx context.Context, _ *session, p *client.ResultParams) (any, error) {
	return d.reportTaken(ctx, kinds.KindResult, p)
}

func (d *Daemon) fail(ctx context.Context, _ *session, p *client.ResultParams) (any, error) {
	return d.reportTaken(ctx, kinds.KindError, p)
}

// reportTaken sends a result or an error of a task that was taken; whom to follows
// from ref, and so do thread and hops. The task is over when its owner has it.
func (d *Daemon) reportTaken(ctx context.Context, kind string, p *client.ResultParams) (any, error) {
	t := d.tasks.find(p.Ref, client.Taken)
	if t == nil {
		return nil, kinds.Errorf(kinds.NotFound, "ref: %s names no delegation that was taken here: it never came, or was long ago", p.Ref)
	}
	env := &wire.Envelope{
		ID: p.ID, Kind: kind, Ref: &p.Ref, Payload: p.Payload,
		Thread: t.chain.thread, Hops: t.chain.hops, Trace: t.chain.trace,
	}
	if env.ID.IsZero() {
		env.ID = wire.NewMessageID()
	}
	if state, _ := d.tasks.stateOf(t); final(state) && !d.tasks.repeated(t, env.ID) {
		return nil, kinds.Errorf(kinds.NotFound, "ref: the delegation %s is %s already: nothing more is expected", p.Ref, state)
	}
	state, err := d.send(ctx, t.peer, env, true)
	if e := (*kinds.Error)(nil); errors.As(err, &e) {
		if e.Code == kinds.NotFound && e.From != "" { // its owner has ended it
			if _, err := d.tasks.end(ctx, t, ending{state: client.TaskCancelled, id: env.ID, outcome: e.Message, payload: p.Payload}); err != nil {
				return nil, err
			}
		}
		return nil, e
	}
	if _, err := d.report(ctx, t, env); err != nil {
		return nil, err
	}
	return &client.Receipt{ID: env.ID, State: string(state)}, nil
}
