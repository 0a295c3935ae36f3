package inbox

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/daemon/registry"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func TestRepeatsForgetAfterTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, from, env := NewRepeats(new(budget.Book)), identity.ID{1}, notifyOf("a")
		first, fresh, err := r.BeginRun(from, env)
		if !fresh || err != nil {
			t.Fatal(fresh, err)
		}
		waited := make(chan Outcome)
		again, fresh, err := r.BeginRun(from, env)
		if fresh || err != nil {
			t.Fatal(fresh, err)
		}
		go func() {
			out, _ := r.WaitForOutcome(t.Context(), again)
			waited <- out
		}()
		synctest.Wait()
		r.FinishRun(first, Outcome{State: wire.Held})
		if out := <-waited; out.State != wire.Held {
			t.Errorf("%+v", out)
		}
		if sender, c, ok := r.Find(nil, env.ID); !ok || sender != from || c.Thread != "t" || c.Hops != 3 {
			t.Errorf("%+v %v", c, ok)
		}
		one, another := registry.Credential{Name: "one", KeyHash: registry.KeyHash{1}}, registry.Credential{Name: "other", KeyHash: registry.KeyHash{2}}
		r.AddTaker(from, env.ID, one.KeyHash)
		r.AddTaker(identity.ID{2}, env.ID, another.KeyHash)
		for _, by := range []*registry.Credential{&one, &another} {
			if _, _, ok := r.Find(by, env.ID); ok != (by == &one) {
				t.Errorf("%s: %t", by.Name, ok)
			}
		}
		other := *env
		other.Payload = wire.Payload(`{"topic":"b"}`)
		if _, _, err := r.BeginRun(from, &other); !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
			t.Error(err)
		}
		if _, fresh, _ := r.BeginRun(identity.ID{2}, env); !fresh {
			t.Error("another peer's message of the same id counts as a repeat")
		}
		time.Sleep(repeatsFor - time.Nanosecond)
		if _, fresh, _ := r.BeginRun(from, env); fresh {
			t.Error("forgotten too early")
		}
		time.Sleep(time.Nanosecond)
		if _, fresh, _ := r.BeginRun(from, env); !fresh {
			t.Error("remembered too long")
		}
	})
}

// holds: security.md#the-budget
func TestRepeatsAreBounded(t *testing.T) {
	r, from := NewRepeats(new(budget.Book)), identity.ID{1}
	first := notifyOf("first")
	r.BeginRun(from, first)
	for range budget.Repeats.Peer {
		r.BeginRun(from, notifyOf("more"))
	}
	if n := len(r.peers[from].order); int64(n) != budget.Repeats.Peer || r.n != n || len(r.peers[from].runs) != n {
		t.Errorf("%d, %d and %d entries", n, r.n, len(r.peers[from].runs))
	}
	if _, fresh, _ := r.BeginRun(from, first); !fresh {
		t.Error("the oldest stays")
	}
	r.n = int(budget.Repeats.All) // as if other peers held the rest
	r.BeginRun(identity.ID{2}, notifyOf("other"))
	if int64(r.n) != budget.Repeats.All-budget.Repeats.Peer/8+1 {
		t.Errorf("%d in all", r.n)
	}
	r.ForgetPeer(from)
	if r.peers[from] != nil {
		t.Error("purge leaves some")
	}
}

func TestRefusalsAreForgotten(t *testing.T) {
	r, from, env := NewRepeats(new(budget.Book)), identity.ID{1}, notifyOf("a")
	first, _, _ := r.BeginRun(from, env)
	r.ForgetRun(from, first, Outcome{Err: kinds.Errorf(kinds.Overloaded, "full")})
	if _, fresh, _ := r.BeginRun(from, env); !fresh || r.n != 1 {
		t.Errorf("fresh %v, %d entries", fresh, r.n)
	}
}

// Of peers that send no more nothing stays, as of keys whose certificates have ended.
// holds: security.md#the-budget
func TestRepeatsOfPeersThatHaveGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRepeats(new(budget.Book))
		for n := range 100 {
			id := identity.ID{1, byte(n)}
			run, _, _ := r.BeginRun(id, notifyOf("kept"))
			r.FinishRun(run, Outcome{State: wire.Handed})
			time.Sleep(time.Second)
		}
		run, _, _ := r.BeginRun(identity.ID{2}, notifyOf("refused"))
		r.ForgetRun(identity.ID{2}, run, Outcome{})
		if len(r.peers) != 100 || r.n != 100 {
			t.Errorf("%d peers, %d messages", len(r.peers), r.n)
		}
		time.Sleep(repeatsFor)
		r.BeginRun(identity.ID{3}, notifyOf("later"))
		if len(r.peers) != 1 || r.n != 1 || r.kept.HeldBy(identity.ID{1, 7}) != 0 || r.kept.HeldBy(identity.ID{3}) != 1 {
			t.Errorf("%d peers and %d messages are kept", len(r.peers), r.n)
		}
	})
}

func notifyOf(text string) *wire.Envelope {
	return &wire.Envelope{ID: wire.NewMessageID(), Kind: kinds.KindNotify, Payload: wire.Payload(`{"topic":"` + text + `"}`), Thread: "t", Hops: 3}
}
