package openintent

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// slowReader is a ResponseWriter of whom nothing is taken after the first write.
type slowReader struct {
	header http.Header
	status int
	writes int
	begun  chan struct{} // closed with the first write
	taken  chan struct{} // closed: it reads on
	hung   chan struct{} // closed when its writes are given up; nil: they cannot be
	once   sync.Once
}

func newSlowReader(hangsUp bool) *slowReader {
	s := &slowReader{header: http.Header{}, begun: make(chan struct{}), taken: make(chan struct{})}
	if hangsUp {
		s.hung = make(chan struct{})
	}
	return s
}

func (s *slowReader) Header() http.Header { return s.header }
func (s *slowReader) Flush()              {}
func (s *slowReader) WriteHeader(n int)   { s.status = n }
func (s *slowReader) Write(b []byte) (int, error) {
	if s.writes++; s.writes == 1 {
		close(s.begun)
		return len(b), nil
	}
	select {
	case <-s.taken:
		return len(b), nil
	case <-s.hung:
		return 0, os.ErrDeadlineExceeded
	}
}

func (s *slowReader) SetWriteDeadline(at time.Time) error {
	if s.hung != nil && !at.IsZero() && !at.After(time.Now()) {
		s.once.Do(func() { close(s.hung) })
	}
	return nil
}

// serve has the engine answer a request for a stream, until it ends or stop is called.
func (h *host) serve(c *client, path string, w http.ResponseWriter) (ended chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", "/api/v1"+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set(headerAgent, c.agent)
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		c.handler.ServeHTTP(w, r)
	}()
	return ended, cancel
}

// A daemon has one stream of what concerns its agents. A new one takes its place, also
// where nobody reads the old one; while that cannot end there are two and no more.
// holds: security.md#the-budget
func TestAHomeHasOneStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		in := h.intent("planner")
		ch := h.channel("planner", in, "talk")
		h.as("planner").post("/intents/"+in+"/agents", obj{"agent_id": "worker", "home": desk}).ok(201)
		h.from(desk, "worker").get(ch).ok(200)
		daemon := h.from(desk, object.Daemon)
		defer h.follow(h.from(laptop, object.Daemon), "/subscribe/home").stop() // another's has its own
		var before *stream
		for range 10 * maxHomeStreams {
			s := h.follow(daemon, "/subscribe/home")
			if before != nil {
				if err := <-before.end; err != nil {
					t.Errorf("the stream before ended with %v", err)
				}
			}
			synctest.Wait()
			if n := len(h.e.ofHomes[agentKey{home: desk}]); n != 1 || h.e.guestStreams != 2 {
				t.Fatalf("%d streams of the daemon, %d of all", n, h.e.guestStreams)
			}
			h.as("planner").say(ch, obj{"message_type": "broadcast"})
			s.next()
			before = s
		}
		before.stop()
		// Who does not read is hung up on for the next one.
		slow := newSlowReader(true)
		ended, _ := h.serve(daemon, "/subscribe/home", slow)
		<-slow.begun
		h.as("planner").say(ch, obj{"message_type": "broadcast"})
		synctest.Wait()
		next := h.follow(daemon, "/subscribe/home")
		<-ended
		next.stop()
		// Where that cannot be, it is waited for.
		var all []*slowReader
		var ends []chan struct{}
		for range maxHomeStreams {
			slow := newSlowReader(false)
			ended, _ := h.serve(daemon, "/subscribe/home", slow)
			<-slow.begun
			h.as("planner").say(ch, obj{"message_type": "broadcast"})
			synctest.Wait()
			all, ends = append(all, slow), append(ends, ended)
		}
		for range 10 * maxHomeStreams {
			daemon.get("/subscribe/home").refused(429, "too_many")
		}
		close(all[0].taken)
		<-ends[0]
		next = h.follow(daemon, "/subscribe/home")
		close(all[1].taken)
		<-ends[1]
		next.stop()
		synctest.Wait()
		if len(h.e.ofHomes) != 1 || h.e.guestStreams != 1 || h.e.streams != 0 {
			t.Errorf("left are %v, %d and %d streams", h.e.ofHomes, h.e.guestStreams, h.e.streams)
		}
	})
}

// A host that has much to say gets a thousand entries a second taken, and causes no writes.
// holds: security.md#the-budget
func TestRelayIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		writes := 0
		h.db.ObserveWrites(func(store.Cost) { writes++ })
		const n = 7 * relayRate
		far := strings.Replace("intent_"+hostID+"_"+strings.Repeat("0", object.ULIDLength), hostID, farID, 1)
		for what, entry := range map[string]string{"places": "", "entries": fmt.Sprintf("data: {\"event\":\"comment\",\"intent_id\":%q,\"for\":[\"reviewer\"],\"own\":[],\"data\":{\"intent_id\":%q}}\n", far, far)} {
			var text strings.Builder
			for i := range n {
				fmt.Fprintf(&text, "%sid: %d\n\n", entry, i+1)
			}
			began := time.Now()
			if err := h.e.ReceiveHostStream(t.Context(), farID, strings.NewReader(text.String()), nil); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took.Round(time.Second) != 6*time.Second || writes > 0 {
				t.Errorf("%d %s took %v and %d writes", n, what, took, writes)
			}
			if place := h.e.HostPlace(farID); place != fmt.Sprint(n) {
				t.Errorf("its place is %q", place)
			}
		}
	})
}
