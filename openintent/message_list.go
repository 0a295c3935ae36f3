package openintent

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// ListUnsentMessages returns messages of the caller (the operator: of all agents here) that wait for
// other hosts or were refused by them: a page in the order of their numbers, from the first
// after that one.
func (e *Engine) ListUnsentMessages(c *Call, p object.Page, after int64) ([]jsontext.Value, error) {
	if err := p.CheckBounds(); err != nil {
		return nil, err
	}
	if after < 0 {
		return nil, object.NewFieldError("after", "the seq of a message of the list is needed")
	}
	if e.cfg.Unsent == nil || c.Caller.Home != "" {
		return nil, nil
	}
	return e.cfg.Unsent(c.Context(), c.Caller, p.Limit, after)
}

const (
	maxGathered = 2 << 20 // bytes, after which nothing more is put into a list for another daemon, which puts several together

	// heldList is how long a plain list of messages waits for the response to an open request of
	// its caller. It makes clients that ask by polling fast.
	heldList = time.Second
)

// ListMessages returns messages of a channel as the caller sees them, as a JSON array.
func (e *Engine) ListMessages(c *Call, id string, which *object.MessageFilter) (object.JSON, error) {
	ch, err := e.findChannelAndRecordUse(c, id)
	if err != nil {
		return nil, err
	}
	f, err := e.newMessageSearch(c, ch, which)
	if err != nil {
		return nil, err
	}
	wait, held := which.Wait, which.Plain
	if held {
		wait = heldList
	}
	var timeout <-chan time.Time
	since := f.since
	for {
		var rung <-chan struct{}
		var open, hold bool
		var err error
		e.withReadLock(func() {
			if ch = e.channels[id]; ch == nil {
				err = object.NewNotFoundError("channel")
				return
			}
			err = e.authorizeChannelReader(ch, c.Caller)
			if wait > 0 {
				rung = ch.bell.NextRing()
			}
			open = ch.isOpen(now())
			hold = held && open && e.shouldHoldList(ch, c.Caller.name, now())
		})
		if err != nil {
			return nil, err
		}
		if !hold {
			if held {
				e.withLock(func() { delete(ch.news, c.Caller.name) })
			}
			list, n, err := e.searchMessages(c, ch, f)
			if err != nil || n > 0 || held || wait == 0 || !open {
				return list, err
			}
			f.since = max(f.since, f.seen) // until the time is up, only new messages matter
		}
		if timeout == nil {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-rung:
		case <-timeout:
			held, wait, f.since = false, 0, since
		case <-e.done:
			held, wait, f.since = false, 0, since
		case <-c.Context().Done():
			return nil, c.Context().Err()
		}
	}
}

// shouldHoldList reports whether a plain list by an agent should wait: the agent has asked
// something in the channel, and no response has come since its last plain list. A response that
// is not published yet counts as one that will come.
func (e *Engine) shouldHoldList(ch *channelRecord, agent string, at chain.Time) bool {
	if ch.news[agent] {
		return false
	}
	for _, m := range slices.Backward(ch.recent) {
		if m.seq <= e.settled {
			break
		}
		if m.kind == object.KindResponse && m.to == agent {
			return true
		}
	}
	for _, m := range ch.open {
		if m.sender == agent && !m.isExpired(at) {
			return true
		}
	}
	return false
}

// newMessageSearch begins a list of the channel's messages.
func (e *Engine) newMessageSearch(c *Call, ch *channelRecord, which *object.MessageFilter) (*messageSearch, error) {
	f := &messageSearch{who: c.Caller, to: which.To, status: which.Status, kinds: which.Types, limit: which.Limit}
	if err := f.resolveRecipientFilter(e, ch); err != nil {
		return nil, err
	}
	if err := which.Check(); err != nil {
		return nil, err
	}
	since := which.Since
	if since == "" {
		f.newest = true
		return f, nil
	}
	if strings.HasPrefix(since, object.IDMessage+"_") {
		prefix, _, at, number, ok := object.ParseID(since)
		if !ok || prefix != object.IDMessage {
			return nil, object.NewError("bad_cursor", "since: neither the id of a message nor a time")
		}
		if number > 0 {
			f.since = number
			return f, nil
		}
		m, err := e.findMessage(c.Context(), ch, since)
		if m != nil {
			f.since = m.number
		} else {
			f.after = at
		}
		return f, err
	}
	var err error
	if f.after, err = chain.ParseTime(since); err != nil {
		err = object.NewError("bad_cursor", "since: neither the id of a message nor a time: %v", err)
	}
	return f, err
}

// searchMessages returns the messages that f matches as a JSON array, and their number. It reads
// the store only if the messages in memory do not reach back far enough.
func (e *Engine) searchMessages(c *Call, ch *channelRecord, f *messageSearch) (object.JSON, int, error) {
	at := now()
	var list object.JSON
	done := false
	e.withReadLock(func() {
		if done = e.searchRecentMessages(ch, f, at); done {
			list = f.encodeFoundMessages(at)
		}
		f.settled = e.settled
	})
	if done {
		return list, len(f.found), nil
	}
	f.found, f.bytes = nil, 0
	c.refundCaller(c.held)
	after, before := f.since, int64(math.MaxInt64)
	for more := true; more; {
		if err := e.readWithQuota(c.Context(), func(stx *store.Tx, l *readQuota) error {
			last, err := f.searchStoredMessages(c, stx, l, ch, after, before, at)
			if more = last > 0; f.newest {
				before = last
			} else {
				after = last
			}
			return err
		}); err != nil {
			return nil, 0, err
		}
	}
	if f.newest {
		slices.Reverse(f.found)
	}
	e.mu.RLock() // how a message is shown depends on its channel
	defer e.mu.RUnlock()
	return f.encodeFoundMessages(at), len(f.found), nil
}

