package openintent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Channel is the object of RFC-0021 section 1.1. Options holds what was set,
// without the defaults.
type Channel struct {
	ID            string         `json:"id"`
	IntentID      string         `json:"intent_id"`
	TaskID        *string        `json:"task_id"`
	Name          string         `json:"name"`
	CreatedBy     string         `json:"created_by"`
	Members       []string       `json:"members"`
	Policy        string         `json:"member_policy"`
	Options       jsontext.Value `json:"options"`
	Status        string         `json:"status"`
	CreatedAt     stamp          `json:"created_at"`
	ClosedAt      stamp          `json:"closed_at"`
	MessageCount  int64          `json:"message_count"`
	LastMessageAt stamp          `json:"last_message_at"`
	Restricted    bool           `json:"restricted,omitzero"` // the caller is no member and sees a stub
}

const (
	policyExplicit = "explicit"
	policyIntent   = "intent"
	statusOpen     = "open"
	statusClosed   = "closed"
)

// channel is a Channel and its messages, as far as they are in memory.
type channel struct {
	row int64
	in  *intent
	doc Channel // its counters stand below
	opt options

	count int64 // messages ever sent, which is the number of the last
	last  stamp // of the last message
	used  stamp // of the last message that no notice is; the ttl counts from it

	recent  []*message          // the last messages, in order
	dropped stamp               // when a message was dropped from recent that is still kept
	open    map[string]*message // requests that may still be answered first, by id
	swept   int                 // how many of open were left when it was last looked through
	asks    map[string]*ask     // who waits for responses, by the request's id
	news    map[string]bool     // agents that got a response since their last plain list
	bell    bell                // rung for every message, and when the channel closes
}

// options are the options that mean something here.
type options struct {
	audit        bool
	discoverable bool
	ttl          time.Duration // 0: none
	max          int64
}

const (
	maxName        = 128
	maxMessages    = 10_000
	defaultMax     = 1000
	maxOptions     = 16 << 10
	maxTTL         = 10 * 366 * 24 * 3600
	optAudit       = "audit"
	optTTL         = "ttl_seconds"
	optMax         = "max_messages"
	optDiscover    = "discoverable"
	notMemberCode  = "not_member"
	closedCode     = "channel_closed"
	conflictByName = "channel_name_conflict"
)

// parseOptions reads an options object.
func parseOptions(raw jsontext.Value) (options, error) {
	var o struct {
		Audit    *bool  `json:"audit"`
		TTL      *int64 `json:"ttl_seconds"`
		Max      *int64 `json:"max_messages"`
		Discover *bool  `json:"discoverable"`
	}
	if len(raw) > maxOptions {
		return options{}, invalid("options", "at most %d bytes", maxOptions)
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return options{}, invalid("options", "audit and discoverable are true or false, ttl_seconds and max_messages whole numbers")
	}
	p := options{max: defaultMax, discoverable: true}
	if o.Audit != nil {
		p.audit = *o.Audit
	}
	if o.Discover != nil {
		p.discoverable = *o.Discover
	}
	if o.TTL != nil {
		if *o.TTL < 1 || *o.TTL > maxTTL {
			return options{}, invalid("options", "ttl_seconds: 1 to %d, or null", maxTTL)
		}
		p.ttl = time.Duration(*o.TTL) * time.Second
	}
	if o.Max != nil {
		if *o.Max < 1 || *o.Max > maxMessages {
			return options{}, invalid("options", "max_messages: 1 to %d", maxMessages)
		}
		p.max = *o.Max
	}
	return p, nil
}

// merged returns all options with the defaults; names that mean nothing here stay.
func (p options) merged(raw jsontext.Value) jsontext.Value {
	var all map[string]jsontext.Value
	if err := json.Unmarshal(raw, &all); err != nil || all == nil {
		all = make(map[string]jsontext.Value)
	}
	ttl := jsontext.Value("null")
	if p.ttl > 0 {
		ttl = fmt.Append(nil, int64(p.ttl/time.Second))
	}
	all[optAudit], all[optTTL], all[optMax] = fmt.Append(nil, p.audit), ttl, fmt.Append(nil, p.max)
	text, err := json.Marshal(all, json.Deterministic(true))
	if err != nil {
		panic(err) // parts of valid JSON
	}
	return text
}

