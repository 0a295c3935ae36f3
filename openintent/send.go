package openintent

import (
	"errors"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// SendMessage is a message as it is asked for.
type SendMessage struct {
	Sender      string         `json:"sender"`
	To          *string        `json:"to"`
	Home        string         `json:"home,omitzero"` // where the agent that To names is at home
	Kind        string         `json:"message_type"`
	Correlation *string        `json:"correlation_id"`
	Payload     jsontext.Value `json:"payload"`
	Metadata    jsontext.Value `json:"metadata"`
	ExpiresAt   chain.Time     `json:"expires_at"`
	IntentID    string         `json:"intent_id"` // makes a name of what is no channel's id
}

// draft checks everything that can be checked without the channel.
func (s *SendMessage) draft(e *Engine) (*draft, error) {
	d := &draft{kind: s.Kind, payload: s.Payload, metadata: s.Metadata, expires: s.ExpiresAt, home: s.Home}
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
		return nil, Invalid("message_type", "one of %s", strings.Join(messageKinds, ", "))
	case d.to != "" && d.to != toAll && !(isRole && ValidAgentID(role)) && !validName(d.to):
		return nil, Invalid("to", "an agent's id, role:<role>, or *")
	case d.home != "" && (d.to == "" || d.to == toAll || isRole):
		return nil, Invalid("home", "it says where the agent is at home that to names")
	case d.kind == kindRequest && d.to == toAll:
		return nil, Invalid("to", "a request goes to one agent or role")
	case d.kind == kindRequest && d.to == "" && !e.cfg.Lenient:
		return nil, Invalid("to", "a request needs an agent or a role")
	case d.kind == kindBroadcast && d.to != "" && d.to != toAll:
		return nil, Invalid("to", "a broadcast goes to *")
	case d.kind == kindResponse && d.correlation == "":
		return nil, Invalid("correlation_id", "a response needs the id of its request")
	case d.kind != kindResponse && d.correlation != "":
		return nil, Invalid("correlation_id", "only a response has one")
	}
	if d.kind == kindBroadcast {
		d.to = toAll
	}
	if d.payload == nil || d.payload.Kind() == 'n' {
		return nil, Invalid("payload", "an object is needed: {} if there is nothing to say")
	}
	if d.metadata.Kind() == 'n' {
		return nil, Invalid("metadata", "an object is needed, or none at all")
	}
	if err := CheckObject("payload", &d.payload); err != nil {
		return nil, err
	}
	if len(d.payload) > e.cfg.MaxPayload {
		return nil, Refuse("too_large", "payload: %d bytes, at most %d are taken: put large data elsewhere and refer to it", len(d.payload), e.cfg.MaxPayload)
	}
	return d, metadata(&d.metadata)
}

// metadata makes sure that v is an object that is not too long.
func metadata(v *jsontext.Value) error {
	const most = 64 << 10
	if err := CheckObject("metadata", v); err != nil {
		return err
	}
	if len(*v) > most {
		return Refuse("too_large", "metadata: %d bytes, at most %d are taken", len(*v), most)
	}
	return nil
}

// Sent is the outcome of a send.
type Sent struct {
	Message  jsontext.Value // as its sender sees it
	Repeated bool           // an earlier send with the same key made it
}

// Outgoing is a message on its way to its channel.
type Outgoing struct {
	draft
	once
	who Caller // the sender: the caller, or an agent that it may act as
}

