package openintent

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
)

// Channel is the object of RFC-0021 section 1.1. Options holds what was set,
// without the defaults.
type Channel struct {
	ID            string         `json:"id"`
	IntentID      string         `json:"intent_id"`
	TaskID        *string        `json:"task_id"`
	Name          string         `json:"name"`
	CreatedBy     string         `json:"created_by"`
	Home          string         `json:"home,omitzero"` // of its creator, if that is another daemon
	Members       []string       `json:"members"`
	Policy        string         `json:"member_policy"`
	Options       jsontext.Value `json:"options"`
	Status        string         `json:"status"`
	CreatedAt     chain.Time     `json:"created_at"`
	ClosedAt      chain.Time     `json:"closed_at"`
	MessageCount  int64          `json:"message_count"`
	LastMessageAt chain.Time     `json:"last_message_at"`
	Restricted    bool           `json:"restricted,omitzero"` // the caller is no member and sees a stub
}

const (
	MaxName = 128 // bytes of a channel's name, or of a key

	policyExplicit = "explicit"
	policyIntent   = "intent"
	statusOpen     = "open"
	statusClosed   = "closed"
)

// channel is a Channel and its messages, as far as they are in memory.
type channel struct {
	row int64
	id  string
	in  *intent // this and those above never change
	doc Channel // its counters stand below
	opt options

	over  chain.Time // when its intent or its task ended, 0 while they go on
	count int64      // messages ever sent, which is the number of the last
	last  chain.Time // of the last message
	used  chain.Time // of the last message that no notice is; the ttl counts from it

	recent  []*message          // the last messages, in order
	dropped chain.Time          // when a message was dropped from recent that is still kept
	evicted int64               // up to this number what max_messages has evicted was looked at by evict
	passed  bool                // evict has left something there
	behind  bool                // evict has more to remove than it may at once
	open    map[string]*message // requests that may still be answered first, by id
	left    int                 // how many of open were left when it was last looked through
	swept   chain.Time          // and when that was
	asks    map[string]*ask     // who waits for responses, by the request's id
	news    map[string]bool     // agents that got a response since their last plain list
	bell    bell                // rung for every message, and when the channel closes
}

// isOpen reports whether messages may be sent.
func (ch *channel) isOpen(at chain.Time) bool { return ch.closed(at) == 0 }

// closed returns when the channel was closed, 0 while it is open. What ends it need not
// have been written to it: its intent or task is over, or its ttl, before the alarm
// gets to it.
func (ch *channel) closed(at chain.Time) chain.Time {
	if ch.doc.Status == statusClosed {
		return ch.doc.ClosedAt
	}
	if ch.expired(at) && (ch.over == 0 || ch.end() < ch.over) {
		return ch.end()
	}
	return ch.over
}

func (ch *channel) expired(at chain.Time) bool { return ch.opt.ttl > 0 && ch.end() <= at }

// end is when the ttl closes the channel.
func (ch *channel) end() chain.Time { return max(ch.used, ch.doc.CreatedAt).Add(ch.opt.ttl) }

// floor is the number of the last message that max_messages has evicted.
func (ch *channel) floor() int64 { return max(0, ch.count-ch.opt.max) }

// show returns the channel as it is answered.
func (ch *channel) show(at chain.Time) Channel {
	doc := ch.brief(at)
	doc.Options = ch.opt.merged(doc.Options)
	return doc
}

// brief is show without the defaults of options.
func (ch *channel) brief(at chain.Time) Channel {
	doc := ch.doc
	doc.MessageCount, doc.LastMessageAt = ch.count, ch.last
	if closed := ch.closed(at); closed != 0 {
		doc.Status, doc.ClosedAt = statusClosed, closed
	}
	return doc
}

// stub is what an agent sees that has access to the intent and is no member.
func (ch *channel) stub(at chain.Time) Channel {
	full := ch.brief(at)
	return Channel{ID: full.ID, IntentID: full.IntentID, Name: full.Name, Status: full.Status, Policy: full.Policy, CreatedAt: full.CreatedAt,
		Members: []string{}, Options: jsontext.Value("{}"), Restricted: true}
}

// member reports whether the agent of that name, which has access to the intent, may take part.
func (ch *channel) member(name string) bool {
	return ch.doc.Policy == policyIntent || slices.Contains(ch.doc.Members, name)
}

// channel finds a channel whose intent the caller can see, and binds its agent.
func (e *Engine) channel(c *Call, id string) (*channel, error) {
	ch, fresh, err := e.lookFor(c, id)
	if err != nil || !fresh {
		return ch, err
	}
	return ch, e.bind(c, ch.in)
}

// lookFor is channel for what binds in a write of its own.
func (e *Engine) lookFor(c *Call, id string) (ch *channel, fresh bool, err error) {
	e.rlocked(func() { ch = e.channels[id] })
	if ch == nil {
		return nil, false, notFound("channel")
	}
	_, fresh, err = e.look(c, ch.in.id, levelRead)
	return ch, fresh, hidden(err, "channel")
}

