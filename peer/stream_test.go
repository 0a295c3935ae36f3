package peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// A stream that is given up before its first byte has left gives back its place once.
// Which of the two comes first is left to chance, often enough.
func TestStreamsThatAreGivenUpLeaveTheBudget(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.side(nil), w.side(nil)
		b.Handle(wire.StreamMail, "mail", func(_ context.Context, _ identity.ID, s *Stream) { io.ReadAll(s) })
		w.meet(a, b)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for range 500 {
			a.ask(b, "connected?")
			var opening sync.WaitGroup
			for range maxBulk / 2 {
				opening.Go(func() {
					if s, err := a.OpenStream(ctx, b.ID(), wire.StreamMail); err == nil {
						s.Cancel()
					} else if code(err) != kinds.Cancelled {
						t.Error(err)
					}
				})
			}
			opening.Wait()
			time.Sleep(time.Second) // the peer gives credit back
			if n := a.findOrCreateState(b.ID()).callSlots.bulk.Load(); n != 0 {
				t.Fatalf("%d streams count as open", n)
			}
		}
	})
}

func TestStreams(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.side(nil), w.side(nil)
		ended := make(chan error, 100)
		b.Handle(wire.StreamMail, "mail", func(ctx context.Context, from identity.ID, s *Stream) {
			if from != a.ID() {
				t.Errorf("from %v", from)
			}
			body, err := io.ReadAll(s)
			if err == nil {
				if string(body) == "panic" {
					panic("at once")
				}
				_, err = s.Write(body)
			}
			ended <- err
		})
		w.meet(a, b)

		if _, err := a.OpenStream(t.Context(), b.ID(), wire.StreamHTTP); code(err) != kinds.UnknownKind {
			t.Errorf("a feature that is not announced: %v", err)
		}
		if _, err := b.OpenStream(t.Context(), a.ID(), wire.StreamMail); code(err) != kinds.UnknownKind {
			t.Errorf("a feature that the other side has not: %v", err)
		}
		if p, ok := a.Peer(b.ID()); !ok || !slices.Equal(p.Features, []string{FeaturePaths, "mail"}) {
			t.Errorf("features %v", p.Features)
		}

		var echoes sync.WaitGroup
		for range 3 * maxBulk {
			body := bytes.Repeat([]byte("mail "), 1000)
			s, err := a.OpenStream(t.Context(), b.ID(), wire.StreamMail)
			if err != nil {
				t.Fatal(err)
			}
			s.Write(body)
			s.CloseWrite()
			if back, err := io.ReadAll(s); err != nil || !bytes.Equal(back, body) {
				t.Fatalf("%d bytes back, %v", len(back), err)
			}
			<-ended
			s.Close()
			s.Cancel() // does nothing, nor another Close
			s.Close()
		}
		echoes.Wait()
		if n := a.findOrCreateState(b.ID()).callSlots.bulk.Load(); n != 0 {
			t.Errorf("%d streams still count", n)
		}

		var open []*Stream
		for range maxBulk {
			s, err := a.OpenStream(t.Context(), b.ID(), wire.StreamMail)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, s)
		}
		start := time.Now()
		_, err := a.OpenStream(t.Context(), b.ID(), wire.StreamMail)
		outcome{err, time.Since(start)}.want(t, kinds.Overloaded, kinds.DeliveredNo, 0, 0)
		a.ask(b, "beside the streams")
		for _, s := range open[1:] {
			s.Cancel()
			if se, ok := errors.AsType[*quic.StreamError](<-ended); !ok || se.ErrorCode != streamCancelled {
				t.Errorf("the handler saw %v", se)
			}
		}
		open[0].Write([]byte("panic"))
		open[0].CloseWrite()
		_, err = io.ReadAll(open[0])
		resetWith(t, err, streamInternal)
		open[0].Close()
		a.ask(b, "it lives on")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s, err := a.OpenStream(ctx, b.ID(), wire.StreamMail)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		start = time.Now()
		if _, err := s.Read(make([]byte, 1)); err == nil || time.Since(start) != time.Second {
			t.Errorf("read: %v after %v", err, time.Since(start))
		}
		if se, ok := errors.AsType[*quic.StreamError](<-ended); !ok || se.ErrorCode != streamCancelled {
			t.Errorf("the handler saw %v", se)
		}
	})
}

