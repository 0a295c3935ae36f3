package openintent

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// SendMessage asks to send a message.
type SendMessage struct {
	Sender      string         `json:"sender"`
	To          *string        `json:"to"`
	Home        string         `json:"home,omitzero"` // of the agent that To names
	Kind        string         `json:"message_type"`
	Correlation *string        `json:"correlation_id"`
	Payload     jsontext.Value `json:"payload"`
	Metadata    jsontext.Value `json:"metadata"`
	ExpiresAt   chain.Time     `json:"expires_at"`
	IntentID    string         `json:"intent_id"` // with it, a channel may be called by its name
}

// newDraft makes a draft of the message, and checks it as far as that needs no channel.
func (s *SendMessage) newDraft(e *Engine) (*messageDraft, error) {
	d := &messageDraft{kind: s.Kind, payload: s.Payload, metadata: s.Metadata, expires: s.ExpiresAt, home: s.Home}
	if s.To != nil {
		d.to = *s.To
	}
	if s.Correlation != nil {
		d.correlation = *s.Correlation
	}
	switch d.kind {
	case "":
		d.kind = kindNotify
	case "message": // as the MCP bridge says
		if d.kind = kindNotify; d.to == "" {
			d.kind = kindBroadcast
		}
	}
	role, isRole := strings.CutPrefix(d.to, toRole)
	switch {
	case d.kind != kindRequest && d.kind != kindResponse && d.kind != kindNotify && d.kind != kindBroadcast:
		return nil, NewFieldError("message_type", "one of %s", strings.Join(messageKinds, ", "))
	case d.to != "" && d.to != toAll && !(isRole && IsAgentID(role)) && !isValidAgentName(d.to):
		return nil, NewFieldError("to", "an agent's id, role:<role>, or *")
	case d.home != "" && (d.to == "" || d.to == toAll || isRole):
		return nil, NewFieldError("home", "it says where the agent is at home that to names")
	case d.kind == kindRequest && d.to == toAll:
		return nil, NewFieldError("to", "a request goes to one agent or role")
	case d.kind == kindRequest && d.to == "" && !e.cfg.Lenient:
		return nil, NewFieldError("to", "a request needs an agent or a role")
	case d.kind == kindBroadcast && d.to != "" && d.to != toAll:
		return nil, NewFieldError("to", "a broadcast goes to *")
	case d.kind == kindResponse && d.correlation == "":
		return nil, NewFieldError("correlation_id", "a response needs the id of its request")
	case d.kind != kindResponse && d.correlation != "":
		return nil, NewFieldError("correlation_id", "only a response has one")
	}
	if d.kind == kindBroadcast {
		d.to = toAll
	}
	if d.payload == nil || d.payload.Kind() == 'n' {
		return nil, NewFieldError("payload", "an object is needed: {} if there is nothing to say")
	}
	if d.metadata.Kind() == 'n' {
		return nil, NewFieldError("metadata", "an object is needed, or none at all")
	}
	if err := NormalizeJSONObject("payload", &d.payload); err != nil {
		return nil, err
	}
	if len(d.payload) > MaxPayload {
		return nil, NewError("too_large", "payload: %d bytes, at most %d are taken: put large data elsewhere and refer to it", len(d.payload), MaxPayload)
	}
	return d, checkMetadata(&d.metadata)
}

// MaxPayload bounds the payload of a message, in bytes of JSON.
const MaxPayload = 256 << 10

// checkMetadata refuses a v that is no object, or too long.
func checkMetadata(v *jsontext.Value) error {
	const most = 64 << 10
	if err := NormalizeJSONObject("metadata", v); err != nil {
		return err
	}
	if len(*v) > most {
		return NewError("too_large", "metadata: %d bytes, at most %d are taken", len(*v), most)
	}
	return nil
}

// Sent tells the outcome of a send.
type Sent struct {
	Message  jsontext.Value // as its sender sees it
	Repeated bool           // an earlier send with the same key made it
}

