package openintent

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/store"
)

// text is v as JSON, for a column.
func text(v any) string {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err) // our own types
	}
	return string(b)
}

func (t *tx) insertIntent(in *intent, doc Intent) error {
	_, err := t.Exec("INSERT INTO openintent_intent VALUES (?, ?, ?, ?)", in.row, in.id, text(doc), text(in.access))
	return err
}

func (t *tx) saveIntent(in *intent, doc Intent) error {
	_, err := t.Exec("UPDATE openintent_intent SET doc = ? WHERE row = ?", text(doc), in.row)
	return err
}

func (t *tx) saveAccess(in *intent, a access) error {
	_, err := t.Exec("UPDATE openintent_intent SET access = ? WHERE row = ?", text(a), in.row)
	return err
}

func (t *tx) intentDoc(in *intent) (doc Intent, err error) {
	var text []byte
	if err := t.QueryRow("SELECT doc FROM openintent_intent WHERE row = ?", in.row).Scan(&text); err != nil {
		return doc, err
	}
	return doc, json.Unmarshal(text, &doc)
}

// intentDocs reads the objects of intents, as many as room has bytes for.
func (e *Engine) intentDocs(ctx context.Context, list []listed, room int) ([]jsontext.Value, error) {
	docs, size := []jsontext.Value{}, 0
	err := e.db.Read(ctx, func(stx *store.Tx) error {
		for _, in := range list {
			doc := in.doc
			if doc == nil {
				if err := stx.QueryRow("SELECT doc FROM openintent_intent WHERE row = ?", in.row).Scan((*[]byte)(&doc)); err != nil {
					return err
				}
			}
			docs = append(docs, doc)
			if size += len(doc); size >= room {
				break
			}
		}
		return nil
	})
	return docs, err
}

// saveAgent keeps the next version of what is said of an agent, who lives.
func (t *tx) saveAgent(a *agent, doc Agent) error {
	doc.Version++
	_, err := t.Exec("INSERT INTO openintent_agent VALUES (?, ?, ?) ON CONFLICT (home, id) DO UPDATE SET doc = excluded.doc", doc.Host, doc.AgentID, text(doc))
	if err != nil {
		return err
	}
	t.apply(func() {
		a.doc = doc
		a.seen.Store(int64(t.now))
		t.e.agents[agentKey{doc.Host, doc.AgentID}] = a
	})
	return nil
}

func (t *tx) saveTask(in *intent, doc Task) error {
	_, err := t.Exec("INSERT INTO openintent_task VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc", doc.ID, in.row, text(doc))
	return err
}

func (t *tx) saveCoordinator(in *intent, doc Coordinator) error {
	_, err := t.Exec("INSERT INTO openintent_coordinator VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc", doc.ID, in.row, text(doc))
	return err
}

func (t *tx) saveChannel(ch *channel, doc Channel) error {
	_, err := t.Exec("INSERT INTO openintent_channel VALUES (?, ?, ?, ?) ON CONFLICT (row) DO UPDATE SET doc = excluded.doc", ch.row, doc.ID, ch.in.row, text(doc))
	return err
}

// dropChannel also keeps how far the feed is: with the channel its last number may
// go, and must not be given out again to who resumes after it.
func (t *tx) dropChannel(ch *channel) error {
	if _, err := t.Exec("DELETE FROM openintent_channel WHERE row = ?", ch.row); err != nil {
		return err
	}
	_, err := t.Exec("INSERT INTO openintent_feed VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET last = excluded.last", t.e.next-1)
	return err
}

func (t *tx) insertEvent(seq int64, in *intent, doc *Event, trace string, text []byte) error {
	_, err := t.Exec("INSERT INTO openintent_event VALUES (?, ?, ?, ?, ?, ?, ?)", seq, in.row, doc.Sequence, doc.Type, int64(doc.CreatedAt), trace, string(text))
	return err
}

// eventsBack reads the documents of a log, the newest first, while more wants more.
func eventsBack(stx *store.Tx, intent int64, kind, trace string, since stamp, limit, offset int, more func([]byte) bool) error {
	err := stx.Each(`SELECT doc FROM openintent_event WHERE intent = ?1 AND (?2 = '' OR type = ?2) AND (?3 = '' OR trace = ?3) AND at > ?4
		ORDER BY sequence DESC LIMIT ?5 OFFSET ?6`, func(scan func(...any) error) error {
		var doc []byte
		if err := scan(&doc); err != nil {
			return err
		}
		if !more(doc) {
			return errEnough
		}
		return nil
	}, intent, kind, trace, int64(since), limit, offset)
	if err == errEnough {
		return nil
	}
	return err
}

// eventsFrom reads the next 500 documents of a log after a sequence number.
func eventsFrom(stx *store.Tx, intent, after int64, each func(int64, []byte) error) error {
	return stx.Each("SELECT sequence, doc FROM openintent_event WHERE intent = ? AND sequence > ? ORDER BY sequence LIMIT 500", func(scan func(...any) error) error {
		var sequence int64
		var doc []byte
		if err := scan(&sequence, &doc); err != nil {
			return err
		}
		return each(sequence, doc)
	}, intent, after)
}

func (t *tx) insertMessage(m *message) error {
	recipients := ""
	if m.recipients != nil {
		recipients = text(m.recipients)
	}
	_, err := t.Exec("INSERT INTO openintent_message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, 0, ?, ?)",
		m.seq, m.ch.row, m.number, m.id, m.kind, m.sender, m.to, m.correlation, int64(m.at), int64(m.expires), int64(m.deadline), m.lead, recipients, m.given, m.head)
	return err
}

