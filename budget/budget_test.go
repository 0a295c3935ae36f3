package budget

import (
	"errors"
	"sync"
	"testing"

	"github.com/acpd/acpd/identity"
)

func id(n int) identity.ID { return identity.ID{byte(n >> 8), byte(n)} }

func trusting(peers int) *Book { return &Book{Peers: func() int { return peers }} }

// fill takes one by one until it is refused, at most ten times what a peer may
// have, and returns how many it got.
func fill(t *testing.T, a *Account, who identity.ID) (got int64) {
	t.Helper()
	for range 10 * a.Row().Peer {
		if err := a.Reserve(who, 1); err != nil {
			if e, ok := errors.AsType[*ExceededError](err); !ok || e.Row.Name != a.Row().Name {
				t.Fatalf("Take: %v, want an ExceededError of the row", err)
			}
			return got
		}
		got++
	}
	t.Fatalf("peer got %d, ten times its share, and was never refused", got)
	return 0
}

func TestPeerAloneGetsAllThatAPeerMayHave(t *testing.T) {
	b := trusting(1)
	a := b.OpenAccount(Inbox)
	if got := fill(t, a, id(1)); got != Inbox.Peer {
		t.Errorf("peer alone got %d, want %d", got, Inbox.Peer)
	}
}

func TestLatecomersGetTheirPart(t *testing.T) {
	for _, peers := range []int{2, 4, 16, 100} {
		b := trusting(peers)
		a := b.OpenAccount(Inbox)
		var sum int64
		for n := range peers {
			got := fill(t, a, id(n))
			sum += got
			if part := min(Inbox.Peer, Inbox.All/2/int64(peers)); got < part {
				t.Errorf("of %d peers number %d got %d, want at least %d", peers, n+1, got, part)
			}
		}
		if sum > Inbox.All {
			t.Errorf("%d peers hold %d, want at most %d", peers, sum, Inbox.All)
		}
	}
}

func TestSumHoldsWhenPeersAreTrustedLater(t *testing.T) {
	peers := 0
	b := Book{Peers: func() int { return peers }}
	a := b.OpenAccount(Row{Name: "row", Peer: 10, All: 20})
	for n := range 100 {
		peers = n + 1
		fill(t, a, id(n))
	}
	var sum int64
	for _, u := range b.ListUsage() {
		sum += u.Held
	}
	if sum > 20 {
		t.Errorf("all hold %d, want at most 20", sum)
	}
}

func TestGivenBackIsThereAgain(t *testing.T) {
	b := trusting(2)
	a := b.OpenAccount(Row{Name: "row", Peer: 3, All: 4})
	fill(t, a, id(1))
	a.Release(id(1), a.HeldBy(id(1)))
	if got := fill(t, a, id(1)); got != 3 {
		t.Errorf("after everything was given back a peer got %d, want 3", got)
	}
}

func TestUsageNamesWhoHoldsAndWhoWasRefused(t *testing.T) {
	b := trusting(2)
	a := b.OpenAccount(Row{Name: "row", Peer: 2, All: 10})
	a.Reserve(id(1), 1)
	fill(t, a, id(2))
	got := b.ListUsage()
	if len(got) != 2 || got[0].Peer != id(2) || got[0].Held != 2 || got[0].Refused != 1 || got[1].Held != 1 || got[1].Refused != 0 {
		t.Errorf("Usage = %+v", got)
	}
	b.ForgetRefusals(id(2))
	if got := b.ListUsage(); got[0].Refused != 0 || got[0].Held != 2 {
		t.Errorf("after Forget: %+v", got)
	}
}

func TestRefusalSaysWhatAndHowMuch(t *testing.T) {
	for _, c := range []struct {
		err  ExceededError
		want string
	}{
		{ExceededError{Row: Inbox}, "budget: inbox: one peer may hold 2500"},
		{ExceededError{Row: NewInboxBytesRow(1 << 20), All: true}, "budget: inbox_bytes: all peers together may hold 64 MiB"},
		{ExceededError{Row: NewEnvelopesRow(16 << 20)}, "budget: envelopes: one peer may hold 32 MiB"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestAccountsFromManyGoroutines(t *testing.T) {
	b := trusting(8)
	a := b.OpenAccount(Row{Name: "row", Peer: 50, All: 200})
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 1000 {
				if a.Reserve(id(n), 7) == nil {
					if h := a.HeldBy(id(n)); h > 50 {
						t.Errorf("peer holds %d of 50", h)
					}
					a.Release(id(n), 7)
				}
			}
		})
	}
	all.Wait()
	if u := b.ListUsage(); len(u) > 0 && u[0].Held != 0 {
		t.Errorf("after everything was given back: %+v", u)
	}
}