// Outgoing is a message on its way to its channel.
type Outgoing struct {
	messageDraft
	sendKey
	who Caller // the sender: the caller, or an agent that it may act as
}

// PrepareMessage makes a message of what was asked for, and checks it as far as that needs no
// channel.
func (c *Call) PrepareMessage(want *SendMessage) (*Outgoing, error) {
	d, err := want.newDraft(c.e)
	if err != nil {
		return nil, err
	}
	o := &Outgoing{messageDraft: *d}
	if o.who, err = c.resolveActingCaller("sender", want.Sender); err != nil {
		return nil, err
	}
	o.sender = o.who.name
	return o, nil
}

// PrepareReply is PrepareMessage for a response to the request with that id.
func (c *Call) PrepareReply(want *SendMessage, request string) (*Outgoing, error) {
	want.Kind, want.Correlation, want.To, want.Home = kindResponse, &request, nil, ""
	return c.PrepareMessage(want)
}

// errAudited says that the channel of a send has become an audited one.
var errAudited = errors.New("the channel is audited now")

// storeOutgoingMessage stores a message in the channel that find returns, in one write.
func (e *Engine) storeOutgoingMessage(c *Call, o *Outgoing, audited bool, find func(*tx) (*channelRecord, error)) (Sent, error) {
	if err := o.readProofAndTrace(audited); err != nil {
		return Sent{}, err
	}
	out, err := e.tryStoreOutgoingMessage(c, o, audited, find)
	if err == errAudited {
		return e.storeOutgoingMessage(c, o, true, find)
	}
	return out, err
}

// tryStoreOutgoingMessage is storeOutgoingMessage for a message that was prepared. It returns
// errAudited if the message was prepared for a channel that is not audited, and the channel is.
func (e *Engine) tryStoreOutgoingMessage(c *Call, o *Outgoing, audited bool, find func(*tx) (*channelRecord, error)) (Sent, error) {
	var out Sent
	who := o.who
	err := e.runTransaction(c.Context(), audited, func(t *tx) error {
		out = Sent{}
		ch, err := find(t)
		if err != nil {
			return err
		}
		in, firstUse, err := t.authorizeForIntent(ch.in.id, who, levelRead)
		if err != nil {
			return replaceIntentNotFound(err, "channel")
		}
		if err := ch.checkMember(who.name); err != nil {
			return err
		}
		if o.key != "" {
			out.Message, err = o.findRepeatedSend(t.Tx, ch.id, t.now)
		}
		if o.given != "" && out.Message == nil && err == nil {
			out.Message, err = t.findMessageByGivenID(ch, who, o.given)
		}
		if out.Repeated = out.Message != nil; out.Repeated || err != nil {
			return err
		}
		if !ch.isOpen(t.now) {
			return NewError(codeClosed, "the channel is closed: open another")
		}
		if ch.opt.audit && !audited {
			return errAudited
		}
		size := len(o.payload) + len(o.metadata) + headRoom
		if ch.opt.audit {
			size *= 2
		}
		if err := t.checkDiskShare(in, who, size); err != nil {
			return err
		}
		m, err := t.storeMessage(ch, &o.messageDraft)
		if err != nil {
			return err
		}
		if firstUse {
			if err := t.recordFirstUse(in, who); err != nil {
				return err
			}
		}
		out.Message = m.appendJSON(nil, who.name, m.at, false)
		if o.key == "" {
			return nil
		}
		if err := t.deleteExpiredKeys(); err != nil {
			return err
		}
		return t.storeAnsweredSend(o, m)
	})
	return out, err
}

// refindChannel returns a channel that was found before the write, unless it is gone.
func (t *tx) refindChannel(id string) (*channelRecord, error) {
	if ch := t.e.channels[id]; ch != nil {
		return ch, nil
	}
	return nil, newNotFoundError("channel")
}

