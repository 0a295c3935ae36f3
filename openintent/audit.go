package openintent

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/store"
)

// prepare reads what a send needs of its metadata, and finds the canonical form of its
// payload if a proof or the log of an audited channel needs it: outside of the write,
// which all others wait for.
func (d *draft) prepare(audit bool) (err error) {
	if d.proof, err = chain.FindProof(d.metadata); err != nil {
		return badProof(err)
	}
	if (audit || d.proof != nil) && d.canonical == nil {
		if d.canonical, err = chain.Canonical(d.payload); err != nil {
			return err
		}
	}
	if !audit {
		return nil
	}
	var trace struct {
		TraceID string `json:"trace_id"`
		Parent  string `json:"parent_event_id"`
	}
	// Metadata is the sender's own: what is no trace there is none.
	if json.Unmarshal(d.metadata, &trace) == nil {
		if traceForm.MatchString(trace.TraceID) {
			d.trace = trace.TraceID
		}
		if len(trace.Parent) <= maxAgentID {
			d.parent = trace.Parent
		}
	}
	return nil
}

// audit copies the message to the intent's log.
func (t *tx) audit(m *message, d *draft) error {
	ev := event{kind: kindMessage, actor: m.sender, payload: m.audited(d.payload), trace: d.trace, parent: d.parent, payer: d.payer}
	if d.canonical != nil {
		ev.canonical = m.audited(d.canonical)
	}
	_, err := t.log(m.ch.in, ev)
	return err
}

// audited is what the log tells of the message. Its members are sorted by name, so with
// a canonical payload it is in its RFC 8785 form.
func (m *message) audited(payload jsontext.Value) jsontext.Value {
	b := make([]byte, 0, 320+len(payload))
	b = chain.AppendString(append(b, `{"channel_id":`...), m.ch.id)
	b = chain.AppendString(append(b, `,"channel_name":`...), m.ch.doc.Name)
	if m.correlation != "" {
		b = chain.AppendString(append(b, `,"correlation_id":`...), m.correlation)
	}
	if m.ch.doc.Policy == policyExplicit {
		b = append(b, `,"members_only":true`...)
	}
	b = chain.AppendString(append(b, `,"message_id":`...), m.id)
	b = chain.AppendString(append(b, `,"message_type":`...), m.kind)
	b = append(append(b, `,"payload":`...), payload...)
	b = chain.AppendStringOrNull(append(b, `,"to":`...), m.to)
	return append(b, '}')
}

// audited is what an event tells of a message.
type audited struct {
	Channel     string `json:"channel_id"`
	Message     string `json:"message_id"`
	Kind        string `json:"message_type"`
	To          string `json:"to"`
	MembersOnly bool   `json:"members_only"` // the channel was for its members
}

// asSeen returns an audited message's event of the intent as who may see it: with the
// hash of its payload instead of that where who may not see the message.
func (e *Engine) asSeen(stx *store.Tx, l *look, in *intent, who Caller, doc []byte) ([]byte, error) {
	if who.Operator {
		return doc, nil
	}
	var ev chain.Event
	var of audited
	if err := json.Unmarshal(doc, &ev); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(ev.Payload, &of); err != nil {
		return nil, err
	}
	sees, err := e.seesAudited(stx, l, in, who, ev.Actor, &of)
	if err != nil || sees {
		return doc, err
	}
	payload, err := chain.Canonical(ev.Payload)
	if err != nil {
		return nil, err
	}
	ev.Payload = Members("payload_hash", chain.Hash(payload))
	return ev.Text(), nil
}

// seesAudited reports whether who may see the message that an event tells of. Its
// channel may be gone, and the message too: then what the event says decides.
func (e *Engine) seesAudited(stx *store.Tx, l *look, in *intent, who Caller, sender string, of *audited) (bool, error) {
	var ch *channel
	e.rlocked(func() { ch = e.channels[of.Channel] })
	m := &message{ch: ch, kind: of.Kind, sender: sender, to: of.To, state: &state{}}
	if ch == nil {
		m.ch = &channel{in: in}
	} else if _, _, _, number, ok := splitID(of.Message); ok && m.toRole() { // who had the role then is kept with it
		kept, err := messageByID(stx, ch, of.Message, number)
		if err != nil {
			return false, err
		}
		if kept != nil {
			l.takes(len(kept.reads), 0)
			m = kept
		}
	}
	at := now()
	e.mu.RLock()
	defer e.mu.RUnlock()
	switch {
	case ch != nil && !e.fits(ch, who, at):
		return false, nil
	case ch == nil && of.MembersOnly && !m.direct() && sender != who.name:
		return false, nil // nobody knows any more who its members were
	}
	return m.sees(who), nil
}
