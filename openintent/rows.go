package openintent

import (
	"database/sql"
	"errors"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent/chain"
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

// enough is errEnough unless more is wanted.
func enough(more bool) error {
	if more {
		return nil
	}
	return errEnough
}

// lightColumns are all of a message but its head, which may be long.
const (
	lightColumns   = "seq, number, id, kind, sender, recipient, correlation, at, expires, deadline, answered, lead, recipients, receipts, given"
	messageColumns = lightColumns + ", head"
)

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

// namedBytes is how long the ids of the message's recipients are.
func (m *message) namedBytes() (n int) {
	for _, id := range m.recipients {
		n += len(id)
	}
	return n
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

// messagesOf looks at the next messages of a channel with numbers between after and
// before, forwards or backwards, as many as one read may, or until f is full. It
// returns the number of the last that it looked at, 0 where that was all.
func (f *filter) messagesOf(c *Call, stx *store.Tx, l *look, ch *channel, after, before int64, at chain.Time) (last int64, err error) {
	order := "ASC"
	if f.newest {
		order = "DESC"
	}
	more := false
	err = stx.Each("SELECT "+lightColumns+", x'' FROM openintent_message WHERE channel = ? AND number > ? AND number < ? ORDER BY number "+order, func(scan func(...any) error) error {
		m, err := scanMessage(stx, scan)
		if err != nil {
			return err
		}
		m.ch, last = ch, m.number
		more = l.takes(1+len(m.reads), m.namedBytes())
		if m.seq > f.settled {
			return enough(more)
		}
		f.seen = max(f.seen, m.number)
		found := false
		c.e.rlocked(func() { found = f.matches(c.e, m, at) })
		if found {
			if err := stx.QueryRow("SELECT head FROM openintent_message WHERE seq = ?", m.seq).Scan(&m.head); err != nil {
				return err
			}
			if err := c.Charge(len(m.head)); err != nil {
				return err
			}
			if more = l.takes(0, len(m.head)) && more; f.add(m) {
				last = 0
				return errEnough
			}
		}
		return enough(more)
	}, ch.row, after, before)
	if err == errEnough {
		return last, nil
	}
	return 0, err
}