// reads refuses who may not see the messages of a channel that it can see.
func (e *Engine) reads(ch *channel, who Caller) error {
	if who.Operator || ch.member(who.name) {
		return nil
	}
	if !ch.opt.discoverable {
		return notFound("channel")
	}
	return Refuse(codeNotMember, "the channel is for its members: ask its creator to add you")
}

// CreateChannel is a channel as it is asked for.
type CreateChannel struct {
	Name    string         `json:"name"`
	Members []Named        `json:"members"`
	Policy  string         `json:"member_policy"`
	TaskID  *string        `json:"task_id"`
	Options jsontext.Value `json:"options"`
}

// CreateChannel creates a channel of the intent.
func (e *Engine) CreateChannel(c *Call, intentID string, want *CreateChannel) (Channel, error) {
	if want.Policy == "" {
		want.Policy = policyIntent
	}
	ch := &channel{doc: Channel{Name: want.Name, CreatedBy: c.Caller.Agent, Home: c.Caller.Home, Policy: want.Policy, TaskID: want.TaskID, Options: want.Options}}
	if err := checkNames("members", want.Members); err != nil {
		return Channel{}, err
	}
	if err := ch.prepare(); err != nil {
		return Channel{}, err
	}
	err := e.writeIntent(c, intentID, levelWrite, func(t *tx, in *intent) (err error) {
		if ch.doc.Members, err = c.names(in, "members", []string{}, want.Members); err != nil {
			return err
		}
		if ch.doc.Policy == policyExplicit && len(ch.doc.Members) == 0 {
			ch.doc.Members = []string{c.Caller.name}
		}
		if ch.opt, err = ch.doc.parse(); err != nil {
			return err
		}
		return t.open(in, ch)
	})
	if err != nil {
		return Channel{}, err
	}
	return e.showChanged(ch, want.Options), nil
}

