package openintent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// numbers returns the payloads' n of the next events of a stream.
func (s *stream) numbers(n int) (all []int) {
	s.t.Helper()
	for range n {
		payload, _ := s.next().data["payload"].(obj)
		number, _ := payload["n"].(float64)
		all = append(all, int(number))
	}
	return all
}

// shows fails unless exactly these come on the stream.
func (s *stream) shows(when string, want ...int) {
	s.t.Helper()
	if got := s.numbers(len(want)); !slices.Equal(got, want) {
		s.t.Errorf("%s: %v, want %v", when, got, want)
	}
	synctest.Wait()
	if s.pending() > 0 {
		s.t.Errorf("%s: also %+v", when, s.next())
	}
}

// What a stream has missed of a host comes once, in order and before anything later: also if the
// host comes into reach only afterwards, cannot answer for a while, or is read while it says more.
func TestStreamsCatchUp(t *testing.T) {
	for _, path := range []string{"/agents/reviewer/subscribe", "/subscribe/intents/", "/subscribe"} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t)
			fetch := p.near.cfg.Missed
			var fails atomic.Bool
			p.near.e.cfg.Missed = func(ctx context.Context, host string, who Caller, path string, hold func(string, int) error) ([]byte, error) {
				if fails.Load() {
					return nil, errors.New("it is busy")
				}
				return fetch(ctx, host, who, path, hold)
			}
			in := p.far.intent("planner")
			ch := p.far.channel("planner", in, "talk")
			p.near.as("reviewer").get(ch).ok(200)
			switch {
			case strings.HasSuffix(path, "intents/"):
				path += in
			case path == "/subscribe":
				path += ch
			}
			n := 0
			say := func(times int) {
				for range times {
					n++
					p.far.as("planner").say(ch, obj{"payload": obj{"n": n}})
				}
			}
			stream := p.near.follow(p.near.as("reviewer"), path)
			synctest.Wait()
			say(1)
			first := stream.next()
			stream.stop()
			say(2 * resumePage)
			var want []int
			for i := range 2 * resumePage {
				want = append(want, i+2)
			}
			stream = p.near.followFrom(p.near.as("reviewer"), path, first.id)
			stream.shows("resumed", want...)
			say(1)
			stream.shows("resumed, later", n)
			// Others that listen miss nothing, and get nothing twice, when the connection is another.
			p.disconnect()
			say(2)
			p.follow(t)
			stream.shows("after an interruption", n-1, n)
			fails.Store(true)
			late := p.near.followFrom(p.near.as("reviewer"), path, first.id)
			say(1)
			stream.shows("beside one that waits", n)
			synctest.Wait()
			if late.pending() > 0 {
				t.Errorf("before what it has missed: %+v", late.next())
			}
			fails.Store(false)
			time.Sleep(streamPing)
			for len(want) < n-1 {
				want = append(want, len(want)+2)
			}
			late.shows("once the host answers", want...)
			say(1)
			late.shows("later", n)
			late.stop()
			stream.stop()
			// A host that was restored from a backup has other numbers.
			p.near.e.withLock(func() { p.near.e.reached[farID] += 1000 })
			stream = p.near.follow(p.near.as("reviewer"), path)
			p.disconnect()
			p.follow(t)
			synctest.Wait()
			say(1)
			stream.shows("with other numbers", n)
			stream.stop()
			p.disconnect()
		})
	}
}

// A host that is untrusted leaves no place behind, and what it sends late is shown to nobody.
func TestForgottenHostsHaveNoPlace(t *testing.T) {
	h := start(t)
	if err := h.e.ReceiveHostStream(t.Context(), farID+idRest, strings.NewReader("id: 7\n\n"), nil); err != nil {
		t.Fatal(err)
	}
	if err := h.e.ForgetHost(t.Context(), farID+idRest); err != nil || h.e.HostPlace(farID) != "" {
		t.Errorf("its place is %q: %v", h.e.HostPlace(farID), err)
	}
}

// What a host may answer about missed entries: its own, in order.
func TestMissedEntriesAreChecked(t *testing.T) {
	h := start(t)
	here := h.intent("planner")
	far := strings.Replace(here, hostID, farID, 1)
	good := `{"entries":[{"event":"comment","intent_id":"` + far + `","data":{"intent_id":"` + far + `"},"number":5}],"next":9,"more":true}`
	fetch := func(answer string) error {
		h.e.cfg.Missed = func(context.Context, string, Caller, string, func(string, int) error) ([]byte, error) {
			return []byte(answer), nil
		}
		s := &subscriber{at: object.Cursor{Here: 0, Hosts: map[string]int64{farID: 3}}}
		_, letGo, err := h.e.fetchMissedEntries(t.Context(), s, farID)
		letGo()
		return err
	}
	if err := fetch(good); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "[]", `{"entries":[null]}`, strings.ReplaceAll(good, far, here), strings.Replace(good, `"number":5`, `"number":3`, 1),
		strings.Replace(good, `"next":9`, `"next":4`, 1), strings.Replace(good, `"next":9`, `"next":3`, 1), strings.Replace(good, `"comment"`, `"a\nid: 1"`, 1)} {
		if fetch(bad) == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestCursors(t *testing.T) {
	for text, want := range map[string]string{"17": "17", "17,0102030405:9": "17,0102030405:9", "1,fedcba9876:2,0102030405:9": "1,0102030405:9,fedcba9876:2",
		"": "-1", "x": "-1", "-1": "-1", "1,": "1", "1,x:2": "-1", "1,0102030405": "-1", "1,0102030405:-2": "-1", "1,010203040G:2": "-1"} {
		if c := object.ParseCursor(text); c.String() != want {
			t.Errorf("%q is %s, want %s", text, c.String(), want)
		}
	}
}

// What an earlier version has kept of hosts goes, and its numbers are not given out again.
func TestKeptEntriesOfHostsGo(t *testing.T) {
	h := start(t)
	statedb.Exec(t, h.db, "CREATE TABLE openintent_relayed (seq INTEGER PRIMARY KEY) STRICT")
	statedb.Exec(t, h.db, "INSERT INTO openintent_relayed VALUES (4711)")
	if err := h.db.Write(t.Context(), true, func(tx *store.Tx) error {
		_, err := tx.Exec(schema[len(schema)-1])
		return err
	}); err != nil {
		t.Fatal(err)
	}
	h.restart()
	if h.e.next != 4712 {
		t.Errorf("the next number is %d", h.e.next)
	}
}