// PrepareMessage checks what can be checked of a message without its channel.
func (c *Call) PrepareMessage(want *SendMessage) (*Outgoing, error) {
	d, err := want.draft(c.e)
	if err != nil {
		return nil, err
	}
	o := &Outgoing{draft: *d}
	if o.who, err = c.as("sender", want.Sender); err != nil {
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

// errAudited is the error of a send to a channel that has become an audited one.
var errAudited = errors.New("the channel is audited now")

// send puts a message into the channel that find returns, in one write.
func (e *Engine) send(c *Call, o *Outgoing, audited bool, find func(*tx) (*channel, error)) (Sent, error) {
	if err := o.prepare(audited); err != nil {
		return Sent{}, err
	}
	out, err := e.sendOnce(c, o, audited, find)
	if err == errAudited {
		return e.send(c, o, true, find)
	}
	return out, err
}

func (e *Engine) sendOnce(c *Call, o *Outgoing, audited bool, find func(*tx) (*channel, error)) (Sent, error) {
	var out Sent
	who := o.who
	err := e.write(c.Context(), audited, func(t *tx) error {
		ch, err := find(t)
		if err != nil {
			return err
		}
		in, fresh, err := t.enter(ch.in.id, who, levelRead)
		if err != nil {
			return hidden(err, "channel")
		}
		if !ch.member(who.name) {
			if !ch.opt.discoverable {
				return notFound("channel")
			}
			return Refuse(codeNotMember, "the channel is for its members: ask its creator to add you")
		}
		if o.key != "" {
			if out.Message, err = o.repeated(t.Tx, ch.id, t.now); err != nil || out.Message != nil {
				out.Repeated = out.Message != nil
				return err
			}
		}
		if o.given != "" {
			if out.Message, err = t.given(ch, who, o.given); err != nil || out.Message != nil {
				out.Repeated = out.Message != nil
				return err
			}
		}
		if !ch.isOpen(t.now) {
			return Refuse(codeClosed, "the channel is closed: open another")
		}
		if ch.opt.audit && !audited {
			return errAudited
		}
		size := len(o.payload) + len(o.metadata) + headRoom
		if ch.opt.audit {
			size *= 2
		}
		if err := t.roomOnDisk(in, who, size); err != nil {
			return err
		}
		m, err := t.post(ch, &o.draft)
		if err != nil {
			return err
		}
		if fresh {
			if err := t.bind(in, who); err != nil {
				return err
			}
		}
		out.Message = m.append(nil, who.name, m.at, false)
		if o.key == "" {
			return nil
		}
		if err := t.forgetSent(); err != nil {
			return err
		}
		return t.keepSaid(o, m)
	})
	return out, err
}

// existing returns a find for send: the channel must still be there.
func (e *Engine) existing(ch *channel) func(*tx) (*channel, error) {
	id := ch.id
	return func(*tx) (*channel, error) {
		if ch := e.channels[id]; ch != nil {
			return ch, nil
		}
		return nil, notFound("channel")
	}
}

// Send sends a message to the channel. intentID is the intent that the sender says it is of,
// "" if it says none. What is no channel's id is then the name of a channel of that intent,
// which is created if there is none.
func (e *Engine) Send(c *Call, o *Outgoing, channelID, intentID string) (Sent, error) {
	if out, err := e.saidBefore(c, o); err != nil || out.Repeated {
		return out, err
	}
	ch, _, err := e.lookFor(c, channelID)
	if err != nil {
		if _, isID := HostOf(channelID); !isID && intentID != "" && isNotFound(err) {
			return e.sendByName(c, o, intentID, channelID)
		}
		return Sent{}, err
	}
	if intentID != "" && intentID != ch.in.id {
		return Sent{}, Invalid("intent_id", "the channel belongs to another intent")
	}
	return e.send(c, o, ch.durable(e), e.existing(ch))
}

// SendByName sends a message to the intent's open channel of that name, and creates it if
// there is none.
func (e *Engine) SendByName(c *Call, o *Outgoing, intentID, name string) (Sent, error) {
	if out, err := e.saidBefore(c, o); err != nil || out.Repeated {
		return out, err
	}
	return e.sendByName(c, o, intentID, name)
}

func (e *Engine) sendByName(c *Call, o *Outgoing, intentID, name string) (Sent, error) {
	in, _, err := e.look(c, intentID, levelRead)
	if err != nil {
		return Sent{}, err
	}
	fresh := &channel{doc: Channel{Name: name, CreatedBy: o.who.Agent, Home: o.who.Home, Policy: policyIntent, Status: statusOpen}}
	if err := fresh.prepare(); err != nil {
		return Sent{}, err
	}
	durable := false
	e.rlocked(func() {
		ch := in.named(name, now())
		durable = ch != nil && ch.opt.audit
	})
	return e.send(c, o, durable, func(t *tx) (*channel, error) {
		in := e.intents[in.id]
		if ch := in.named(name, t.now); ch != nil {
			return ch, nil
		}
		if _, _, err := e.enter(in.id, o.who, levelWrite, t.now); err != nil {
			return nil, err
		}
		fresh.in = in
		return fresh, nil // post opens it, once it takes the message
	})
}

// Reply sends a response that [Call.PrepareReply] made to the channel of its request.
func (e *Engine) Reply(c *Call, o *Outgoing, channelID string) (Sent, error) {
	if out, err := e.saidBefore(c, o); err != nil || out.Repeated {
		return out, err
	}
	ch, _, err := e.lookFor(c, channelID)
	if err != nil {
		return Sent{}, err
	}
	return e.send(c, o, ch.durable(e), func(t *tx) (*channel, error) {
		ch, err := e.existing(ch)(t)
		if err != nil {
			return nil, err
		}
		m, err := t.message(ch, o.correlation)
		if err != nil {
			return nil, err
		}
		if ch.member(o.sender) && (m == nil || !m.sees(o.who)) {
			return nil, notFound("message")
		}
		return ch, nil
	})
}

// Pending is a message as its sender is answered while the host of its channel is out of reach.
type Pending struct {
	Sender  Caller
	ID      string
	Message jsontext.Value
}

// Pending makes the message that is answered while its host is out of reach. It goes to the
// channel with that id, or, if the id is "", to the intent's channel of that name.
func (o *Outgoing) Pending(e *Engine, channelID, intentID, name string) (*Pending, error) {
	if o.who.Operator {
		return nil, ErrNoAgent
	}
	at := now()
	p := &Pending{Sender: o.who, ID: e.messageID(at, 0)}
	message := []any{"id", p.ID, "channel_id", null(channelID), "sender", o.who.Agent, "to", null(o.to), "message_type", o.kind,
		"correlation_id", null(o.correlation), "payload", o.payload, "metadata", o.metadata, "created_at", at, "expires_at", o.expires,
		"status", "pending", "read_at", nil}
	if channelID == "" {
		message = append(message, "intent_id", intentID, "channel_name", name)
	}
	p.Message = Members(message...)
	return p, nil
}