// Send sends a message to the channel. intentID is the intent that the sender says the channel
// is of, "" if it says none. With an intentID, a channelID that is no id is the name of a
// channel of that intent, which is created if there is none.
func (e *Engine) Send(c *Call, o *Outgoing, channelID, intentID string) (Sent, error) {
	if out, err := e.findEarlierSend(c, o); err != nil || out.Repeated {
		return out, err
	}
	ch, _, err := e.findChannel(c, channelID)
	if err != nil {
		if _, isID := HostOfID(channelID); !isID && intentID != "" && isNotFound(err) {
			return e.SendByName(c, o, intentID, channelID)
		}
		return Sent{}, err
	}
	if intentID != "" && intentID != ch.in.id {
		return Sent{}, NewFieldError("intent_id", "the channel belongs to another intent")
	}
	return e.storeOutgoingMessage(c, o, ch.needsDurableWrites(e), func(t *tx) (*channelRecord, error) { return t.refindChannel(channelID) })
}

// SendByName sends a message to the intent's open channel of that name, and creates it if
// there is none.
func (e *Engine) SendByName(c *Call, o *Outgoing, intentID, name string) (Sent, error) {
	if out, err := e.findEarlierSend(c, o); err != nil || out.Repeated {
		return out, err
	}
	in, _, err := e.findIntent(c, intentID, levelRead)
	if err != nil {
		return Sent{}, err
	}
	created := &channelRecord{doc: Channel{Name: name, CreatedBy: o.who.Agent, Home: o.who.Home, Policy: policyIntent, Status: statusOpen}}
	if err := created.checkNew(); err != nil {
		return Sent{}, err
	}
	durable := false
	e.withReadLock(func() {
		ch := in.findOpenChannel(name, now())
		durable = ch != nil && ch.opt.audit
	})
	return e.storeOutgoingMessage(c, o, durable, func(t *tx) (*channelRecord, error) {
		in := e.intents[in.id]
		if ch := in.findOpenChannel(name, t.now); ch != nil {
			return ch, nil
		}
		if _, _, err := e.authorizeForIntent(in.id, o.who, levelWrite, t.now); err != nil {
			return nil, err
		}
		created.in = in
		return created, nil // storeMessage opens it, once the message may be sent
	})
}

// Reply sends a response that [Call.PrepareReply] made to the channel of its request.
func (e *Engine) Reply(c *Call, o *Outgoing, channelID string) (Sent, error) {
	if out, err := e.findEarlierSend(c, o); err != nil || out.Repeated {
		return out, err
	}
	ch, _, err := e.findChannel(c, channelID)
	if err != nil {
		return Sent{}, err
	}
	return e.storeOutgoingMessage(c, o, ch.needsDurableWrites(e), func(t *tx) (*channelRecord, error) {
		ch, err := t.refindChannel(channelID)
		if err != nil {
			return nil, err
		}
		m, err := t.findMessage(ch, o.correlation)
		if err != nil {
			return nil, err
		}
		if ch.isMember(o.sender) && (m == nil || !m.isVisibleTo(o.who)) {
			return nil, newNotFoundError("message")
		}
		return ch, nil
	})
}

// FillPendingAnswer puts into p the answer to a message whose host is out of reach, and the
// sender. The message goes to the channel with that id, or, if the id is "", to the intent's
// channel of that name.
func (o *Outgoing) FillPendingAnswer(p *ForwardedRequest, e *Engine, channelID, intentID, name string) error {
	if o.who.Operator {
		return ErrNoAgent
	}
	at := now()
	p.MessageID, p.Caller = e.newMessageID(at, 0), o.who
	message := []any{"id", p.MessageID, "channel_id", nullable(channelID), "sender", o.who.Agent, "to", nullable(o.to), "message_type", o.kind,
		"correlation_id", nullable(o.correlation), "payload", o.payload, "metadata", o.metadata, "created_at", at, "expires_at", o.expires,
		"status", "pending", "read_at", nil}
	if channelID == "" {
		message = append(message, "intent_id", intentID, "channel_name", name)
	}
	p.Pending = EncodeJSONObject(message...)
	return nil
}
