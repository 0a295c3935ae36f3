package openintent

import (
	"cmp"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// sendMessage is the body of a send, a reply and an ask.
type sendMessage struct {
	Sender      string         `json:"sender"`
	To          *string        `json:"to"`
	Kind        string         `json:"message_type"`
	Correlation *string        `json:"correlation_id"`
	Payload     jsontext.Value `json:"payload"`
	Metadata    jsontext.Value `json:"metadata"`
	ExpiresAt   stamp          `json:"expires_at"`
	IntentID    string         `json:"intent_id"` // makes a name of what is no channel's id
}

// draft checks everything that can be checked without the channel.
func (s *sendMessage) draft(e *Engine) (*draft, error) {
	d := &draft{kind: s.Kind, payload: s.Payload, metadata: s.Metadata, expires: s.ExpiresAt}
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
	case d.to != "" && d.to != toAll && !(isRole && validAgentID(role)) && !validAgentID(d.to):
		return nil, invalid("to", "an agent's id, role:<role>, or *")
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

const (
	headerKey = "Idempotency-Key"
	keyTTL    = 7 * 24 * time.Hour

	// headerID is the id of a message that a home has accepted, and answered as
	// pending, while its host was out of reach. Homes alone may choose ids, of
	// their own making and without a number; each is a key where there is none.
	headerID = "X-Message-ID"
)

// key reads the key under which a send is made once.
func (c *call) key() (string, error) {
	key := c.Header.Get(headerKey)
	if len(key) > maxName {
		return "", refuse(http.StatusBadRequest, "bad_key", "%s: at most %d bytes", headerKey, maxName)
	}
	return key, nil
}

// send puts a draft into the channel that find returns, in one write. who is
// the sender, the caller or an agent that it may act as.
func (e *Engine) send(c *call, who Caller, d *draft, durable bool, find func(*tx) (*channel, error)) (sent, error) {
	var out sent
	d.sender = who.Agent
	key, err := c.key()
	if err != nil {
		return out, err
	}
	if id := c.Header.Get(headerID); id != "" && who.Home != "" {
		if prefix, host, _, number, ok := splitID(id); !ok || prefix != idMessage || !strings.HasPrefix(who.Home, host) || number != 0 {
			return out, refuse(http.StatusBadRequest, "bad_id", "%s: a home chooses ids with its own digits and the number 0", headerID)
		}
		d.id, key = id, cmp.Or(key, id)
	}
	err = e.write(c.Context(), durable, func(t *tx) error {
		ch, err := find(t)
		if err != nil {
			return err
		}
		in, fresh, err := e.enter(ch.in.id, who, levelRead, t.now)
		if err != nil {
			return hidden(err, "channel")
		}
		if !ch.member(who.Agent) {
			if !ch.opt.discoverable {
				return notFound("channel")
			}
			return forbidden(codeNotMember, "the channel is for its members: ask its creator to add you")
		}
		var hash [sha256.Size]byte
		if key != "" {
			hash = sha256.Sum256(append([]byte(c.URL.Path+"\n"), c.body...))
			if out.doc, err = t.sentBefore(ch, who.Agent, key, hash[:]); err != nil || out.doc != nil {
				out.repeat = out.doc != nil
				return err
			}
		}
		if d.id != "" {
			if out.doc, err = t.given(ch, who, d.id); err != nil || out.doc != nil {
				out.repeat = out.doc != nil
				return err
			}
		}
		if !ch.isOpen(t.now) {
			return conflict(codeClosed, "the channel is closed: open another")
		}
		if out.m, err = t.post(ch, d); err != nil {
			return err
		}
		if fresh {
			if err := t.bind(in, who); err != nil {
				return err
			}
		}
		out.doc = out.m.append(nil, who.Agent, t.now, false)
		if key != "" {
			return t.keepSent(ch, who.Agent, key, hash[:], out.doc)
		}
		return nil
	})
	return out, err
}

// given returns the message with an id of its home's choice, if there is one: that
// may have been sent so long ago that its key is forgotten.
func (t *tx) given(ch *channel, who Caller, id string) (jsontext.Value, error) {
	taken, err := t.isGiven(id)
	if !taken || err != nil {
		return nil, err
	}
	m, err := t.message(ch, id)
	if err != nil {
		return nil, err
	}
	if m == nil || m.sender != who.Agent {
		return nil, conflict("id_taken", "%s: another message has this id: choose another", headerID)
	}
	return m.append(nil, who.Agent, t.now, false), nil
}

func (s sent) answer(c *call) (int, any, error) {
	if s.repeat {
		c.w.Header().Set("Idempotency-Replayed", "true")
	}
	return http.StatusCreated, s.doc, nil
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

func (e *Engine) postMessage(c *call) (int, any, error) {
	var body sendMessage
	if err := c.decode(&body); err != nil {
		return 0, nil, err
	}
	ch, err := e.channel(c, c.arg(0))
	if err != nil {
		// Implicit creation: what is no channel is a name in the intent that is named.
		if r, ok := err.(*Error); ok && r.Status == http.StatusNotFound && body.IntentID != "" {
			if _, isID := HostOf(c.arg(0)); !isID {
				if err := c.elsewhere(body.IntentID); err != nil {
					return 0, nil, err
				}
				return e.sendByName(c, body.IntentID, c.arg(0), body)
			}
		}
		return 0, nil, err
	}
	if body.IntentID != "" && body.IntentID != ch.in.id {
		return 0, nil, invalid("intent_id", "the channel belongs to another intent")
	}
	return e.sendTo(c, body, ch.durable(e), e.existing(ch))
}

func (e *Engine) postByName(c *call) (int, any, error) {
	var body sendMessage
	if err := c.decode(&body); err != nil {
		return 0, nil, err
	}
	return e.sendByName(c, c.arg(0), c.arg(1), body)
}

func (e *Engine) sendTo(c *call, body sendMessage, durable bool, find func(*tx) (*channel, error)) (int, any, error) {
	d, err := body.draft(e)
	if err != nil {
		return 0, nil, err
	}
	who, err := c.as("sender", body.Sender)
	if err != nil {
		return 0, nil, err
	}
	s, err := e.send(c, who, d, durable, find)
	if err != nil {
		return 0, nil, err
	}
	return s.answer(c)
}

// sendByName sends to the intent's open channel of that name, and creates it if
// there is none (C11).
func (e *Engine) sendByName(c *call, intentID, name string, body sendMessage) (int, any, error) {
	in, err := e.intent(c, intentID, levelRead)
	if err != nil {
		return 0, nil, err
	}
	fresh := &channel{doc: Channel{Name: name, Policy: policyIntent, Status: statusOpen}}
	if err := fresh.prepare(nil); err != nil {
		return 0, nil, err
	}
	e.mu.RLock()
	ch := in.named(name, now())
	durable := ch != nil && ch.opt.audit
	e.mu.RUnlock()
	return e.sendTo(c, body, durable, func(t *tx) (*channel, error) {
		in := e.intents[in.id]
		if ch := in.named(name, t.now); ch != nil {
			return ch, nil
		}
		who, err := c.as("sender", body.Sender)
		if err != nil {
			return nil, err
		}
		if _, _, err := e.enter(in.id, who, levelWrite, t.now); err != nil {
			return nil, err
		}
		fresh.doc.CreatedBy, fresh.doc.Home, fresh.in = who.Agent, who.Home, in
		return fresh, nil // post opens it, once it takes the message
	})
}

func (e *Engine) reply(c *call) (int, any, error) {
	var body sendMessage
	if err := c.decode(&body); err != nil {
		return 0, nil, err
	}
	ch, err := e.channel(c, c.arg(0))
	if err != nil {
		return 0, nil, err
	}
	id := c.arg(1)
	body.Kind, body.Correlation, body.To = kindResponse, &id, nil
	return e.sendTo(c, body, ch.durable(e), func(t *tx) (*channel, error) {
		ch, err := e.existing(ch)(t)
		if err != nil {
			return nil, err
		}
		m, err := t.message(ch, id)
		if err != nil {
			return nil, err
		}
		who, err := c.as("sender", body.Sender)
		if err != nil {
			return nil, err
		}
		if ch.member(who.Agent) && (m == nil || !e.sees(m, who, t.now)) {
			return nil, notFound("message")
		}
		return ch, nil
	})
}
