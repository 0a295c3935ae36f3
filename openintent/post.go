package openintent

import (
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// draft is a message before it has a place in a channel.
type draft struct {
	kind, sender      string // sender: its name
	to, home          string // as the sender says; home: of to, "" for none
	correlation       string
	payload, metadata jsontext.Value
	canonical         jsontext.Value // the RFC 8785 form of payload, for proofs and the log; nil where prepare was not called
	proof             *chain.Proof   // what metadata has; nil: none
	trace, parent     string         // of the event that tells of it
	expires           chain.Time
	id                string // chosen by the sender's home; empty: by the host
	ask               *ask   // who waits for its responses
	payer             string // of a notice: the daemon whose share its event is of
}

// post puts d into the channel, which it opens if it is not. The sender's
// rights have been checked; the message's have not.
func (t *tx) post(ch *channel, d *draft) (*message, error) {
	e := t.e
	at := max(t.now, ch.last) // the clock may go back; ids and cursors do not
	m := &message{ch: ch, number: ch.count + 1, kind: d.kind, sender: d.sender, to: d.to, correlation: d.correlation, at: at, expires: d.expires, state: &state{deadline: d.expires}}
	var request *message
	if d.kind == kindResponse {
		var err error
		if request, err = t.answers(ch, d); err != nil {
			return nil, err
		}
		m.to, m.lead = request.sender, request.kind == kindRequest && !request.answered
	} else if err := t.reaches(ch, m, d); err != nil {
		return nil, err
	}
	if m.kind == kindRequest && m.deadline == 0 {
		m.deadline = at.Add(e.cfg.RequestTTL)
	}
	if a := e.agents[e.key(d.sender)]; d.sender != system {
		key := ""
		if a != nil && a.doc.PublicKey != nil {
			key = *a.doc.PublicKey
		}
		said := d.to
		if d.kind == kindResponse {
			said = ownID(m.to, m.sender)
		}
		if d.proof != nil {
			if err := d.proof.Check(key, &chain.Message{ChannelID: m.ch.id, Sender: ownID(m.sender, m.sender), To: said, Kind: m.kind, Correlation: m.correlation,
				ExpiresAt: m.expires, Payload: d.canonical}); err != nil {
				return nil, badProof(err)
			}
		}
	}
	if ch.row == 0 {
		if err := t.open(ch.in, ch); err != nil {
			return nil, err
		}
	}
	m.seq, m.id, m.given = t.number(), d.id, d.id != ""
	if !m.given {
		m.id = e.messageID(at, m.number)
	}
	m.encode(d.payload, d.metadata)
	if err := errors.Join(t.insertMessage(m), t.wrote(ch.in, e.pays(m.sender, ch.doc.Home), share{bytes: int64(len(m.head))})); err != nil {
		return nil, err
	}
	if m.lead {
		if err := t.answer(request); err != nil {
			return nil, err
		}
	}
	if err := t.evict(ch, m.number); err != nil {
		return nil, err
	}
	last, used := ch.last, ch.used
	var answered *message // of those that may still be answered
	if m.lead {
		answered = ch.open[request.id]
	}
	steps := []step{{func() {
		ch.count, ch.last = m.number, at
		if m.sender != system {
			ch.used = at
		}
	}, func() { ch.count, ch.last, ch.used = m.number-1, last, used }}}
	if m.lead {
		steps = append(steps, step{func() {
			request.answered = true
			delete(ch.open, request.id)
		}, func() {
			if request.answered = false; answered != nil {
				ch.open[request.id] = answered
			}
		}})
	}
	if m.kind == kindRequest && !m.expired(at) {
		steps = append(steps, step{func() {
			if ch.open == nil {
				ch.open = make(map[string]*message)
			}
			ch.open[m.id] = m.light()
		}, func() { delete(ch.open, m.id) }})
	}
	if d.ask != nil {
		steps = append(steps, step{func() {
			if ch.asks == nil {
				ch.asks = make(map[string]*ask)
			}
			d.ask.request, ch.asks[m.id] = m, d.ask
		}, func() { delete(ch.asks, m.id) }})
	}
	t.apply(append(steps, step{nil, func() { e.unremember(m) }}, step{func() { e.remember(m) }, nil})...)
	t.out = append(t.out, entry{seq: m.seq, in: ch.in, message: m})
	if ch.opt.audit {
		return m, t.audit(m, d)
	}
	return m, nil
}

// answers finds what a response answers and decides whether its sender may.
func (t *tx) answers(ch *channel, d *draft) (*message, error) {
	request, err := t.message(ch, d.correlation)
	if err != nil {
		return nil, err
	}
	switch {
	case request == nil || request.sender != d.sender && !request.receives(d.sender) && d.sender != operator:
		return nil, Invalid("correlation_id", "there is no such request in this channel that you can see: the list of its messages has their ids")
	case request.kind != kindRequest && !t.e.cfg.Lenient:
		return nil, Invalid("correlation_id", "only requests are answered: this is a %s; send a message instead", request.kind)
	case !request.receives(d.sender):
		return nil, Refuse("not_recipient", "the request is for somebody else: reply as the agent that it is for (acpctl: --as)")
	case request.deadline != 0 && request.deadline <= t.now && (request.kind == kindRequest && !request.answered || request.expires != 0):
		return nil, Refuse("request_expired", "the request has expired: its sender waits no more; send a message instead")
	}
	return request, nil
}

// reaches finds out whom the message goes to, and decides whether it may: the agent
// that d names, or who holds the role that it names now.
func (t *tx) reaches(ch *channel, m *message, d *draft) (err error) {
	e := t.e
	if m.direct() {
		if m.to, err = e.recipient(ch, d.to, d.home); err != nil {
			return err
		}
		if k := e.key(m.to); !ch.member(m.to) || e.agentLevel(ch.in, k, t.now) == levelNone {
			return e.noPart(ch, k)
		}
	}
	if role, ok := strings.CutPrefix(m.to, toRole); ok {
		var members map[string]bool // nil: everybody
		if ch.doc.Policy != policyIntent {
			members = nameSet(ch.doc.Members)
		}
		for key := range e.roles[role] {
			name := e.name(key)
			if name == m.sender || members != nil && !members[name] || !e.hasRole(ch.in, key, role, t.now) || e.agentLevel(ch.in, key, t.now) == levelNone {
				continue
			}
			if len(m.recipients) >= maxEntries {
				return tooMany("agents that would get this message", maxEntries, "send it to a role that fewer have, or to a channel of some members")
			}
			m.recipients = append(m.recipients, name)
		}
	}
	if m.kind == kindRequest {
		return t.roomToAsk(ch, e.key(m.sender).home)
	}
	return nil
}

// noPart says why an agent takes no part in a channel, and who can change that.
func (e *Engine) noPart(ch *channel, k agentKey) error {
	const code = "recipient_not_member"
	switch {
	case !ch.member(e.name(k)):
		return Refuse(code, "to: the recipient is no member of the channel: ask the channel's creator to add it, with its home if it is another daemon's agent")
	case k.home == "" || ch.in.Policy != "open":
		return Refuse(code, "to: the recipient has no access to the intent: ask the intent's creator to grant it some, with its home if it is another daemon's agent")
	case e.openTo(k.home):
		return Refuse(code, "to: the recipient's id is another agent's on this intent: ask the intent's creator to grant it access with its home, or to free the id (acpctl channel homes)")
	}
	return Refuse(code, "to: the intent is not open to agents of the recipient's daemon: let channels.open_to in config.yaml on the intent's machine name that daemon, or ask the intent's creator to grant the recipient access with its home")
}

// sweepTime is how long a channel that is full of open requests is not looked
// through again, however many are refused meanwhile.
const sweepTime = time.Second

// roomToAsk refuses a request that the channel has no room for. Those that have
// expired leave when there may be as many of them as of the others, or no room.
func (t *tx) roomToAsk(ch *channel, home string) error {
	due := len(ch.open) >= max(64, 2*ch.left)
	if len(ch.open) >= t.e.openMost {
		due = t.now < ch.swept || t.now >= ch.swept.Add(sweepTime)
	}
	if due {
		t.e.locked(func() {
			maps.DeleteFunc(ch.open, func(_ string, r *message) bool { return r.expired(t.now) })
			ch.left, ch.swept = len(ch.open), t.now
		})
	}
	if len(ch.open) >= t.e.openMost {
		return tooMany("open requests in this channel", t.e.openMost, "come again when some are answered or have expired")
	}
	if home == "" || len(ch.open) < t.e.openMost/4 {
		return nil
	}
	var open part
	for _, r := range ch.open {
		if at := len(r.sender) - homeDigits - 1; at > 0 && r.sender[at] == '@' && r.sender[at+1:] != t.e.self && !r.expired(t.now) {
			open.add(r.sender[at+1:], home)
		}
	}
	return open.room(home, "open requests in this channel", t.e.openMost, "come again when some are answered or have expired")
}

// message finds a message of the channel by its id; nil if there is none any more.
func (t *tx) message(ch *channel, id string) (*message, error) {
	prefix, _, _, number, ok := splitID(id)
	if !ok || prefix != idMessage {
		return nil, nil
	}
	if m := ch.remembered(number); m != nil && m.id == id {
		return m, nil
	}
	m, err := messageByID(t.Tx, ch, id, number)
	if err != nil || m == nil {
		return nil, err
	}
	if live := ch.remembered(m.number); live != nil {
		return live, nil
	}
	if open := ch.open[id]; open != nil {
		m.state = open.state
	} else if !m.kept(t.now) {
		return nil, nil
	}
	return m, nil
}
