package openintent

import (
	"errors"

	"github.com/acpd/acpd/openintent/object"
)

// Outgoing is a message on its way to its channel.
type Outgoing struct {
	messageDraft
	sendKey
	who Caller // the sender: the caller, or an agent that it may act as
}

// PrepareMessage makes a message of what was asked for, and checks it as far as that needs no
// channel.
func (c *Call) PrepareMessage(want *object.SendMessage) (*Outgoing, error) {
	if err := want.Check(c.e.cfg.Lenient); err != nil {
		return nil, err
	}
	who, err := c.resolveActingCaller("sender", want.Sender)
	if err != nil {
		return nil, err
	}
	d := messageDraft{kind: want.Kind, sender: who.name, to: want.Recipient(), home: want.Home, payload: want.Payload, metadata: want.Metadata, expires: want.ExpiresAt}
	if want.Correlation != nil {
		d.correlation = *want.Correlation
	}
	return &Outgoing{messageDraft: d, who: who}, nil
}

// PrepareReply is PrepareMessage for a response to the request with that id.
func (c *Call) PrepareReply(want *object.SendMessage, request string) (*Outgoing, error) {
	want.Kind, want.Correlation, want.To, want.Home = object.KindResponse, &request, nil, ""
	return c.PrepareMessage(want)
}

// errAudited says that the channel of a send has become an audited one.
var errAudited = errors.New("the channel is audited now")

// storeOutgoingMessage stores a message in the channel that find returns, in one write.
func (e *Engine) storeOutgoingMessage(c *Call, o *Outgoing, audited bool, find func(*tx) (*channelRecord, error)) (object.Sent, error) {
	if err := o.readProofAndTrace(audited); err != nil {
		return object.Sent{}, err
	}
	out, err := e.tryStoreOutgoingMessage(c, o, audited, find)
	if err == errAudited {
		return e.storeOutgoingMessage(c, o, true, find)
	}
	return out, err
}

// tryStoreOutgoingMessage is storeOutgoingMessage for a message that was prepared. It returns
// errAudited if the message was prepared for a channel that is not audited, and the channel is.
func (e *Engine) tryStoreOutgoingMessage(c *Call, o *Outgoing, audited bool, find func(*tx) (*channelRecord, error)) (object.Sent, error) {
	var out object.Sent
	who := o.who
	err := e.runTransaction(c.Context(), audited, func(t *tx) error {
		out = object.Sent{}
		ch, err := find(t)
		if err != nil {
			return err
		}
		in, firstUse, err := t.authorizeForIntent(ch.in.id, who, levelRead)
		if err != nil {
			return object.ReplaceIntentNotFound(err, "channel")
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
			return object.NewError(object.CodeClosed, "the channel is closed: open another")
		}
		if ch.opt.Audit && !audited {
			return errAudited
		}
		size := len(o.payload) + len(o.metadata) + headRoom
		if ch.opt.Audit {
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
	return nil, object.NewNotFoundError("channel")
}

// Send sends a message to the channel. intentID is the intent that the sender says the channel
// is of, "" if it says none. With an intentID, a channelID that is no id is the name of a
// channel of that intent, which is created if there is none.
func (e *Engine) Send(c *Call, o *Outgoing, channelID, intentID string) (object.Sent, error) {
	if out, err := e.findEarlierSend(c, o); err != nil || out.Repeated {
		return out, err
	}
	ch, _, err := e.findChannel(c, channelID)
	if err != nil {
		if _, isID := object.HostOfID(channelID); !isID && intentID != "" && object.IsNotFound(err) {
			return e.SendByName(c, o, intentID, channelID)
		}
		return object.Sent{}, err
	}
	if intentID != "" && intentID != ch.in.id {
		return object.Sent{}, object.NewFieldError("intent_id", "the channel belongs to another intent")
	}
	return e.storeOutgoingMessage(c, o, ch.needsDurableWrites(e), func(t *tx) (*channelRecord, error) { return t.refindChannel(channelID) })
}

// SendByName sends a message to the intent's open channel of that name, and creates it if
// there is none.
func (e *Engine) SendByName(c *Call, o *Outgoing, intentID, name string) (object.Sent, error) {
	if out, err := e.findEarlierSend(c, o); err != nil || out.Repeated {
		return out, err
	}
	in, _, err := e.findIntent(c, intentID, levelRead)
	if err != nil {
		return object.Sent{}, err
	}
	created := &channelRecord{doc: object.Channel{Name: name, CreatedBy: o.who.Agent, Home: o.who.Home, Policy: object.PolicyIntent, Status: object.StatusOpen}}
	if created.opt, err = created.doc.CheckNew(); err != nil {
		return object.Sent{}, err
	}
	durable := false
	e.withReadLock(func() {
		ch := in.findOpenChannel(name, now())
		durable = ch != nil && ch.opt.Audit
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
func (e *Engine) Reply(c *Call, o *Outgoing, channelID string) (object.Sent, error) {
	if out, err := e.findEarlierSend(c, o); err != nil || out.Repeated {
		return out, err
	}
	ch, _, err := e.findChannel(c, channelID)
	if err != nil {
		return object.Sent{}, err
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
			return nil, object.NewNotFoundError("message")
		}
		return ch, nil
	})
}

// FillPendingAnswer puts into p the answer to a message whose host is out of reach, and the
// sender. The message goes to the channel with that id, or, if the id is "", to the intent's
// channel of that name.
func (o *Outgoing) FillPendingAnswer(p *ForwardedRequest, e *Engine, channelID, intentID, name string) error {
	if o.who.Operator {
		return object.ErrNoAgent
	}
	at := now()
	p.MessageID, p.Caller = e.newMessageID(at, 0), o.who
	message := []any{"id", p.MessageID, "channel_id", object.Nullable(channelID), "sender", o.who.Agent, "to", object.Nullable(o.to), "message_type", o.kind,
		"correlation_id", object.Nullable(o.correlation), "payload", o.payload, "metadata", o.metadata, "created_at", at, "expires_at", o.expires,
		"status", "pending", "read_at", nil}
	if channelID == "" {
		message = append(message, "intent_id", intentID, "channel_name", name)
	}
	p.Pending = object.EncodeJSONObject(message...)
	return nil
}
