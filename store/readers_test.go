package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// reading runs reads on somebody's behalf, each until its end is called.
type reading struct {
	t  *testing.T
	db *DB
	wg sync.WaitGroup
}

// begin starts a read and reports whether it runs before everything stands still.
func (r *reading) begin(who any) (runs func() bool, end func()) {
	ctx := r.t.Context()
	if who != nil {
		ctx = WithRequester(ctx, who)
	}
	begun, over := make(chan struct{}), make(chan struct{})
	r.wg.Go(func() {
		if err := r.db.Read(ctx, func(*Tx) error { close(begun); <-over; return nil }); err != nil {
			r.t.Error(err)
		}
	})
	return func() bool {
		synctest.Wait()
		select {
		case <-begun:
			return true
		default:
			return false
		}
	}, sync.OnceFunc(func() { close(over) })
}

// virtual runs f with a database on a virtual clock.
func virtual(t *testing.T, f func(t *testing.T, r *reading)) {
	path := t.TempDir() + "/state.db"
	synctest.Test(t, func(t *testing.T) {
		db, err := OpenDB(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		r := &reading{t: t, db: db}
		defer r.wg.Wait()
		f(t, r)
	})
}

// holds: security.md#the-budget
func TestReadersAreShared(t *testing.T) {
	virtual(t, func(t *testing.T, r *reading) {
		for _, step := range []struct {
			who  any
			runs bool
		}{
			{"hog", true}, {"hog", true},
			{"hog", false}, // two are all that one peer has
			{"desk", true},
			{"laptop", false}, // three are all that peers have
			{nil, true},       // the fourth is never theirs
		} {
			runs, end := r.begin(step.who)
			defer end()
			if got := runs(); got != step.runs {
				t.Errorf("a read of %v runs: %v, want %v", step.who, got, step.runs)
			}
		}
	})
}

func TestWhoeverWasServedLongestAgoReadsNext(t *testing.T) {
	virtual(t, func(t *testing.T, r *reading) {
		_, end1 := r.begin("hog")
		_, end2 := r.begin("hog")
		synctest.Wait()
		_, end3 := r.begin("other hog")
		synctest.Wait()
		var hogs []func() bool
		for range 20 {
			for _, hog := range []any{"hog", "other hog"} {
				runs, end := r.begin(hog)
				defer end()
				synctest.Wait()
				hogs = append(hogs, runs)
			}
		}
		runs, end := r.begin("desk")
		defer end()
		if runs() {
			t.Fatal("a fourth read of peers runs")
		}
		end1()
		if !runs() {
			t.Error("a peer that never read waits behind those that read all the time")
		}
		end2()
		end3()
		for _, runs := range hogs {
			runs()
		}
	})
}

func TestReadsUnderLoad(t *testing.T) {
	db := open(t)
	fill(t, db)
	requesters := []any{nil, "desk", "laptop", "hog", "other hog"}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for range 50 {
				ctx := t.Context()
				if who := requesters[i%len(requesters)]; who != nil {
					ctx = WithRequester(ctx, who)
				}
				if rand.N(4) == 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.N(300))*time.Microsecond)
					defer cancel()
				}
				err := db.Read(ctx, func(tx *Tx) error {
					var n int
					return tx.QueryRow("SELECT count(*) FROM t").Scan(&n)
				})
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if r := db.readers; r.used != 0 || r.peers != 0 || len(r.waiting) != 0 || len(r.using) != 0 || len(r.idle) > maxReaders {
		t.Errorf("left: %d used, %d of peers, %d waiting, %d requesters, %d idle", r.used, r.peers, len(r.waiting), len(r.using), len(r.idle))
	}
}
