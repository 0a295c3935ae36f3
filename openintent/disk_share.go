package openintent

import (
	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/openintent/object"
)

// Another daemon is charged for what its agents have written: the objects of channels that they
// have created, the objects of tasks that they have created or were the last to make longer,
// and a share of each intent.

// diskShare counts what agents of one other daemon have written on one intent and is still there:
// the bytes of messages, receipts and events of the log, and the number of events. The notices
// of a channel are charged to the daemon whose agent has created the channel.
type diskShare struct{ bytes, events int64 }

// headRoom is how many bytes a message or an event has in addition to what its sender has written.
const headRoom = 1 << 10

// receiptBytes is how many bytes a receipt has in addition to the reader's name.
const receiptBytes = 48

// checkDiskShare refuses a caller that wants to write about so many bytes on an intent, if the
// caller's daemon has no room for them. It runs before anything is changed.
func (t *tx) checkDiskShare(in *intentRecord, who Caller, bytes int) error {
	if err := t.e.checkIntentDiskShare(in, who.Home, bytes); err != nil {
		return err
	}
	return checkAccountRoom(t.e.disk, who.Home, bytes, object.CodeDiskShare, "delete channels of yours, or let them keep fewer messages; events of logs are kept for good")
}

// checkIntentDiskShare is the part of checkDiskShare that looks at the share of the intent. A caller
// that is no write has the world locked.
func (e *Engine) checkIntentDiskShare(in *intentRecord, home string, bytes int) error {
	has, most := in.shares[home], e.perIntent
	if home == "" || has.bytes+int64(bytes) <= most.bytes && has.events < most.events {
		return nil
	}
	e.disk.CountRefusal(peerAccountKey(home))
	remedy := "delete channels of yours there, which frees their messages and no events of the log, or use another intent"
	if has.events >= most.events {
		remedy = "events of a log are kept for good, so use another intent"
	}
	return object.NewError(object.CodeDiskShare, "agents of your daemon have written %d bytes and %d events on this intent, of at most %d and %d: %s",
		has.bytes, has.events, most.bytes, most.events, remedy).WithMember("row", e.disk.Row().Name)
}

// checkDiskShareForGrowth is checkDiskShare for a caller that makes a thing of an agent of home
// so many bytes longer. Agents here may do so, whatever that daemon has.
func (t *tx) checkDiskShareForGrowth(in *intentRecord, who Caller, home string, bytes int) error {
	if who.Home == "" || bytes <= 0 {
		return nil
	}
	return t.checkDiskShare(in, Caller{Home: home}, bytes)
}

// adjustDiskShare notes that an agent of home has written so much more on an intent, or, if more
// is negative, that so much is gone.
func (t *tx) adjustDiskShare(in *intentRecord, home string, more diskShare) error {
	if home == "" {
		return nil
	}
	if err := t.execute("INSERT INTO openintent_share (intent, home, bytes, events) VALUES (?1, ?2, max(?3, 0), ?4) ON CONFLICT (intent, home) DO UPDATE SET bytes = max(bytes + ?3, 0), events = events + ?4",
		in.row, home, more.bytes, more.events); err != nil {
		return err
	}
	t.e.withLock(func() {
		t.addToShare(in, home, more)
		t.syncAccounts(home)
	})
	return nil
}

// addToShare adds to the share of a daemon on an intent.
func (t *tx) addToShare(in *intentRecord, home string, more diskShare) {
	if in.shares == nil {
		in.shares = make(map[string]diskShare)
	}
	s := in.shares[home]
	bytes := max(s.bytes+more.bytes, 0) // messages that were sent before bytes were counted are freed, too
	put(t, in.shares, home, diskShare{bytes, s.events + more.events})
	put(t, t.e.onDisk, home, t.e.onDisk[home]+bytes-s.bytes)
}

// setAccountHolding sets what a peer holds of an account to n.
func setAccountHolding(a *budget.Account, who identity.ID, n int64) {
	a.AddUnchecked(who, n-a.HeldBy(who))
}

// payingHomeOf returns the daemon that a message or an event of the sender is charged to. Those of
// the system are charged to the daemon whose agent has created the channel.
func (w *world) payingHomeOf(sender, channelHome string) string {
	if sender == object.System {
		return channelHome
	}
	return w.agentKeyOf(sender).home
}

// subtractFreedBytes takes what a slice has removed out of the shares of an intent. The messages
// were in a channel that an agent of channelHome has created.
func (t *tx) subtractFreedBytes(in *intentRecord, channelHome string, s *removalSlice) error {
	homes := make(map[string]int64)
	for sender, bytes := range s.freed {
		homes[t.e.payingHomeOf(sender, channelHome)] += bytes
	}
	for home, bytes := range homes {
		if err := t.adjustDiskShare(in, home, diskShare{bytes: -bytes}); err != nil {
			return err
		}
	}
	return nil
}

// findIntentOfChannel returns the intent of the channel with that row number, which may be gone.
func (t *tx) findIntentOfChannel(channel int64) (*intentRecord, error) {
	var id string
	err := t.QueryRow("SELECT i.id FROM openintent_channel c JOIN openintent_intent i ON i.row = c.intent WHERE c.row = ?", channel).Scan(&id)
	return t.e.intents[id], err
}
