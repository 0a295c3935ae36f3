package openintent

import (
	"context"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

type closedChannel struct {
	Status    string `json:"status"`
	ChannelID string `json:"channel_id"`
}

func (e *Engine) deleteChannel(c *call) (int, any, error) {
	ch, err := e.manage(c, true, func(t *tx, ch *channel) error {
		if err := t.close(ch, t.now); err != nil {
			return err
		}
		return t.purge(ch)
	})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, closedChannel{Status: statusClosed, ChannelID: ch.id}, nil
}

// close closes a channel and expires its open requests. Closing twice is nothing.
func (t *tx) close(ch *channel, at stamp) error {
	if ch.doc.Status == statusClosed {
		return nil
	}
	doc := ch.doc
	doc.Status, doc.ClosedAt = statusClosed, at
	if err := t.saveChannel(ch, doc); err != nil {
		return err
	}
	if err := t.expireRequests(ch, at); err != nil {
		return err
	}
	t.apply(func() {
		ch.doc = doc
		for _, m := range ch.open {
			m.deadline = min(m.deadline, at)
		}
		ch.open = nil
		t.e.setAlarm(ch)
	})
	t.rings(ch)
	return nil
}

// rings wakes who waits for something in the channel, after the commit.
func (t *tx) rings(ch *channel) {
	t.e.mu.RLock() // who stops asking changes asks outside of writes
	defer t.e.mu.RUnlock()
	t.wake = append(t.wake, &ch.bell)
	for _, a := range ch.asks {
		t.wake = append(t.wake, &a.bell)
	}
}

// closeAll closes the intent's channels (L1).
func (t *tx) closeAll(in *intent) error {
	for _, ch := range in.channels {
		if err := t.close(ch, t.now); err != nil {
			return err
		}
	}
	return nil
}

// purge forgets a closed channel and its messages.
func (t *tx) purge(ch *channel) error {
	if err := t.dropChannel(ch); err != nil {
		return err
	}
	t.apply(func() {
		delete(t.e.channels, ch.id)
		t.e.count(ch.doc.Home, -1, 0)
		ch.in.channels = slices.DeleteFunc(slices.Clone(ch.in.channels), func(c *channel) bool { return c == ch })
		ch.recent = nil
	})
	t.rings(ch)
	return nil
}

// depart takes an agent that was deregistered out of the channels (L2): out of
// their members, and its unanswered requests expire. A notice tells the others.
func (t *tx) depart(a *agent, reason string) error {
	id := a.doc.AgentID
	for _, in := range t.e.intents {
		if in.Homes[id] != a.doc.Host {
			continue
		}
		for _, ch := range in.channels {
			if !ch.isOpen(t.now) {
				continue
			}
			var pending []*message
			for _, m := range ch.open {
				if m.to == id && !m.expired(t.now) {
					pending = append(pending, m)
				}
			}
			isMember := slices.Contains(ch.doc.Members, id)
			if !isMember && len(pending) == 0 {
				continue
			}
			if isMember {
				doc := ch.doc
				doc.Members = slices.DeleteFunc(slices.Clone(doc.Members), func(m string) bool { return m == id })
				if err := t.saveChannel(ch, doc); err != nil {
					return err
				}
				t.apply(func() { ch.doc = doc })
			}
			for _, m := range pending {
				if err := t.expireRequest(m, t.now); err != nil {
					return err
				}
				t.apply(func() {
					m.deadline = t.now
					delete(ch.open, m.id)
				})
			}
			if reason == "" {
				reason = agentDeregistered
			}
			notice := &draft{kind: kindNotify, sender: system, to: toAll, metadata: jsontext.Value("{}"),
				payload: members("event", "agent_departed", "agent_id", id, "role_id", a.doc.RoleID, "reason", reason)}
			if _, err := t.post(ch, notice); err != nil {
				return err
			}
			t.rings(ch)
		}
	}
	return nil
}

// closeExpired closes and purges the channel if it is time.
func (e *Engine) closeExpired(ctx context.Context, ch *channel) error {
	return e.write(ctx, ch.durable(e), func(t *tx) error {
		switch {
		case e.channels[ch.id] != ch:
		case ch.doc.Status == statusOpen && ch.expired(t.now):
			return t.close(ch, ch.end())
		case ch.doc.Status == statusClosed && e.cfg.Retention >= 0 && ch.doc.ClosedAt.add(e.cfg.Retention) <= t.now:
			return t.purge(ch)
		}
		return nil
	})
}
