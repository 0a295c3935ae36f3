package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/inbox"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// onDelegate hands a task to an agent and enters it as taken, on disk before the
// ack leaves. A connection that is lost meanwhile does not end it: its sender does
// not know then, and may repeat; only a sender that gives up cancels.
func (d *Daemon) onDelegate(ctx context.Context, sender identity.Peer, env *wire.Envelope, hash inbox.Digest) (inbox.Outcome, bool) {
	if t := d.delegations.Find(client.Taken, sender.ID, env.ID); t != nil {
		return d.answerRepeat(ctx, t, hash), true
	}
	p, err := kinds.Parse[kinds.Delegate](env.Payload)
	if err != nil {
		return refused(err)
	}
	if err := d.permissions.check(sender, env.Kind, p.Domain); err != nil {
		return refused(err)
	}
	if err := d.space.checkRoom(sender.ID); err != nil {
		return refused(err)
	}
	place, err := d.reserveAgent(sender.ID, env.Kind, p.Domain, env.Agent)
	if err != nil {
		return refused(err)
	}
	defer d.agents.Release(place)
	a := place.Agent
	t := &delegation.Delegation{
		Direction: client.Taken, Peer: sender.ID, ID: env.ID, Content: hash, Agent: a.Name, KeyHash: a.KeyHash,
		Chain: env.Chain(), Reports: p.Reports(), Created: time.Now(),
	}
	if p.DeadlineMS > 0 {
		t.Deadline = t.Created.Add(p.Deadline())
	}
	entry, fresh, err := d.delegations.Begin(ctx, t, p.Task)
	if err != nil {
		return refused(err)
	}
	if !fresh {
		return d.answerRepeat(ctx, entry, hash), true
	}

	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if isGivenUp(ctx) {
			cancel()
		}
	})()
	var ack wire.Payload
	in := &client.Inbound{Envelope: *env, Name: sender.Name, DeadlineMS: p.DeadlineMS}
	if err := callAgent(running, ackTime, a, in, &ack); err != nil {
		return inbox.Outcome{Err: d.endLost(ctx, t, err)}, true
	}
	said, err := parseAck(ack)
	if err != nil {
		return inbox.Outcome{Err: d.endLost(ctx, t, err)}, true
	}
	state := client.TaskAccepted
	if !said.Accepted {
		state = client.TaskRefused
	}
	if err := d.delegations.RecordAck(ctx, t, state, ack, place); err != nil {
		return inbox.Outcome{Err: d.endLost(ctx, t, err)}, true
	}
	d.delegations.CheckAgent(a.Name) // it may have left while this was written
	return inbox.Outcome{Ack: ack}, true
}

// endLost ends a taken task that has no ack, and returns why.
func (d *Daemon) endLost(ctx context.Context, t *delegation.Delegation, err error) error {
	e := kinds.AsError(err)
	state := client.TaskFailed
	if e.Code == kinds.Cancelled {
		state = client.TaskCancelled
	}
	if _, err := d.delegations.End(ctx, t, delegation.Ending{State: state, Outcome: e.Message, Payload: kinds.Encode(e)}); err != nil {
		d.log.Error("delegation", "id", t.ID, "err", err)
	}
	return e
}

// answerRepeat answers the repeat of a delegation that the table remembers.
func (d *Daemon) answerRepeat(ctx context.Context, t *delegation.Delegation, hash inbox.Digest) inbox.Outcome {
	if t.Content != hash {
		return inbox.Outcome{Err: kinds.Errorf(kinds.Invalid, "id: %s was used for another delegate: a repeat has the same content, anything else needs an id of its own", t.ID)}
	}
	if _, acked := d.delegations.State(t); !acked {
		return inbox.Outcome{Err: kinds.Errorf(kinds.Internal, "the receiver was interrupted before its agent had answered: look there whether the task was begun")}
	}
	ack, err := d.delegations.ReadAck(ctx, t)
	if err != nil {
		return inbox.Outcome{Err: err}
	}
	return inbox.Outcome{Ack: ack}
}

// parseAck checks the answer of an agent to delegate or cancel.
func parseAck(p wire.Payload) (*kinds.Ack, error) {
	row, _ := kinds.Lookup(kinds.KindAck)
	if err := row.CheckPayload(p); err != nil {
		return nil, kinds.Errorf(kinds.Internal, "the agent's answer is not valid: %v", err)
	}
	return kinds.Parse[kinds.Ack](p)
}

// encodeNotAccepted is the answer to a cancel that comes too late.
func encodeNotAccepted(state client.TaskState) wire.Payload {
	return kinds.Encode(&kinds.Ack{Code: kinds.NotFound, Message: "the delegation is " + string(state) + " already"})
}

