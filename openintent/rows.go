package openintent

import (
	"cmp"
	"database/sql"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/store"
)

// scanDoc scans a row whose first column is the document v.
func scanDoc(scan func(...any) error, v any, more ...any) error {
	var doc []byte
	if err := scan(append([]any{&doc}, more...)...); err != nil {
		return err
	}
	return json.Unmarshal(doc, v)
}

// errEnough ends a read of which no more rows are wanted.
var errEnough = errors.New("enough")

const messageColumns = "seq, number, id, kind, sender, recipient, correlation, at, expires, deadline, answered, lead, recipients, receipts, given, head"

// scanMessage reads a message, all but its channel.
func scanMessage(stx *store.Tx, scan func(...any) error, more ...any) (*message, error) {
	m := &message{state: &state{}}
	var recipients []byte
	var receipts bool
	if err := scan(append([]any{&m.seq, &m.number, &m.id, &m.kind, &m.sender, &m.to, &m.correlation, &m.at, &m.expires, &m.deadline, &m.answered, &m.lead,
		&recipients, &receipts, &m.given, &m.head}, more...)...); err != nil {
		return nil, err
	}
	if len(recipients) > 0 {
		if err := json.Unmarshal(recipients, &m.recipients); err != nil {
			return nil, err
		}
	}
	if !receipts {
		return m, nil
	}
	return m, stx.Each("SELECT agent, at FROM openintent_receipt WHERE message = ? ORDER BY at", func(scan func(...any) error) error {
		var r receipt
		if err := scan(&r.agent, &r.at); err != nil {
			return err
		}
		m.reads = append(m.reads, r)
		return nil
	}, m.seq)
}

// messageByID reads a message of the channel, nil if there is none. number is
// what the id carries.
func messageByID(stx *store.Tx, ch *channel, id string, number int64) (*message, error) {
	where, arg := "channel = ? AND number = ?", any(number)
	if number == 0 {
		where, arg = "channel = ? AND given = 1 AND id = ?", id
	}
	m, err := scanMessage(stx, stx.QueryRow("SELECT "+messageColumns+" FROM openintent_message WHERE "+where, ch.row, arg).Scan)
	if errors.Is(err, sql.ErrNoRows) || err == nil && m.id != id {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m.ch = ch
	return m, nil
}

// messagesOf reads the channel's messages with a higher number and a later
// time, forwards or backwards, while yield wants more.
func messagesOf(stx *store.Tx, ch *channel, since int64, after stamp, backwards bool, yield func(*message) bool) error {
	order := "ASC"
	if backwards {
		order = "DESC"
	}
	err := stx.Each("SELECT "+messageColumns+" FROM openintent_message WHERE channel = ? AND number > ? AND at > ? ORDER BY number "+order, func(scan func(...any) error) error {
		m, err := scanMessage(stx, scan)
		if err != nil {
			return err
		}
		m.ch = ch
		if !yield(m) {
			return errEnough
		}
		return nil
	}, ch.row, since, int64(after))
	if err == errEnough {
		return nil
	}
	return err
}

// entriesAfter reads the messages, events and relayed entries that a stream may
// show, with numbers after one and up to another, in their order. They are all
// up to end, which is less where there are many.
func (e *Engine) entriesAfter(stx *store.Tx, s *subscriber, after, upTo int64, limit int) (page []entry, end int64, err error) {
	intents, channels := make(map[int64]*intent), make(map[int64]*channel)
	e.mu.RLock()
	if in := e.intents[s.intent]; in != nil {
		intents[in.row] = in
	} else if s.intent == "" {
		for _, in := range e.intents {
			intents[in.row] = in
		}
	}
	for _, in := range intents {
		for _, ch := range in.channels {
			channels[ch.row] = ch
		}
	}
	e.mu.RUnlock()
	var intent int64 // 0: all
	if s.intent != "" {
		intent = -1 // of another host
		for intent = range intents {
		}
	}
	end = upTo
	// Each query reads at most limit rows; no page goes beyond what one of them has left.
	read := func(query string, row func(scan func(...any) error) (int64, error)) error {
		rows, last := 0, int64(0)
		err := stx.Each(query+" ORDER BY seq LIMIT ?4", func(scan func(...any) error) (err error) {
			rows++
			last, err = row(scan)
			return err
		}, after, upTo, intent, limit)
		if rows == limit {
			end = min(end, last)
		}
		return err
	}
	err = errors.Join(
		read("SELECT seq, intent, doc FROM openintent_event WHERE seq > ?1 AND seq <= ?2 AND (?3 = 0 OR intent = ?3)", func(scan func(...any) error) (int64, error) {
			n := entry{event: &Event{}}
			var row int64
			var doc []byte
			if err := scan(&n.seq, &row, &doc); err != nil {
				return 0, err
			}
			if n.in = intents[row]; n.in != nil {
				page = append(page, n)
			}
			return n.seq, json.Unmarshal(doc, n.event)
		}),
		read("SELECT "+messageColumns+", channel FROM openintent_message WHERE seq > ?1 AND seq <= ?2 AND (?3 = 0 OR channel IN (SELECT row FROM openintent_channel WHERE intent = ?3))", func(scan func(...any) error) (int64, error) {
			var row int64
			m, err := scanMessage(stx, scan, &row)
			if err != nil {
				return 0, err
			}
			if m.ch = channels[row]; m.ch != nil {
				page = append(page, entry{seq: m.seq, in: m.ch.in, message: m})
			}
			return m.seq, nil
		}),
		read("SELECT seq, doc FROM openintent_relayed WHERE seq > ?1 AND seq <= ?2 AND ?3 <= 0", func(scan func(...any) error) (int64, error) {
			n := entry{relayed: &relayed{}}
			var doc []byte
			if err := scan(&n.seq, &doc); err != nil {
				return 0, err
			}
			page = append(page, n)
			return n.seq, json.Unmarshal(doc, n.relayed)
		}))
	page = slices.DeleteFunc(page, func(n entry) bool { return n.seq > end })
	slices.SortFunc(page, func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
	return page, end, err
}
