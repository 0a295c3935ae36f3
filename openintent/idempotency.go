package openintent

import (
	"cmp"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

const (
	headerKey = "Idempotency-Key"
	keyTTL    = 7 * 24 * time.Hour
	maxKeys   = 100_000 // that are kept of the agents of one other daemon
	keyStep   = 16      // after so many more, twice as many of those before are forgotten

	// headerID carries the id of a message that a home has answered as pending while the
	// host was out of reach. Only homes may choose ids, with their own digits and without a
	// number. A message without an Idempotency-Key has its id as the key.
	headerID = "X-Message-ID"
)

// sendKey makes a send happen once, however often it is repeated.
type sendKey struct {
	key   string // empty: each repetition sends
	given string // the message's id that the sender's home has chosen
	hash  [sha256.Size]byte
}

// answeredSend keeps the parts of the answer to a send with a key that the repeated send does not
// say.
type answeredSend struct {
	channel, id, to string
	at              chain.Time
}

// SetIdempotencyKey makes the send happen once, under the key that its sender has chosen, or the
// id that the sender's home has given the message ("": none). The same key with another path or
// body is refused.
func (o *Outgoing) SetIdempotencyKey(key, id, path string, body []byte) error {
	if o.key = key; id != "" && o.who.Home != "" {
		if prefix, host, _, number, ok := object.ParseID(id); !ok || prefix != object.IDMessage || !strings.HasPrefix(o.who.Home, host) || number != 0 {
			return object.NewError("bad_id", "%s: a home chooses ids with its own digits and the number 0", headerID)
		}
		o.given, o.key = id, cmp.Or(o.key, id)
	}
	if o.key != "" {
		o.hash = sha256.Sum256(append([]byte(path+"\n"), body...))
	}
	o.messageDraft.id = o.given
	return nil
}

// findEarlierSend returns the outcome of an earlier send with the same key, if there was one. It
// does so whatever has become of the channel and the sender's access since.
func (e *Engine) findEarlierSend(c *Call, o *Outgoing) (out object.Sent, err error) {
	if o.key == "" {
		return out, nil
	}
	err = e.readYieldingTurn(c.Context(), func(stx *store.Tx) (err error) {
		out.Message, err = o.findRepeatedSend(stx, "", now())
		return err
	})
	out.Repeated = out.Message != nil
	return out, err
}

// findRepeatedSend is findEarlierSend in a transaction. It refuses a key that was used in the
// channel for another message.
func (o *Outgoing) findRepeatedSend(stx *store.Tx, channel string, at chain.Time) (doc jsontext.Value, err error) {
	reused := false
	err = readAnsweredSends(stx, o, at, func(s answeredSend, hash []byte) {
		if string(hash) == string(o.hash[:]) {
			doc = s.encodeMessage(&o.messageDraft)
		}
		reused = reused || s.channel == channel
	})
	if err == nil && doc == nil && reused {
		err = object.NewFieldError(headerKey, "it was used with another message: take a new one")
	}
	return doc, err
}

// encodeMessage returns the message of d as it was answered when it was sent.
func (s answeredSend) encodeMessage(d *messageDraft) jsontext.Value {
	m := &message{ch: &channelRecord{id: s.channel}, id: s.id, kind: d.kind, sender: d.sender, to: s.to, correlation: d.correlation,
		at: s.at, expires: d.expires, messageState: &messageState{deadline: d.expires}}
	m.encodeHead(d.payload, d.metadata)
	return m.appendJSON(nil, d.sender, m.at, false)
}

// findMessageByGivenID returns the message with an id that its home has chosen, if there is one.
// Its key may be forgotten.
func (t *tx) findMessageByGivenID(ch *channelRecord, who Caller, id string) (jsontext.Value, error) {
	taken := false
	err := t.QueryRow("SELECT EXISTS (SELECT 1 FROM openintent_message WHERE given = 1 AND id = ?)", id).Scan(&taken)
	if !taken || err != nil {
		return nil, err
	}
	m, err := t.findMessage(ch, id)
	if err != nil {
		return nil, err
	}
	if m == nil || m.sender != who.name {
		return nil, object.NewError("id_taken", "%s: another message has this id: choose another", headerID)
	}
	return m.appendJSON(nil, who.name, t.now, false), nil
}

// deleteExpiredKeys deletes at most keyStep expired keys, which is more than one send adds.
func (t *tx) deleteExpiredKeys() error {
	return t.EachRow(`DELETE FROM openintent_sent WHERE (key, home, sender, channel) IN
		(SELECT key, home, sender, channel FROM openintent_sent WHERE at < ? ORDER BY at LIMIT ?) RETURNING home`, func(scan func(...any) error) error {
		var home string
		err := scan(&home)
		t.adjustKeyCount(home, -1)
		return err
	}, int64(t.now.Add(-keyTTL)), keyStep)
}

// adjustKeyCount adds to the number of keys of another daemon's agents, and returns the number.
func (t *tx) adjustKeyCount(home string, more int) int {
	if home == "" {
		return 0
	}
	n := t.e.guests[home]
	n.keys += more
	t.e.withLock(func() { put(t, t.e.guests, home, n) })
	return n.keys
}

// readAnsweredSends calls each with what is kept of the sends of that sender with that key. +at
// keeps SQLite from looking at all keys of that time instead.
func readAnsweredSends(stx *store.Tx, o *Outgoing, at chain.Time, each func(answeredSend, []byte)) error {
	return stx.EachRow("SELECT channel, id, recipient, at, hash FROM openintent_sent WHERE key = ? AND home = ? AND sender = ? AND +at >= ?", func(scan func(...any) error) error {
		var s answeredSend
		var hash []byte
		if err := scan(&s.channel, &s.id, &s.to, &s.at, &hash); err != nil {
			return err
		}
		each(s, hash)
		return nil
	}, o.key, o.who.Home, o.who.Agent, int64(at.Add(-keyTTL)))
}

// storeAnsweredSend keeps the answer to a send that has stored m. Of another daemon's agents, whose
// messages all have keys, it keeps only the last answers.
func (t *tx) storeAnsweredSend(o *Outgoing, m *message) error {
	home := o.who.Home
	_, err := t.Exec("INSERT OR REPLACE INTO openintent_sent (key, home, sender, channel, hash, at, id, recipient) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", o.key, home, o.who.Agent, m.ch.id, o.hash[:], int64(m.at), m.id, m.to)
	if err != nil || home == "" {
		return err
	}
	n := t.adjustKeyCount(home, 1)
	if n <= maxKeys || n%keyStep != 0 {
		return nil
	}
	r, err := t.Exec(`DELETE FROM openintent_sent WHERE (key, home, sender, channel) IN
		(SELECT key, home, sender, channel FROM openintent_sent WHERE home = ? ORDER BY at LIMIT ?)`, home, min(n-maxKeys, 2*keyStep))
	if err != nil {
		return err
	}
	gone, err := r.RowsAffected()
	t.adjustKeyCount(home, -int(gone))
	return err
}