// isOpen reports whether messages may be sent. A channel past its ttl is
// closed before the alarm gets to it.
func (ch *channel) isOpen(at stamp) bool {
	return ch.doc.Status == statusOpen && !ch.expired(at)
}

func (ch *channel) expired(at stamp) bool { return ch.opt.ttl > 0 && ch.end() <= at }

// end is when the ttl closes the channel.
func (ch *channel) end() stamp { return max(ch.used, ch.doc.CreatedAt).add(ch.opt.ttl) }

// floor is the number of the last message that max_messages has evicted.
func (ch *channel) floor() int64 { return max(0, ch.count-ch.opt.max) }

// show returns the channel as it is answered.
func (ch *channel) show(at stamp) Channel {
	doc := ch.doc
	doc.Options = ch.opt.merged(ch.doc.Options)
	doc.MessageCount, doc.LastMessageAt = ch.count, ch.last
	if doc.Status == statusOpen && ch.expired(at) {
		doc.Status, doc.ClosedAt = statusClosed, ch.end()
	}
	return doc
}

// stub is what an agent sees that has access to the intent and is no member.
func (ch *channel) stub(at stamp) Channel {
	full := ch.show(at)
	return Channel{ID: full.ID, IntentID: full.IntentID, Name: full.Name, Status: full.Status, Policy: full.Policy, CreatedAt: full.CreatedAt,
		Members: []string{}, Options: jsontext.Value("{}"), Restricted: true}
}

// member reports whether the agent, which has access to the intent, may take part.
func (ch *channel) member(agent string) bool {
	return ch.doc.Policy == policyIntent || slices.Contains(ch.doc.Members, agent)
}

// manages reports whether who may change the channel (X6).
func (e *Engine) manages(ch *channel, who Caller, at stamp) bool {
	return who.Agent == ch.doc.CreatedBy || e.coordinates(ch.in, who, at)
}

// channel finds a channel whose intent the caller can see.
func (e *Engine) channel(c *call, id string) (*channel, error) {
	e.mu.RLock()
	ch := e.channels[id]
	e.mu.RUnlock()
	if ch == nil {
		return nil, notFound("channel")
	}
	if _, err := e.intent(c, ch.in.doc.ID, levelRead); err != nil {
		return nil, hidden(err, "channel")
	}
	return ch, nil
}

// reads refuses who may not see the messages of a channel that it can see.
func (e *Engine) reads(ch *channel, who Caller) error {
	if who.Operator || ch.member(who.Agent) {
		return nil
	}
	if !ch.opt.discoverable {
		return notFound("channel")
	}
	return forbidden(notMemberCode, "the channel is for its members: ask its creator to add you")
}

type createChannel struct {
	Name    string         `json:"name"`
	Members []string       `json:"members"`
	Policy  string         `json:"member_policy"`
	TaskID  *string        `json:"task_id"`
	Options jsontext.Value `json:"options"`
}

func (e *Engine) createChannel(c *call) (int, any, error) {
	var body createChannel
	if err := c.decode(&body); err != nil {
		return 0, nil, err
	}
	if body.Policy == "" {
		body.Policy = policyIntent
	}
	ch := &channel{doc: Channel{Name: body.Name, CreatedBy: c.who.Agent, Policy: body.Policy, TaskID: body.TaskID, Options: body.Options}}
	if err := ch.prepare(body.Members); err != nil {
		return 0, nil, err
	}
	err := e.writeIntent(c, c.arg(0), levelWrite, func(t *tx, in *intent) error { return t.open(in, ch) })
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, e.answer(ch, body.Options), nil
}

// answer shows a channel to who has just set its options.
func (e *Engine) answer(ch *channel, sent jsontext.Value) Channel {
	e.mu.RLock()
	defer e.mu.RUnlock()
	doc := ch.show(now())
	if e.cfg.Lenient {
		if doc.Options = sent; sent == nil {
			doc.Options = jsontext.Value("null")
		}
	}
	return doc
}

