package names

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/authority"
	"github.com/acpd/acpd/kinds"
)

// Guests that ask for very many names leave lookups to others, also of a name for which a guest waits.
func TestGuestsLeaveLookupsToOthers(t *testing.T) {
	hub := new(fakeRelay)
	bubble(t, map[string]*fakeRelay{"hub": hub}, func(t *testing.T, b *Book, a *authority.Authority, _ *identity.TrustStore) {
		hub.answer(a.Sign(build, time.Hour, "acp:build-7"))
		var refused atomic.Int64
		ask := func(name string) {
			if _, err := b.Find(t.Context(), name, true); kinds.AsError(err).Code == kinds.Overloaded {
				refused.Add(1)
			}
		}
		for i := range maxLookups/2 - 1 {
			go ask(fmt.Sprintf("x-%d.corp", i))
		}
		synctest.Wait()
		go ask("build-7.corp")
		for i := range 100 {
			go ask(fmt.Sprintf("y-%d.corp", i))
		}
		synctest.Wait()
		if n := refused.Load(); n != 100 {
			t.Errorf("%d lookups of guests are refused", n)
		}
		began := time.Now()
		mustFind(t, b, "build-7.corp", build)
		if took := time.Since(began); took > slotTime {
			t.Errorf("who is no guest waits for %s", took)
		}
		time.Sleep(time.Minute)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.ofGuest != 0 || len(b.lookups) != 0 || len(b.guests) != 0 || len(b.slots) != 0 {
			t.Errorf("%d lookups of guests, %d in all, %d and %d slots are kept", b.ofGuest, len(b.lookups), len(b.guests), len(b.slots))
		}
	})
}
