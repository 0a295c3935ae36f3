package delegation

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

// Of what comes faster, four a second leave, the newest of those that wait, and in their order.
func TestPartialsLeaveAtTheirPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := table(t)
		e := ts.enter(t, client.Taken, 0)
		var left []int
		var calls sync.WaitGroup
		begun := time.Now()
		for i := range 100 { // over two seconds
			calls.Go(func() {
				done, err := ts.BeginPartial(t.Context(), e)
				if err == nil {
					left = append(left, i) // one at a time
					time.Sleep(20 * time.Millisecond)
					done()
				} else if !errors.Is(err, ErrReplaced) {
					t.Error(err)
				}
			})
			time.Sleep(20 * time.Millisecond)
		}
		calls.Wait()
		if took := time.Since(begun); took > 2500*time.Millisecond || len(left) < 8 || len(left) > 10 {
			t.Errorf("%d left in %s: %v", len(left), took, left)
		}
		for i := range left[1:] {
			if left[i] >= left[i+1] {
				t.Errorf("they left in the order %v", left)
			}
		}
		if left[len(left)-1] != 99 {
			t.Errorf("the last one was lost: %v", left)
		}
	})
}

// The end waits for what is being sent, and for the last that waited, which leaves at once.
func TestTheEndLeavesAfterTheLastPartial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := table(t)
		e := ts.enter(t, client.Taken, 0)
		sent, err := ts.BeginPartial(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		var calls sync.WaitGroup
		calls.Go(func() {
			done, err := ts.BeginPartial(t.Context(), e)
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, "last partial")
			time.Sleep(time.Millisecond)
			done()
		})
		synctest.Wait()
		begun := time.Now()
		calls.Go(func() {
			done, err := ts.FlushPartials(t.Context(), e)
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, "end")
			if _, err := ts.BeginPartial(t.Context(), e); !errors.Is(err, &kinds.Error{Code: kinds.NotFound}) {
				t.Errorf("a partial result beside the end: %v", err)
			}
			done()
		})
		synctest.Wait()
		if len(order) > 0 {
			t.Errorf("before the one under way has arrived: %v", order)
		}
		sent()
		calls.Wait()
		if len(order) != 2 || order[0] != "last partial" || time.Since(begun) > 10*time.Millisecond {
			t.Errorf("%v after %s", order, time.Since(begun))
		}
		// An end that did not arrive leaves the way open.
		done, err := ts.BeginPartial(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		done()
	})
}

// A caller that gives up leaves nothing behind for which others would wait.
func TestAPartialIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := table(t)
		e := ts.enter(t, client.Taken, 0)
		sent, err := ts.BeginPartial(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		why := errors.New("given up")
		for name, call := range map[string]func(context.Context, *Delegation) (func(), error){"partial": ts.BeginPartial, "end": ts.FlushPartials} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(why) })
			if _, err := call(ctx, e); err != why {
				t.Errorf("%s: %v", name, err)
			}
		}
		sent()
		for range 2 {
			done, err := ts.FlushPartials(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			done()
			done, err = ts.BeginPartial(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			done()
		}
	})
}

// Eight partial results a second are taken of each delegation, and who sends more is told when to try again.
func TestPartialsAreTakenAtAPaceOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := table(t)
		hurried, other := ts.enter(t, client.Given, 0), ts.enter(t, client.Given, 0)
		take := func() (taken int, retry time.Duration) {
			for {
				var ok bool
				if retry, ok = ts.TakePartial(hurried); !ok {
					return taken, retry
				}
				taken++
			}
		}
		for _, want := range []int{partialsTaken, 1, 1} {
			taken, retry := take()
			if taken != want || retry != time.Second/partialsTaken {
				t.Errorf("%d are taken, want %d, and the next after %s", taken, want, retry)
			}
			time.Sleep(retry) // of the virtual clock
		}
		if _, ok := ts.TakePartial(other); !ok {
			t.Error("another delegation is held to the pace of the first")
		}
	})
}
