package openintent

import (
	"context"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/store"
)

// GetMessage returns a message as the caller sees it.
func (e *Engine) GetMessage(c *Call, channelID, id string) (jsontext.Value, error) {
	ch, err := e.channel(c, channelID)
	if err != nil {
		return nil, err
	}
	e.rlocked(func() { err = e.mayList(ch, c.Caller) })
	if err != nil {
		return nil, err
	}
	m, err := e.lookUp(c.Context(), ch, id)
	if err != nil {
		return nil, err
	}
	at := now()
	e.mu.RLock()
	defer e.mu.RUnlock()
	if m == nil || !m.kept(at) || !m.sees(c.Caller) {
		return nil, notFound("message")
	}
	return m.append(nil, c.Caller.name, at, false), nil
}

// lookUp finds a message that was published, in memory or in the store.
func (e *Engine) lookUp(ctx context.Context, ch *channel, id string) (*message, error) {
	prefix, _, _, number, ok := splitID(id)
	if !ok || prefix != idMessage {
		return nil, nil
	}
	var m *message
	var settled int64
	e.rlocked(func() { m, settled = ch.remembered(number), e.settled })
	if m == nil {
		err := e.readBeside(ctx, func(stx *store.Tx) (err error) {
			m, err = messageByID(stx, ch, id, number)
			return err
		})
		if err != nil || m == nil {
			return nil, err
		}
		if number == 0 {
			e.rlocked(func() {
				if live := ch.remembered(m.number); live != nil {
					m = live
				}
			})
		}
	}
	if m.id != id || m.seq > settled {
		return nil, nil
	}
	return m, nil
}

// SetMessageStatus takes the receipt of a recipient: read is the one status that can be set.
func (e *Engine) SetMessageStatus(c *Call, channelID, id string, want *StatusChange) (doc jsontext.Value, err error) {
	if want.Status != statusRead {
		return nil, Invalid("status", "only read can be set")
	}
	ch, err := e.channel(c, channelID)
	if err != nil {
		return nil, err
	}
	err = e.write(c.Context(), ch.durable(e), func(t *tx) error {
		ch, err := e.existing(ch)(t)
		if err != nil {
			return err
		}
		if err := e.mayList(ch, c.Caller); err != nil {
			return err
		}
		m, err := t.message(ch, id)
		if err != nil {
			return err
		}
		switch {
		case m == nil || !m.sees(c.Caller):
			return notFound("message")
		case !m.receives(c.Caller.name) || !ch.member(c.Caller.name):
			return Refuse("not_recipient", "the message is for somebody else, who alone marks it as read")
		case m.expired(t.now):
			return Refuse("message_expired", "the message has expired unread")
		}
		if !slices.ContainsFunc(m.reads, func(r receipt) bool { return r.agent == c.Caller.name }) {
			if len(m.reads) >= maxEntries {
				return tooMany("receipts of this message", maxEntries, "read it without one")
			}
			r := receipt{c.Caller.name, t.now}
			size := len(r.agent) + receiptBytes
			if err := t.roomOnDisk(ch.in, c.Caller, size); err != nil {
				return err
			}
			if err := errors.Join(t.insertReceipt(m, r), t.wrote(ch.in, c.Caller.Home, share{bytes: int64(size)})); err != nil {
				return err
			}
			set(t, &m.reads, append(m.reads[:len(m.reads):len(m.reads)], r))
			if ch.behind {
				if err := t.evict(ch, ch.count); err != nil {
					return err
				}
			}
		}
		doc = m.append(nil, c.Caller.name, t.now, false)
		return nil
	})
	return doc, err
}
