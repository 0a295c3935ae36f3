package waking

import (
	"fmt"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// limit bounds what happens in an hour and in a day.
type limit struct{ hour, day int }

// The bounds of woken turns, and of the messages that are sent in them. One peer may cause half
// of each.
var (
	sessionTurns = limit{20, 100}   // of one session
	allTurns     = limit{100, 500}  // of all sessions
	sessionSends = limit{100, 500}  // of one session
	allSends     = limit{500, 2500} // of all sessions
)

// day is how long a turn counts.
const day = 24 * time.Hour

// turn is a turn of a session that a message began, or a message that the session sent in such
// a turn.
type turn struct {
	agent   string
	cause   identity.ID // the peer to which it counts
	message wire.MessageID
	at      time.Time
	sent    bool
}

// bounds returns the bounds for a turn, of its session and of all of them.
func (t *turn) bounds() (one, all limit) {
	if t.sent {
		return sessionSends, allSends
	}
	return sessionTurns, allTurns
}

// hasShare reports whether who may have one more of what the peers hold of a sum. One peer has
// half of the sum at most. Half of the sum is set aside in equal parts, one for each of so many
// peers, and more than half if there are so many that one for each takes more. The rest, and it
// alone, is for what peers hold beyond their part.
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
		beyond := own - max(held[who], part)
		for _, n := range held {
			beyond += max(n-part, 0)
		}
		return beyond <= shared
	}
}

// countTurns counts what each peer has caused since a time: of one session, or of all if agent
// is "". The caller holds mu.
func (w *Waker) countTurns(agent string, sent bool, since time.Time) map[identity.ID]int {
	held := make(map[identity.ID]int)
	for _, t := range w.turns {
		if t.sent == sent && (agent == "" || t.agent == agent) && t.at.After(since) {
			held[t.cause]++
		}
	}
	return held
}

// checkTurn returns an error, a sentence for the owner, if a turn is over a bound. The caller
// holds mu.
func (w *Waker) checkTurn(t *turn) error {
	what, whose := "woken turns", fmt.Sprintf("of %s", t.agent)
	if t.sent {
		what = "messages sent in woken turns"
	}
	one, all := t.bounds()
	for _, scope := range []struct {
		agent, whose string
		limit        limit
	}{{t.agent, whose, one}, {"", "of all sessions", all}} {
		for _, window := range []struct {
			name string
			span time.Duration
			most int
		}{{"an hour", time.Hour, scope.limit.hour}, {"a day", day, scope.limit.day}} {
			held := w.countTurns(scope.agent, t.sent, t.at.Add(-window.span))
			peers := w.listWakers(scope.agent)
			peers[t.cause] = true
			for id := range held {
				peers[id] = true
			}
			if !hasShare(window.most, len(peers), held, t.cause) {
				return fmt.Errorf("budget: %s %s: %d %s, half of them by one peer", what, scope.whose, window.most, window.name)
			}
		}
	}
	return nil
}

// addTurn enters a turn in memory. The caller holds mu.
func (w *Waker) addTurn(t *turn) {
	since := t.at.Add(-day)
	kept := w.turns[:0]
	for _, old := range w.turns {
		if old.at.After(since) {
			kept = append(kept, old)
		}
	}
	clear(w.turns[len(kept):])
	w.turns = append(kept, t)
}

// removeTurn removes a turn from memory. The caller holds mu.
func (w *Waker) removeTurn(t *turn) {
	for i, old := range w.turns {
		if old == t {
			w.turns = append(w.turns[:i], w.turns[i+1:]...)
			return
		}
	}
}

// findTurn returns the turn that a message began, or the message that was sent in one; nil if
// there is none. The caller holds mu.
func (w *Waker) findTurn(agent string, message wire.MessageID, sent bool) *turn {
	for _, t := range w.turns {
		if t.sent == sent && t.message == message && t.agent == agent {
			return t
		}
	}
	return nil
}
