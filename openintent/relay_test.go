package openintent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/acpd/acpd/integration/statedb"
)

// pair is two daemons: intents live on far, agents talk to near.
type pair struct {
	near, far *host
	mu        sync.Mutex
	follows   int
	cut       context.CancelFunc // ends the stream between them
	cutOff    chan struct{}
}

const farID, nearHome = "fedcba9876", hostID + idRest

// NearHome is nearHome for the tests that know the HTTP API.
const NearHome = nearHome

func newPair(t *testing.T) *pair {
	p := &pair{cut: func() {}}
	p.far = start(t, func(c *Config) { c.Self, c.OpenTo = farID+idRest, func(home string) bool { return home == nearHome } })
	p.near = start(t, func(c *Config) {
		c.Follow = func(string, bool) (tried []<-chan struct{}) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.follows++; p.cutOff == nil {
				p.follow(t)
			}
			return nil
		}
	})
	p.near.forward = func(forwarded ForwardedRequest, w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.Header.Set(headerAgent, forwarded.Caller.Agent)
		p.fromNear().ServeHTTP(w, r)
	}
	p.near.h = p.near.handler(front.local)
	return p
}

func (p *pair) fromNear() http.Handler {
	return p.far.handler(front.remote)
}

// follow opens the one stream from far to near.
func (p *pair) follow(t *testing.T) {
	var ctx context.Context
	ctx, p.cut = context.WithCancel(context.Background())
	p.cutOff = make(chan struct{})
	r, w := io.Pipe()
	out := &pipe{PipeWriter: w, header: http.Header{}, flushed: make(chan struct{})}
	cursor, err := p.near.e.ReadStreamCursor(ctx, farID)
	if err != nil {
		t.Error(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer w.Close()
		req, err := http.NewRequestWithContext(ctx, "GET", "/api/v1/subscribe/home", nil)
		if err != nil {
			t.Error(err)
		}
		req.Header.Set(headerAgent, Daemon)
		req.Header.Set("Last-Event-ID", cursor)
		p.fromNear().ServeHTTP(out, req)
	}()
	go func(done chan struct{}) {
		defer close(done)
		if err := p.near.e.ReceiveHostStream(context.Background(), farID, r, nil); err != nil {
			t.Error(err)
		}
		<-served
	}(p.cutOff)
	<-out.flushed
}

func (p *pair) disconnect() {
	p.cut()
	<-p.cutOff
	p.cutOff = nil
}

func TestOneStreamServesAHomesAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		in := p.far.intent("planner")
		ch := p.far.channel("planner", in, "talk")
		planner := p.far.as("planner")
		planner.post("/intents/"+in+"/agents", obj{"agent_id": "reviewer", "home": nearHome}).ok(201)

		for _, agent := range []string{"reviewer", "desk"} {
			p.near.as(agent).get(ch).ok(200) // which binds them
		}
		synctest.Wait() // what that tells has come before there are streams
		own := p.near.follow(p.near.as("reviewer"), "/agents/reviewer/subscribe")
		streams := []*stream{
			p.near.follow(p.near.as("reviewer"), "/intents/"+in+"/subscribe"),
			p.near.follow(p.near.as("desk"), "/subscribe/intents/"+in),
			p.near.follow(p.near.as("desk"), "/subscribe"+ch),
		}
		if p.follows == 0 {
			t.Error("nobody has followed the host")
		}
		all := planner.say(ch, obj{"message_type": "broadcast"})
		direct := planner.say(ch, obj{"to": "reviewer"})
		planner.say(ch, obj{"to": "lamp"}) // who is not at home there
		planner.with("If-Match", "1").post("/intents/"+in+"/state", obj{"patches": []obj{{"op": "set", "path": "a", "value": 1}}}).ok(200)
		reviewer, desk, channel := streams[0], streams[1], streams[2]
		var cursor string
		for _, s := range []*stream{own, reviewer} {
			f := s.next()
			if f.name != kindMessage || f.data["id"] != all || f.data["channel_name"] != "talk" || f.data["intent_id"] != in {
				t.Errorf("%+v", f)
			}
			cursor = f.id
			if f := s.next(); f.data["id"] != direct {
				t.Errorf("%+v", f)
			}
			if f := s.next(); f.name != "STATE_CHANGED" || encodeJSONText(f.data["new_state"]) != `{"a":1}` {
				t.Errorf("%+v", f)
			}
		}
		if f := desk.next(); f.data["id"] != all {
			t.Errorf("%+v", f)
		}
		if f := desk.next(); f.name != "state_patched" {
			t.Errorf("%+v", f)
		}
		if f := channel.next(); f.data["id"] != all {
			t.Errorf("%+v", f)
		}
		synctest.Wait()
		for _, s := range append(streams, own) {
			if s.pending() > 0 {
				t.Errorf("also %+v", s.next())
			}
			s.stop()
		}
		// What came while the daemons did not reach each other comes afterwards,
		// once, to agents that resume.
		p.disconnect()
		missed := planner.say(ch, obj{"to": "reviewer"})
		p.near.restart()
		defer p.near.run()() // follows those that it knows
		synctest.Wait()
		own = p.near.followFrom(p.near.as("reviewer"), "/agents/reviewer/subscribe", cursor)
		for _, want := range []any{direct, nil, missed} {
			if f := own.next(); f.data["id"] != want {
				t.Errorf("resumed with %+v, want %v", f, want)
			}
		}
		synctest.Wait()
		if own.pending() > 0 {
			t.Errorf("also %+v", own.next())
		}
		own.stop()
		// Who is not let in is told so.
		closed := p.far.closedIntent("planner")
		p.near.as("desk").get("/intents/"+closed+"/subscribe").refused(404, "not_found")
		p.disconnect()
	})
}

