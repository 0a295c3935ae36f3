package openintent

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// readProofAndTrace reads the proof and the trace in the metadata. It makes the canonical form of
// the payload if a proof or the log of an audited channel needs it. It runs outside of the write,
// for which all others wait.
func (d *messageDraft) readProofAndTrace(audit bool) (err error) {
	if d.proof, err = chain.FindProof(d.metadata); err != nil {
		return object.ConvertProofError(err)
	}
	if (audit || d.proof != nil) && d.canonical == nil {
		if d.canonical, err = chain.CanonicalizeJSON(d.payload); err != nil {
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
	// Metadata is the sender's own, so anything else there is no error.
	if json.Unmarshal(d.metadata, &trace) == nil {
		if object.IsHex(trace.TraceID, object.TraceDigits) {
			d.trace = trace.TraceID
		}
		if len(trace.Parent) <= object.MaxAgentID {
			d.parent = trace.Parent
		}
	}
	return nil
}

// appendMessageToLog copies the message to the intent's log.
func (t *tx) appendMessageToLog(m *message, d *messageDraft) error {
	ev := eventDraft{kind: object.KindMessage, actor: m.sender, payload: m.encodeAuditPayload(d.payload), trace: d.trace, parent: d.parent, payer: d.payer}
	if d.canonical != nil {
		ev.canonical = m.encodeAuditPayload(d.canonical)
	}
	_, err := t.appendEventToLog(m.ch.in, ev)
	return err
}

// encodeAuditPayload returns the payload of the message's event in the log. Its members are
// sorted by name, so with a canonical payload it is in its RFC 8785 form.
func (m *message) encodeAuditPayload(payload jsontext.Value) jsontext.Value {
	b := make([]byte, 0, 320+len(payload))
	b = chain.AppendJSONString(append(b, `{"channel_id":`...), m.ch.id)
	b = chain.AppendJSONString(append(b, `,"channel_name":`...), m.ch.doc.Name)
	if m.correlation != "" {
		b = chain.AppendJSONString(append(b, `,"correlation_id":`...), m.correlation)
	}
	if m.ch.doc.Policy == object.PolicyExplicit {
		b = append(b, `,"members_only":true`...)
	}
	b = chain.AppendJSONString(append(b, `,"message_id":`...), m.id)
	b = chain.AppendJSONString(append(b, `,"message_type":`...), m.kind)
	b = append(append(b, `,"payload":`...), payload...)
	b = chain.AppendJSONStringOrNull(append(b, `,"to":`...), m.to)
	return append(b, '}')
}

// auditedMessage is the payload of a message's event, as far as it decides who sees the message.
type auditedMessage struct {
	Channel     string `json:"channel_id"`
	Message     string `json:"message_id"`
	Kind        string `json:"message_type"`
	To          string `json:"to"`
	MembersOnly bool   `json:"members_only"` // the channel was for its members
}

// redactAuditedEvent returns the event of an audited message as the caller may see it. If the caller
// may not see the message, the event has the hash of the payload instead of the payload.
func (e *Engine) redactAuditedEvent(stx *store.Tx, l *readQuota, in *intentRecord, who Caller, doc []byte) ([]byte, error) {
	if who.Operator {
		return doc, nil
	}
	var ev chain.Event
	var of auditedMessage
	if err := json.Unmarshal(doc, &ev); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(ev.Payload, &of); err != nil {
		return nil, err
	}
	sees, err := e.maySeeAuditedMessage(stx, l, in, who, ev.Actor, &of)
	if err != nil || sees {
		return doc, err
	}
	payload, err := chain.CanonicalizeJSON(ev.Payload)
	if err != nil {
		return nil, err
	}
	ev.Payload = object.EncodeJSONObject("payload_hash", chain.HashCanonicalJSON(payload))
	return ev.Encode(), nil
}

// maySeeAuditedMessage reports whether the caller may see the message of an event. If the channel
// or the message is gone, the event decides.
func (e *Engine) maySeeAuditedMessage(stx *store.Tx, l *readQuota, in *intentRecord, who Caller, sender string, of *auditedMessage) (bool, error) {
	var ch *channelRecord
	e.withReadLock(func() { ch = e.channels[of.Channel] })
	m := &message{ch: ch, kind: of.Kind, sender: sender, to: of.To, messageState: &messageState{}}
	if ch == nil {
		m.ch = &channelRecord{in: in}
	} else if _, _, _, number, ok := object.ParseID(of.Message); ok && m.isToRole() { // the message has the agents that had the role then
		kept, err := readMessage(stx, ch, of.Message, number)
		if err != nil {
			return false, err
		}
		if kept != nil {
			l.spend(len(kept.reads), 0)
			m = kept
		}
	}
	at := now()
	e.mu.RLock()
	defer e.mu.RUnlock()
	switch {
	case ch != nil && !e.mayReadChannel(ch, who, at):
		return false, nil
	case ch == nil && of.MembersOnly && !m.isDirect() && sender != who.name:
		return false, nil // its members are not known any more
	}
	return m.isVisibleTo(who), nil
}