// prepare checks what a new channel is to be.
func (ch *channel) prepare(members []string) (err error) {
	if ch.doc.Name == "" || len(ch.doc.Name) > maxName {
		return invalid("name", "1 to %d bytes are needed", maxName)
	}
	if ch.doc.TaskID != nil && len(*ch.doc.TaskID) > maxAgentID {
		return invalid("task_id", "at most %d bytes", maxAgentID)
	}
	if err := validPolicy(ch.doc.Policy); err != nil {
		return err
	}
	if ch.doc.Members, err = memberList("members", members); err != nil {
		return err
	}
	if ch.doc.Policy == policyExplicit && len(ch.doc.Members) == 0 {
		ch.doc.Members = []string{ch.doc.CreatedBy}
	}
	if err := object("options", &ch.doc.Options); err != nil {
		return err
	}
	ch.opt, err = parseOptions(ch.doc.Options)
	return err
}

func validPolicy(policy string) error {
	if policy != policyExplicit && policy != policyIntent {
		return invalid("member_policy", "explicit or intent")
	}
	return nil
}

// memberList checks a list of agents and takes repetitions out.
func memberList(field string, list []string) ([]string, error) {
	if len(list) > maxEntries {
		return nil, invalid(field, "at most %d", maxEntries)
	}
	once := []string{}
	for _, m := range list {
		if !validAgentID(m) {
			return nil, invalid(field, "each is the id of an agent")
		}
		if !slices.Contains(once, m) {
			once = append(once, m)
		}
	}
	return once, nil
}

// open makes a prepared channel one of the intent's.
func (t *tx) open(in *intent, ch *channel) error {
	if in.terminal() {
		return conflict("intent_terminal", "the intent is %s: its channels are closed for good", in.doc.Status)
	}
	if old := in.named(ch.doc.Name, t.now); old != nil {
		return conflict(conflictByName, "an open channel of the intent has this name already").with("channel_id", old.doc.ID)
	}
	if ch.doc.TaskID != nil {
		if k := t.e.tasks[*ch.doc.TaskID]; k != nil && k.in == in && taskOver(k.doc.Status) {
			return conflict("task_over", "the task is %s, so a channel for it would be closed", k.doc.Status)
		}
	}
	if len(t.e.channels) >= maxChannels {
		return tooMany("channels", maxChannels)
	}
	ch.row, ch.in = t.row(), in
	ch.doc.ID, ch.doc.IntentID, ch.doc.Status, ch.doc.CreatedAt = t.e.newID(idChannel, t.now), in.doc.ID, statusOpen, t.now
	if err := t.saveChannel(ch, ch.doc); err != nil {
		return err
	}
	t.apply(func() {
		in.channels = append(in.channels, ch)
		t.e.channels[ch.doc.ID] = ch
		t.e.setAlarm(ch)
	})
	return nil
}

// named returns the intent's open channel of that name.
func (in *intent) named(name string, at stamp) *channel {
	for _, ch := range in.channels {
		if ch.doc.Name == name && ch.isOpen(at) {
			return ch
		}
	}
	return nil
}

func (e *Engine) listChannels(c *call) (int, any, error) {
	in, err := e.intent(c, c.arg(0), levelRead)
	if err != nil {
		return 0, nil, err
	}
	at := now()
	list, closed := []Channel{}, []Channel{}
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, ch := range in.channels {
		doc := ch.show(at)
		if !c.who.Operator && !ch.member(c.who.Agent) && !e.manages(ch, c.who, at) {
			if !ch.opt.discoverable {
				continue
			}
			doc = ch.stub(at)
		}
		if doc.Status == statusOpen {
			list = append(list, doc)
		} else {
			closed = append(closed, doc)
		}
	}
	return http.StatusOK, append(list, closed...), nil
}

