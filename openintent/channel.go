package openintent

import (
	"cmp"
	"iter"
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

// channelRecord keeps a [Channel], and those of its messages that are in memory.
type channelRecord struct {
	row int64
	id  string
	in  *intentRecord // this and those above never change
	doc Channel       // without its counters, which are below
	opt channelOptions

	over  chain.Time // when its intent or its task ended, 0 while they continue
	count int64      // messages ever sent, which is the number of the last
	last  chain.Time // of the last message
	used  chain.Time // of the last message that is no notice; the ttl begins there

	recent   []*message          // the last messages, in order
	dropped  chain.Time          // when a message was dropped from recent that is still kept
	eviction                     // how far max_messages was applied
	open     map[string]*message // requests that may still be answered first, by id
	left     int                 // how many of open were left when expired ones were last removed
	swept    chain.Time          // and when that was
	asks     map[string]*openAsk // asks that wait for responses, by the request's id
	news     map[string]bool     // agents that got a response since their last plain list
	bell     bell                // rung for every message, and when the channel closes
}

// eviction tells how far evictMessages has come in a channel.
type eviction struct {
	evicted int64 // the number up to which it has looked at the messages
	passed  bool  // it has left some of these
	behind  bool  // it has more to remove than one write may
}

// isOpen reports whether messages may be sent.
func (ch *channelRecord) isOpen(at chain.Time) bool { return ch.closedAt(at) == 0 }

// closedAt returns when the channel was closed, 0 while it is open. A channel whose intent,
// task or ttl is over is closed before that is written to its object.
func (ch *channelRecord) closedAt(at chain.Time) chain.Time {
	if ch.doc.Status == statusClosed {
		return ch.doc.ClosedAt
	}
	if ch.isTTLOver(at) && (ch.over == 0 || ch.ttlEnd() < ch.over) {
		return ch.ttlEnd()
	}
	return ch.over
}

// isTTLOver reports whether the ttl has closed the channel.
func (ch *channelRecord) isTTLOver(at chain.Time) bool { return ch.opt.ttl > 0 && ch.ttlEnd() <= at }

// ttlEnd returns when the ttl closes the channel.
func (ch *channelRecord) ttlEnd() chain.Time { return max(ch.used, ch.doc.CreatedAt).Add(ch.opt.ttl) }

// lastEvictedNumber returns the number of the last message that max_messages has evicted.
func (ch *channelRecord) lastEvictedNumber() int64 { return max(0, ch.count-ch.opt.max) }

// docWithDefaults returns the channel's object as it is answered.
func (ch *channelRecord) docWithDefaults(at chain.Time) Channel {
	doc := ch.docAt(at)
	doc.Options = ch.opt.withDefaults(doc.Options)
	return doc
}

// docAt returns the channel's object, whose options lack the defaults.
func (ch *channelRecord) docAt(at chain.Time) Channel {
	doc := ch.doc
	doc.MessageCount, doc.LastMessageAt = ch.count, ch.last
	if closed := ch.closedAt(at); closed != 0 {
		doc.Status, doc.ClosedAt = statusClosed, closed
	}
	return doc
}

// restrictedViewAt returns the part of the object that an agent sees which is no member.
func (ch *channelRecord) restrictedViewAt(at chain.Time) Channel {
	full := ch.docAt(at)
	return Channel{ID: full.ID, IntentID: full.IntentID, Name: full.Name, Status: full.Status, Policy: full.Policy, CreatedAt: full.CreatedAt,
		Members: []string{}, Options: jsontext.Value("{}"), Restricted: true}
}

// findChannelAndRecordUse finds a channel whose intent the caller can see, and records that the
// caller's agent uses the intent.
func (e *Engine) findChannelAndRecordUse(c *Call, id string) (*channelRecord, error) {
	ch, firstUse, err := e.findChannel(c, id)
	if err != nil || !firstUse {
		return ch, err
	}
	return ch, e.recordFirstUse(c, ch.in)
}

// findChannel finds a channel whose intent the caller can see. firstUse reports that the
// caller's agent has not used the intent yet, which the caller of findChannel has to note.
func (e *Engine) findChannel(c *Call, id string) (ch *channelRecord, firstUse bool, err error) {
	e.withReadLock(func() { ch = e.channels[id] })
	if ch == nil {
		return nil, false, newNotFoundError("channel")
	}
	_, firstUse, err = e.findIntent(c, ch.in.id, levelRead)
	return ch, firstUse, replaceIntentNotFound(err, "channel")
}

// CreateChannel asks for a new channel.
type CreateChannel struct {
	Name    string         `json:"name"`
	Members []AgentRef     `json:"members"`
	Policy  string         `json:"member_policy"`
	TaskID  *string        `json:"task_id"`
	Options jsontext.Value `json:"options"`
}

// CreateChannel creates a channel of the intent.
func (e *Engine) CreateChannel(c *Call, intentID string, want *CreateChannel) (Channel, error) {
	if want.Policy == "" {
		want.Policy = policyIntent
	}
	ch := &channelRecord{doc: Channel{Name: want.Name, CreatedBy: c.Caller.Agent, Home: c.Caller.Home, Policy: want.Policy, TaskID: want.TaskID, Options: want.Options}}
	if err := cmp.Or(checkAgentNames("members", want.Members), ch.checkNew()); err != nil {
		return Channel{}, err
	}
	err := e.writeIfAuthorized(c, intentID, levelWrite, func(t *tx, in *intentRecord) (err error) {
		if ch.doc.Members, err = c.appendAgentNames(in, "members", []string{}, want.Members); err != nil {
			return err
		}
		if ch.doc.Policy == policyExplicit && len(ch.doc.Members) == 0 {
			ch.doc.Members = []string{c.Caller.name}
		}
		if ch.opt, err = ch.doc.parseCheckedOptions(); err != nil {
			return err
		}
		return t.openChannel(in, ch)
	})
	if err != nil {
		return Channel{}, err
	}
	return e.channelDocEchoingOptions(ch, want.Options), nil
}

// channelDocEchoingOptions returns the channel as a caller sees it that has just sent its options.
func (e *Engine) channelDocEchoingOptions(ch *channelRecord, sent jsontext.Value) Channel {
	e.mu.RLock()
	defer e.mu.RUnlock()
	doc := ch.docWithDefaults(now())
	if e.cfg.Lenient {
		if doc.Options = sent; sent == nil {
			doc.Options = jsontext.Value("null")
		}
	}
	return doc
}

// checkNew checks a new channel but for its members, and parses its options.
func (ch *channelRecord) checkNew() (err error) {
	if ch.doc.Name == "" || len(ch.doc.Name) > MaxName {
		return NewFieldError("name", "1 to %d bytes are needed", MaxName)
	}
	if ch.doc.TaskID != nil && len(*ch.doc.TaskID) > maxAgentID {
		return NewFieldError("task_id", "at most %d bytes", maxAgentID)
	}
	ch.doc.Members = []string{}
	if err := cmp.Or(checkMemberPolicy(ch.doc.Policy), NormalizeJSONObject("options", &ch.doc.Options), ch.doc.checkOptionsSize()); err != nil {
		return err
	}
	ch.opt, err = ch.doc.parseCheckedOptions()
	return err
}

const (
	maxChannel = 32 << 10 // bytes of a channel's object
	maxOptions = 4 << 10  // of these, of its options
)

// channelBytes are charged for a channel's object without its name, options and members.
const channelBytes = 512

// size returns about how many bytes the object has.
func (doc *Channel) size() int {
	n := channelBytes + len(doc.Name) + len(doc.Options)
	for _, m := range doc.Members {
		n += len(m) + len(`"",`)
	}
	return n
}

// checkOptionsSize refuses options that are too long to be set.
func (doc *Channel) checkOptionsSize() error {
	if len(doc.Options) > maxOptions {
		return NewError("too_large", "options: %d bytes, at most %d are kept: put larger data into a message", len(doc.Options), maxOptions)
	}
	return nil
}

// parseCheckedOptions returns the options of a channel that is not too large to keep.
func (doc *Channel) parseCheckedOptions() (channelOptions, error) {
	if size := len(encodeJSONText(*doc)); size > maxChannel {
		return channelOptions{}, NewError("too_large", "the channel has %d bytes: at most %d are kept: name fewer members, or shorter options", size, maxChannel)
	}
	return parseOptions(doc.Options)
}

// checkMemberPolicy refuses a member policy that there is not.
func checkMemberPolicy(policy string) error {
	if policy != policyExplicit && policy != policyIntent {
		return NewFieldError("member_policy", "explicit or intent")
	}
	return nil
}

// checkAgentNames checks a list of agents as far as that needs no intent.
func checkAgentNames(field string, list []AgentRef) error {
	if len(list) <= maxEntries && slices.ContainsFunc(list, func(n AgentRef) bool { return !isValidAgentName(n.AgentID) }) {
		return NewFieldError(field, "each is the id of an agent, or its name, or an object with its agent_id and home")
	}
	return checkAtMost(field, len(list), maxEntries, "")
}

// newNameSet returns the names as a set.
func newNameSet(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// appendAgentNames appends to members the names of the agents that a list means and members lacks.
func (c *Call) appendAgentNames(in *intentRecord, field string, members []string, list []AgentRef) ([]string, error) {
	has := newNameSet(members)
	for _, n := range list {
		k, err := c.resolveGrantee(in, field, n.AgentID, n.Home)
		if err != nil {
			return nil, err
		}
		if name := c.e.agentNameOf(k); !has[name] {
			has[name] = true
			members = append(members, name)
		}
	}
	return members, checkAtMost(field, len(members), maxEntries, "")
}

// openChannel adds a channel that was checked to the intent.
func (t *tx) openChannel(in *intentRecord, ch *channelRecord) error {
	if in.isTerminal() {
		return NewError("intent_terminal", "the intent is %s: its channels are closed for good", in.status)
	}
	if old := in.findOpenChannel(ch.doc.Name, t.now); old != nil {
		return NewError("channel_name_conflict", "an open channel of the intent has this name already").WithMember("channel_id", old.id)
	}
	if ch.doc.TaskID != nil {
		if k := t.e.tasks[*ch.doc.TaskID]; k != nil && k.in == in && isTaskOver(k.doc.Status) {
			return NewError("task_over", "the task is %s, so a channel for it would be closed", k.doc.Status)
		}
	}
	var open roomTally
	home := ch.doc.Home
	for _, ch := range in.channels {
		if ch.isOpen(t.now) {
			open.countForHome(ch.doc.Home, home)
		}
	}
	if err := cmp.Or(open.checkRoom(home, "open channels in this intent", maxEntries, "close some"),
		checkRoomForLocalAgents(home, t.e.guests[""].channels, "channels", maxChannels, "delete some")); err != nil {
		return err
	}
	if err := checkRoomForGuests(t.e.guestbook.channels, home, "delete some, or let an agent of the intent's own daemon create them"); err != nil {
		return err
	}
	ch.row, ch.in = t.nextRowNumber(), in
	ch.id = t.e.newID(idChannel, t.now)
	ch.doc.ID, ch.doc.IntentID, ch.doc.Status, ch.doc.CreatedAt = ch.id, in.id, statusOpen, t.now
	if err := t.saveChannel(ch, ch.doc); err != nil {
		return err
	}
	t.e.withLock(func() {
		set(t, &in.channels, append(in.channels, ch))
		put(t, t.e.channels, ch.id, ch)
		t.adjustMemberCounts(ch, 1)
		t.adjustCreatedCounts(home, 1, 0, ch.doc.size())
		t.setAlarm(ch)
	})
	return nil
}

// findOpenChannel returns the intent's open channel of that name.
func (in *intentRecord) findOpenChannel(name string, at chain.Time) *channelRecord {
	for _, ch := range in.channels {
		if ch.doc.Name == name && ch.isOpen(at) {
			return ch
		}
	}
	return nil
}

// ListChannels returns a page of the intent's channels that the caller may know of, the open
// ones first. Each is completed when it is taken, so that a list that is refused for its size
// costs no more than what was taken of it.
func (e *Engine) ListChannels(c *Call, intentID string, p Page) (iter.Seq[Channel], error) {
	in, err := e.findIntentForList(c, intentID)
	if err != nil {
		return nil, err
	}
	if err := p.checkBounds(); err != nil {
		return nil, err
	}
	var list, closed []*channelRecord
	var page []Channel
	var opts []channelOptions
	at := now()
	full := func(ch *channelRecord) bool {
		return c.Caller.Operator || ch.isMember(c.Caller.name) || e.mayManageChannel(ch, c.Caller, at)
	}
	e.withReadLock(func() {
		for _, ch := range in.channels {
			switch {
			case !full(ch) && !ch.opt.discoverable:
			case ch.isOpen(at):
				list = append(list, ch)
			default:
				closed = append(closed, ch)
			}
		}
		list = cutPage(append(list, closed...), p)
		page, opts = make([]Channel, 0, len(list)), make([]channelOptions, 0, len(list))
		for _, ch := range list {
			if full(ch) {
				page = append(page, ch.docAt(at))
			} else {
				page = append(page, ch.restrictedViewAt(at))
			}
			opts = append(opts, ch.opt)
		}
	})
	return func(yield func(Channel) bool) {
		for i, doc := range page {
			if !doc.Restricted {
				doc.Options = opts[i].withDefaults(doc.Options)
			}
			if !yield(doc) {
				return
			}
		}
	}, nil
}

// Page selects a part of a list: at most Limit elements, after the first Offset.
type Page struct{ Limit, Offset int }

// checkBounds returns an error unless the list may have such a page.
func (p Page) checkBounds() error {
	switch {
	case p.Limit < 1 || p.Limit > MaxList:
		return NewFieldError("limit", "1 to %d", MaxList)
	case p.Offset < 0 || p.Offset > 1<<30:
		return NewFieldError("offset", "0 or more")
	}
	return nil
}

// cutPage returns the part of a list that the page has.
func cutPage[T any](list []T, p Page) []T {
	return list[min(p.Offset, len(list)):min(p.Offset+p.Limit, len(list))]
}

// GetChannel returns a channel.
func (e *Engine) GetChannel(c *Call, id string) (Channel, error) {
	ch, err := e.findChannelAndRecordUse(c, id)
	if err != nil {
		return Channel{}, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	at := now()
	if !e.mayManageChannel(ch, c.Caller, at) {
		if err := ch.checkReader(c.Caller); err != nil {
			return Channel{}, err
		}
	}
	return ch.docWithDefaults(at), nil
}

// needsDurableWrites reports whether writes about the channel must survive a loss of power.
func (ch *channelRecord) needsDurableWrites(e *Engine) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return ch.opt.audit
}

// saveChannel writes the channel's object to the store.
func (t *tx) saveChannel(ch *channelRecord, doc Channel) error {
	return t.execute("INSERT INTO openintent_channel (row, id, intent, doc) VALUES (?, ?, ?, ?) ON CONFLICT (row) DO UPDATE SET doc = excluded.doc", ch.row, doc.ID, ch.in.row, encodeJSONText(doc))
}
