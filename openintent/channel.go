package openintent

import (
	"cmp"
	"iter"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/pace"
	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// channelRecord keeps a [object.Channel], and those of its messages that are in memory.
type channelRecord struct {
	row int64
	id  string
	in  *intentRecord  // this and those above never change
	doc object.Channel // without its counters, which are below
	opt object.ChannelOptions

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
	bell     pace.Bell           // rung for every message, and when the channel closes
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
	if ch.doc.Status == object.StatusClosed {
		return ch.doc.ClosedAt
	}
	if ch.isTTLOver(at) && (ch.over == 0 || ch.ttlEnd() < ch.over) {
		return ch.ttlEnd()
	}
	return ch.over
}

// isTTLOver reports whether the ttl has closed the channel.
func (ch *channelRecord) isTTLOver(at chain.Time) bool { return ch.opt.TTL > 0 && ch.ttlEnd() <= at }

// ttlEnd returns when the ttl closes the channel.
func (ch *channelRecord) ttlEnd() chain.Time { return max(ch.used, ch.doc.CreatedAt).Add(ch.opt.TTL) }

// lastEvictedNumber returns the number of the last message that max_messages has evicted.
func (ch *channelRecord) lastEvictedNumber() int64 { return max(0, ch.count-ch.opt.MaxMessages) }

// docWithDefaults returns the channel's object as it is answered.
func (ch *channelRecord) docWithDefaults(at chain.Time) object.Channel {
	doc := ch.docAt(at)
	doc.Options = ch.opt.WithDefaults(doc.Options)
	return doc
}

// docAt returns the channel's object, whose options lack the defaults.
func (ch *channelRecord) docAt(at chain.Time) object.Channel {
	doc := ch.doc
	doc.MessageCount, doc.LastMessageAt = ch.count, ch.last
	if closed := ch.closedAt(at); closed != 0 {
		doc.Status, doc.ClosedAt = object.StatusClosed, closed
	}
	return doc
}

// restrictedViewAt returns the part of the object that an agent sees which is no member.
func (ch *channelRecord) restrictedViewAt(at chain.Time) object.Channel {
	full := ch.docAt(at)
	return object.Channel{ID: full.ID, IntentID: full.IntentID, Name: full.Name, Status: full.Status, Policy: full.Policy, CreatedAt: full.CreatedAt,
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
		return nil, false, object.NewNotFoundError("channel")
	}
	_, firstUse, err = e.findIntent(c, ch.in.id, levelRead)
	return ch, firstUse, object.ReplaceIntentNotFound(err, "channel")
}

// CreateChannel creates a channel of the intent.
func (e *Engine) CreateChannel(c *Call, intentID string, want *object.CreateChannel) (object.Channel, error) {
	if want.Policy == "" {
		want.Policy = object.PolicyIntent
	}
	ch := &channelRecord{doc: object.Channel{Name: want.Name, CreatedBy: c.Caller.Agent, Home: c.Caller.Home, Policy: want.Policy, TaskID: want.TaskID, Options: want.Options}}
	err := object.CheckAgentNames("members", want.Members)
	if err == nil {
		_, err = ch.doc.CheckNew()
	}
	if err != nil {
		return object.Channel{}, err
	}
	err = e.writeIfAuthorized(c, intentID, levelWrite, func(t *tx, in *intentRecord) (err error) {
		if ch.doc.Members, err = c.appendAgentNames(in, "members", []string{}, want.Members); err != nil {
			return err
		}
		if ch.doc.Policy == object.PolicyExplicit && len(ch.doc.Members) == 0 {
			ch.doc.Members = []string{c.Caller.name}
		}
		if ch.opt, err = ch.doc.ParseCheckedOptions(); err != nil {
			return err
		}
		return t.openChannel(in, ch)
	})
	if err != nil {
		return object.Channel{}, err
	}
	return e.channelDocEchoingOptions(ch, want.Options), nil
}

// channelDocEchoingOptions returns the channel as a caller sees it that has just sent its options.
func (e *Engine) channelDocEchoingOptions(ch *channelRecord, sent jsontext.Value) object.Channel {
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

// newNameSet returns the names as a set.
func newNameSet(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

// appendAgentNames appends to members the names of the agents that a list means and members lacks.
func (c *Call) appendAgentNames(in *intentRecord, field string, members []string, list []object.AgentRef) ([]string, error) {
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
	return members, object.CheckAtMost(field, len(members), object.MaxEntries, "")
}

// openChannel adds a channel that was checked to the intent.
func (t *tx) openChannel(in *intentRecord, ch *channelRecord) error {
	if in.isTerminal() {
		return object.NewError("intent_terminal", "the intent is %s: its channels are closed for good", in.status)
	}
	if old := in.findOpenChannel(ch.doc.Name, t.now); old != nil {
		return object.NewError("channel_name_conflict", "an open channel of the intent has this name already").WithMember("channel_id", old.id)
	}
	if ch.doc.TaskID != nil {
		if k := t.e.tasks[*ch.doc.TaskID]; k != nil && k.in == in && object.IsTaskOver(k.doc.Status) {
			return object.NewError("task_over", "the task is %s, so a channel for it would be closed", k.doc.Status)
		}
	}
	var open roomTally
	home := ch.doc.Home
	for _, ch := range in.channels {
		if ch.isOpen(t.now) {
			open.countForHome(ch.doc.Home, home)
		}
	}
	if err := cmp.Or(open.checkRoom(home, "open channels in this intent", object.MaxEntries, "close some"),
		checkRoomForLocalAgents(home, t.e.guests[""].channels, "channels", maxChannels, "delete some")); err != nil {
		return err
	}
	if err := checkRoomForGuests(t.e.guestbook.channels, home, "delete some, or let an agent of the intent's own daemon create them"); err != nil {
		return err
	}
	ch.row, ch.in = t.nextRowNumber(), in
	ch.id = t.e.newID(object.IDChannel, t.now)
	ch.doc.ID, ch.doc.IntentID, ch.doc.Status, ch.doc.CreatedAt = ch.id, in.id, object.StatusOpen, t.now
	if err := t.saveChannel(ch, ch.doc); err != nil {
		return err
	}
	t.e.withLock(func() {
		set(t, &in.channels, append(in.channels, ch))
		put(t, t.e.channels, ch.id, ch)
		t.adjustMemberCounts(ch, 1)
		t.adjustCreatedCounts(home, 1, 0, ch.doc.Size())
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
func (e *Engine) ListChannels(c *Call, intentID string, p object.Page) (iter.Seq[object.Channel], error) {
	in, err := e.findIntentForList(c, intentID)
	if err != nil {
		return nil, err
	}
	if err := p.CheckBounds(); err != nil {
		return nil, err
	}
	var list, closed []*channelRecord
	var page []object.Channel
	var opts []object.ChannelOptions
	at := now()
	full := func(ch *channelRecord) bool {
		return c.Caller.Operator || ch.isMember(c.Caller.name) || e.mayManageChannel(ch, c.Caller, at)
	}
	e.withReadLock(func() {
		for _, ch := range in.channels {
			switch {
			case !full(ch) && !ch.opt.Discoverable:
			case ch.isOpen(at):
				list = append(list, ch)
			default:
				closed = append(closed, ch)
			}
		}
		list = object.CutPage(append(list, closed...), p)
		page, opts = make([]object.Channel, 0, len(list)), make([]object.ChannelOptions, 0, len(list))
		for _, ch := range list {
			if full(ch) {
				page = append(page, ch.docAt(at))
			} else {
				page = append(page, ch.restrictedViewAt(at))
			}
			opts = append(opts, ch.opt)
		}
	})
	return func(yield func(object.Channel) bool) {
		for i, doc := range page {
			if !doc.Restricted {
				doc.Options = opts[i].WithDefaults(doc.Options)
			}
			if !yield(doc) {
				return
			}
		}
	}, nil
}

// GetChannel returns a channel.
func (e *Engine) GetChannel(c *Call, id string) (object.Channel, error) {
	ch, err := e.findChannelAndRecordUse(c, id)
	if err != nil {
		return object.Channel{}, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	at := now()
	if !e.mayManageChannel(ch, c.Caller, at) {
		if err := ch.checkReader(c.Caller); err != nil {
			return object.Channel{}, err
		}
	}
	return ch.docWithDefaults(at), nil
}

// needsDurableWrites reports whether writes about the channel must survive a loss of power.
func (ch *channelRecord) needsDurableWrites(e *Engine) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return ch.opt.Audit
}

// saveChannel writes the channel's object to the store.
func (t *tx) saveChannel(ch *channelRecord, doc object.Channel) error {
	return t.execute("INSERT INTO openintent_channel (row, id, intent, doc) VALUES (?, ?, ?, ?) ON CONFLICT (row) DO UPDATE SET doc = excluded.doc", ch.row, doc.ID, ch.in.row, object.EncodeJSONText(doc))
}
