package pace

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Changes share a write. What fails is tried again without another change, and logged when it begins and ends. At the
// end there is a last write.
func TestSaver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		var fails error
		var saves []time.Duration
		began, changed := time.Now(), NewSignal()
		s := Saver{What: "the pins", Changed: changed, Pause: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil)), Save: func(context.Context) error {
			saves = append(saves, time.Since(began))
			return fails
		}}
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		changed.Set()
		time.Sleep(time.Second / 2) // on the virtual clock
		changed.Set()
		time.Sleep(9*time.Second + time.Second/2) // on the virtual clock
		fails = errors.New("full")
		changed.Set()
		time.Sleep(4 * time.Second) // at 11 and 13
		fails = nil
		time.Sleep(16 * time.Second) // at 15
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		want := []time.Duration{time.Second, 2 * time.Second, 11 * time.Second, 13 * time.Second, 15 * time.Second, 30 * time.Second}
		if !slices.Equal(saves, want) {
			t.Errorf("saved at %v, want %v", saves, want)
		}
		if text := log.String(); strings.Count(text, "not on disk yet") != 1 || strings.Count(text, "the pins: on disk again") != 1 {
			t.Error(text)
		}
	})
}

// What changes during the write in which ctx ends is written too, and what has changed before Run.
func TestSaverWritesAtTheEnd(t *testing.T) {
	for what, endsDuringSave := range map[string]bool{"before Run": false, "during Save": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				changed, unwritten := NewSignal(), true
				changed.Set()
				s := Saver{What: "the pins", Changed: changed, Pause: time.Second, Log: slog.New(slog.DiscardHandler), Save: func(context.Context) error {
					unwritten = ctx.Err() == nil // for what changes after this
					cancel()
					return nil
				}}
				if !endsDuringSave {
					cancel()
				}
				if err := s.Run(ctx); err != nil || unwritten {
					t.Errorf("%v, unwritten: %v", err, unwritten)
				}
			})
		})
	}
}
