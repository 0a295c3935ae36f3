package openintent

import (
	"context"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// leaver is an agent that was deregistered and has not left all channels yet. That it is
// to is one row; then it leaves them one by one, each in writes of its own, also after a
// restart.
type leaver struct {
	Home   string  `json:"home"`
	ID     string  `json:"id"`
	RoleID *string `json:"role_id"`
	Reason string  `json:"reason"`

	number int64 // which departure it is, of all since the daemon was started
}

// depart has an agent that was deregistered leave, which [Engine.finishLeaving] does.
func (t *tx) depart(a *agent, reason string) error {
	if reason == "" {
		reason = agentDeregistered
	}
	l := leaver{Home: a.doc.Host, ID: a.doc.AgentID, RoleID: a.doc.RoleID, Reason: reason, number: t.e.departs()}
	name := t.e.name(agentKey{l.Home, l.ID})
	if _, err := t.Exec("INSERT OR REPLACE INTO openintent_leaver (name, doc) VALUES (?, ?)", name, text(l)); err != nil {
		return err
	}
	before, leaves := t.e.leavers[name]
	t.apply(step{func() { t.e.leavers[name] = l }, func() {
		if t.e.leavers[name] = before; !leaves {
			delete(t.e.leavers, name)
		}
	}})
	t.buried = true
	return nil
}

// departs gives out the next number of a departure.
func (w *world) departs() int64 {
	w.departures++
	return w.departures
}

// finishLeaving takes an agent that leaves, if it does, out of all channels.
func (e *Engine) finishLeaving(ctx context.Context, name string) error {
	var l leaver
	leaves := false
	var all []*intent
	e.rlocked(func() {
		if l, leaves = e.leavers[name]; leaves {
			all = slices.Collect(maps.Values(e.intents))
		}
	})
	if !leaves {
		return nil
	}
	ctx = behalf(ctx, l.Home)
	for _, in := range all {
		at := now()
		var left []*channel
		e.rlocked(func() {
			for _, ch := range in.channels {
				if ch.isOpen(at) && ch.names(name, at) {
					left = append(left, ch)
				}
			}
		})
		for _, ch := range left {
			for more := true; more; {
				var err error
				if more, err = e.leave(ctx, ch, name, &l); err != nil {
					return err
				}
			}
		}
	}
	return e.left(ctx, name, &l)
}

// left notes that an agent has left, unless that departure is over already: then the agent
// may be back, or leave again.
func (e *Engine) left(ctx context.Context, name string, l *leaver) error {
	return e.write(ctx, true, func(t *tx) error {
		now, leaves := e.leavers[name]
		if !leaves || now.number != l.number {
			return nil
		}
		if _, err := t.Exec("DELETE FROM openintent_leaver WHERE name = ?", name); err != nil {
			return err
		}
		t.apply(step{func() { delete(e.leavers, name) }, func() { e.leavers[name] = now }})
		return nil
	})
}

// names reports whether the agent is a member of the channel, or is asked something there.
func (ch *channel) names(name string, at chain.Time) bool {
	if slices.Contains(ch.doc.Members, name) {
		return true
	}
	for _, m := range ch.open {
		if m.to == name && !m.expired(at) {
			return true
		}
	}
	return false
}

// leave has the agent leave a channel: out of its members, and its unanswered requests
// expire. A notice tells the others. It reports whether there are more requests, which
// are for the next write, and the rest with the last of them.
func (e *Engine) leave(ctx context.Context, ch *channel, name string, l *leaver) (more bool, err error) {
	err = e.write(ctx, ch.durable(e), func(t *tx) error {
		more = false
		if now, leaves := e.leavers[name]; !leaves || now.number != l.number || e.channels[ch.id] != ch || !ch.isOpen(t.now) || !ch.names(name, t.now) {
			return nil
		}
		var pending []*message
		for _, m := range ch.open {
			if m.to == name && !m.expired(t.now) {
				if more = len(pending) == sliceRows; more {
					break
				}
				pending = append(pending, m)
			}
		}
		for _, m := range pending {
			if err := t.expireRequest(m, t.now); err != nil {
				return err
			}
			deadline := m.deadline
			t.apply(
				step{func() { m.deadline = t.now }, func() { m.deadline = deadline }},
				step{func() { delete(ch.open, m.id) }, func() { ch.open[m.id] = m }},
			)
		}
		t.rings(ch)
		if more {
			return nil
		}
		if slices.Contains(ch.doc.Members, name) {
			doc := ch.doc
			doc.Members = slices.DeleteFunc(slices.Clone(doc.Members), func(m string) bool { return m == name })
			if err := t.saveChannel(ch, doc); err != nil {
				return err
			}
			t.apply(t.e.setChannel(ch, doc)...)
		}
		for _, home := range []string{ch.doc.Home, l.Home} {
			if t.roomOnDisk(ch.in, Caller{Home: home}, 2*headRoom) != nil {
				return nil // who has no room for notices has none
			}
		}
		_, err := t.post(ch, &draft{kind: kindNotify, sender: system, to: toAll, metadata: jsontext.Value("{}"), payer: l.Home,
			payload: atHome(l.Home, "event", "agent_departed", "agent_id", l.ID, "role_id", l.RoleID, "reason", l.Reason)})
		return err
	})
	return more, err
}

// leaves waits until an agent that was deregistered has left. What fails goes on later.
func (e *Engine) leaves(ctx context.Context, k agentKey) {
	if err := e.finishLeaving(ctx, e.name(k)); err != nil && ctx.Err() == nil {
		e.cfg.Log.Error("openintent: an agent has not left all its channels yet", "error", err)
	}
}
