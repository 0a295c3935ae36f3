package openintent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/acpd/acpd/openintent/object"
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
		c.Missed = func(ctx context.Context, _ string, who Caller, path string, _ func(string, int) error) ([]byte, error) {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/api/v1/"+path, nil)
			r.Header.Set(headerAgent, who.Agent)
			p.fromNear().ServeHTTP(w, r)
			if w.Code != 200 {
				return nil, errors.New(w.Body.String())
			}
			return w.Body.Bytes(), nil
		}
		c.Follow = func(string) (tried []<-chan struct{}) {
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
	place := p.near.e.HostPlace(farID)
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer w.Close()
		req, err := http.NewRequestWithContext(ctx, "GET", "/api/v1/subscribe/home", nil)
		if err != nil {
			t.Error(err)
		}
		req.Header.Set(headerAgent, object.Daemon)
		req.Header.Set("Last-Event-ID", place)
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
	for p.near.e.HostPlace(farID) == "" {
		synctest.Wait()
	}
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
			if f.name != object.KindMessage || f.data["id"] != all || f.data["channel_name"] != "talk" || f.data["intent_id"] != in {
				t.Errorf("%+v", f)
			}
			cursor = f.id
			if f := s.next(); f.data["id"] != direct {
				t.Errorf("%+v", f)
			}
			if f := s.next(); f.name != "STATE_CHANGED" || object.EncodeJSONText(f.data["new_state"]) != `{"a":1}` {
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
	h.from(nearHome, object.Daemon).get(ch).refused(403, "not_an_agent")
	h.from(nearHome, object.Daemon).send(ch, obj{}).refused(403, "not_an_agent")
}

// holds: security.md#in-channels
func TestRelayRefusesWhatIsNotTheHosts(t *testing.T) {
	h := start(t)
	here := h.intent("planner")
	far, ch := strings.Replace(here, hostID, farID, 1), strings.Replace(here, "intent_", "chan_", 1)
	good := `data: {"event":"comment","intent_id":"` + far + `","for":["reviewer"],"own":[],"data":{"intent_id":"` + far + `","a":1}}` + "\nid: 7\n\n"
	if err := h.e.ReceiveHostStream(t.Context(), farID, strings.NewReader(": ok\n\nevent: relay\n"+good), nil); err != nil {
		t.Fatal(err)
	}
	if place := h.e.HostPlace(farID); place != "7" {
		t.Errorf("its place is %q", place)
	}
	for _, bad := range []string{
		strings.Replace(good, farID, hostID, 1), strings.Replace(good, `"data":{"intent_id":"`+far, `"data":{"intent_id":"`+here, 1), strings.ReplaceAll(good, far, here),
		`data: {"event":"channel_message","intent_id":"` + far + `","channel_id":"` + ch + `","for":["reviewer"],"own":[],"data":{"intent_id":"` + far + `","channel_id":"` + ch + `","sender":"planner"}}` + "\nid: 8\n\n",
		`data: {"event":"channel_message","intent_id":"` + far + `","channel_id":"` + strings.Replace(ch, hostID, farID, 1) + `","for":["reviewer"],"own":[],"data":{"intent_id":"` + far + `","channel_id":"` + ch + `","sender":"planner"}}` + "\nid: 8\n\n",
		strings.Replace(good, `"comment"`, `"a\nid: 1"`, 1), strings.Replace(good, `{"intent_id":"`+far+`","a":1}`, `1`, 1),
		strings.Replace(good, `"a":1`, `"a":`+nested(2*object.MaxDepth), 1),
		strings.Replace(good, "id: 7", "id: x", 1), strings.Replace(good, "id: 7", "id: -1", 1), "data: {\n", "data: []\n", strings.Repeat("x", maxRelayed+1),
	} {
		if err := h.e.ReceiveHostStream(t.Context(), farID, strings.NewReader(bad), nil); err == nil {
			t.Errorf("%.200q was taken", bad)
		}
	}
	if place := h.e.HostPlace(farID); place != "7" {
		t.Errorf("its place is %q", place)
	}
}

func FuzzRelay(f *testing.F) {
	h := start(f)
	far := strings.Replace(h.intent("planner"), hostID, farID, 1)
	f.Add(": ok\n\nevent: relay\ndata: {\"event\":\"comment\",\"intent_id\":\"" + far + "\",\"for\":[\"reviewer\"],\"own\":[],\"data\":{\"intent_id\":\"" + far + "\",\"a\":1}}\nid: 7\n\n")
	f.Add("data: {\"event\":\"channel_message\",\"intent_id\":\"" + far + "\",\"channel_id\":\"c\",\"for\":null,\"own\":[\"x\"],\"data\":{\"intent_id\":\"" + far + "\",\"channel_id\":\"c\"}}\nid: 9223372036854775807\n\nid: 1\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		h.e.ReceiveHostStream(t.Context(), farID, strings.NewReader(stream), nil)
		if !h.e.mu.TryLock() {
			t.Fatal("the world is still locked")
		}
		h.e.mu.Unlock()
	})
}
