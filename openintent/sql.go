package openintent

import (
	"context"
	"database/sql"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
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
	_, err := t.Exec("INSERT INTO openintent_intent (row, id, doc, access) VALUES (?, ?, ?, ?)", in.row, in.id, text(doc), text(in.access))
	return err
}

func (t *tx) saveIntent(in *intent, doc string) error {
	_, err := t.Exec("UPDATE openintent_intent SET doc = ? WHERE row = ?", doc, in.row)
	return err
}

func (t *tx) saveAccess(in *intent, text string) error {
	_, err := t.Exec("UPDATE openintent_intent SET access = ? WHERE row = ?", text, in.row)
	return err
}

// insertUse notes that an agent has used the intent, deleteUse that it has not.
func (t *tx) insertUse(in *intent, k agentKey) error {
	_, err := t.Exec("INSERT INTO openintent_used (intent, home, id, at) VALUES (?, ?, ?, ?)", in.row, k.home, k.id, int64(t.now))
	return err
}

func (t *tx) deleteUse(in *intent, k agentKey) error {
	_, err := t.Exec("DELETE FROM openintent_used WHERE intent = ? AND home = ? AND id = ?", in.row, k.home, k.id)
	return err
}

// readIntent reads the object of an intent.
func (e *Engine) readIntent(ctx context.Context, in *intent) (doc Intent, err error) {
	docs, err := e.intentDocs(ctx, []listed{{row: in.row}}, MaxListBytes, func(int) error { return nil })
	if err != nil {
		return doc, err
	}
	if len(docs) == 0 {
		return doc, notFound("intent")
	}
	return doc, json.Unmarshal(docs[0], &doc)
}

