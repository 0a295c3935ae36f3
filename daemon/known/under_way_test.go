package known

import (
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// A message is known from before anything looks for its id, until all its repeats have ended.
func TestMessagesUnderWay(t *testing.T) {
	x, id, first, second := newMessagesUnderWay(), wire.NewMessageID(), identity.ID{1}, identity.ID{2}
	known := make(map[wire.MessageID]identity.ID)
	find := func(id wire.MessageID) (identity.ID, bool) {
		if x.mu.TryLock() {
			t.Error("another message may come while one is looked for")
			x.mu.Unlock()
		}
		from, ok := known[id]
		return from, ok
	}
	expect := func(when string, from identity.ID, want bool) {
		t.Helper()
		if got := x.begin(from, id, find); got != want {
			t.Errorf("%s: %t for %v", when, got, from)
		}
	}
	expect("at first", first, true)
	expect("under way", second, false)
	expect("a repeat", first, true)
	x.end(id)
	expect("one of two has ended", second, false)
	known[id] = first
	x.end(id)
	expect("both have ended, and it is known", second, false)
	delete(known, id)
	expect("nothing knows it", second, true)
	x.end(id)
	if len(x.byID) != 0 {
		t.Errorf("under way: %v", x.byID)
	}
}
