package daemon

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// methods is the local API: every method and what serves it.
var methods = map[string]method{
	client.MethodPing:      with((*Daemon).ping),
	client.MethodDiscover:  with((*Daemon).discover),
	client.MethodQuery:     queryPeer,
	client.MethodDelegate:  spliced(with((*Daemon).delegate)),
	client.MethodCancel:    spliced(with((*Daemon).cancel)),
	client.MethodNotify:    with((*Daemon).notify),
	client.MethodResult:    with((*Daemon).result),
	client.MethodError:     with((*Daemon).fail),
	client.MethodWhoami:    with((*Daemon).whoami),
	client.MethodStatus:    with((*Daemon).status),
	client.MethodPeers:     with((*Daemon).peers),
	client.MethodTasks:     with((*Daemon).listTasks),
	client.MethodTask:      spliced(with((*Daemon).task)),
	client.MethodWait:      spliced(with((*Daemon).wait)),
	client.MethodInbox:     spliced(with((*Daemon).listInbox)),
	client.MethodAck:       with((*Daemon).ack),
	client.MethodInvite:    with((*Daemon).invite),
	client.MethodJoin:      with((*Daemon).join),
	client.MethodTrust:     with((*Daemon).trustPeer),
	client.MethodUntrust:   with((*Daemon).untrust),
	client.MethodPending:   with((*Daemon).pending),
	client.MethodPolicy:    with((*Daemon).policy),
	client.MethodAttach:    with((*Daemon).attach),
	client.MethodSubscribe: with((*Daemon).subscribe),

	client.MethodOACPBind:     with((*Daemon).oacpBind),
	client.MethodOACPUnbind:   with((*Daemon).oacpUnbind),
	client.MethodOACPBindings: with((*Daemon).oacpBindings),
	client.MethodOACPQueue:    with((*Daemon).oacpQueue),
	client.MethodOACPDrop:     with((*Daemon).oacpDrop),
}

type method func(context.Context, *session, *client.Request) (any, error)

// none are the params of a method that has none.
type none = struct{}

// with reads the params.
func with[P any](f func(*Daemon, context.Context, *session, *P) (any, error)) method {
	return func(ctx context.Context, s *session, r *client.Request) (any, error) {
		p := new(P)
		if err := r.Bind(p); err != nil {
			return nil, err
		}
		return f(s.daemon, ctx, s, p)
	}
}

// spliced keeps the texts of payloads in the result as their senders wrote them.
func spliced(m method) method {
	return func(ctx context.Context, s *session, r *client.Request) (any, error) {
		result, err := m(ctx, s, r)
		if err != nil {
			return nil, err
		}
		return splice(result)
	}
}

func splice(v any) (jsontext.Value, error) { return json.Marshal(v, jsontext.PreserveRawStrings(true)) }

func (d *Daemon) describeSelf() client.Whoami {
	return client.Whoami{
		ID: d.id, Name: d.name, Version: d.options.Version, UptimeSecs: uint64(time.Since(d.started).Seconds()),
		Listen: d.node.LocalAddrs(), Home: string(d.home),
	}
}

func (d *Daemon) whoami(context.Context, *session, *none) (any, error) {
	return d.describeSelf(), nil
}

func (d *Daemon) status(context.Context, *session, *none) (any, error) {
	state, active, _ := d.agents.summary()
	if d.draining.Load() {
		state = "draining"
	}
	return &client.Status{
		Whoami: d.describeSelf(), State: state, PeersConnected: len(d.node.Peers()), Agents: d.agents.list(), TasksActive: active,
		Messages: client.MessageCount{In: sums(d.count.received), Out: sums(d.count.sent)},
	}, nil
}

// attach makes the connection answer. Tasks that waited for an agent of this name
// have it again.
func (d *Daemon) attach(_ context.Context, s *session, p *client.AttachParams) (any, error) {
	a, replaced, err := d.agents.attach(s.conn, *p)
	if err != nil {
		return nil, err
	}
	for _, old := range replaced {
		if old.Name != a.Name {
			d.tasks.attend(old.Name)
		}
		if old.conn != s.conn {
			old.conn.Close() // it would wait for messages in vain
		}
	}
	d.tasks.attend(a.Name)
	d.log.Info("agent attached", "agent", a.Name, "domains", a.Domains, "kinds", a.Kinds)
	return nil, nil
}

func (d *Daemon) subscribe(_ context.Context, s *session, p *client.SubscribeParams) (any, error) {
	if len(p.Kinds) > maxFilter || len(p.Topics) > maxFilter || len(p.Events.Types) > maxFilter {
		return nil, kinds.Errorf(kinds.Invalid, "subscribe: at most %d kinds, topics and types", maxFilter)
	}
	for _, typ := range p.Events.Types {
		if all := client.EventTypes(); !slices.Contains(all, typ) {
			return nil, kinds.Errorf(kinds.Invalid, "subscribe: events: %.64q: expected true, or some of %s", typ, strings.Join(all, ", "))
		}
	}
	peers, err := d.resolveAll(p.Peers)
	if err != nil {
		return nil, err
	}
	d.subscribers.set(s.conn, &subscription{SubscribeParams: *p, conn: s.conn, peers: peers})
	return nil, nil
}

