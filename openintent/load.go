package openintent

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/store"
)

// load makes the world from the store, in a write, so that nothing changes
// meanwhile. Who waits is woken and looks again.
func (e *Engine) load(ctx context.Context) error {
	return e.db.Write(ctx, false, func(stx *store.Tx) error {
		at := now()
		w := world{
			intents: make(map[string]*intent), channels: make(map[string]*channel), agents: make(map[agentKey]*agent),
			tasks: make(map[string]*task), coords: make(map[string]*coordinator),
		}
		if err := w.read(stx, at); err != nil {
			return err
		}
		var last int64
		if err := stx.QueryRow(`SELECT max((SELECT coalesce(max(seq), 0) FROM openintent_message), (SELECT coalesce(max(seq), 0) FROM openintent_event),
			(SELECT coalesce(max(seq), 0) FROM openintent_relayed), (SELECT coalesce(max(last), 0) FROM openintent_feed))`).Scan(&last); err != nil {
			return err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		old := e.world
		e.world, e.alarms, e.memory, e.bytes = w, nil, nil, 0
		e.next = max(e.next, last+1)
		if old.channels == nil {
			e.settled = e.next - 1
		}
		for _, ch := range w.channels {
			e.setAlarm(ch)
		}
		for _, ch := range old.channels {
			ch.bell.ring()
			for _, a := range ch.asks {
				a.bell.ring()
			}
		}
		return nil
	})
}

// each scans every row of a query.
func each(stx *store.Tx, query string, row func(scan func(...any) error) error, args ...any) error {
	rows, err := stx.Query(query, args...)
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (w *world) read(stx *store.Tx, at stamp) error {
	byRow := make(map[int64]*intent)
	channels := make(map[int64]*channel)
	return errors.Join(
		each(stx, `SELECT i.row, i.id, i.doc ->> 'created_by', i.doc ->> 'status', i.doc ->> 'version', i.access, coalesce(v.sequence, 0), coalesce(v.doc ->> 'event_hash', '') FROM openintent_intent i
			LEFT JOIN openintent_event v ON v.intent = i.row AND v.sequence = (SELECT max(sequence) FROM openintent_event WHERE intent = i.row)`,
			func(scan func(...any) error) error {
				in := &intent{access: newAccess()}
				var access []byte
				if err := scan(&in.row, &in.id, &in.creator, &in.status, &in.version, &access, &in.sequence, &in.hash); err != nil {
					return err
				}
				if err := json.Unmarshal(access, &in.access); err != nil {
					return err
				}
				w.intents[in.id], byRow[in.row] = in, in
				w.rows = max(w.rows, in.row)
				return nil
			}),
		each(stx, "SELECT doc FROM openintent_agent", func(scan func(...any) error) error {
			a := &agent{}
			if err := scanDoc(scan, &a.doc); err != nil {
				return err
			}
			a.seen.Store(int64(at))
			w.agents[agentKey{a.doc.Host, a.doc.AgentID}] = a
			return nil
		}),
		each(stx, "SELECT doc, intent FROM openintent_task ORDER BY id", func(scan func(...any) error) error {
			k := &task{}
			var row int64
			if err := scanDoc(scan, &k.doc, &row); err != nil {
				return err
			}
			k.in = byRow[row]
			k.in.tasks = append(k.in.tasks, k)
			w.tasks[k.doc.ID] = k
			return nil
		}),
		each(stx, "SELECT doc, intent FROM openintent_coordinator ORDER BY id", func(scan func(...any) error) error {
			co := &coordinator{}
			var row int64
			if err := scanDoc(scan, &co.doc, &row); err != nil {
				return err
			}
			co.in = byRow[row]
			co.in.coords = append(co.in.coords, co)
			w.coords[co.doc.ID] = co
			return nil
		}),
		each(stx, `SELECT c.doc, c.row, c.intent, coalesce(m.number, 0), coalesce(m.at, 0), CASE WHEN m.sender = 'system' THEN
				coalesce((SELECT at FROM openintent_message WHERE channel = c.row AND sender <> 'system' ORDER BY number DESC LIMIT 1), 0) ELSE coalesce(m.at, 0) END
			FROM openintent_channel c LEFT JOIN openintent_message m ON m.channel = c.row AND m.number = (SELECT max(number) FROM openintent_message WHERE channel = c.row)
			ORDER BY c.row`,
			func(scan func(...any) error) error {
				ch := &channel{}
				var row int64
				if err := scanDoc(scan, &ch.doc, &ch.row, &row, &ch.count, &ch.last, &ch.used); err != nil {
					return err
				}
				var err error
				if ch.opt, err = parseOptions(ch.doc.Options); err != nil {
					return err
				}
				if ch.count > 0 {
					ch.dropped = at
				}
				ch.in = byRow[row]
				ch.in.channels = append(ch.in.channels, ch)
				ch.id = ch.doc.ID
				w.channels[ch.id], channels[ch.row] = ch, ch
				w.rows = max(w.rows, ch.row)
				return nil
			}),
		each(stx, "SELECT "+messageColumns+", channel FROM openintent_message WHERE kind = 'request' AND answered = 0 AND deadline > ?", func(scan func(...any) error) error {
			var row int64
			m, err := scanMessage(stx, scan, &row)
			if err != nil {
				return err
			}
			m.ch = channels[row]
			if m.ch.open == nil {
				m.ch.open = make(map[string]*message)
			}
			m.ch.open[m.id] = m.light()
			return nil
		}, int64(at)))
}

// scanDoc scans a row whose first column is the document v.
func scanDoc(scan func(...any) error, v any, more ...any) error {
	var doc []byte
	if err := scan(append([]any{&doc}, more...)...); err != nil {
		return err
	}
	return json.Unmarshal(doc, v)
}

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
	return m, each(stx, "SELECT agent, at FROM openintent_receipt WHERE message = ? ORDER BY at", func(scan func(...any) error) error {
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
	enough := errors.New("enough")
	err := each(stx, "SELECT "+messageColumns+" FROM openintent_message WHERE channel = ? AND number > ? AND at > ? ORDER BY number "+order, func(scan func(...any) error) error {
		m, err := scanMessage(stx, scan)
		if err != nil {
			return err
		}
		m.ch = ch
		if !yield(m) {
			return enough
		}
		return nil
	}, ch.row, since, int64(after))
	if err == enough {
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
		err := each(stx, query+" ORDER BY seq LIMIT ?4", func(scan func(...any) error) (err error) {
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