// isGiven reports whether a message has this id, which its sender's home has chosen.
func (t *tx) isGiven(id string) (taken bool, err error) {
	err = t.QueryRow("SELECT EXISTS (SELECT 1 FROM openintent_message WHERE given = 1 AND id = ?)", id).Scan(&taken)
	return taken, err
}

// answer notes that a request has a response.
func (t *tx) answer(request *message) error {
	_, err := t.Exec("UPDATE openintent_message SET answered = 1 WHERE seq = ?", request.seq)
	return err
}

func (t *tx) expireRequest(m *message, at stamp) error {
	_, err := t.Exec("UPDATE openintent_message SET deadline = ? WHERE seq = ?", int64(at), m.seq)
	return err
}

func (t *tx) expireRequests(ch *channel, at stamp) error {
	_, err := t.Exec("UPDATE openintent_message SET deadline = ?1 WHERE channel = ?2 AND kind = 'request' AND answered = 0 AND deadline > ?1", int64(at), ch.row)
	return err
}

func (t *tx) insertReceipt(m *message, r receipt) error {
	if _, err := t.Exec("INSERT INTO openintent_receipt VALUES (?, ?, ?)", m.seq, r.agent, int64(r.at)); err != nil {
		return err
	}
	_, err := t.Exec("UPDATE openintent_message SET receipts = 1 WHERE seq = ?", m.seq)
	return err
}

// evictStep is how many evicted messages are removed from the store at once.
// Until then they are there and nobody sees them.
const evictStep = 64

// evict removes what max_messages has evicted before last, but for what is
// pinned and for requests that may still be answered.
func (t *tx) evict(ch *channel, last *message) error {
	floor := last.number - ch.opt.max
	if floor <= 0 || last.number%min(evictStep, ch.opt.max) != 0 {
		return nil
	}
	_, err := t.Exec(`DELETE FROM openintent_message WHERE channel = ?1 AND number <= ?2 AND NOT (lead = 1 AND at > ?3)
		AND NOT (kind = 'request' AND answered = 0 AND deadline > ?4)`, ch.row, floor, int64(last.at.add(-pinTime)), int64(last.at))
	return err
}

// forgetSent forgets keys that are too old.
func (t *tx) forgetSent() error {
	_, err := t.Exec("DELETE FROM openintent_sent WHERE at < ?", int64(t.now.add(-keyTTL)))
	return err
}

// readSaid calls each with what was said to sends of that sender with that key. +at
// keeps SQLite from looking at all keys of that time instead.
func readSaid(stx *store.Tx, o *outgoing, at stamp, each func(said, []byte)) error {
	return stx.Each("SELECT channel, id, recipient, at, hash FROM openintent_sent WHERE key = ? AND home = ? AND sender = ? AND +at >= ?", func(scan func(...any) error) error {
		var s said
		var hash []byte
		if err := scan(&s.channel, &s.id, &s.to, &s.at, &hash); err != nil {
			return err
		}
		each(s, hash)
		return nil
	}, o.key, o.who.Home, o.sender, int64(at.add(-keyTTL)))
}

// keepSaid keeps what m is answered with. Of another daemon's agents, whose
// messages all have keys, the last ones are kept.
func (t *tx) keepSaid(o *outgoing, m *message) error {
	home := o.who.Home
	_, err := t.Exec("INSERT INTO openintent_sent VALUES (?, ?, ?, ?, ?, ?, ?, ?)", o.key, home, o.sender, m.ch.id, o.hash[:], int64(m.at), m.id, m.to)
	if err != nil || home == "" {
		return err
	}
	n := t.e.guests[home]
	n.keys++
	t.apply(func() { t.e.guests[home] = n })
	if n.keys%keyStep != 0 {
		return nil
	}
	_, err = t.Exec("DELETE FROM openintent_sent WHERE home = ?1 AND at < (SELECT at FROM openintent_sent WHERE home = ?1 ORDER BY at DESC LIMIT 1 OFFSET ?2)", home, maxKeys)
	return err
}

// insertRelayed stores an entry of another host, and where that is in its feed.
func (t *tx) insertRelayed(n *entry, host string, cursor int64) error {
	if _, err := t.Exec("INSERT INTO openintent_relayed VALUES (?, ?, ?, ?)", n.seq, host, cursor, text(n.relayed)); err != nil || n.seq%relayStep != 0 {
		return err
	}
	_, err := t.Exec(`DELETE FROM openintent_relayed WHERE host = ?1 AND seq IN (SELECT seq FROM
		(SELECT seq, row_number() OVER newest AS entries, sum(octet_length(doc)) OVER newest AS bytes FROM openintent_relayed WHERE host = ?1 WINDOW newest AS (ORDER BY seq DESC))
		WHERE entries > ?2 OR bytes > ?3 AND entries > 1)`, host, keepRelayed, keptRelayed)
	return err
}

// relayCursor returns -1 for a host that was never followed.
func (e *Engine) relayCursor(ctx context.Context, host string) (cursor int64, err error) {
	err = e.db.Read(ctx, func(stx *store.Tx) error {
		err := stx.QueryRow("SELECT cursor FROM openintent_relayed WHERE host = ? ORDER BY seq DESC LIMIT 1", host).Scan(&cursor)
		if errors.Is(err, sql.ErrNoRows) {
			cursor = -1
			return nil
		}
		return err
	})
	return cursor, err
}

// relayHosts are the hosts that have relayed something.
func (e *Engine) relayHosts(ctx context.Context) (hosts []string, err error) {
	err = e.db.Read(ctx, func(stx *store.Tx) error {
		return stx.Each("SELECT DISTINCT host FROM openintent_relayed", func(scan func(...any) error) error {
			var host string
			err := scan(&host)
			hosts = append(hosts, host)
			return err
		})
	})
	return hosts, err
}
