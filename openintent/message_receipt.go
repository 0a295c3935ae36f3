package openintent

import (
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/object"
)

// GetMessage returns a message as the caller sees it.
func (e *Engine) GetMessage(c *Call, channelID, id string) (jsontext.Value, error) {
	ch, err := e.findChannelAndRecordUse(c, channelID)
	if err != nil {
		return nil, err
	}
	e.withReadLock(func() { err = e.authorizeChannelReader(ch, c.Caller) })
	if err != nil {
		return nil, err
	}
	m, err := e.findMessage(c.Context(), ch, id)
	if err != nil {
		return nil, err
	}
	at := now()
	e.mu.RLock()
	defer e.mu.RUnlock()
	if m == nil || !m.isStillListed(at) || !m.isVisibleTo(c.Caller) {
		return nil, object.NewNotFoundError("message")
	}
	return m.appendJSON(nil, c.Caller.name, at, false), nil
}

// SetMessageStatus notes that a recipient has read a message. read is the one status that can
// be set.
func (e *Engine) SetMessageStatus(c *Call, channelID, id string, want *object.StatusChange) (doc jsontext.Value, err error) {
	if want.Status != object.StatusRead {
		return nil, object.NewFieldError("status", "only read can be set")
	}
	ch, err := e.findChannelAndRecordUse(c, channelID)
	if err != nil {
		return nil, err
	}
	err = e.runTransaction(c.Context(), ch.needsDurableWrites(e), func(t *tx) error {
		ch, err := t.refindChannel(channelID)
		if err != nil {
			return err
		}
		if err := e.authorizeChannelReader(ch, c.Caller); err != nil {
			return err
		}
		m, err := t.findMessage(ch, id)
		if err != nil {
			return err
		}
		switch {
		case m == nil || !m.isVisibleTo(c.Caller):
			return object.NewNotFoundError("message")
		case !m.isAddressedTo(c.Caller.name) || !ch.isMember(c.Caller.name):
			return object.NewError("not_recipient", "the message is for another agent, and only that agent marks it as read")
		case m.isExpired(t.now):
			return object.NewError("message_expired", "the message has expired unread")
		}
		if !slices.ContainsFunc(m.reads, func(r receipt) bool { return r.agent == c.Caller.name }) {
			if len(m.reads) >= object.MaxEntries {
				return object.NewTooManyError("receipts of this message", object.MaxEntries, "read it without one")
			}
			r := receipt{c.Caller.name, t.now}
			size := len(r.agent) + receiptBytes
			if err := t.checkDiskShare(ch.in, c.Caller, size); err != nil {
				return err
			}
			if err := errors.Join(t.execute("INSERT INTO openintent_receipt (message, agent, at) VALUES (?, ?, ?)", m.seq, r.agent, int64(r.at)),
				t.execute("UPDATE openintent_message SET receipts = 1 WHERE seq = ?", m.seq), t.adjustDiskShare(ch.in, c.Caller.Home, diskShare{bytes: int64(size)})); err != nil {
				return err
			}
			e.withLock(func() { set(t, &m.reads, append(m.reads[:len(m.reads):len(m.reads)], r)) })
			if ch.behind {
				if err := t.evictMessages(ch, ch.count); err != nil {
					return err
				}
			}
		}
		doc = m.appendJSON(nil, c.Caller.name, t.now, false)
		return nil
	})
	return doc, err
}