func TestOnlyDaemonsFollowHomes(t *testing.T) {
	h, _, ch := team(t)
	h.as("planner").get("/subscribe/home").refused(403, "not_an_agent")
	h.as("").get("/subscribe/home").refused(403, "not_an_agent")
	h.from(nearHome, Daemon).get(ch).refused(403, "not_an_agent")
	h.from(nearHome, Daemon).send(ch, obj{}).refused(403, "not_an_agent")
}

func TestRelayRefusesWhatIsNotTheHosts(t *testing.T) {
	h := start(t)
	here := h.intent("planner")
	far, ch := strings.Replace(here, hostID, farID, 1), strings.Replace(here, "intent_", "chan_", 1)
	good := `data: {"event":"comment","intent_id":"` + far + `","for":["reviewer"],"own":[],"data":{"intent_id":"` + far + `","a":1}}` + "\nid: 7\n\n"
	if err := h.e.ReceiveHostStream(t.Context(), farID, strings.NewReader(": ok\n\nevent: relay\n"+good), nil); err != nil {
		t.Fatal(err)
	}
	if cursor, err := h.e.ReadStreamCursor(t.Context(), farID); cursor != "7" || err != nil {
		t.Errorf("cursor %q, %v", cursor, err)
	}
	for _, bad := range []string{
		strings.Replace(good, farID, hostID, 1), strings.Replace(good, `"data":{"intent_id":"`+far, `"data":{"intent_id":"`+here, 1), strings.ReplaceAll(good, far, here),
		`data: {"event":"channel_message","intent_id":"` + far + `","channel_id":"` + ch + `","for":["reviewer"],"own":[],"data":{"intent_id":"` + far + `","channel_id":"` + ch + `","sender":"planner"}}` + "\nid: 8\n\n",
		`data: {"event":"channel_message","intent_id":"` + far + `","channel_id":"` + strings.Replace(ch, hostID, farID, 1) + `","for":["reviewer"],"own":[],"data":{"intent_id":"` + far + `","channel_id":"` + ch + `","sender":"planner"}}` + "\nid: 8\n\n",
		strings.Replace(good, `"comment"`, `"a\nid: 1"`, 1), strings.Replace(good, `{"intent_id":"`+far+`","a":1}`, `1`, 1),
		strings.Replace(good, `"a":1`, `"a":`+nested(2*MaxDepth), 1),
		strings.Replace(good, "id: 7", "id: x", 1), strings.Replace(good, "id: 7", "id: -1", 1), "data: {\n", "data: []\n", strings.Repeat("x", maxRelayed+1),
	} {
		if err := h.e.ReceiveHostStream(t.Context(), farID, strings.NewReader(bad), nil); err == nil {
			t.Errorf("%.200q was taken", bad)
		}
	}
	if cursor, _ := h.e.ReadStreamCursor(t.Context(), farID); cursor != "7" {
		t.Errorf("cursor %q", cursor)
	}
}

