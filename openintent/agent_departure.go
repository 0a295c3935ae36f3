package openintent

import (
	"context"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// departure is an agent that was deregistered and has not left all channels yet. It is one row
// in the store. The agent leaves the channels one by one, each in writes of its own, also after
// a restart.
type departure struct {
	Home   string  `json:"home"`
	ID     string  `json:"id"`
	RoleID *string `json:"role_id"`
	Reason string  `json:"reason"`

	number int64 // the departures since the daemon was started are numbered
}

// beginDeparture notes that an agent was deregistered, so that [Engine.leaveAllChannels] takes
// it out of its channels.
func (t *tx) beginDeparture(a *agentRecord, reason string) error {
	if reason == "" {
		reason = object.AgentDeregistered
	}
	l := departure{Home: a.doc.Host, ID: a.doc.AgentID, RoleID: a.doc.RoleID, Reason: reason, number: t.e.nextDepartureNumber()}
	name := t.e.agentNameOf(agentKey{l.Home, l.ID})
	if err := t.execute("INSERT OR REPLACE INTO openintent_leaver (name, doc) VALUES (?, ?)", name, object.EncodeJSONText(l)); err != nil {
		return err
	}
	t.e.withLock(func() { put(t, t.e.leavers, name, l) })
	t.buried = true
	return nil
}

// nextDepartureNumber gives out the number of the next departure.
func (w *world) nextDepartureNumber() int64 {
	w.departures++
	return w.departures
}

// leaveAllChannels takes the agent out of all channels, if it is to leave.
func (e *Engine) leaveAllChannels(ctx context.Context, name string) error {
	var l departure
	leaves := false
	var all []*intentRecord
	e.withReadLock(func() {
		if l, leaves = e.leavers[name]; leaves {
			all = slices.Collect(maps.Values(e.intents))
		}
	})
	if !leaves {
		return nil
	}
	ctx = contextForHome(ctx, l.Home)
	for _, in := range all {
		at := now()
		var involving []*channelRecord
		e.withReadLock(func() {
			for _, ch := range in.channels {
				if ch.isOpen(at) && ch.involvesAgent(name, at) {
					involving = append(involving, ch)
				}
			}
		})
		for _, ch := range involving {
			for more := true; more; {
				var err error
				if more, err = e.leaveChannel(ctx, ch, name, &l); err != nil {
					return err
				}
			}
		}
	}
	return e.deleteDeparture(ctx, name, &l)
}

// deleteDeparture notes that an agent has left, unless that departure has ended already. In that
// case the agent may be back, or leave again.
func (e *Engine) deleteDeparture(ctx context.Context, name string, l *departure) error {
	return e.runTransaction(ctx, true, func(t *tx) error {
		now, leaves := e.leavers[name]
		if !leaves || now.number != l.number {
			return nil
		}
		if err := t.execute("DELETE FROM openintent_leaver WHERE name = ?", name); err != nil {
			return err
		}
		e.withLock(func() { drop(t, e.leavers, name) })
		return nil
	})
}

// involvesAgent reports whether the agent is a member of the channel, or is asked something there.
func (ch *channelRecord) involvesAgent(name string, at chain.Time) bool {
	if slices.Contains(ch.doc.Members, name) {
		return true
	}
	for _, m := range ch.open {
		if m.to == name && !m.isExpired(at) {
			return true
		}
	}
	return false
}

// leaveChannel expires the open requests to the agent in a channel, as many as one write may.
// If these were all, it removes the agent from the members and tells the others by a notice.
// Otherwise more is true, and the next call continues.
func (e *Engine) leaveChannel(ctx context.Context, ch *channelRecord, name string, l *departure) (more bool, err error) {
	err = e.runTransaction(ctx, ch.needsDurableWrites(e), func(t *tx) error {
		more = false
		if now, leaves := e.leavers[name]; !leaves || now.number != l.number || e.channels[ch.id] != ch || !ch.isOpen(t.now) || !ch.involvesAgent(name, t.now) {
			return nil
		}
		var pending []*message
		for _, m := range ch.open {
			if m.to == name && !m.isExpired(t.now) {
				if more = len(pending) == sliceRows; more {
					break
				}
				pending = append(pending, m)
			}
		}
		for _, m := range pending {
			if err := t.execute("UPDATE openintent_message SET deadline = ? WHERE seq = ?", int64(t.now), m.seq); err != nil {
				return err
			}
			e.withLock(func() {
				set(t, &m.deadline, t.now)
				drop(t, ch.open, m.id)
			})
		}
		t.wakeChannelWaiters(ch)
		if more {
			return nil
		}
		if slices.Contains(ch.doc.Members, name) {
			doc := ch.doc
			doc.Members = slices.DeleteFunc(slices.Clone(doc.Members), func(m string) bool { return m == name })
			if err := t.saveChannel(ch, doc); err != nil {
				return err
			}
			e.withLock(func() { t.setChannelDoc(ch, doc) })
		}
		for _, home := range []string{ch.doc.Home, l.Home} {
			if t.checkDiskShare(ch.in, Caller{Home: home}, 2*headRoom) != nil {
				return nil // there is no notice without room for it
			}
		}
		_, err := t.storeMessage(ch, &messageDraft{kind: object.KindNotify, sender: object.System, to: object.ToAll, metadata: jsontext.Value("{}"), payer: l.Home,
			payload: object.EncodeJSONObjectWithHome(l.Home, "event", "agent_departed", "agent_id", l.ID, "role_id", l.RoleID, "reason", l.Reason)})
		return err
	})
	return more, err
}

// awaitDeparture waits until an agent that is to leave has left all its channels. If that fails,
// [Engine.runSweeps] tries again.
func (e *Engine) awaitDeparture(ctx context.Context, k agentKey) {
	if err := e.leaveAllChannels(ctx, e.agentNameOf(k)); err != nil && ctx.Err() == nil {
		e.cfg.Log.Error("openintent: an agent has not left all its channels yet", "error", err)
	}
}