// searchRecentMessages looks for messages among the recent ones, and reports whether no others
// matter.
func (e *Engine) searchRecentMessages(ch *channelRecord, f *messageSearch, at chain.Time) (complete bool) {
	recent := ch.recent
	for len(recent) > 0 && recent[len(recent)-1].seq > e.settled {
		recent = recent[:len(recent)-1]
	}
	first := ch.count + 1
	if len(recent) > 0 {
		first = recent[0].number
	}
	// What is not in memory does not matter if all of it is evicted and pinned no
	// more, or before the cursor.
	whole := first <= ch.lastEvictedNumber()+1 && (ch.dropped == 0 || ch.dropped.Add(pinTime) <= at) ||
		f.since > 0 && f.since >= ch.lastEvictedNumber() && f.since+1 >= first ||
		f.after > 0 && len(recent) > 0 && recent[0].at <= f.after
	f.found, f.bytes = nil, 0
	if f.newest {
		for _, m := range slices.Backward(recent) {
			if f.matches(e, m, at) && f.addMessage(m) {
				whole = true
				break
			}
		}
		slices.Reverse(f.found)
		return whole
	}
	if !whole {
		return false
	}
	from, _ := slices.BinarySearchFunc(recent, f.since+1, func(m *message, n int64) int { return cmp.Compare(m.number, n) })
	for _, m := range recent[from:] {
		if f.matches(e, m, at) && f.addMessage(m) {
			break
		}
	}
	return true
}

// encodeFoundMessages returns the messages that were found as a JSON array.
func (f *messageSearch) encodeFoundMessages(at chain.Time) object.JSON {
	p := append(make(object.JSON, 0, 3*len(f.found)+2), []byte("["))
	for i, m := range f.found {
		p = m.appendJSONParts(p, i == 0, f.who.name, at)
	}
	return append(p, []byte("]"))
}

// messageSearch collects a list of messages of a channel.
type messageSearch struct {
	who    Caller
	since  int64      // those with a higher number
	after  chain.Time // and a later time
	newest bool       // of too many the last ones, otherwise the first ones
	to     string     // a name
	kinds  []string
	status string
	limit  int

	settled int64 // of the feed, before the store is read: later messages are for another list
	seen    int64 // the highest number that was looked at in the store
	found   []*message
	bytes   int // of them
}

// addMessage takes a message that was found, and reports whether the list is full.
func (f *messageSearch) addMessage(m *message) (full bool) {
	f.found = append(f.found, m)
	f.bytes += len(m.head)
	return len(f.found) >= f.limit || f.bytes >= object.MaxListBytes
}

// resolveRecipientFilter makes a name of the recipient that the list is for. The caller's own id
// means the caller.
func (f *messageSearch) resolveRecipientFilter(e *Engine, ch *channelRecord) (err error) {
	switch {
	case f.to == "":
	case !object.IsValidAgentName(f.to):
		return object.NewFieldError("to", "the id of an agent is needed")
	case f.to == f.who.Agent:
		f.to = f.who.name
	default:
		e.mu.RLock()
		defer e.mu.RUnlock()
		f.to, err = e.resolveRecipient(ch, f.to, "")
	}
	return err
}

// matches reports whether the list holds m. The world is read-locked.
func (f *messageSearch) matches(e *Engine, m *message, at chain.Time) bool {
	if m.number <= f.since || m.at <= f.after || !m.isStillListed(at) || !m.isVisibleTo(f.who) {
		return false
	}
	if f.to != "" && !m.isAddressedTo(f.to) {
		return false
	}
	if f.kinds != nil && !slices.Contains(f.kinds, m.kind) {
		return false
	}
	status, _ := m.statusForViewer(f.who.name, at)
	if f.status == "" {
		return status != object.StatusExpired
	}
	return status == f.status
}

// searchStoredMessages looks at the next messages of a channel with numbers between after and
// before, forwards or backwards, as many as one read may, or until f is full. It returns the
// number of the last message that it looked at, 0 if no more are wanted.
func (f *messageSearch) searchStoredMessages(c *Call, stx *store.Tx, l *readQuota, ch *channelRecord, after, before int64, at chain.Time) (last int64, err error) {
	order := "ASC"
	if f.newest {
		order = "DESC"
	}
	all, err := eachRowWhile(stx, "SELECT "+lightColumns+", x'' FROM openintent_message WHERE channel = ? AND number > ? AND number < ? ORDER BY number "+order, func(scan func(...any) error) (more bool, err error) {
		m, err := scanMessage(stx, scan)
		if err != nil {
			return false, err
		}
		m.ch, last = ch, m.number
		more = l.spend(1+len(m.reads), m.recipientIDBytes())
		if m.seq > f.settled {
			return more, nil
		}
		f.seen = max(f.seen, m.number)
		found := false
		c.e.withReadLock(func() { found = f.matches(c.e, m, at) })
		if !found {
			return more, nil
		}
		if err := stx.QueryRow("SELECT head FROM openintent_message WHERE seq = ?", m.seq).Scan(&m.head); err != nil {
			return false, err
		}
		if err := c.ChargeCaller(len(m.head)); err != nil {
			return false, err
		}
		if more = l.spend(0, len(m.head)) && more; f.addMessage(m) {
			last, more = 0, false
		}
		return more, nil
	}, ch.row, after, before)
	if all {
		last = 0
	}
	return last, err
}
