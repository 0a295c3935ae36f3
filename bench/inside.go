package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/store"
)

const (
	insideTimes  = 11 // each input
	insideTarget = 5  // ms
	insideMany   = 1000
	insideHere   = "0123456789abcdefabcdefabcdefabcdefabcdefabcdefabcdefabcdefabcdef"
	insidePeer   = "de5c000000abcdefabcdefabcdefabcdefabcdefabcdefabcdefabcdefabcdef"
)

// largest is one of the largest inputs that a peer's agents may make. prepare makes what
// input needs, which is made once for each measurement.
type largest struct {
	what           string
	prepare, input func(*hall) error
}

// hall is the server of channels in this process, with the time that its writes take.
type hall struct {
	ctx        context.Context
	dir        string
	db         *store.DB
	engine     *openintent.Engine
	stop       func() error
	here, peer http.Handler
	large      string // an object of 216 KB with 16,000 members

	n               int    // of this measurement
	intent, channel string // that it has made
	id              string // of what else it is about

	mu       sync.Mutex
	longest  time.Duration // of the writes since it was last set
	computed time.Duration // the CPU time of the one that took most
}

// inside measures how long the longest write of each of the largest inputs of a peer's
// agents holds up all other writes of the daemon, without its commit.
func inside(ctx context.Context, out, log io.Writer) error {
	var figures []figure
	for _, in := range largestInputs {
		f := figure{what: in.what, unit: "ms", target: insideTarget}
		cpu := figure{what: "– of which CPU", unit: "ms"}
		h, err := newHall(ctx)
		if err != nil {
			return err
		}
		for range insideTimes {
			took, computed, err := h.measure(in)
			if err != nil {
				return errors.Join(fmt.Errorf("%s: %w", in.what, err), h.close())
			}
			f.values, cpu.values = append(f.values, millis(took)), append(cpu.values, millis(computed))
		}
		if err := h.close(); err != nil {
			return err
		}
		fmt.Fprintf(log, "%s: median %.2g ms, at most %.2g; CPU %.2g, at most %.2g\n", in.what,
			spreadOf(f.values).median, slices.Max(f.values), spreadOf(cpu.values).median, slices.Max(cpu.values))
		figures = append(figures, f, cpu)
	}
	return reportFigures(out, figures)
}

func newHall(ctx context.Context) (h *hall, err error) {
	h = &hall{ctx: ctx}
	many := make([]string, 16_000)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	h.large = "{" + strings.Join(many, ",") + "}"
	if h.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return nil, err
	}
	if h.db, err = store.Open(ctx, filepath.Join(h.dir, "state.db")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(h.dir))
	}
	h.engine, err = openintent.New(ctx, openintent.Config{
		Store: h.db, Self: insideHere, OpenTo: func(string) bool { return true }, Inside: h.time,
		RequestTTL: time.Hour, Retention: time.Hour, MaxPayload: 256 << 10,
	})
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	h.here = api.New(h.engine, api.Config{}).Handler(api.Local)
	h.peer = api.New(h.engine, api.Config{}).Handler(func(r *http.Request) (openintent.Caller, error) { return api.Remote(insidePeer, r) })
	runs, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- h.engine.Run(runs) }() // stop waits for it
	h.stop = func() error {
		end()
		return <-ended
	}
	return h, nil
}

func (h *hall) close() error {
	var err error
	if h.stop != nil {
		err = h.stop()
	}
	return errors.Join(err, h.db.Close(), os.RemoveAll(h.dir))
}

// time takes the time of a write.
func (h *hall) time(run func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, computed := time.Now(), threadTime()
	err := run()
	took := time.Since(began)
	computed = threadTime() - computed
	h.mu.Lock()
	defer h.mu.Unlock()
	h.longest, h.computed = max(h.longest, took), max(h.computed, computed)
	return err
}

