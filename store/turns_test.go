package store

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// queued holds the lead while writes of these requesters queue up, one after the
// other, and returns the order in which they ran and how many commits that took.
func queued(t *testing.T, db *DB, requesters []any) (order []any, commits int) {
	t.Helper()
	release := holdLead(t, db)
	var wg sync.WaitGroup
	seen := -1
	for i, who := range requesters {
		ctx := t.Context()
		if who != nil {
			ctx = WithRequester(ctx, who)
		}
		wg.Go(func() {
			if err := db.Write(ctx, false, func(tx *Tx) error {
				order = append(order, who)
				if n := len(rows(t, db)); n != seen { // readers see what earlier commits have kept
					seen = n
					commits++
				}
				return insert(i)(tx)
			}); err != nil {
				t.Error(err)
			}
		})
		waiting(db, i+1)
	}
	release()
	wg.Wait()
	return order, commits
}

// holds: security.md#the-budget
func TestOwnersTakeTurns(t *testing.T) {
	requesters := slices.Repeat([]any{"hog"}, 100)
	requesters = append(requesters, "desk", nil, "desk", nil)
	order, _ := queued(t, open(t), requesters)
	for _, who := range []any{"desk", nil} {
		i := slices.Index(order, who)
		if before := len(slices.DeleteFunc(slices.Clone(order[:i]), func(o any) bool { return o != "hog" })); before > 1 {
			t.Errorf("%v waited for %d writes of another peer, want at most 1", who, before)
		}
	}
	if len(order) != len(requesters) {
		t.Errorf("%d writes ran, want %d", len(order), len(requesters))
	}
}

// holds: security.md#the-budget
func TestCommitHoldsFewWritesOfAPeerWhileOthersWait(t *testing.T) {
	db := open(t)
	var mu sync.Mutex
	perCommit := make(map[string]int) // by commit and requester
	commit := func(n int, who any) string { return fmt.Sprint(n, who) }
	requesters := slices.Repeat([]any{"hog", "other hog"}, 10*maxPerPeer)
	seen, commits := -1, 0
	db.ObserveWrites(func(c Cost) {
		mu.Lock()
		defer mu.Unlock()
		if n := len(rows(t, db)); n != seen {
			seen = n
			commits++
		}
		perCommit[commit(commits, c.Requester)]++
	})
	queued(t, db, requesters)
	for n := range commits + 1 {
		if a, b := perCommit[commit(n, "hog")], perCommit[commit(n, "other hog")]; a > 0 && b > 0 && (a > maxPerPeer || b > maxPerPeer) {
			t.Errorf("commit %d holds %d and %d writes of two peers, want at most %d each", n, a, b, maxPerPeer)
		}
	}
}

func TestPeerAloneSharesACommit(t *testing.T) {
	if _, commits := queued(t, open(t), slices.Repeat([]any{"desk"}, 200)); commits != 1 {
		t.Errorf("200 writes of a peer alone took %d commits, want 1", commits)
	}
}

// A commit that a peer's write has made long holds no second one of it while others are in
// it, or wait for the next.
// holds: security.md#the-budget
func TestLongWritesShareNoCommitWithOthers(t *testing.T) {
	db := open(t)
	var wg sync.WaitGroup
	held, release := make(chan struct{}), make(chan struct{})
	write := func(who string, fn func(*Tx) error) {
		wg.Go(func() {
			if err := db.Write(WithRequester(t.Context(), who), false, fn); err != nil {
				t.Error(err)
			}
		})
	}
	write("hog", func(*Tx) error { close(held); <-release; return nil })
	<-held
	var kept []int // how many earlier writes were committed when each one ran
	for i, who := range []string{"hog", "hog", "hog", "desk"} {
		write(who, func(tx *Tx) error {
			for began := time.Now(); who == "hog" && time.Since(began) < longCommit; {
				runtime.Gosched()
			}
			kept = append(kept, len(rows(t, db)))
			return insert(i)(tx)
		})
		waiting(db, i+1)
	}
	close(release)
	wg.Wait()
	if want := []int{0, 0, 2, 2}; !slices.Equal(kept, want) {
		t.Errorf("%v writes were committed when each one ran, want %v", kept, want)
	}
}

// Who comes while a peer's long commit is being made does not wait for all of it.
func TestLateWriteEndsTheCommitOfAPeerAlone(t *testing.T) {
	db := open(t)
	var wg sync.WaitGroup
	var order []any
	late := make(chan struct{})
	release := holdLead(t, db)
	for i := range 100 {
		wg.Go(func() {
			db.Write(WithRequester(t.Context(), "hog"), false, func(*Tx) error {
				if order = append(order, "hog"); len(order) == 1 {
					wg.Go(func() {
						defer close(late)
						db.Write(t.Context(), false, func(*Tx) error { order = append(order, nil); return nil })
					})
					waiting(db, 1)
				}
				return nil
			})
		})
		waiting(db, i+1)
	}
	release()
	wg.Wait()
	<-late
	// The eight that may go before it, and the first of those that were put back,
	// which leads the next commit.
	if i := slices.Index(order, nil); i > maxPerPeer+1 {
		t.Errorf("the late write ran after %d of the peer's, want at most %d", i, maxPerPeer+1)
	}
	if len(order) != 101 {
		t.Errorf("%d writes ran, want 101", len(order))
	}
}
