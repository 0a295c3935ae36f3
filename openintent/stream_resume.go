package openintent

import (
	"context"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/store"
)

// A stream that resumes gets from the store what it has missed, a page at a time.
const (
	resumePage  = 64        // entries
	resumeBytes = 256 << 10 // of them, but for the last
)

// place is where an entry stands in the feed, and what it is about.
type place struct {
	seq   int64
	table int
	about string // the id of a message's channel or an event's intent; the host that has relayed it
	kind  string // of an event
	to    string // of a message
}

const (
	placeMessage = iota
	placeEvent
	placeRelayed
)

// placesAfter calls each with the places after one number and up to another, in
// their order, while it wants more.
func placesAfter(stx *store.Tx, after, upTo int64, each func(place) (more bool, err error)) error {
	err := stx.Each(`SELECT m.seq, 0, c.id, '', m.recipient FROM openintent_message m CROSS JOIN openintent_channel c WHERE c.row = m.channel AND m.seq > ?1 AND m.seq <= ?2
		UNION ALL SELECT v.seq, 1, i.id, v.type, '' FROM openintent_event v CROSS JOIN openintent_intent i WHERE i.row = v.intent AND v.seq > ?1 AND v.seq <= ?2
		UNION ALL SELECT seq, 2, host, '', '' FROM openintent_relayed WHERE seq > ?1 AND seq <= ?2 ORDER BY 1`, func(scan func(...any) error) error {
		var p place
		if err := scan(&p.seq, &p.table, &p.about, &p.kind, &p.to); err != nil {
			return err
		}
		more, err := each(p)
		if err != nil {
			return err
		}
		return enough(more)
	}, after, upTo)
	if err == errEnough {
		return nil
	}
	return err
}

// resume writes what the stream has missed.
func (e *Engine) resume(ctx context.Context, s *subscriber, after, upTo int64, write func([]byte) bool) bool {
	for after < upTo {
		var page []entry
		size := 0
		if err := e.read(ctx, func(stx *store.Tx, l *look) (err error) {
			page, after, err = e.missed(stx, l, s, after, upTo)
			size = l.bytes
			return err
		}); err != nil {
			if ctx.Err() == nil {
				e.cfg.Log.Error("openintent: resuming a stream failed", "error", err)
			}
			return false
		}
		if !e.tellPage(s, page, size, write) {
			return false
		}
	}
	return true
}

// tellPage writes entries of so many bytes, which count as such that wait.
func (e *Engine) tellPage(s *subscriber, page []entry, size int, write func([]byte) bool) bool {
	if s.who.Home != "" {
		if e.entries.Take(s.payer, int64(size)) != nil {
			return false
		}
		defer e.entries.Give(s.payer, int64(size))
	}
	var b []byte
	for i := range page {
		at, ended := now(), false
		e.rlocked(func() { b, ended = e.frame(b, s, &page[i], at), s.ended })
		if ended {
			return false
		}
		if len(b) >= writeBytes || i == len(page)-1 && len(b) > 0 {
			if !write(b) {
				return false
			}
			b = b[:0]
		}
	}
	return true
}

// missed reads what a stream may show of the places after one number. It is all up to
// end.
func (e *Engine) missed(stx *store.Tx, l *look, s *subscriber, after, upTo int64) (page []entry, end int64, err error) {
	end = upTo
	err = placesAfter(stx, after, upTo, func(p place) (bool, error) {
		more := l.takes(1, 0)
		if n, ok := e.mayShow(s, p); ok {
			size, err := n.fill(stx)
			if err != nil {
				return false, err
			}
			page = append(page, n)
			more = l.takes(n.receipts(), size) && more
		}
		if !more || len(page) >= resumePage || l.bytes >= resumeBytes {
			end = p.seq
			return false, nil
		}
		return true, nil
	})
	return page, end, err
}

// mayShow reports whether a stream may show the entry at that place, as far as can be
// said without it.
func (e *Engine) mayShow(s *subscriber, p place) (n entry, may bool) {
	n.seq = p.seq
	if p.table == placeRelayed {
		host, _ := HostOf(s.intent)
		n.relayed = &relayed{}
		return n, s.who.Home == "" && (s.intent == "" || host == p.about) && !e.forgets.hides(p.about)
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	if p.table == placeEvent {
		n.in, n.event = e.intents[p.about], &chain.Event{Type: p.kind}
		return n, n.in != nil && s.channel == "" && p.kind != kindMessage && (s.intent == "" || s.intent == n.in.id)
	}
	ch := e.channels[p.about]
	if ch == nil || s.channel != "" && s.channel != ch.id || s.intent != "" && s.intent != ch.in.id {
		return n, false
	}
	n.in, n.message = ch.in, &message{ch: ch, to: p.to}
	switch {
	case s.quiet:
		return n, false
	case !n.message.direct() || s.who.Operator && !s.agent:
		return n, true
	case s.home:
		return n, e.key(p.to).home == s.who.Home
	}
	return n, n.message.receives(s.who.name)
}

// receipts is how many receipts were read with an entry.
func (n *entry) receipts() int {
	if n.message == nil {
		return 0
	}
	return len(n.message.reads)
}

// fill reads the entry at a place, and returns how many bytes it has.
func (n *entry) fill(stx *store.Tx) (size int, err error) {
	var doc []byte
	switch {
	case n.message != nil:
		ch := n.message.ch
		if n.message, err = scanMessage(stx, stx.QueryRow("SELECT "+messageColumns+" FROM openintent_message WHERE seq = ?", n.seq).Scan); err != nil {
			return 0, err
		}
		n.message.ch = ch
		return len(n.message.head) + n.message.namedBytes(), nil
	case n.event != nil:
		if err := stx.QueryRow("SELECT doc FROM openintent_event WHERE seq = ?", n.seq).Scan(&doc); err != nil {
			return 0, err
		}
		return len(doc), json.Unmarshal(doc, n.event)
	}
	if err := stx.QueryRow("SELECT doc FROM openintent_relayed WHERE seq = ?", n.seq).Scan(&doc); err != nil {
		return 0, err
	}
	return len(doc), json.Unmarshal(doc, n.relayed)
}
