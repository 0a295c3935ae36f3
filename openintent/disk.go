package openintent

import (
	"context"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
)

// What agents of one other daemon have written is charged to it: the objects of channels that
// they have created, those of tasks that they have created or made longer last, and on each
// intent a share.

// share is what agents of one other daemon have written on one intent, as far as it is
// still there: the bytes of messages, of receipts and of events of the log, and how many
// events. A channel's notices are of the daemon whose agent has created it.
type share struct{ bytes, events int64 }

const codeDiskShare = "disk_share"

// headRoom is what a message or an event has beyond what its sender has written.
const headRoom = 1 << 10

// receiptBytes is what a receipt takes beside the name of who has read.
const receiptBytes = 48

// roomOnDisk refuses a caller who wants to write about so many bytes on an intent, if
// its daemon has no room for them. It is asked before anything is changed.
func (t *tx) roomOnDisk(in *intent, who Caller, bytes int) error {
	if who.Home == "" {
		return nil
	}
	if err := t.e.roomOnIntent(in, who.Home, bytes); err != nil {
		return err
	}
	e, peer := t.e, peerOf(who.Home)
	// Only writes change what is held, and they come one after the other.
	if err := e.disk.Take(peer, int64(bytes)); err != nil {
		return exceeded(err, codeDiskShare, "delete channels of yours, or let them keep fewer messages; events of logs are kept for good")
	}
	e.disk.Give(peer, int64(bytes))
	return nil
}

// roomOnIntent is what roomOnDisk asks of the intent alone. Callers that do not write have
// the world locked.
func (e *Engine) roomOnIntent(in *intent, home string, bytes int) error {
	has, most := in.shares[home], e.perIntent
	if home == "" || has.bytes+int64(bytes) <= most.bytes && has.events < most.events {
		return nil
	}
	e.disk.Refuse(peerOf(home))
	remedy := "delete channels of yours there, which frees their messages and no events of the log, or use another intent"
	if has.events >= most.events {
		remedy = "events of a log are kept for good, so use another intent"
	}
	return Refuse(codeDiskShare, "agents of your daemon have written %d bytes and %d events on this intent, of at most %d and %d: %s",
		has.bytes, has.events, most.bytes, most.events, remedy).With("row", e.disk.Row().Name)
}

// roomToGrow is roomOnDisk for a caller who makes what a daemon's agent has created so many
// bytes longer. Agents here may, whatever that daemon has.
func (t *tx) roomToGrow(in *intent, who Caller, home string, bytes int) error {
	if who.Home == "" || bytes <= 0 {
		return nil
	}
	return t.roomOnDisk(in, Caller{Home: home}, bytes)
}

// wrote notes that an agent of that home has written so much on an intent, or that so
// much of it is gone.
func (t *tx) wrote(in *intent, home string, more share) error {
	if home == "" {
		return nil
	}
	if _, err := t.Exec("INSERT INTO openintent_share (intent, home, bytes, events) VALUES (?1, ?2, max(?3, 0), ?4) ON CONFLICT (intent, home) DO UPDATE SET bytes = max(bytes + ?3, 0), events = events + ?4",
		in.row, home, more.bytes, more.events); err != nil {
		return err
	}
	before, all := in.shares[home], t.e.onDisk[home]
	t.apply(
		step{func() { t.e.addShare(in, home, more) }, func() { in.shares[home], t.e.onDisk[home] = before, all }},
		step{func() { hold(t.e.disk, peerOf(home), t.e.onDisk[home]) }, func() { hold(t.e.disk, peerOf(home), all) }},
	)
	return nil
}

func (w *world) addShare(in *intent, home string, more share) {
	if in.shares == nil {
		in.shares = make(map[string]share)
	}
	s := in.shares[home]
	bytes := max(s.bytes+more.bytes, 0) // what was there before it was counted is freed, too
	in.shares[home] = share{bytes, s.events + more.events}
	w.onDisk[home] += bytes - s.bytes
}

// hold makes n what a peer holds of an account.
func hold(a *budget.Account, who identity.ID, n int64) { a.Add(who, n-a.Held(who)) }

// pays returns the daemon whose share a message is of, or what is known of one: in a
// channel of a daemon's agent.
func (w *world) pays(sender, channelHome string) string {
	if sender == system {
		return channelHome
	}
	return w.key(sender).home
}

// free notes that what a slice has removed of an intent is gone, in a channel of a
// daemon's agent.
func (t *tx) free(in *intent, channelHome string, s *slice) error {
	homes := make(map[string]int64)
	for sender, bytes := range s.freed {
		homes[t.e.pays(sender, channelHome)] += bytes
	}
	for home, bytes := range homes {
		if err := t.wrote(in, home, share{bytes: -bytes}); err != nil {
			return err
		}
	}
	return nil
}

// intentOf returns the intent of the channel in that row, which may be gone.
func (t *tx) intentOf(channel int64) (*intent, error) {
	var id string
	err := t.QueryRow("SELECT i.id FROM openintent_channel c JOIN openintent_intent i ON i.row = c.intent WHERE c.row = ?", channel).Scan(&id)
	return t.e.intents[id], err
}

// countShares counts, once, the messages that were there before shares were. The
// events of that time are nobody's.
func (e *Engine) countShares(ctx context.Context) error {
	return e.db.Write(ctx, true, func(stx *store.Tx) error {
		counted := false
		if err := stx.QueryRow("SELECT EXISTS (SELECT 1 FROM openintent_share WHERE intent = 0)").Scan(&counted); err != nil || counted {
			return err
		}
		_, err := stx.Exec(`INSERT INTO openintent_share (intent, home, bytes, events) SELECT 0, '', 0, 0
			UNION ALL SELECT intent, home, sum(bytes), 0 FROM (
				SELECT c.intent, substr(m.sender, -64) AS home, octet_length(m.head) AS bytes, m.sender AS name FROM openintent_message m JOIN openintent_channel c ON c.row = m.channel
				UNION ALL SELECT c.intent, c.doc ->> '$.home', octet_length(m.head), '_@' || (c.doc ->> '$.home') FROM openintent_message m JOIN openintent_channel c ON c.row = m.channel WHERE m.sender = ?2
				UNION ALL SELECT c.intent, substr(r.agent, -64), octet_length(r.agent) + ?3, r.agent FROM openintent_receipt r JOIN openintent_message m ON m.seq = r.message JOIN openintent_channel c ON c.row = m.channel)
			WHERE length(name) > 65 AND substr(name, -65, 1) = '@' AND home <> ?1 GROUP BY 1, 2`, e.cfg.Self, system, receiptBytes)
		return err
	})
}

// holdShares makes the accounts say what the world does.
func (e *Engine) holdShares() {
	for home, n := range e.onDisk {
		hold(e.disk, peerOf(home), n)
	}
	for home := range e.guests {
		e.holdMade(home)
	}
	for home := range e.homes {
		e.holdMade(home)
	}
}