// TestSlowReadersDoNotStarve has every stream whose reader may push back full and
// unread: control and messages go on.
func TestSlowReadersDoNotStarve(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.side(nil), w.side(nil)
		release := make(chan struct{})
		var total sync.Map
		b.Handle(wire.StreamHTTP, FeatureChannel, func(ctx context.Context, _ identity.ID, s *Stream) {
			<-release
			n, err := io.Copy(io.Discard, s)
			if err != nil {
				t.Error(err)
			}
			total.Store(s, n)
		})
		w.meet(a, b)
		const each = 512 << 10
		var writers sync.WaitGroup
		for range maxBulk {
			s, err := a.OpenStream(t.Context(), b.ID(), wire.StreamHTTP)
			if err != nil {
				t.Fatal(err)
			}
			writers.Go(func() {
				if _, err := s.Write(make([]byte, each)); err != nil {
					t.Error(err)
				}
				s.Close()
			})
		}
		for range 20 {
			time.Sleep(500 * time.Millisecond)
			for _, env := range []*wire.Envelope{{Kind: kinds.KindPing}, query("beside?")} {
				start := time.Now()
				if _, _, err := a.Exchange(t.Context(), b.ID(), env); err != nil || time.Since(start) > 100*time.Millisecond {
					t.Errorf("%s: %v after %v", env.Kind, err, time.Since(start))
				}
			}
			if got, err := a.Send(t.Context(), b.ID(), notify("a.b"), true); err != nil || got != Handed {
				t.Errorf("notify: %q, %v", got, err)
			}
			if _, _, err := a.Exchange(t.Context(), b.ID(), sized(t, kinds.KindQuery, questionOf, 256<<10)); err != nil {
				t.Errorf("a large query: %v", err)
			}
		}
		close(release)
		writers.Wait()
		time.Sleep(5 * time.Second)
		n := 0
		total.Range(func(_, v any) bool {
			if v.(int64) == each {
				n++
			}
			return true
		})
		if n != maxBulk {
			t.Errorf("%d streams arrived whole, want %d", n, maxBulk)
		}
	})
}

// A stream hears, at both ends, that its connection takes no more streams: it may go on
// there, and keeps the connection open; when it ends the connection does.
func TestStreamOnAConnectionThatLeaves(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *network) {
		a, b := w.side(nil), w.side(nil)
		b.Handle(wire.StreamHTTP, FeatureChannel, func(_ context.Context, _ identity.ID, s *Stream) {
			<-s.Leaving()
			s.Write([]byte("!"))
			io.Copy(io.Discard, s)
		})
		w.meet(a, b)
		s, err := a.OpenStream(t.Context(), b.ID(), wire.StreamHTTP)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		select {
		case <-s.Leaving():
			t.Error("it leaves already")
		default:
		}
		old := a.findOrCreateState(b.ID()).current.Load()
		old.sendGoaway(closeReplaced)
		<-s.Leaving()
		if _, err := s.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if old.qc.Context().Err() != nil {
			t.Error("the connection has ended before its stream")
		}
		s.Close()
		time.Sleep(2 * lingerDelay)
		if old.qc.Context().Err() == nil {
			t.Error("the connection goes on without a stream")
		}
	})
}

// TestAgentsHaveCome: a peer that wants to know is told that an agent has come, and any number of such words ends no
// connection.
func TestAgentsHaveCome(t *testing.T) {
	for _, wants := range []bool{true, false} {
		bubble(t, nil, func(t *testing.T, w *network) {
			a, b := w.pair(func(c *Config) {
				if wants {
					c.Features = []string{FeatureAgents}
				}
			})
			a.TellAgents(b.ID()) // not connected
			a.ask(b, "first")
			a.TellAgents(b.ID())
			a.ask(b, "then")
			if n := b.saw(EventAgents); n != map[bool]int{true: 1}[wants] || a.saw(EventAgents) > 0 {
				t.Errorf("wanted %v: %d words", wants, n)
			}
		})
	}
	bubble(t, nil, func(t *testing.T, w *network) {
		a, h := w.facing(nil)
		c := h.trusted(a)
		for range 1000 {
			c.write(item(t, &wire.Agents{}))
		}
		c.alive()
		if n := a.saw(EventAgents); n != 1000 {
			t.Errorf("%d words", n)
		}
	})
}