// onCancel passes a cancellation to the agent that has the task. Where that is
// away, the entry alone is cancelled: what the agent sends later is not found.
func (d *Daemon) onCancel(ctx context.Context, sender identity.Peer, env *wire.Envelope) (inbox.Outcome, bool) {
	t := d.delegations.Find(client.Taken, sender.ID, *env.Ref)
	if t == nil {
		return refused(delegation.NotFound(*env.Ref))
	}
	if err := d.permissions.check(sender, env.Kind, ""); err != nil {
		return refused(err)
	}
	if state, _ := d.delegations.State(t); state.IsFinal() {
		return inbox.Outcome{Ack: encodeNotAccepted(state)}, true
	}
	ack := kinds.Encode(&kinds.Ack{Accepted: true})
	if a := d.agents.AgentNamed(t.Agent); a != nil {
		if err := callAgent(ctx, ackTime, a, &client.Inbound{Envelope: *env, Name: sender.Name, Delegation: d.describeDelegation(ctx, t, false)}, &ack); err != nil {
			return refused(err) // cancelling twice does no harm
		}
	}
	said, err := parseAck(ack)
	if err != nil {
		return refused(err)
	}
	if said.Accepted {
		if err := d.endCancelled(ctx, t, env); err != nil {
			return refused(err)
		}
	}
	return inbox.Outcome{Ack: ack}, true
}

// endCancelled ends a task by the cancel env, with the reserve to write on.
func (d *Daemon) endCancelled(ctx context.Context, t *delegation.Delegation, env *wire.Envelope) error {
	outcome := "cancelled"
	if c, err := kinds.Parse[kinds.Cancel](env.Payload); err == nil && c.Reason != "" {
		outcome = c.Reason
	}
	return d.space.reserve.Spend(func() error {
		_, err := d.delegations.End(ctx, t, delegation.Ending{State: client.TaskCancelled, ID: env.ID, Outcome: outcome})
		return err
	})
}

func (d *Daemon) serveResult(ctx context.Context, s *localConn, p *client.ResultParams) (any, error) {
	return d.sendReport(ctx, s, kinds.KindResult, p)
}

func (d *Daemon) serveError(ctx context.Context, s *localConn, p *client.ResultParams) (any, error) {
	return d.sendReport(ctx, s, kinds.KindError, p)
}

// sendReport sends a result or an error of a task that was taken; whom to follows
// from ref, and so do thread and hops. The task is over when its owner has it.
func (d *Daemon) sendReport(ctx context.Context, s *localConn, kind string, p *client.ResultParams) (any, error) {
	t := d.delegations.FindByID(s.guestCredential(), p.Ref, client.Taken)
	if t == nil {
		return nil, kinds.Errorf(kinds.NotFound, "ref: %s names no delegation that was taken here: it never came, or was long ago", p.Ref)
	}
	env := d.newReport(t, kind, p.Payload)
	if !p.ID.IsZero() {
		env.ID = p.ID
	}
	if state, _ := d.delegations.State(t); state.IsFinal() && !d.delegations.EndedBy(t, env.ID) {
		return nil, kinds.Errorf(kinds.NotFound, "ref: the delegation %s is %s already: nothing more is expected", p.Ref, state)
	}
	state, err := d.sendMessage(ctx, env, true)
	if e, ok := errors.AsType[*kinds.Error](err); ok {
		if e.Code == kinds.NotFound && e.From != "" { // its owner has ended it
			if _, err := d.delegations.End(ctx, t, delegation.Ending{State: client.TaskCancelled, ID: env.ID, Outcome: e.Message, Payload: p.Payload}); err != nil {
				return nil, err
			}
		}
		return nil, e
	}
	// The owner has it: that this is noted here too is worth the reserve.
	if err := d.space.reserve.Spend(func() error { _, err := d.recordReport(ctx, t, env); return err }); err != nil {
		return nil, err
	}
	return &client.Receipt{ID: env.ID, State: string(state)}, nil
}

// newReport returns an envelope about a task that was taken, for its owner.
func (d *Daemon) newReport(t *delegation.Delegation, kind string, payload wire.Payload) *wire.Envelope {
	env := wire.NewEnvelope(d.id, t.Peer, kind, payload)
	env.Ref, env.Thread, env.Hops, env.Trace = &t.ID, t.Chain.Thread, t.Chain.Hops, t.Chain.Trace
	return env
}

// sendLost tells the owner of a taken task that it will not be done.
func (d *Daemon) sendLost(ctx context.Context, t *delegation.Delegation) error {
	shown := d.describeDelegation(ctx, t, true)
	env := d.newReport(t, kinds.KindError, shown.Result)
	env.ID = d.delegations.FinalID(t)
	_, err := d.sendMessage(ctx, env, true)
	if e := kinds.AsError(err); err != nil && (e.Retryable || e.Code == kinds.NotTrusted) {
		d.log.Warn("a lost delegation could not be reported yet", "id", t.ID, "peer", t.Peer.Label(), "err", err)
		return err
	}
	return nil // taken, or not wanted
}

// describeDelegation returns a task as the local API shows it; payloads adds the results. A
// failing disk leaves out the text.
func (d *Daemon) describeDelegation(ctx context.Context, t *delegation.Delegation, payloads bool) *client.Task {
	shown, err := d.delegations.Show(ctx, t, payloads)
	if err != nil {
		d.log.Error("read a delegation", "id", t.ID, "err", err)
	}
	shown.Peer = d.nameOf(t.Peer)
	return shown
}
