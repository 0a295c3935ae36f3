package budget

import (
	"sync"
	"testing"
)

func TestShareHoldsThePeersBound(t *testing.T) {
	var b Book
	a := b.OpenAccount(Row{Name: "row", Peer: 100, All: 200})
	s := a.NewShare(id(1), 8)
	var got int64
	for range 10 * 100 {
		if s.Reserve(1) == nil {
			got++
		}
	}
	if got != 100 || a.HeldBy(id(1)) != 100 {
		t.Errorf("got %d, %d held; want 100", got, a.HeldBy(id(1)))
	}
	if u := b.ListUsage(); u[0].Refused == 0 {
		t.Error("nothing was refused")
	}
	s.Release(97)
	s.ReleaseUnused()
	if n := a.HeldBy(id(1)); n != 3+8 {
		t.Errorf("3 in use and %d held, want a chunk more", n)
	}
	s.Release(3)
	s.ReleaseUnused()
	if n := a.HeldBy(id(1)); n != 0 {
		t.Errorf("nothing in use and %d held", n)
	}
}

// holds: security.md#the-budget
func TestSharesHoldTheSum(t *testing.T) {
	b := Book{Peers: func() int { return 10 }}
	a := b.OpenAccount(Row{Name: "row", Peer: 100, All: 100})
	var sum int64
	for n := range 10 {
		s := a.NewShare(id(n), 8)
		var got int64
		for range 1000 {
			if s.Reserve(1) == nil {
				got++
			}
		}
		if sum += got; got < 100/2/10 {
			t.Errorf("peer %d got %d, its part is %d", n, got, 100/2/10)
		}
	}
	if sum > 100 {
		t.Errorf("all got %d of 100", sum)
	}
}

func TestShareFromManyGoroutines(t *testing.T) {
	var b Book
	a := b.OpenAccount(Row{Name: "row", Peer: 50})
	s := a.NewShare(id(1), 8)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10_000 {
				if s.Reserve(3) == nil {
					s.Release(3)
				}
				s.ReleaseUnused()
			}
		})
	}
	all.Wait()
	s.ReleaseUnused()
	if n := a.HeldBy(id(1)); n != 0 || s.Used() != 0 {
		t.Errorf("%d held and %d in use at the end", n, s.Used())
	}
}
