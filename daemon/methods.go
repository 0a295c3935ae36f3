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
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/disk"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// methods is the local API: every method, what serves it, and who may call it. It is
// the one place that decides that; what an agent gets of a method is then its own.
var methods = map[string]method{
	client.MethodPing:      {bindParams((*Daemon).servePing), forAgents},
	client.MethodDiscover:  {bindParams((*Daemon).serveDiscover), forAgents},
	client.MethodQuery:     {serveQuery, forAgents},
	client.MethodDelegate:  {keepPayloadText(bindParams((*Daemon).serveDelegate)), forAgents},
	client.MethodCancel:    {keepPayloadText(bindParams((*Daemon).serveCancel)), forAgents},
	client.MethodNotify:    {bindParams((*Daemon).serveNotify), forAgents},
	client.MethodResult:    {bindParams((*Daemon).serveResult), forAgents},
	client.MethodError:     {bindParams((*Daemon).serveError), forAgents},
	client.MethodWhoami:    {bindParams((*Daemon).serveWhoami), forAgents},
	client.MethodStatus:    {bindParams((*Daemon).serveStatus), forOwner},
	client.MethodBudget:    {bindParams((*Daemon).serveBudget), forOwner},
	client.MethodPeers:     {bindParams((*Daemon).servePeers), forAgents},
	client.MethodTasks:     {bindParams((*Daemon).serveTasks), forAgents},
	client.MethodTask:      {keepPayloadText(bindParams((*Daemon).serveTask)), forAgents},
	client.MethodWait:      {keepPayloadText(bindParams((*Daemon).serveWait)), forAgents},
	client.MethodInbox:     {keepPayloadText(bindParams((*Daemon).serveInbox)), forAgents},
	client.MethodShown:     {bindParams((*Daemon).serveShown), forAgents},
	client.MethodAck:       {spendReserve(bindParams((*Daemon).serveAck)), forAgents},
	client.MethodInvite:    {bindParams((*Daemon).serveInvite), forOwner},
	client.MethodJoin:      {bindParams((*Daemon).serveJoin), forOwner},
	client.MethodTrust:     {bindParams((*Daemon).serveTrust), forOwner},
	client.MethodUntrust:   {bindParams((*Daemon).serveUntrust), forOwner},
	client.MethodPending:   {bindParams((*Daemon).servePending), forOwner},
	client.MethodPolicy:    {bindParams((*Daemon).servePolicy), forOwner},
	client.MethodAttach:    {bindParams((*Daemon).serveAttach), forAgents},
	client.MethodSpeak:     {bindParams((*Daemon).serveSpeak), forAgents},
	client.MethodSubscribe: {bindParams((*Daemon).serveSubscribe), forOwner},

	client.MethodInvitations: {bindParams((*Daemon).serveInvitations), forOwner},
	client.MethodRevoke:      {bindParams((*Daemon).serveRevoke), forOwner},

	client.MethodOACPBind:     {bindParams((*Daemon).serveBind), forOwner},
	client.MethodOACPUnbind:   {spendReserve(bindParams((*Daemon).serveUnbind)), forOwner},
	client.MethodOACPBindings: {bindParams((*Daemon).serveBindings), forOwner},
	client.MethodOACPQueue:    {bindParams((*Daemon).serveQueue), forOwner},
	client.MethodOACPDrop:     {spendReserve(bindParams((*Daemon).serveDrop)), forOwner},
}

type method struct {
	methodFunc
	by callers
}

// callers are who may call a method.
type callers int

const (
	forOwner  callers = iota // whoever can open acp.sock in the state directory, who may call all
	forAgents                // and whoever can open the one in the agents' folder
)

type methodFunc func(context.Context, *localConn, *jsonrpc.Request) (any, error)

// noParams are the params of a method that has none.
type noParams = struct{}

// bindParams reads the params.
func bindParams[P any](f func(*Daemon, context.Context, *localConn, *P) (any, error)) methodFunc {
	return func(ctx context.Context, s *localConn, r *jsonrpc.Request) (any, error) {
		p := new(P)
		if err := r.Bind(p); err != nil {
			return nil, err
		}
		return f(s.daemon, ctx, s, p)
	}
}

// keepPayloadText keeps the texts of payloads in the result as their senders wrote them.
func keepPayloadText(f methodFunc) methodFunc {
	return func(ctx context.Context, s *localConn, r *jsonrpc.Request) (any, error) {
		result, err := f(ctx, s, r)
		if err != nil {
			return nil, err
		}
		return marshalRaw(result)
	}
}

func marshalRaw(v any) (jsontext.Value, error) {
	return json.Marshal(v, jsontext.PreserveRawStrings(true))
}

