package pace

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSignal(t *testing.T) {
	s := NewSignal()
	for range 3 {
		s.Set()
	}
	<-s
	select {
	case <-s:
		t.Error("set three times, it is received twice")
	default:
	}
	s.Set()
	<-s
}

func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		s := NewSignal()
		for _, after := range []time.Duration{time.Second, 2 * time.Second, 9 * time.Second} {
			time.AfterFunc(after, s.Set)
		}
		for _, want := range []time.Duration{4 * time.Second, 7 * time.Second} { // of the third it is told too late
			if err := Gather(ctx, s, 3*time.Second); err != nil || time.Since(began) != want {
				t.Errorf("over after %s, want %s: %v", time.Since(began), want, err)
			}
		}
		if err := Gather(ctx, s, 3*time.Second); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Second {
			t.Errorf("it pauses for %s until ctx ended: %v", time.Since(began), err)
		}
		if err := Gather(ctx, s, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it waits on after the end of ctx: %v", err)
		}
	})
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if err := Sleep(ctx, 3*time.Second); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("slept %s, %v", time.Since(began), err)
		}
		if err := Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("slept %s until ctx ended: %v", time.Since(began), err)
		}
		if err := Sleep(ctx, 0); err == nil {
			t.Error("sleeps on after the end of ctx")
		}
	})
}
