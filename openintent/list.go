package openintent

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/store"
)

// MessageFilter says which messages of a channel a list holds. What is "" or nil says nothing.
type MessageFilter struct {
	Since  string // those after the message with this id, or after this time
	To     string // those to this agent
	Types  []string
	Status string
	Limit  int
	Wait   time.Duration // for the first message, if there is none
	Plain  bool          // the caller has said none of this: who waits for a response gets it at once
}

// ListMessages returns messages of a channel as the caller sees them, as a JSON array.
func (e *Engine) ListMessages(c *Call, id string, which *MessageFilter) (JSON, error) {
	ch, err := e.channel(c, id)
	if err != nil {
		return nil, err
	}
	f, err := e.filter(c, ch, which)
	if err != nil {
		return nil, err
	}
	wait, held := which.Wait, which.Plain && e.cfg.HeldList > 0
	if held {
		wait = e.cfg.HeldList
	}
	var timeout <-chan time.Time
	since := f.since
	for {
		var rung <-chan struct{}
		var open, hold bool
		var err error
		e.rlocked(func() {
			if ch = e.channels[id]; ch == nil {
				err = notFound("channel")
				return
			}
			err = e.mayList(ch, c.Caller)
			if wait > 0 {
				rung = ch.bell.wait()
			}
			open = ch.isOpen(now())
			hold = held && open && e.holds(ch, c.Caller.name, now())
		})
		if err != nil {
			return nil, err
		}
		if !hold {
			if held {
				e.locked(func() { delete(ch.news, c.Caller.name) })
			}
			list, n, err := e.collect(c, ch, f)
			if err != nil || n > 0 || held || wait == 0 || !open {
				return list, err
			}
			f.since = max(f.since, f.seen) // until the time is up only what is new matters
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

// mayList repeats the rules on a list that has waited.
func (e *Engine) mayList(ch *channel, who Caller) error {
	if _, _, err := e.enter(ch.in.id, who, levelRead, now()); err != nil {
		return hidden(err, "channel")
	}
	return e.reads(ch, who)
}

// holds reports whether a plain list by agent should wait: it has asked something
// here, and no response has come since its last plain list. A response that is not
// published yet has answered its request, and no list has it.
func (e *Engine) holds(ch *channel, agent string, at chain.Time) bool {
	if ch.news[agent] {
		return false
	}
	for _, m := range slices.Backward(ch.recent) {
		if m.seq <= e.settled {
			break
		}
		if m.kind == kindResponse && m.to == agent {
			return true
		}
	}
	for _, m := range ch.open {
		if m.sender == agent && !m.expired(at) {
			return true
		}
	}
	return false
}

// filter begins a list of the channel's messages.
func (e *Engine) filter(c *Call, ch *channel, which *MessageFilter) (*filter, error) {
	f := &filter{who: c.Caller, to: which.To, status: which.Status, kinds: which.Types, limit: which.Limit}
	if err := f.addressee(e, ch); err != nil {
		return nil, err
	}
	if f.status != "" && !slices.Contains(messageStatuses, f.status) {
		return nil, Invalid("status", "one of %s", strings.Join(messageStatuses, ", "))
	}
	for _, k := range f.kinds {
		if !slices.Contains(messageKinds, k) {
			return nil, Invalid("types", "some of %s, with commas", strings.Join(messageKinds, ", "))
		}
	}
	if err := (Page{Limit: f.limit}).Check(); err != nil {
		return nil, err
	}
	if which.Wait < 0 || which.Wait > MaxWait {
		return nil, Invalid("wait", "0 to %d seconds", int(MaxWait.Seconds()))
	}
	since := which.Since
	if since == "" {
		f.newest = true
		return f, nil
	}
	if strings.HasPrefix(since, idMessage+"_") {
		prefix, _, at, number, ok := splitID(since)
		if !ok || prefix != idMessage {
			return nil, Refuse("bad_cursor", "since: neither the id of a message nor a time")
		}
		if number > 0 {
			f.since = number
			return f, nil
		}
		m, err := e.lookUp(c.Context(), ch, since)
		if m != nil {
			f.since = m.number
		} else {
			f.after = at
		}
		return f, err
	}
	var err error
	if f.after, err = chain.ParseTime(since); err != nil {
		err = Refuse("bad_cursor", "since: neither the id of a message nor a time: %v", err)
	}
	return f, err
}

// collect returns the messages that f matches as an array, and how many they
// are. It reads the store only where memory does not reach back far enough.
func (e *Engine) collect(c *Call, ch *channel, f *filter) (JSON, int, error) {
	at := now()
	var list JSON
	done := false
	e.rlocked(func() {
		if done = e.fromMemory(ch, f, at); done {
			list = f.render(at)
		}
		f.settled = e.settled
	})
	if done {
		return list, len(f.found), nil
	}
	f.found, f.bytes = nil, 0
	c.give(c.held)
	after, before := f.since, int64(math.MaxInt64)
	for more := true; more; {
		if err := e.read(c.Context(), func(stx *store.Tx, l *look) error {
			last, err := f.messagesOf(c, stx, l, ch, after, before, at)
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
	e.mu.RLock() // what a message shows of itself depends on its channel
	defer e.mu.RUnlock()
	return f.render(at), len(f.found), nil
}

// fromMemory looks for messages among the recent ones, and reports whether these
// are all that matter.
func (e *Engine) fromMemory(ch *channel, f *filter, at chain.Time) (complete bool) {
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
	whole := first <= ch.floor()+1 && (ch.dropped == 0 || ch.dropped.Add(pinTime) <= at) ||
		f.since > 0 && f.since >= ch.floor() && f.since+1 >= first ||
		f.after > 0 && len(recent) > 0 && recent[0].at <= f.after
	f.found, f.bytes = nil, 0
	if f.newest {
		for _, m := range slices.Backward(recent) {
			if f.matches(e, m, at) && f.add(m) {
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
		if f.matches(e, m, at) && f.add(m) {
			break
		}
	}
	return true
}

// render makes an array of what was found.
func (f *filter) render(at chain.Time) JSON {
	p := append(make(JSON, 0, 3*len(f.found)+2), []byte("["))
	for i, m := range f.found {
		p = m.parts(p, i == 0, f.who.name, at)
	}
	return append(p, []byte("]"))
}