// What a write has lost of a host comes again: its place is after what was kept.
func TestRelayLosesNothingThatWasNotKept(t *testing.T) {
	lost, fail := errors.New("lost"), false
	h := start(t, func(c *Config) {
		c.Inside = func(run func() error) error {
			if fail {
				fail = false // the disk is full for one write
				return lost
			}
			return run()
		}
	})
	far := strings.Replace(h.intent("planner"), hostID, farID, 1)
	entry := func(n int) string {
		return fmt.Sprintf("data: {\"event\":\"comment\",\"intent_id\":%q,\"for\":[\"reviewer\"],\"own\":[],\"data\":{\"intent_id\":%q,\"n\":%d}}\nid: %d\n\n", far, far, n, n)
	}
	if err := h.e.ReceiveHostStream(t.Context(), farID, strings.NewReader(entry(7)), nil); err != nil {
		t.Fatal(err)
	}
	fail = true
	if err := h.e.ReceiveHostStream(t.Context(), farID, strings.NewReader(entry(8)), nil); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	if cursor, err := h.e.ReadStreamCursor(t.Context(), farID); cursor != "7" || err != nil {
		t.Errorf("cursor %q, %v: what was lost does not come again", cursor, err)
	}
}

// A stream has begun once its place is kept, also if the host's feed is empty.
func TestRelayBeginsOnceItsPlaceIsKept(t *testing.T) {
	lost, fail := errors.New("lost"), true
	h := start(t, func(c *Config) {
		c.Inside = func(run func() error) error {
			if fail {
				return lost
			}
			return run()
		}
	})
	begun := 0
	receive := func() error {
		return h.e.ReceiveHostStream(t.Context(), farID, strings.NewReader(": ok\n\nid: 0\n\nid: 1\n\n"), func() {
			if cursor, err := h.e.ReadStreamCursor(t.Context(), farID); cursor != "0" || err != nil {
				t.Errorf("it has begun, and its place is %q, %v", cursor, err)
			}
			begun++
		})
	}
	if err := receive(); !errors.Is(err, lost) || begun != 0 {
		t.Errorf("without a write it has begun %d times: %v", begun, err)
	}
	fail = false
	if err := receive(); err != nil || begun != 1 {
		t.Errorf("it has begun %d times: %v", begun, err)
	}
	if cursor, err := h.e.ReadStreamCursor(t.Context(), farID); cursor != "1" || err != nil {
		t.Errorf("cursor %q, %v", cursor, err)
	}
}

func FuzzRelay(f *testing.F) {
	h := start(f)
	far := strings.Replace(h.intent("planner"), hostID, farID, 1)
	f.Add(": ok\n\nevent: relay\ndata: {\"event\":\"comment\",\"intent_id\":\"" + far + "\",\"for\":[\"reviewer\"],\"own\":[],\"data\":{\"intent_id\":\"" + far + "\",\"a\":1}}\nid: 7\n\n")
	f.Add("data: {\"event\":\"channel_message\",\"intent_id\":\"" + far + "\",\"channel_id\":\"c\",\"for\":null,\"own\":[\"x\"],\"data\":{\"intent_id\":\"" + far + "\",\"channel_id\":\"c\"}}\nid: 9223372036854775807\n\nid: 1\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		before := h.e.feed.next
		err := h.e.ReceiveHostStream(t.Context(), farID, strings.NewReader(stream), nil)
		if told := h.e.feed.next - before; told > int64(strings.Count(stream, "id: ")) {
			t.Errorf("%d entries from %q, %v", told, stream, err)
		}
	})
}

func TestRelayedEntriesAreBounded(t *testing.T) {
	h := start(t)
	far := strings.Replace(h.intent("planner"), hostID, farID, 1)
	const n, size = 4 * relayStep, 32 << 20 / (2 * relayStep)
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "data: {\"event\":\"comment\",\"intent_id\":%q,\"for\":[\"reviewer\"],\"own\":[],\"data\":{\"intent_id\":%q,\"a\":%q}}\nid: %d\n\n", far, far, strings.Repeat("x", size), i+1)
	}
	if err := h.e.ReceiveHostStream(t.Context(), farID, strings.NewReader(b.String()), nil); err != nil {
		t.Fatal(err)
	}
	var kept int
	statedb.Query(t, h.db, &kept, "SELECT count(*) FROM openintent_relayed")
	if kept < relayStep || kept > 3*relayStep {
		t.Errorf("%d of %d entries of %d bytes are kept", kept, n, size)
	}
	if cursor, err := h.e.ReadStreamCursor(t.Context(), farID); cursor != fmt.Sprint(n) || err != nil {
		t.Errorf("cursor %q, %v", cursor, err)
	}
}
