package waking

import (
	"cmp"
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// The settings bound the woken turns of one session in an hour. The other bounds are multiples of that.
const (
	sendsForATurn = 5 // messages that are sent in woken turns, for each turn
	sessionsInAll = 5 // all sessions together have so many times the turns of the session with the highest bound
	timesADay     = 5 // a day has so many times the turns of an hour
)

// day is how long a charge is held against a peer.
const day = 24 * time.Hour

// charge is one use of a peer's share: a turn of a session that a message began, or a message that the
// session sent in such a turn.
type charge struct {
	agent   string
	peer    identity.ID // who sent the message, or to whom it was sent
	message wire.MessageID
	cause   identity.ID // the peer that is charged
	at      time.Time
	sent    bool // it is a message that was sent; else a turn
}

// window is a bound of charges: at most so many in a span of time.
type window struct {
	what  string // what is charged
	agent string // the session, or "" for all of them
	span  time.Duration
	most  int
}

// listWindows returns the bounds of a charge: those of its session and those of all sessions. One peer
// may cause half of each.
func (w *Waker) listWindows(c *charge) []window {
	settings := w.Agents()
	one, most := settings.FindTurns(c.agent), settings.FindMostTurns()
	what, times := "woken turns", 1
	if c.sent {
		what, times = "messages sent in woken turns", sendsForATurn
	}
	all := times * sessionsInAll
	return []window{{what, c.agent, time.Hour, times * one}, {what, c.agent, day, times * one * timesADay}, {what, "", time.Hour, all * most}, {what, "", day, all * most * timesADay}}
}

// usedUpError: a charge is over a bound. Its text is a sentence for the owner.
type usedUpError struct{ window }

func (e *usedUpError) Error() string {
	span := "an hour"
	if e.span == day {
		span = "a day"
	}
	return fmt.Sprintf("budget: %s of %s: %d %s, half of them by one peer", e.what, cmp.Or(e.agent, "all sessions"), e.most, span)
}

// OwnWords returns the text.
func (e *usedUpError) OwnWords() string { return e.Error() }

// hasShare reports whether who may hold one more of a sum that the peers share. One peer holds half of
// the sum at most. Half of the sum is set aside in equal parts, one for each of so many peers. Each
// part is one at least, so for very many peers more than half is set aside. Only the rest is for what
// peers hold beyond their parts.
func hasShare(sum, parts int, held map[identity.ID]int, who identity.ID) bool {
	own, total := held[who]+1, 1
	for _, n := range held {
		total += n
	}
	part, shared := sum/2/max(parts, 1), sum-sum/2
	if part == 0 {
		part, shared = 1, max(sum-parts, 0)
	}
	switch {
	case own > sum/2 || total > sum:
		return false
	case total <= shared || own <= part:
		return true
	default:
		beyond := 1
		for _, n := range held {
			beyond += max(n-part, 0)
		}
		return beyond <= shared
	}
}

// countCharges counts the turns that each peer has caused since a time, or the messages if sent is set:
// in one session, or in all if agent is "". The caller holds mu.
func (w *Waker) countCharges(agent string, sent bool, since time.Time) map[identity.ID]int {
	held := make(map[identity.ID]int)
	for _, c := range w.charges {
		if c.sent == sent && (agent == "" || c.agent == agent) && c.at.After(since) {
			held[c.cause]++
		}
	}
	return held
}

// countParts counts the peers that have a part of a bound: the peers that may wake, the peers that hold
// some of the bound, and the peer who. The caller holds mu.
func (w *Waker) countParts(in *window, held map[identity.ID]int, who identity.ID) int {
	peers := w.ListWakers(in.agent)
	peers[who] = true
	for id := range held {
		peers[id] = true
	}
	return len(peers)
}

// checkCharge returns a usedUpError if a charge is over a bound. The caller holds mu.
func (w *Waker) checkCharge(c *charge) error {
	for _, in := range w.listWindows(c) {
		held := w.countCharges(in.agent, c.sent, c.at.Add(-in.span))
		if !hasShare(in.most, w.countParts(&in, held, c.cause), held, c.cause) {
			return &usedUpError{in}
		}
	}
	return nil
}

// findRoom returns when a charge is over no bound any more, if nothing else is charged until then:
// within a day. The caller holds mu.
func (w *Waker) findRoom(c *charge) time.Time {
	room := c.at
	for _, in := range w.listWindows(c) {
		held := w.countCharges(in.agent, c.sent, c.at.Add(-in.span))
		parts := w.countParts(&in, held, c.cause)
		if hasShare(in.most, parts, held, c.cause) {
			continue
		}
		i := sort.Search(len(w.charges)-1, func(i int) bool { // there is room once this charge has expired
			return hasShare(in.most, parts, w.countCharges(in.agent, c.sent, w.charges[i].at), c.cause)
		})
		if at := w.charges[i].at.Add(in.span); at.After(room) {
			room = at
		}
	}
	if most := c.at.Add(day); room.After(most) { // the clock was set back
		return most
	}
	return room
}

// addCharge adds a charge in memory, and drops those that have expired. The caller holds mu.
func (w *Waker) addCharge(c *charge) {
	since := c.at.Add(-day)
	kept := w.charges[:0]
	for _, old := range w.charges {
		if old.at.After(since) {
			kept = append(kept, old)
		}
	}
	clear(w.charges[len(kept):])
	w.charges = append(kept, c)
}

// removeCharge removes a charge from memory. The caller holds mu.
func (w *Waker) removeCharge(c *charge) {
	for i, old := range w.charges {
		if old == c {
			w.charges = append(w.charges[:i], w.charges[i+1:]...)
			return
		}
	}
}

// findCharge returns the charge of the last day for the turn that a message began. If sent is set, it
// returns the charge for the message itself, sent in a turn. Without such a charge it returns nil. The
// caller holds mu.
func (w *Waker) findCharge(k messageKey, sent bool) *charge {
	since := time.Now().Add(-day)
	for _, c := range w.charges {
		if c.at.After(since) && c.sent == sent && c.message == k.id && c.peer == k.peer && c.agent == k.agent {
			return c
		}
	}
	return nil
}

// CountSend charges a message that a session sends in a woken turn to the peer that caused the turn;
// parent is the message of from that began the turn. The error is overloaded if the peer's share is used
// up. A repeat is the same message and is charged once, but a query is asked anew and is charged each time.
func (w *Waker) CountSend(ctx context.Context, from identity.ID, parent wire.MessageID, env *wire.Envelope) error {
	agent := env.FromAgent
	w.mu.Lock()
	woken := w.findCharge(messageKey{agent, from, parent}, false)
	isRepeat := w.findCharge(messageKey{agent, env.To, env.ID}, true) != nil
	isAskedAnew := isRepeat && env.Kind == kinds.KindQuery && env.Ref == nil
	if woken == nil || isRepeat && !isAskedAnew {
		w.mu.Unlock()
		return nil
	}
	id := env.ID
	if isAskedAnew {
		id = wire.NewMessageID() // a row of its own
	}
	c := &charge{agent: agent, peer: env.To, message: id, cause: woken.cause, at: time.Now(), sent: true}
	err := w.checkCharge(c)
	var room time.Time
	var notice *Notice
	if err == nil {
		w.addCharge(c)
	} else {
		room = w.findRoom(c)
		if s := w.sessions[agent]; s != nil {
			notice = w.recordBound(s, &entry{Message: Message{Agent: agent, Kind: "send"}, charge: c}, c.at, err)
		}
	}
	w.mu.Unlock()
	w.tell(notice)
	if err != nil {
		e := kinds.Errorf(kinds.Overloaded, "%v: %s has woken this session, and its share is used up: wait, or have the user ask for it", err, w.Name(c.cause)).WithReason(kinds.ReasonShareUsed)
		e.RetryAfterMS = uint64(room.Sub(c.at).Milliseconds()) + 1 // rounded up
		return e
	}
	if err := w.DB.Write(context.WithoutCancel(ctx), false, func(tx *store.Tx) error { return insertCharge(tx, c, c.at.Add(-day)) }); err != nil {
		w.mu.Lock()
		w.removeCharge(c)
		w.mu.Unlock()
		return ownwords.Errorf("charge what a woken turn sends: %w", err)
	}
	return nil
}
