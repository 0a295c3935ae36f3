package openintent

import (
	"cmp"
	"crypto/sha256"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/store"
)

const (
	headerKey = "Idempotency-Key"
	keyTTL    = 7 * 24 * time.Hour
	maxKeys   = 100_000 // of the agents of one other daemon, the last ones
	keyStep   = 16      // after so many more, twice as many of those before are forgotten

	// headerID is the id of a message that a home has accepted, and answered as
	// pending, while its host was out of reach. Homes alone may choose ids, of
	// their own making and without a number; each is a key where there is none.
	headerID = "X-Message-ID"
)

// once is what makes a send happen once, however often it is made.
type once struct {
	key   string // empty: nothing does
	given string // the message's id that the sender's home has chosen
	hash  [sha256.Size]byte
}

// said is what was answered to a send with a key. The rest is in the send.
type said struct {
	channel, id, to string
	at              chain.Time
}

// SetOnce makes the send happen once: under the key that its sender has chosen, or the id that
// the sender's home has given the message ("": neither). path and body are what was sent: the
// same key with another message is refused.
func (o *Outgoing) SetOnce(key, id, path string, body []byte) error {
	if o.key = key; id != "" && o.who.Home != "" {
		if prefix, host, _, number, ok := splitID(id); !ok || prefix != idMessage || !strings.HasPrefix(o.who.Home, host) || number != 0 {
			return Refuse("bad_id", "%s: a home chooses ids with its own digits and the number 0", headerID)
		}
		o.given, o.key = id, cmp.Or(o.key, id)
	}
	if o.key != "" {
		o.hash = sha256.Sum256(append([]byte(path+"\n"), body...))
	}
	o.draft.id = o.given
	return nil
}

// saidBefore returns the outcome of a send that was made before, if it was: whatever has
// become of its channel and of its sender's access since.
func (e *Engine) saidBefore(c *Call, o *Outgoing) (out Sent, err error) {
	if o.key == "" {
		return out, nil
	}
	err = e.readBeside(c.Context(), func(stx *store.Tx) (err error) {
		out.Message, err = o.repeated(stx, "", now())
		return err
	})
	out.Repeated = out.Message != nil
	return out, err
}

// repeated is saidBefore in a transaction. A key that was used in the channel for
// another message is refused.
func (o *Outgoing) repeated(stx *store.Tx, channel string, at chain.Time) (doc jsontext.Value, err error) {
	reused := false
	err = readSaid(stx, o, at, func(s said, hash []byte) {
		if string(hash) == string(o.hash[:]) {
			doc = s.answer(&o.draft)
		}
		reused = reused || s.channel == channel
	})
	if err == nil && doc == nil && reused {
		err = Invalid(headerKey, "it was used with another message: take a new one")
	}
	return doc, err
}

// answer is the message of d as it was answered when it was sent.
func (s said) answer(d *draft) jsontext.Value {
	m := &message{ch: &channel{id: s.channel}, id: s.id, kind: d.kind, sender: d.sender, to: s.to, correlation: d.correlation,
		at: s.at, expires: d.expires, state: &state{deadline: d.expires}}
	m.encode(d.payload, d.metadata)
	return m.append(nil, d.sender, m.at, false)
}

// given returns the message with an id of its home's choice, if there is one: that
// may have been sent so long ago that its key is forgotten.
func (t *tx) given(ch *channel, who Caller, id string) (jsontext.Value, error) {
	taken, err := t.isGiven(id)
	if !taken || err != nil {
		return nil, err
	}
	m, err := t.message(ch, id)
	if err != nil {
		return nil, err
	}
	if m == nil || m.sender != who.name {
		return nil, Refuse("id_taken", "%s: another message has this id: choose another", headerID)
	}
	return m.append(nil, who.name, t.now, false), nil
}
