package openintent

import (
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// sendMessage is the body of a send, a reply and an ask.
type sendMessage struct {
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
func (s *sendMessage) draft(e *Engine) (*draft, error) {
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
		return nil, invalid("message_type", "one of %s", strings.Join(messageKinds, ", "))
	case d.to != "" && d.to != toAll && !(isRole && validAgentID(role)) && !validName(d.to):
		return nil, invalid("to", "an agent's id, role:<role>, or *")
	case d.home != "" && (d.to == "" || d.to == toAll || isRole):
		return nil, invalid("home", "it says where the agent is at home that to names")
	case d.kind == kindRequest && d.to == toAll:
		return nil, invalid("to", "a request goes to one agent or role")
	case d.kind == kindRequest && d.to == "" && !e.cfg.Lenient:
		return nil, invalid("to", "a request needs an agent or a role")
	case d.kind == kindBroadcast && d.to != "" && d.to != toAll:
		return nil, invalid("to", "a broadcast goes to *")
	case d.kind == kindResponse && d.correlation == "":
		return nil, invalid("correlation_id", "a response needs the id of its request")
	case d.kind != kindResponse && d.correlation != "":
		return nil, invalid("correlation_id", "only a response has one")
	}
	if d.kind == kindBroadcast {
		d.to = toAll
	}
	if d.payload == nil || d.payload.Kind() == 'n' {
		return nil, invalid("payload", "an object is needed: {} if there is nothing to say")
	}
	if d.metadata.Kind() == 'n' {
		return nil, invalid("metadata", "an object is needed, or none at all")
	}
	if err := object("payload", &d.payload); err != nil {
		return nil, err
	}
	if len(d.payload) > e.cfg.MaxPayload {
		return nil, refuse(http.StatusRequestEntityTooLarge, "too_large", "payload: %d bytes, at most %d are taken: put large data elsewhere and refer to it", len(d.payload), e.cfg.MaxPayload)
	}
	return d, metadata(&d.metadata)
}

// metadata makes sure that v is an object that is not too long.
func metadata(v *jsontext.Value) error {
	const most = 64 << 10
	if err := object("metadata", v); err != nil {
		return err
	}
	if len(*v) > most {
		return refuse(http.StatusRequestEntityTooLarge, "too_large", "metadata: %d bytes, at most %d are taken", len(*v), most)
	}
	return nil
}

// sent is the outcome of a send: the message as its sender sees it.
type sent struct {
	m      *message
	doc    jsontext.Value
	repeat bool // an earlier send with the same Idempotency-Key made it
}

// outgoing is a send on its way to its channel.
type outgoing struct {
	draft
	once
	who    Caller // the sender: the caller, or an agent that it may act as
	intent string // what the body names
}

// sending makes a handler of send. What was said to an earlier one it says again.
func sending(send func(*Engine, *call, *outgoing) (sent, error)) func(*Engine, *call) (int, any, error) {
	return func(e *Engine, c *call) (int, any, error) {
		o, err := c.outgoing()
		if err != nil {
			return 0, nil, err
		}
		s := sent{repeat: true}
		if s.doc, err = e.saidBefore(c.Context(), o); err == nil && s.doc == nil {
			s, err = send(e, c, o)
		}
		if err != nil {
			return 0, nil, err
		}
		if s.repeat {
			c.w.Header().Set("Idempotency-Replayed", "true")
		}
		return http.StatusCreated, s.doc, nil
	}
}

// outgoing reads the body of a send.
func (c *call) outgoing() (*outgoing, error) {
	var body sendMessage
	if err := c.decode(&body); err != nil {
		return nil, err
	}
	if c.route.path == sends[2] { // a reply
		id := c.arg(1)
		body.Kind, body.Correlation, body.To, body.Home = kindResponse, &id, nil, ""
	}
	d, err := body.draft(c.e)
	if err != nil {
		return nil, err
	}
	o := &outgoing{draft: *d, intent: body.IntentID}
	if o.who, err = c.as("sender", body.Sender); err != nil {
		return nil, err
	}
	o.sender = o.who.name
	o.once, err = c.once(o.who)
	o.draft.id = o.once.given
	return o, err
}

// errAudited is the error of a send to a channel that has become an audited one.
var errAudited = errors.New("the channel is audited now")

// send puts a message into the channel that find returns, in one write.
func (e *Engine) send(c *call, o *outgoing, audited bool, find func(*tx) (*channel, error)) (sent, error) {
	if err := o.prepare(audited); err != nil {
		return sent{}, err
	}
	out, err := e.sendOnce(c, o, audited, find)
	if err == errAudited {
		return e.send(c, o, true, find)
	}
	return out, err
}

func (e *Engine) sendOnce(c *call, o *outgoing, audited bool, find func(*tx) (*channel, error)) (sent, error) {
	var out sent
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
			return forbidden(codeNotMember, "the channel is for its members: ask its creator to add you")
		}
		if o.key != "" {
			if out.doc, err = o.repeated(t.Tx, ch.id, t.now); err != nil || out.doc != nil {
				out.repeat = out.doc != nil
				return err
			}
		}
		if o.given != "" {
			if out.doc, err = t.given(ch, who, o.given); err != nil || out.doc != nil {
				out.repeat = out.doc != nil
				return err
			}
		}
		if !ch.isOpen(t.now) {
			return conflict(codeClosed, "the channel is closed: open another")
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
		if out.m, err = t.post(ch, &o.draft); err != nil {
			return err
		}
		if fresh {
			if err := t.bind(in, who); err != nil {
				return err
			}
		}
		out.doc = out.m.append(nil, who.name, out.m.at, false)
		if o.key == "" {
			return nil
		}
		if err := t.forgetSent(); err != nil {
			return err
		}
		return t.keepSaid(o, out.m)
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

func (e *Engine) postMessage(c *call, o *outgoing) (sent, error) {
	ch, _, err := e.lookFor(c, c.arg(0))
	if err != nil {
		// Implicit creation: what is no channel is a name in the intent that is named.
		if r, ok := err.(*Error); ok && r.Status == http.StatusNotFound && o.intent != "" {
			if _, isID := HostOf(c.arg(0)); !isID {
				if err := c.elsewhere(o.intent); err != nil {
					return sent{}, err
				}
				return e.sendByName(c, o, o.intent, c.arg(0))
			}
		}
		return sent{}, err
	}
	if o.intent != "" && o.intent != ch.in.id {
		return sent{}, invalid("intent_id", "the channel belongs to another intent")
	}
	return e.send(c, o, ch.durable(e), e.existing(ch))
}

func (e *Engine) postByName(c *call, o *outgoing) (sent, error) {
	return e.sendByName(c, o, c.arg(0), c.arg(1))
}

// sendByName sends to the intent's open channel of that name, and creates it if
// there is none.
func (e *Engine) sendByName(c *call, o *outgoing, intentID, name string) (sent, error) {
	in, _, err := e.look(c, intentID, levelRead)
	if err != nil {
		return sent{}, err
	}
	fresh := &channel{doc: Channel{Name: name, CreatedBy: o.who.Agent, Home: o.who.Home, Policy: policyIntent, Status: statusOpen}}
	if err := fresh.prepare(); err != nil {
		return sent{}, err
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

func (e *Engine) reply(c *call, o *outgoing) (sent, error) {
	ch, _, err := e.lookFor(c, c.arg(0))
	if err != nil {
		return sent{}, err
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