func (e *Engine) getChannel(c *call) (int, any, error) {
	ch, err := e.channel(c, c.arg(0))
	if err != nil {
		return 0, nil, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	at := now()
	if !e.manages(ch, c.who, at) {
		if err := e.reads(ch, c.who); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, ch.show(at), nil
}

type patchChannel struct {
	Members *[]string      `json:"members"`
	Add     []string       `json:"add_members"`
	Remove  []string       `json:"remove_members"`
	Policy  *string        `json:"member_policy"`
	Options jsontext.Value `json:"options"`
	Status  *string        `json:"status"`
}

func (p *patchChannel) closes() bool { return p.Status != nil && *p.Status == statusClosed }

// change makes the patch in a copy of the channel.
func (p *patchChannel) change(doc *Channel) (opt options, err error) {
	doc.Members = slices.Clone(doc.Members)
	if p.Members != nil {
		if doc.Members, err = memberList("members", *p.Members); err != nil {
			return opt, err
		}
	}
	if doc.Members, err = memberList("add_members", append(doc.Members, p.Add...)); err != nil {
		return opt, err
	}
	doc.Members = slices.DeleteFunc(doc.Members, func(m string) bool { return slices.Contains(p.Remove, m) })
	if p.Policy != nil {
		doc.Policy = *p.Policy
		if err := validPolicy(doc.Policy); err != nil {
			return opt, err
		}
	}
	if p.Options != nil && p.Options.Kind() != 'n' {
		var all, patch map[string]jsontext.Value
		if err := errors.Join(json.Unmarshal(doc.Options, &all), json.Unmarshal(p.Options, &patch)); err != nil {
			return opt, invalid("options", "an object is needed")
		}
		for name, v := range patch { // RFC 7396
			if v.Kind() == 'n' {
				delete(all, name)
			} else {
				all[name] = v
			}
		}
		if doc.Options, err = json.Marshal(all, json.Deterministic(true)); err != nil {
			return opt, err
		}
	}
	return parseOptions(doc.Options)
}

func (e *Engine) patchChannel(c *call) (int, any, error) {
	var body patchChannel
	if err := c.decode(&body); err != nil {
		return 0, nil, err
	}
	if body.Status != nil && *body.Status != statusOpen && *body.Status != statusClosed {
		return 0, nil, invalid("status", "open or closed")
	}
	if max(len(body.Add), len(body.Remove)) > maxEntries {
		return 0, nil, invalid("add_members", "at most %d", maxEntries)
	}
	onlyCloses := body.closes() && body.Members == nil && body.Add == nil && body.Remove == nil && body.Policy == nil && body.Options == nil
	ch, err := e.manage(c, onlyCloses, func(t *tx, ch *channel) error {
		if !ch.isOpen(t.now) {
			if onlyCloses {
				return nil
			}
			return conflict(closedCode, "a closed channel cannot be changed or opened again: create another")
		}
		doc := ch.doc
		opt, err := body.change(&doc)
		if err != nil {
			return err
		}
		if err := t.saveChannel(ch, doc); err != nil {
			return err
		}
		t.apply(func() {
			ch.doc, ch.opt = doc, opt
			t.e.setAlarm(ch)
		})
		if body.closes() {
			return t.close(ch, t.now)
		}
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, e.answer(ch, body.Options), nil
}

type closedChannel struct {
	Status    string `json:"status"`
	ChannelID string `json:"channel_id"`
}

func (e *Engine) deleteChannel(c *call) (int, any, error) {
	ch, err := e.manage(c, true, func(t *tx, ch *channel) error {
		if err := t.close(ch, t.now); err != nil {
			return err
		}
		return t.purge(ch)
	})
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, closedChannel{Status: statusClosed, ChannelID: ch.doc.ID}, nil
}

// manage runs fn on a channel in a write, if the caller manages it, or only
// closes it and is an admin of the intent.
func (e *Engine) manage(c *call, closes bool, fn func(*tx, *channel) error) (*channel, error) {
	ch, err := e.channel(c, c.arg(0))
	if err != nil {
		return nil, err
	}
	err = e.write(c.Context(), ch.durable(e), func(t *tx) error {
		if ch, err = e.existing(ch)(t); err != nil {
			return err
		}
		_, fresh, err := e.enter(ch.in.doc.ID, c.who, levelRead, t.now)
		if err != nil {
			return hidden(err, "channel")
		}
		if !e.manages(ch, c.who, t.now) && !(closes && e.level(ch.in, c.who, t.now) == levelAdmin) {
			return forbidden("not_manager", "only the channel's creator and the intent's coordinators may do this")
		}
		if err := fn(t, ch); err != nil || !fresh {
			return err
		}
		return t.bind(ch.in, c.who)
	})
	return ch, err
}

// durable reports whether writes about the channel must survive a loss of power.
func (ch *channel) durable(e *Engine) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return ch.opt.audit
}

// close closes a channel and expires its open requests. Closing twice is nothing.
func (t *tx) close(ch *channel, at stamp) error {
	if ch.doc.Status == statusClosed {
		return nil
	}
	doc := ch.doc
	doc.Status, doc.ClosedAt = statusClosed, at
	if err := t.saveChannel(ch, doc); err != nil {
		return err
	}
	if err := t.expireRequests(ch, at); err != nil {
		return err
	}
	t.apply(func() {
		ch.doc = doc
		for _, m := range ch.open {
			m.deadline = min(m.deadline, at)
		}
		ch.open = nil
		t.e.setAlarm(ch)
	})
	t.rings(ch)
	return nil
}

// rings wakes who waits for something in the channel, after the commit.
func (t *tx) rings(ch *channel) {
	t.e.mu.RLock() // who stops asking changes asks outside of writes
	defer t.e.mu.RUnlock()
	t.wake = append(t.wake, &ch.bell)
	for _, a := range ch.asks {
		t.wake = append(t.wake, &a.bell)
	}
}

// closeAll closes the intent's channels (L1).
func (t *tx) closeAll(in *intent) error {
	for _, ch := range in.channels {
		if err := t.close(ch, t.now); err != nil {
			return err
		}
	}
	return nil
}

// purge forgets a closed channel and its messages.
func (t *tx) purge(ch *channel) error {
	if err := t.dropChannel(ch); err != nil {
		return err
	}
	t.apply(func() {
		delete(t.e.channels, ch.doc.ID)
		ch.in.channels = slices.DeleteFunc(slices.Clone(ch.in.channels), func(c *channel) bool { return c == ch })
		ch.recent = nil
	})
	t.rings(ch)
	return nil
}

// depart takes an agent that was deregistered out of the channels (L2): out of
// their members, and its unanswered requests expire. A notice tells the others.
func (t *tx) depart(a *agent, reason string) error {
	id := a.doc.AgentID
	for _, in := range t.e.intents {
		if in.Homes[id] != a.doc.Host {
			continue
		}
		for _, ch := range in.channels {
			if !ch.isOpen(t.now) {
				continue
			}
			var pending []*message
			for _, m := range ch.open {
				if m.to == id && !m.expired(t.now) {
					pending = append(pending, m)
				}
			}
			isMember := slices.Contains(ch.doc.Members, id)
			if !isMember && len(pending) == 0 {
				continue
			}
			if isMember {
				doc := ch.doc
				doc.Members = slices.DeleteFunc(slices.Clone(doc.Members), func(m string) bool { return m == id })
				if err := t.saveChannel(ch, doc); err != nil {
					return err
				}
				t.apply(func() { ch.doc = doc })
			}
			for _, m := range pending {
				if err := t.expireRequest(m, t.now); err != nil {
					return err
				}
				t.apply(func() {
					m.deadline = t.now
					delete(ch.open, m.id)
				})
			}
			if reason == "" {
				reason = agentDeregistered
			}
			notice := &draft{kind: kindNotify, sender: system, to: toAll, metadata: jsontext.Value("{}"),
				payload: members("event", "agent_departed", "agent_id", id, "role_id", a.doc.RoleID, "reason", reason)}
			if _, err := t.post(ch, notice); err != nil {
				return err
			}
			t.rings(ch)
		}
	}
	return nil
}

// closeExpired closes and purges the channel if it is time.
func (e *Engine) closeExpired(ctx context.Context, ch *channel) error {
	return e.write(ctx, ch.durable(e), func(t *tx) error {
		switch {
		case e.channels[ch.doc.ID] != ch:
		case ch.doc.Status == statusOpen && ch.expired(t.now):
			return t.close(ch, ch.end())
		case ch.doc.Status == statusClosed && e.cfg.Retention >= 0 && ch.doc.ClosedAt.add(e.cfg.Retention) <= t.now:
			return t.purge(ch)
		}
		return nil
	})
}