// showChanged returns the channel as the caller sees it who has just set its options.
func (e *Engine) showChanged(ch *channel, sent jsontext.Value) Channel {
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

// prepare checks what a new channel is to be, but for its members.
func (ch *channel) prepare() (err error) {
	if ch.doc.Name == "" || len(ch.doc.Name) > MaxName {
		return Invalid("name", "1 to %d bytes are needed", MaxName)
	}
	if ch.doc.TaskID != nil && len(*ch.doc.TaskID) > maxAgentID {
		return Invalid("task_id", "at most %d bytes", maxAgentID)
	}
	if err := validPolicy(ch.doc.Policy); err != nil {
		return err
	}
	ch.doc.Members = []string{}
	if err := CheckObject("options", &ch.doc.Options); err != nil {
		return err
	}
	if err := ch.doc.shortOptions(); err != nil {
		return err
	}
	ch.opt, err = ch.doc.parse()
	return err
}

const (
	maxChannel = 32 << 10 // bytes of a channel's object
	maxOptions = 4 << 10  // of these, of its options
)

// channelBytes is what a channel's object has beyond what is said of it.
const channelBytes = 512

// size is how many bytes the object has, about.
func (doc *Channel) size() int {
	n := channelBytes + len(doc.Name) + len(doc.Options)
	for _, m := range doc.Members {
		n += len(m) + len(`"",`)
	}
	return n
}

// shortOptions refuses options that are too long to be set.
func (doc *Channel) shortOptions() error {
	if len(doc.Options) > maxOptions {
		return Refuse("too_large", "options: %d bytes, at most %d are kept: put larger data into a message", len(doc.Options), maxOptions)
	}
	return nil
}

// parse returns the options of a channel that is not too large to keep.
func (doc *Channel) parse() (options, error) {
	if size := len(text(*doc)); size > maxChannel {
		return options{}, Refuse("too_large", "the channel has %d bytes: at most %d are kept: name fewer members, or shorter options", size, maxChannel)
	}
	return parseOptions(doc.Options)
}

func validPolicy(policy string) error {
	if policy != policyExplicit && policy != policyIntent {
		return Invalid("member_policy", "explicit or intent")
	}
	return nil
}

// checkNames checks a list of agents as far as that needs no intent.
func checkNames(field string, list []Named) error {
	if len(list) > maxEntries {
		return Invalid(field, "at most %d", maxEntries)
	}
	if slices.ContainsFunc(list, func(n Named) bool { return !validName(n.AgentID) }) {
		return Invalid(field, "each is the id of an agent, or its name, or an object with its agent_id and home")
	}
	return nil
}

func nameSet(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// names adds the names of those whom a list means to members that there are.
func (c *Call) names(in *intent, field string, members []string, list []Named) ([]string, error) {
	has := nameSet(members)
	for _, n := range list {
		k, err := c.grantee(in, field, n.AgentID, n.Home)
		if err != nil {
			return nil, err
		}
		if name := c.e.name(k); !has[name] {
			has[name] = true
			members = append(members, name)
		}
	}
	if len(members) > maxEntries {
		return nil, Invalid(field, "at most %d", maxEntries)
	}
	return members, nil
}

// open makes a prepared channel one of the intent's.
func (t *tx) open(in *intent, ch *channel) error {
	if in.terminal() {
		return Refuse("intent_terminal", "the intent is %s: its channels are closed for good", in.status)
	}
	if old := in.named(ch.doc.Name, t.now); old != nil {
		return Refuse("channel_name_conflict", "an open channel of the intent has this name already").With("channel_id", old.id)
	}
	if ch.doc.TaskID != nil {
		if k := t.e.tasks[*ch.doc.TaskID]; k != nil && k.in == in && taskOver(k.doc.Status) {
			return Refuse("task_over", "the task is %s, so a channel for it would be closed", k.doc.Status)
		}
	}
	var open part
	home := ch.doc.Home
	for _, ch := range in.channels {
		if ch.isOpen(t.now) {
			open.add(ch.doc.Home, home)
		}
	}
	if err := open.room(home, "open channels in this intent", maxEntries, "close some"); err != nil {
		return err
	}
	if home != "" {
		if err := mayMake(t.e.guestbook.channels, home, "delete some, or let an agent of the intent's own daemon create them"); err != nil {
			return err
		}
	} else if t.e.guests[""].channels >= maxChannels {
		return tooMany("channels", maxChannels, "delete some")
	}
	ch.row, ch.in = t.row(), in
	ch.id = t.e.newID(idChannel, t.now)
	ch.doc.ID, ch.doc.IntentID, ch.doc.Status, ch.doc.CreatedAt = ch.id, in.id, statusOpen, t.now
	if err := t.saveChannel(ch, ch.doc); err != nil {
		return err
	}
	t.apply(
		step{func() { in.channels = append(in.channels, ch) }, func() { in.channels = in.channels[:len(in.channels)-1] }},
		step{func() { t.e.channels[ch.id] = ch }, func() { delete(t.e.channels, ch.id) }},
		step{func() { t.e.enlist(ch, 1) }, func() { t.e.enlist(ch, -1) }},
		step{func() { t.e.count(home, 1, 0, ch.doc.size()) }, func() { t.e.count(home, -1, 0, -ch.doc.size()) }},
		step{func() { t.e.setAlarm(ch) }, nil},
	)
	return nil
}

// named returns the intent's open channel of that name.
func (in *intent) named(name string, at chain.Time) *channel {
	for _, ch := range in.channels {
		if ch.doc.Name == name && ch.isOpen(at) {
			return ch
		}
	}
	return nil
}

// ListChannels returns a page of the intent's channels that the caller may know of, the open
// ones first.
func (e *Engine) ListChannels(c *Call, intentID string, p Page) ([]Channel, error) {
	in, err := e.glance(c, intentID)
	if err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	var list, closed []*channel
	var page []Channel
	var opts []options
	at := now()
	full := func(ch *channel) bool {
		return c.Caller.Operator || ch.member(c.Caller.name) || e.manages(ch, c.Caller, at)
	}
	e.rlocked(func() {
		for _, ch := range in.channels {
			switch {
			case !full(ch) && !ch.opt.discoverable:
			case ch.isOpen(at):
				list = append(list, ch)
			default:
				closed = append(closed, ch)
			}
		}
		list = PageOf(append(list, closed...), p)
		page, opts = make([]Channel, 0, len(list)), make([]options, 0, len(list))
		for _, ch := range list {
			if full(ch) {
				page = append(page, ch.brief(at))
			} else {
				page = append(page, ch.stub(at))
			}
			opts = append(opts, ch.opt)
		}
	})
	for i := range page {
		if !page[i].Restricted {
			page[i].Options = opts[i].merged(page[i].Options)
		}
	}
	return page, nil
}

// Page is a part of a list: how many elements at most, after how many others.
type Page struct{ Limit, Offset int }

// Check returns an error unless the list may have such a page.
func (p Page) Check() error {
	switch {
	case p.Limit < 1 || p.Limit > MaxList:
		return Invalid("limit", "1 to %d", MaxList)
	case p.Offset < 0 || p.Offset > 1<<30:
		return Invalid("offset", "0 or more")
	}
	return nil
}

// PageOf returns the part of a list that the page has.
func PageOf[T any](list []T, p Page) []T {
	return list[min(p.Offset, len(list)):min(p.Offset+p.Limit, len(list))]
}

// GetChannel returns a channel.
func (e *Engine) GetChannel(c *Call, id string) (Channel, error) {
	ch, err := e.channel(c, id)
	if err != nil {
		return Channel{}, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	at := now()
	if !e.manages(ch, c.Caller, at) {
		if err := e.reads(ch, c.Caller); err != nil {
			return Channel{}, err
		}
	}
	return ch.show(at), nil
}

// durable reports whether writes about the channel must survive a loss of power.
func (ch *channel) durable(e *Engine) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return ch.opt.audit
}
