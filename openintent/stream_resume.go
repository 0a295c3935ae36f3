package openintent

import (
	"context"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// A stream that resumes gets the entries that it has missed from the store, page by page.
const (
	resumePage  = 64        // entries
	resumeBytes = 256 << 10 // of them, but for the last
)

// feedPlace is the place of an entry in the feed, and what the entry is about.
type feedPlace struct {
	seq   int64
	table int
	about string // the id of a message's channel or an event's intent
	kind  string // of an event
	to    string // of a message
}

const (
	placeMessage = iota
	placeEvent
)

// readFeedPlaces calls each with the places after one number and up to another, in their order,
// while each wants more.
func readFeedPlaces(stx *store.Tx, after, upTo int64, each func(feedPlace) (more bool, err error)) error {
	_, err := eachRowWhile(stx, `SELECT m.seq, 0, c.id, '', m.recipient FROM openintent_message m CROSS JOIN openintent_channel c WHERE c.row = m.channel AND m.seq > ?1 AND m.seq <= ?2
		UNION ALL SELECT v.seq, 1, i.id, v.type, '' FROM openintent_event v CROSS JOIN openintent_intent i WHERE i.row = v.intent AND v.seq > ?1 AND v.seq <= ?2 ORDER BY 1`, func(scan func(...any) error) (more bool, err error) {
		var p feedPlace
		if err := scan(&p.seq, &p.table, &p.about, &p.kind, &p.to); err != nil {
			return false, err
		}
		return each(p)
	}, after, upTo)
	return err
}

// writeMissedEntries writes the entries that the stream has missed. It reports whether the stream
// continues.
func (e *Engine) writeMissedEntries(ctx context.Context, s *subscriber, after, upTo int64, write func([]byte) bool) bool {
	for after < upTo {
		var page []feedEntry
		size := 0
		if err := e.readWithQuota(ctx, func(stx *store.Tx, l *readQuota) (err error) {
			page, after, err = e.readMissedEntries(stx, l, s, after, upTo)
			size = l.bytes
			return err
		}); err != nil {
			if ctx.Err() == nil {
				e.cfg.Log.Error("openintent: resuming a stream failed", "error", err)
			}
			return false
		}
		if !e.writeEntryPage(s, page, size, write) {
			return false
		}
	}
	return true
}

// writeEntryPage writes entries of so many bytes to a stream. Meanwhile the reader's daemon is
// charged for them. It reports whether the stream continues.
func (e *Engine) writeEntryPage(s *subscriber, page []feedEntry, size int, write func([]byte) bool) bool {
	if s.who.Home != "" {
		if e.entries.Reserve(s.payer, int64(size)) != nil {
			return false
		}
		defer e.entries.Release(s.payer, int64(size))
	}
	var b []byte
	for i := range page {
		at, ended := now(), false
		e.withReadLock(func() { b, ended = e.appendEntryFrame(b, s, &page[i], at), s.ended })
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

// readMissedEntries reads the entries after one number that a stream may show. It returns all up
// to the number end.
func (e *Engine) readMissedEntries(stx *store.Tx, l *readQuota, s *subscriber, after, upTo int64) (page []feedEntry, end int64, err error) {
	end = upTo
	err = readFeedPlaces(stx, after, upTo, func(p feedPlace) (bool, error) {
		more := l.spend(1, 0)
		if n, ok := e.newEntryForPlace(s, p); ok {
			size, err := n.readFromStore(stx)
			if err != nil {
				return false, err
			}
			page = append(page, n)
			more = l.spend(n.countReceipts(), size) && more
		}
		if !more || len(page) >= resumePage || l.bytes >= resumeBytes {
			end = p.seq
			return false, nil
		}
		return true, nil
	})
	return page, end, err
}

// newEntryForPlace returns an entry to be read for a place, and reports whether the stream may
// show it, as far as the place tells that.
func (e *Engine) newEntryForPlace(s *subscriber, p feedPlace) (n feedEntry, may bool) {
	n.seq = p.seq
	e.mu.RLock()
	defer e.mu.RUnlock()
	if p.table == placeEvent {
		n.in, n.event = e.intents[p.about], &chain.Event{Type: p.kind}
		return n, n.in != nil && s.channel == "" && p.kind != object.KindMessage && (s.intent == "" || s.intent == n.in.id)
	}
	ch := e.channels[p.about]
	if ch == nil || s.channel != "" && s.channel != ch.id || s.intent != "" && s.intent != ch.in.id {
		return n, false
	}
	n.in, n.message = ch.in, &message{ch: ch, to: p.to}
	switch {
	case !n.message.isDirect() || s.who.Operator && !s.agent:
		return n, true
	case s.home:
		return n, e.agentKeyOf(p.to).home == s.who.Home
	}
	return n, n.message.isAddressedTo(s.who.name)
}

// countReceipts returns how many receipts were read with an entry.
func (n *feedEntry) countReceipts() int {
	if n.message == nil {
		return 0
	}
	return len(n.message.reads)
}

// readFromStore reads the entry from the store, and returns how many bytes it has.
func (n *feedEntry) readFromStore(stx *store.Tx) (size int, err error) {
	if n.message != nil {
		ch := n.message.ch
		if n.message, err = scanMessage(stx, stx.QueryRow("SELECT "+messageColumns+" FROM openintent_message WHERE seq = ?", n.seq).Scan); err != nil {
			return 0, err
		}
		n.message.ch = ch
		return len(n.message.head) + n.message.recipientIDBytes(), nil
	}
	var doc []byte
	if err := stx.QueryRow("SELECT doc FROM openintent_event WHERE seq = ?", n.seq).Scan(&doc); err != nil {
		return 0, err
	}
	return len(doc), json.Unmarshal(doc, n.event)
}