// measure makes one input, on an intent of its own, and returns how long the longest of
// its writes took, and the most CPU time of one.
func (h *hall) measure(in largest) (took, computed time.Duration, err error) {
	h.n++
	if h.intent, err = h.made(h.here, "planner", "intents", `{"title":"bench"}`); err != nil {
		return 0, 0, err
	}
	if _, err = h.do(h.here, "planner", "POST", "intents/"+h.intent+"/acl/entries", fmt.Sprintf(`{"principal_id":"worker","home":%q,"permission":"admin"}`, insidePeer)); err != nil {
		return 0, 0, err
	}
	if err := in.prepare(h); err != nil {
		return 0, 0, err
	}
	h.mu.Lock()
	h.longest, h.computed = 0, 0
	h.mu.Unlock()
	err = in.input(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.longest, h.computed, err
}

// do makes a request and returns its answer.
func (h *hall) do(handler http.Handler, agent, method, path, body string, header ...string) ([]byte, error) {
	r := httptest.NewRequestWithContext(h.ctx, method, "/api/v1/"+path, strings.NewReader(body))
	r.Header.Set("X-Agent-ID", agent)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code >= 300 {
		return nil, fmt.Errorf("%s %s: %d %s", method, path, w.Code, bytes.TrimSpace(w.Body.Bytes()))
	}
	return w.Body.Bytes(), nil
}

// made is do for what makes something, and returns its id.
func (h *hall) made(handler http.Handler, agent, path, body string) (string, error) {
	answer, err := h.do(handler, agent, "POST", path, body)
	if err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"id"`
	}
	return made.ID, json.Unmarshal(answer, &made)
}

// say is do for an agent of the peer, without its answer.
func (h *hall) say(method, path, body string, header ...string) error {
	_, err := h.do(h.peer, "worker", method, path, body, header...)
	return err
}

// open opens a channel with these options.
func (h *hall) open(options string) (err error) {
	id, err := h.made(h.peer, "worker", "intents/"+h.intent+"/channels", `{"name":"talk","options":{`+options+`}}`)
	h.channel = "channels/" + id
	return err
}

func (h *hall) send() error {
	return h.say("POST", h.channel+"/messages", `{"payload":`+h.large+`}`)
}

// patches are as many as one request may have, of the deepest path.
func (h *hall) patches() string {
	patch := fmt.Sprintf(`{"op":"set","path":%q,"value":%d}`, deepPath+"/x", h.n)
	return `{"patches":[` + patch + strings.Repeat(","+patch, insideMany-1) + `]}`
}

var deepPath = strings.Repeat("/a", 31)

// entries are as many as an access list may have.
func entries() string {
	all := []string{fmt.Sprintf(`{"principal_id":"worker","home":%q,"permission":"admin"}`, insidePeer)}
	for i := range insideMany - 2 {
		all = append(all, fmt.Sprintf(`{"principal_id":"agent-%d","home":%q,"permission":"read"}`, i, insidePeer))
	}
	return `{"default_policy":"open","entries":[` + strings.Join(all, ",") + `]}`
}

// come has so many agents of the peer use the intent.
func (h *hall) come(n int) error {
	for i := range n {
		if _, err := h.do(h.peer, fmt.Sprint("agent-", i), "GET", "intents/"+h.intent, ""); err != nil {
			return err
		}
	}
	return nil
}

// enrol makes all agents that a peer may have hold a role, which counts on the intent.
func (h *hall) enrol() error {
	for i := range insideMany {
		if h.n > 1 {
			break
		}
		if _, err := h.do(h.peer, openintent.Daemon, "PUT", fmt.Sprintf("agents/agent-%d/record", i), `{"status":"active","role_id":"welder"}`); err != nil {
			return err
		}
	}
	if err := h.say("POST", "intents/"+h.intent+"/acl/entries", fmt.Sprintf(`{"principal_id":"welder","principal_type":"role","home":%q,"permission":"read"}`, insidePeer)); err != nil {
		return err
	}
	return h.open("")
}

// members fill a channel's object.
func members() string {
	var all []string
	for i := range 300 {
		all = append(all, fmt.Sprintf(`{"agent_id":"agent-%d","home":%q}`, i, insidePeer))
	}
	return strings.Join(all, ",")
}

// swept waits until nothing is left to be removed.
func (h *hall) swept() error {
	for left := 1; left > 0; time.Sleep(time.Millisecond) {
		if err := h.db.Read(h.ctx, func(tx *store.Tx) error {
			return tx.QueryRow("SELECT count(*) FROM openintent_grave").Scan(&left)
		}); err != nil {
			return err
		}
	}
	return nil
}

func nothing(*hall) error { return nil }

var largestInputs = []largest{
	{"1,000 patches of a state of 216 KB", func(h *hall) error {
		return h.say("POST", "intents/"+h.intent+"/state", fmt.Sprintf(`{"patches":[{"op":"set","path":%q,"value":%s}]}`, deepPath, h.large), "If-Match", "1")
	}, func(h *hall) error { return h.say("POST", "intents/"+h.intent+"/state", h.patches(), "If-Match", "2") }},
	{"a state of 216 KB that replaces another", func(h *hall) error {
		return h.say("POST", "intents/"+h.intent+"/state", `{"state":{"a":`+h.large+`}}`, "If-Match", "1")
	}, func(h *hall) error {
		return h.say("POST", "intents/"+h.intent+"/state", `{"state":{"a":`+h.large+`}}`, "If-Match", "2")
	}},
	{"a message of 216 KB", func(h *hall) error { return h.open("") }, (*hall).send},
	{"a message of 216 KB that is logged", func(h *hall) error { return h.open(`"audit":true`) }, (*hall).send},
	{"a message of 216 KB for which others leave", func(h *hall) error {
		if err := h.open(`"max_messages":16`); err != nil {
			return err
		}
		for range 47 {
			if err := h.send(); err != nil {
				return err
			}
		}
		return nil
	}, (*hall).send},
	{"an event of 216 KB", nothing, func(h *hall) error {
		return h.say("POST", "intents/"+h.intent+"/events", `{"event_type":"comment","payload":`+h.large+`}`)
	}},
	{"a task of 63 KB", func(h *hall) (err error) {
		h.id, err = h.made(h.peer, "worker", "tasks", fmt.Sprintf(`{"intent_id":%q,"name":"n"}`, h.intent))
		return err
	}, func(h *hall) error {
		return h.say("PATCH", "tasks/"+h.id, `{"input":{"x":"`+strings.Repeat("x", 63_000)+`"}}`, "If-Match", "1")
	}},
	{"a slice of a channel of 100 messages that is deleted", func(h *hall) error {
		if err := h.open(""); err != nil {
			return err
		}
		for range 100 {
			if err := h.send(); err != nil {
				return err
			}
		}
		return nil
	}, func(h *hall) error {
		if err := h.say("DELETE", h.channel, ""); err != nil {
			return err
		}
		return h.swept()
	}},
	{"an access list of 1,000 entries", nothing, func(h *hall) error { return h.say("PUT", "intents/"+h.intent+"/acl", entries()) }},
	{"the 1,000th entry of an access list", func(h *hall) error { return h.say("PUT", "intents/"+h.intent+"/acl", entries()) }, func(h *hall) error {
		return h.say("POST", "intents/"+h.intent+"/acl/entries", fmt.Sprintf(`{"principal_id":"last","home":%q}`, insidePeer))
	}},
	{"the 1,000th agent of a daemon that uses an intent", func(h *hall) error { return h.come(insideMany - 2) }, func(h *hall) error {
		_, err := h.do(h.peer, "last", "GET", "intents/"+h.intent, "")
		return err
	}},
	{"a message to a role that 1,000 agents hold", (*hall).enrol, func(h *hall) error {
		return h.say("POST", h.channel+"/messages", `{"to":"role:welder","payload":{}}`)
	}},
	{"a channel of 300 members", nothing, func(h *hall) error {
		return h.say("POST", "intents/"+h.intent+"/channels", `{"name":"talk","member_policy":"explicit","members":[`+members()+`]}`)
	}},
	{"a channel that 300 members leave", func(h *hall) (err error) {
		h.channel, err = h.made(h.peer, "worker", "intents/"+h.intent+"/channels", `{"name":"talk","members":[`+members()+`]}`)
		return err
	}, func(h *hall) error {
		return h.say("PATCH", "channels/"+h.channel, `{"remove_members":[`+members()+`]}`)
	}},
	{"the end of an intent with 1,000 channels", func(h *hall) error {
		for i := range insideMany {
			if _, err := h.made(h.here, "planner", "intents/"+h.intent+"/channels", fmt.Sprintf(`{"name":"talk-%d"}`, i)); err != nil {
				return err
			}
		}
		return nil
	}, func(h *hall) error {
		return h.say("POST", "intents/"+h.intent+"/status", `{"status":"completed"}`, "If-Match", "1")
	}},
	{"an agent with 1,000 open requests that leaves", func(h *hall) error {
		if err := h.open(""); err != nil {
			return err
		}
		for range insideMany {
			if err := h.say("POST", h.channel+"/messages", `{"message_type":"request","to":"worker","payload":{}}`); err != nil {
				return err
			}
		}
		_, err := h.do(h.peer, openintent.Daemon, "PUT", "agents/worker/record", `{"status":"active"}`)
		return err
	}, func(h *hall) error {
		_, err := h.do(h.peer, openintent.Daemon, "PUT", "agents/worker/record", `{"status":"deregistered"}`)
		return err
	}},
	{"an entry of 500 KB that a host relays", nothing, func(h *hall) error {
		far := strings.Replace(h.intent, insideHere[:openintent.HostDigits], insidePeer[:openintent.HostDigits], 1)
		line := fmt.Sprintf("data: {\"event\":\"comment\",\"intent_id\":%q,\"for\":[\"planner\"],\"own\":[],\"data\":{\"intent_id\":%q,\"a\":%q}}\nid: %d\n\n",
			far, far, strings.Repeat("x", 500_000), h.n)
		return h.engine.Relay(h.ctx, insidePeer, strings.NewReader(line))
	}},
}