// lineRoom is how much of the lists of one answer fits its line: the rest is for
// what stands around them.
func (d *Daemon) lineRoom() int { return d.config.Load().MaxMessage + client.LineMargin/2 }

// listTasks lists delegations, the newest first, as many as fit.
func (d *Daemon) listTasks(ctx context.Context, _ *session, p *client.TasksParams) (any, error) {
	const few, most = 100, 1000
	if p.Limit < 0 {
		return nil, kinds.Errorf(kinds.Invalid, "tasks: limit: expected 1 or more")
	}
	limit := min(cmp.Or(p.Limit, few), most)
	all := d.tasks.list(func(t *task) bool { return p.After == 0 || uint64(t.row) < p.After })
	slices.SortFunc(all, func(a, b *task) int { return cmp.Compare(b.row, a.row) })
	out := &client.Tasks{Tasks: []client.Task{}}
	room := d.lineRoom()
	for i, t := range all {
		row := d.describe(ctx, t, false)
		room -= 512 + longestJSON(row.Task) + longestJSON(row.Outcome)
		if i == limit || i > 0 && room < 0 {
			out.Next = uint64(all[i-1].row)
			break
		}
		out.Tasks = append(out.Tasks, *row)
	}
	return out, nil
}

// longestJSON is how long a text can be as JSON: \u0000 for each byte.
func longestJSON(s string) int { return len(`\u0000`) * len(s) }

func (d *Daemon) findTask(id wire.MessageID) (*task, error) {
	t := d.tasks.find(id, client.Given, client.Taken)
	if t == nil {
		return nil, kinds.Errorf(kinds.NotFound, "id: %s names no delegation of this daemon's", id)
	}
	return t, nil
}

func (d *Daemon) task(ctx context.Context, _ *session, p *client.TaskParams) (any, error) {
	t, err := d.findTask(p.ID)
	if err != nil {
		return nil, err
	}
	return d.describe(ctx, t, true), nil
}

func (d *Daemon) wait(ctx context.Context, _ *session, p *client.WaitParams) (any, error) {
	t, err := d.findTask(p.ID)
	if err != nil {
		return nil, err
	}
	waiting := ctx
	if p.TimeoutMS > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, time.Duration(min(p.TimeoutMS, uint64(kinds.MaxTaskDeadline.Milliseconds())))*time.Millisecond)
		defer cancel()
	}
	if err := d.tasks.wait(waiting, t, p.AfterPartials); err != nil {
		return nil, err
	}
	return d.describe(ctx, t, true), nil
}

func (d *Daemon) listInbox(ctx context.Context, _ *session, p *client.InboxParams) (any, error) {
	peers, err := d.filter(p.Kinds, p.Peers)
	if err != nil {
		return nil, err
	}
	if p.Limit < 0 {
		return nil, kinds.Errorf(kinds.Invalid, "inbox: limit: expected 1 or more")
	}
	answer, err := d.inbox.list(ctx, p, peers, d.lineRoom())
	if err != nil {
		return nil, err
	}
	if err := d.inbox.mark(ctx); err != nil {
		d.log.Warn("inbox: what was read is not marked on disk yet", "err", err)
	}
	return answer, nil
}

func (d *Daemon) filter(names, peers []string) ([]identity.ID, error) {
	if len(names) > maxFilter {
		return nil, kinds.Errorf(kinds.Invalid, "kinds: %d are too many: at most %d", len(names), maxFilter)
	}
	return d.resolveAll(peers)
}

func (d *Daemon) ack(ctx context.Context, _ *session, p *client.AckParams) (any, error) {
	if (len(p.IDs) > 0) == (p.UpTo > 0) || len(p.IDs) > 0 && (len(p.Kinds) > 0 || len(p.Peers) > 0) {
		return nil, kinds.Errorf(kinds.Invalid, "ack: expected either ids, or up_to with the filter that inbox was called with")
	}
	peers, err := d.filter(p.Kinds, p.Peers)
	if err != nil {
		return nil, err
	}
	n, err := d.inbox.ack(ctx, p, peers)
	if err != nil {
		return nil, err
	}
	return &client.Acked{Removed: n}, nil
}

func (d *Daemon) policy(_ context.Context, _ *session, p *client.PolicyParams) (any, error) {
	who, err := d.trust.Resolve(p.Peer)
	if err != nil {
		return nil, kinds.Errorf(kinds.UnknownPeer, "peer: %s", err)
	}
	decision := d.gate.decide(who, p.Kind, p.Domain)
	return &client.Policy{Allowed: decision.Allowed, Rule: decision.Rule}, nil
}

// coded makes an error of the trust store one for the caller.
func coded(op string, err error) error {
	var unknown *identity.UnknownPeerError
	var ambiguous *identity.AmbiguousError
	var taken *identity.NameTakenError
	code := kinds.Internal
	switch {
	case errors.As(err, &unknown), errors.As(err, &ambiguous):
		code = kinds.UnknownPeer
	case errors.As(err, &taken):
		code = kinds.Invalid
	case errors.Is(err, identity.ErrTrustFull), errors.Is(err, identity.ErrInvitationsFull):
		code = kinds.Overloaded
	}
	text := err.Error()
	if !strings.HasPrefix(text, op) {
		text = op + ": " + text
	}
	return kinds.Errorf(code, "%s", text)
}
