package openintent

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/await"
)

// unlocked fails the test if somebody who has left has kept the world locked.
func (h *host) unlocked(what string) {
	h.t.Helper()
	await.Until(h.t, what+": the world is unlocked", func() bool { // others may just look at it
		free := h.e.mu.TryLock()
		if free {
			h.e.mu.Unlock()
		}
		return free
	})
}

// TestAPanicUnderTheLockLetsGoOfIt: a handler that fails while it looks at the world leaves
// it to others, who go on.
// holds: security.md#agents-on-this-machine
func TestAPanicUnderTheLockLetsGoOfIt(t *testing.T) {
	type place struct {
		h      *host
		in, ch string
		intent *intentRecord
	}
	for what, c := range map[string]struct {
		broken func(place)
		ask    func(place, *client) *answer
	}{
		"a list of agents": {
			func(p place) { p.h.e.agents[agentKey{"", "nobody"}] = nil },
			func(p place, c *client) *answer { return c.get("/agents") }},
		"a list of intents": {
			func(p place) { p.h.e.intents["nothing"] = nil },
			func(p place, c *client) *answer { return c.get("/intents") }},
		"a list of channels": {
			func(p place) { p.intent.channels = append(p.intent.channels, nil) },
			func(p place, c *client) *answer { return c.get("/intents/" + p.in + "/channels") }},
		"a message by the name of its channel": {
			func(p place) { p.intent.channels = append(p.intent.channels, nil) },
			func(p place, c *client) *answer {
				return c.post("/intents/"+p.in+"/channels/other/messages", obj{"payload": obj{}})
			}},
		"a list of tasks": {
			func(p place) { p.intent.tasks = append(p.intent.tasks, nil) },
			func(p place, c *client) *answer { return c.get("/intents/" + p.in + "/tasks") }},
		"a list of coordinators": {
			func(p place) { p.intent.coords = append(p.intent.coords, nil) },
			func(p place, c *client) *answer { return c.get("/intents/" + p.in + "/coordinators") }},
		"a list of messages": {
			func(p place) { p.intent.channels[0].recent[0] = nil },
			func(p place, c *client) *answer { return c.messages(p.ch) }},
		"a message": {
			func(p place) { p.intent.channels[0].recent[0] = nil },
			func(p place, c *client) *answer {
				return c.get(p.ch + "/messages/" + p.h.e.newMessageID(now(), 1))
			}},
	} {
		t.Run(what, func(t *testing.T) {
			h := start(t)
			in := h.intent("planner")
			p := place{h: h, in: in, ch: h.channel("planner", in, "build"), intent: h.e.intents[in]}
			h.as("planner").say(p.ch, obj{})
			c.broken(p)
			c.ask(p, h.as("planner")).refused(500, "internal")
			h.unlocked(what)
			h.as("planner").post("/agents/register", obj{"agent_id": "planner"}).ok(201)
		})
	}
}

// breaking lets a reader leave when it has got an entry.
type breaking struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
}

func (b breaking) Write(text []byte) (int, error) {
	if strings.Contains(string(text), "data: ") {
		b.leave()
	}
	return b.ResponseRecorder.Write(text)
}

// TestAPanicOfAStreamLetsGoOfTheLock: wherever a stream of another daemon's agent asks
// whether intents are open to it, and the answer fails.
func TestAPanicOfAStreamLetsGoOfTheLock(t *testing.T) {
	calls, fails := 0, 0
	h := start(t, func(c *Config) {
		c.OpenTo = func(string) bool {
			if calls++; calls == fails {
				panic("a bug")
			}
			return true
		}
	})
	in := h.intent("planner")
	ch := h.channel("planner", in, "build")
	h.as("planner").say(ch, obj{})
	worker := h.from(desk, "worker")
	worker.get(ch).ok(200)
	follow := func() (told bool) {
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler {
				panic(v)
			}
		}()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/subscribe"+ch, nil)
		r.Header.Set("Last-Event-ID", "0")
		w := breaking{httptest.NewRecorder(), leave}
		worker.handler.ServeHTTP(w, r)
		return ctx.Err() != nil
	}
	for told := false; !told; {
		calls, fails = 0, fails+1
		told = follow()
		h.unlocked("a stream")
	}
	if fails < 3 {
		t.Errorf("only %d questions were asked", fails)
	}
	fails = 0
	h.as("planner").say(ch, obj{})
}