// intentDocs reads the objects of intents that are in the store, as many as room has bytes for.
func (e *Engine) intentDocs(ctx context.Context, list []listed, room int, take func(int) error) ([]jsontext.Value, error) {
	docs, size := []jsontext.Value{}, 0
	err := e.read(ctx, func(stx *store.Tx, l *look) error {
		for _, in := range list {
			doc := in.doc
			if doc == nil {
				err := stx.QueryRow("SELECT doc FROM openintent_intent WHERE row = ?", in.row).Scan((*[]byte)(&doc))
				if errors.Is(err, sql.ErrNoRows) {
					continue // the write that makes it is under way
				}
				if err != nil {
					return err
				}
			}
			if err := take(len(doc)); err != nil {
				return err
			}
			l.takes(1, len(doc))
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
	_, err := t.Exec("INSERT INTO openintent_agent (home, id, doc) VALUES (?, ?, ?) ON CONFLICT (home, id) DO UPDATE SET doc = excluded.doc", doc.Host, doc.AgentID, text(doc))
	if err != nil {
		return err
	}
	old, known := a.doc, t.e.agents[a.key()] == a
	t.apply(
		step{nil, func() {
			t.e.dropAgent(a)
			if a.doc = old; known {
				t.e.addAgent(a, old)
			}
		}},
		step{func() { t.e.dropAgent(a) }, nil},
		step{func() { t.e.addAgent(a, doc) }, nil},
		step{func() { a.seen.Store(int64(t.now)) }, nil},
	)
	return nil
}

// removeAgent removes what is said of an agent that is at home elsewhere. Its home may tell
// of it again.
func (t *tx) removeAgent(a *agent) error {
	if _, err := t.Exec("DELETE FROM openintent_agent WHERE home = ? AND id = ?", a.doc.Host, a.doc.AgentID); err != nil {
		return err
	}
	old := a.doc
	t.apply(
		step{func() { t.e.dropAgent(a) }, func() { t.e.addAgent(a, old) }},
		step{func() { a.doc.Status = agentDeregistered }, nil},
	)
	return nil
}

func (t *tx) saveTask(in *intent, doc Task) error {
	_, err := t.Exec("INSERT INTO openintent_task (id, intent, doc) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc", doc.ID, in.row, text(doc))
	return err
}

func (t *tx) saveCoordinator(in *intent, doc Coordinator) error {
	_, err := t.Exec("INSERT INTO openintent_coordinator (id, intent, doc) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET doc = excluded.doc", doc.ID, in.row, text(doc))
	return err
}

func (t *tx) saveChannel(ch *channel, doc Channel) error {
	_, err := t.Exec("INSERT INTO openintent_channel (row, id, intent, doc) VALUES (?, ?, ?, ?) ON CONFLICT (row) DO UPDATE SET doc = excluded.doc", ch.row, doc.ID, ch.in.row, text(doc))
	return err
}

// buryChannel takes a channel out of what is read again, and leaves it to sweep. It also
// keeps how far the feed is: with the channel its last number may go, and must not be
// given out again to who resumes after it.
func (t *tx) buryChannel(ch *channel) error {
	if _, err := t.Exec("INSERT INTO openintent_grave (channel) VALUES (?)", ch.row); err != nil {
		return err
	}
	return t.keepFeed()
}

// keepFeed notes how far the feed is, where its last number may go.
func (t *tx) keepFeed() error {
	_, err := t.Exec("INSERT INTO openintent_feed (one, last) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET last = excluded.last", t.e.next-1)
	return err
}

// dropChannel removes a channel that has no messages any more, and its grave.
func (t *tx) dropChannel(row int64) error {
	_, err := t.Exec("DELETE FROM openintent_channel WHERE row = ?", row)
	return err
}

func (t *tx) insertEvent(seq int64, in *intent, doc *chain.Event, trace string, text []byte) error {
	_, err := t.Exec("INSERT INTO openintent_event (seq, intent, sequence, type, at, trace, doc) VALUES (?, ?, ?, ?, ?, ?, ?)", seq, in.row, doc.Sequence, doc.Type, int64(doc.CreatedAt), trace, string(text))
	return err
}

// eventsBack looks at the next events of a log before a sequence number, the newest
// first, as many as one read may, or until f is full. It returns the number of the last
// that it looked at, 0 where that was all.
func (f *eventList) eventsBack(c *Call, stx *store.Tx, l *look, intent, before int64) (last int64, err error) {
	err = stx.Each("SELECT seq, sequence, type, at, trace FROM openintent_event WHERE intent = ? AND sequence < ? ORDER BY sequence DESC", func(scan func(...any) error) error {
		var seq int64
		var kind, trace string
		var at chain.Time
		if err := scan(&seq, &last, &kind, &at, &trace); err != nil {
			return err
		}
		more := l.takes(1, 0)
		if f.matches(kind, trace, at) {
			var doc []byte
			if err := stx.QueryRow("SELECT doc FROM openintent_event WHERE seq = ?", seq).Scan(&doc); err != nil {
				return err
			}
			if more = l.takes(0, len(doc)) && more; kind == kindMessage {
				if doc, err = f.show(stx, l, doc); err != nil {
					return err
				}
				more = l.takes(0, 0) && more
			}
			if err := c.Charge(len(doc)); err != nil {
				return err
			}
			if f.add(doc) {
				last = 0
				return errEnough
			}
		}
		return enough(more)
	}, intent, before)
	if err == errEnough {
		return last, nil
	}
	return 0, err
}

// logged is an event as it is in the store, and what lists find it by.
type logged struct {
	row         int64
	kind, trace string
	at          chain.Time
	text        []byte
}

// eventsFrom reads the next events of a log after one sequence number and up to
// another, as many as are checked at a time.
func eventsFrom(stx *store.Tx, l *look, intent, after, upTo int64, each func(logged)) error {
	err := stx.Each("SELECT sequence, type, trace, at, doc FROM openintent_event WHERE intent = ? AND sequence > ? AND sequence <= ? ORDER BY sequence", func(scan func(...any) error) error {
		var found logged
		if err := scan(&found.row, &found.kind, &found.trace, &found.at, &found.text); err != nil {
			return err
		}
		each(found)
		return enough(l.takes(1, len(found.text)) && l.rows < verifyRows && l.bytes < verifyBytes)
	}, intent, after, upTo)
	if err == errEnough {
		return nil
	}
	return err
}

func (t *tx) insertMessage(m *message) error {
	recipients := ""
	if m.recipients != nil {
		recipients = text(m.recipients)
	}
	_, err := t.Exec(`INSERT INTO openintent_message
		(seq, channel, number, id, kind, sender, recipient, correlation, at, expires, deadline, answered, lead, recipients, receipts, given, head)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, 0, ?, ?)`,
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

func (t *tx) expireRequest(m *message, at chain.Time) error {
	_, err := t.Exec("UPDATE openintent_message SET deadline = ? WHERE seq = ?", int64(at), m.seq)
	return err
}

func (t *tx) insertReceipt(m *message, r receipt) error {
	if _, err := t.Exec("INSERT INTO openintent_receipt (message, agent, at) VALUES (?, ?, ?)", m.seq, r.agent, int64(r.at)); err != nil {
		return err
	}
	_, err := t.Exec("UPDATE openintent_message SET receipts = 1 WHERE seq = ?", m.seq)
	return err
}

// forgetSent forgets some keys that are too old: more than one send adds.
func (t *tx) forgetSent() error {
	return t.Each(`DELETE FROM openintent_sent WHERE (key, home, sender, channel) IN
		(SELECT key, home, sender, channel FROM openintent_sent WHERE at < ? ORDER BY at LIMIT ?) RETURNING home`, func(scan func(...any) error) error {
		var home string
		err := scan(&home)
		t.countKeys(home, -1)
		return err
	}, int64(t.now.Add(-keyTTL)), keyStep)
}

// countKeys counts the keys of another daemon's agents, and returns how many there are.
func (t *tx) countKeys(home string, more int) int {
	if home == "" {
		return 0
	}
	old := t.e.guests[home]
	n := old
	n.keys += more
	t.apply(step{func() { t.e.guests[home] = n }, func() { t.e.guests[home] = old }})
	return n.keys
}

// readSaid calls each with what was said to sends of that sender with that key. +at
// keeps SQLite from looking at all keys of that time instead.
func readSaid(stx *store.Tx, o *Outgoing, at chain.Time, each func(said, []byte)) error {
	return stx.Each("SELECT channel, id, recipient, at, hash FROM openintent_sent WHERE key = ? AND home = ? AND sender = ? AND +at >= ?", func(scan func(...any) error) error {
		var s said
		var hash []byte
		if err := scan(&s.channel, &s.id, &s.to, &s.at, &hash); err != nil {
			return err
		}
		each(s, hash)
		return nil
	}, o.key, o.who.Home, o.who.Agent, int64(at.Add(-keyTTL)))
}

// keepSaid keeps what m is answered with. Of another daemon's agents, whose
// messages all have keys, the last ones are kept.
func (t *tx) keepSaid(o *Outgoing, m *message) error {
	home := o.who.Home
	_, err := t.Exec("INSERT OR REPLACE INTO openintent_sent (key, home, sender, channel, hash, at, id, recipient) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", o.key, home, o.who.Agent, m.ch.id, o.hash[:], int64(m.at), m.id, m.to)
	if err != nil || home == "" {
		return err
	}
	n := t.countKeys(home, 1)
	if n <= maxKeys || n%keyStep != 0 {
		return nil
	}
	r, err := t.Exec(`DELETE FROM openintent_sent WHERE (key, home, sender, channel) IN
		(SELECT key, home, sender, channel FROM openintent_sent WHERE home = ? ORDER BY at LIMIT ?)`, home, min(n-maxKeys, 2*keyStep))
	if err != nil {
		return err
	}
	gone, err := r.RowsAffected()
	t.countKeys(home, -int(gone))
	return err
}

// insertRelayed stores an entry of another host, and where that is in its feed.
func (t *tx) insertRelayed(seq int64, host string, cursor int64, doc string) error {
	_, err := t.Exec("INSERT INTO openintent_relayed (seq, host, cursor, doc) VALUES (?, ?, ?, ?)", seq, host, cursor, doc)
	return err
}

// trimRelayed removes the entries of a host up to one.
func (t *tx) trimRelayed(host string, upTo int64) error {
	_, err := t.Exec("DELETE FROM openintent_relayed WHERE host = ? AND seq <= ?", host, upTo)
	return err
}

// relayedOf looks at what is kept of a host.
func (e *Engine) relayedOf(ctx context.Context, host string) (kept relayedEntries, err error) {
	after := int64(0)
	for more := true; more && err == nil; {
		err = e.read(ctx, func(stx *store.Tx, l *look) error {
			more = false
			err := stx.Each("SELECT seq, octet_length(doc) FROM openintent_relayed WHERE host = ? AND seq > ? ORDER BY seq", func(scan func(...any) error) error {
				var bytes int
				if err := scan(&after, &bytes); err != nil {
					return err
				}
				kept.add(after, bytes)
				more = !l.takes(1, 0)
				return enough(!more)
			}, host, after)
			if err == errEnough {
				return nil
			}
			return err
		})
	}
	return kept, err
}

// saveCursor notes where the host of a stream is in its feed, with its last entry, or an empty one.
func (e *Engine) saveCursor(ctx context.Context, turn relayTurn, cursor int64) error {
	host := turn.host
	return e.write(ctx, false, func(t *tx) error {
		if err := e.forgets.check(turn); err != nil {
			return err
		}
		done, err := t.Exec("UPDATE openintent_relayed SET cursor = ?1 WHERE seq = (SELECT max(seq) FROM openintent_relayed WHERE host = ?2)", cursor, host)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); n > 0 || err != nil {
			return err
		}
		return t.insertRelayed(t.number(), host, cursor, text(&relayed{}))
	})
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