func (d *Daemon) describeSelf() client.Whoami {
	return client.Whoami{
		ID: d.id, Name: d.name, Version: d.options.Version, UptimeSecs: uint64(time.Since(d.started).Seconds()),
		Listen: d.node.LocalAddrs(), Home: string(d.home),
	}
}

func (d *Daemon) serveWhoami(_ context.Context, s *localConn, _ *noParams) (any, error) {
	me := d.describeSelf()
	if s.isGuest {
		me.Listen, me.Home = []string{}, ""
	}
	return me, nil
}

func (d *Daemon) serveStatus(ctx context.Context, _ *localConn, _ *noParams) (any, error) {
	d.space.requestLook(ctx)
	state, active, _ := d.agents.Summarize()
	if d.draining.Load() {
		state = "draining"
	}
	return &client.Status{
		Whoami: d.describeSelf(), State: state, PeersConnected: len(d.node.Peers()), Agents: d.agents.ListAgents(), TasksActive: active,
		Messages: client.MessageCount{In: copyCounts(d.count.received), Out: copyCounts(d.count.sent)}, Warnings: d.listWarnings(),
	}, nil
}

func (d *Daemon) serveSubscribe(_ context.Context, s *localConn, p *client.SubscribeParams) (any, error) {
	if len(p.Kinds) > maxFilter || len(p.Topics) > maxFilter || len(p.Events.Types) > maxFilter {
		return nil, kinds.Errorf(kinds.Invalid, "subscribe: at most %d kinds, topics and types", maxFilter)
	}
	for _, typ := range p.Events.Types {
		if all := client.EventTypes(); !slices.Contains(all, typ) {
			var names []string
			for _, t := range all {
				names = append(names, string(t))
			}
			return nil, kinds.Errorf(kinds.Invalid, "subscribe: events: %.64q: expected true, or some of %s", typ, strings.Join(names, ", "))
		}
	}
	peers, err := d.resolvePeers(p.Peers)
	if err != nil {
		return nil, err
	}
	d.subscribers.set(s.conn, &subscription{SubscribeParams: *p, conn: s.conn, peers: peers})
	return nil, nil
}

// lineRoom is how much of the lists of one answer fits its line: the rest is for
// what stands around them.
func (d *Daemon) lineRoom() int { return d.config.Load().MaxMessage + jsonrpc.LineMargin/2 }

// serveTasks lists delegations, the newest first, as many as fit.
func (d *Daemon) serveTasks(ctx context.Context, s *localConn, p *client.TasksParams) (any, error) {
	const few, most = 100, 1000
	if p.Limit < 0 {
		return nil, kinds.Errorf(kinds.Invalid, "tasks: limit: expected 1 or more")
	}
	limit := min(cmp.Or(p.Limit, few), most)
	all := d.delegations.List(s.guestCredential(), func(t *delegation.Delegation, _ client.TaskState) bool {
		return p.After == 0 || uint64(t.Row) < p.After
	})
	slices.SortFunc(all, func(a, b *delegation.Delegation) int { return cmp.Compare(b.Row, a.Row) })
	out := &client.Tasks{Tasks: []client.Task{}}
	room := d.lineRoom()
	for i, t := range all {
		row := d.describeDelegation(ctx, t, false)
		room -= 512 + wire.LongestJSON(row.Task) + wire.LongestJSON(row.Outcome)
		if i == limit || i > 0 && room < 0 {
			out.Next = uint64(all[i-1].Row)
			break
		}
		out.Tasks = append(out.Tasks, *row)
	}
	return out, nil
}

func (d *Daemon) findTask(s *localConn, id wire.MessageID) (*delegation.Delegation, error) {
	t := d.delegations.FindByID(s.guestCredential(), id, client.Given, client.Taken)
	switch {
	case t == nil && s.isGuest:
		return nil, kinds.Errorf(kinds.NotFound, "id: %s names no delegation that this agent has given or works on: see tasks", id)
	case t == nil:
		return nil, kinds.Errorf(kinds.NotFound, "id: %s names no delegation that was given or taken here: see tasks", id)
	}
	return t, nil
}

func (d *Daemon) serveTask(ctx context.Context, s *localConn, p *client.TaskParams) (any, error) {
	t, err := d.findTask(s, p.ID)
	if err != nil {
		return nil, err
	}
	return d.describeDelegation(ctx, t, true), nil
}

func (d *Daemon) serveWait(ctx context.Context, s *localConn, p *client.WaitParams) (any, error) {
	t, err := d.findTask(s, p.ID)
	if err != nil {
		return nil, err
	}
	waiting := ctx
	if p.TimeoutMS > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, time.Duration(min(p.TimeoutMS, uint64(kinds.MaxTaskDeadline.Milliseconds())))*time.Millisecond)
		defer cancel()
	}
	if err := d.delegations.Wait(waiting, t, p.AfterPartials); err != nil {
		return nil, explainCause(err)
	}
	return d.describeDelegation(ctx, t, true), nil
}

func (d *Daemon) serveInbox(ctx context.Context, s *localConn, p *client.InboxParams) (any, error) {
	var of *string
	if s.isGuest {
		if p.Taken {
			return nil, kinds.Errorf(kinds.NotAuthorized, "inbox: taken: what agents took is for whoever the daemon belongs to: leave it out")
		}
		as, err := s.requireAgent("inbox")
		if err != nil {
			return nil, err
		}
		of = &as.Name
	}
	peers, err := d.resolveFilter(p.Kinds, p.Peers)
	if err != nil {
		return nil, err
	}
	if p.Limit < 0 {
		return nil, kinds.Errorf(kinds.Invalid, "inbox: limit: expected 1 or more")
	}
	answer, err := d.inbox.List(ctx, p, of, peers, d.lineRoom())
	if err != nil {
		return nil, err
	}
	d.saveSeen(ctx)
	return answer, nil
}

func (d *Daemon) saveSeen(ctx context.Context) {
	if err := d.inbox.SaveSeen(ctx); err != nil {
		d.log.Warn("inbox: what was read is not marked on disk yet", "err", err)
	}
}

func (d *Daemon) serveShown(ctx context.Context, s *localConn, p *client.ShownParams) (any, error) {
	if len(p.Seqs) == 0 || len(p.Seqs) > inbox.MaxListed {
		return nil, kinds.Errorf(kinds.Invalid, "shown: seqs: expected 1 to %d", inbox.MaxListed)
	}
	var of *string
	if s.isGuest {
		as, err := s.requireAgent("shown")
		if err != nil {
			return nil, err
		}
		of = &as.Name
	}
	if err := d.inbox.MarkShown(ctx, p.Seqs, of); err != nil {
		return nil, err
	}
	d.saveSeen(ctx)
	return noParams{}, nil
}

func (d *Daemon) resolveFilter(names, peers []string) ([]identity.ID, error) {
	if len(names) > maxFilter {
		return nil, kinds.Errorf(kinds.Invalid, "kinds: %d are too many: at most %d", len(names), maxFilter)
	}
	return d.resolvePeers(peers)
}

func (d *Daemon) serveAck(ctx context.Context, s *localConn, p *client.AckParams) (any, error) {
	if (len(p.IDs) > 0) == (p.UpTo > 0) || len(p.IDs) > 0 && (len(p.Kinds) > 0 || len(p.Peers) > 0) {
		return nil, kinds.Errorf(kinds.Invalid, "ack: expected either ids, or up_to with the filter that inbox was called with")
	}
	peers, err := d.resolveFilter(p.Kinds, p.Peers)
	if err != nil {
		return nil, err
	}
	var n int
	if s.isGuest {
		as, fail := s.requireAgent("ack")
		if fail != nil {
			return nil, fail
		}
		n, err = d.inbox.AcknowledgeAsAgent(ctx, p, as.Name, peers)
	} else {
		n, err = d.inbox.AcknowledgeAsOwner(ctx, p, peers)
	}
	if err != nil {
		return nil, err
	}
	return &client.Acked{Removed: n}, nil
}

func (d *Daemon) servePolicy(_ context.Context, _ *localConn, p *client.PolicyParams) (any, error) {
	who, err := d.trust.Resolve(p.Peer)
	if err != nil {
		return nil, kinds.Errorf(kinds.UnknownPeer, "peer: %s", err)
	}
	if !config.IsKind(p.Kind) {
		return nil, kinds.Errorf(kinds.Invalid, "policy: kind: %.64q is none: expected one of %s", p.Kind, strings.Join(config.Kinds(), ", "))
	}
	decision := d.permissions.decide(who, p.Kind, p.Domain)
	return &client.Policy{Allowed: decision.Allowed, Rule: decision.Rule}, nil
}

// explainTrustError makes an error of the trust store one for the caller.
func explainTrustError(op string, err error) error {
	_, unknown := errors.AsType[*identity.UnknownPeerError](err)
	_, ambiguous := errors.AsType[*identity.AmbiguousError](err)
	_, taken := errors.AsType[*identity.NameTakenError](err)
	code := kinds.Internal
	switch {
	case unknown, ambiguous:
		code = kinds.UnknownPeer
	case taken:
		code = kinds.Invalid
	case errors.Is(err, identity.ErrTrustFull), errors.Is(err, identity.ErrInvitationsFull), disk.IsFull(err):
		code = kinds.Overloaded
	}
	text := err.Error()
	if !strings.HasPrefix(text, op) {
		text = op + ": " + text
	}
	if disk.IsFull(err) && !strings.Contains(text, "free some space") {
		text += ": free some space on the disk of the state directory, then try again"
	}
	return kinds.Errorf(code, "%s", text)
}
