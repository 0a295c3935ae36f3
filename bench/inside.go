package main

import (
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

// largestInput is one of the largest inputs that a peer's agents may make. prepare makes what
// input needs, which is made once for each measurement.
type largestInput struct {
	what           string
	prepare, input func(*channelServer) error
}

// channelServer is the server of channels in this process, with the time that its writes take.
type channelServer struct {
	ctx    context.Context
	dir    string
	db     *store.DB
	engine *openintent.Engine
	stop   func() error
	here   *webAgent    // an agent of this daemon
	peer   http.Handler // for agents of the peer
	large  string       // an object of 216 KB with 16,000 members

	n               int    // of this measurement
	intent, channel string // that it has made
	id              string // of what else it is about

	mu       sync.Mutex
	longest  time.Duration // of the writes since it was last set
	computed time.Duration // the CPU time of the one that took most
}

// benchInside measures how long the longest write of each of the largest inputs of a peer's
// agents holds up all other writes of the daemon, without its commit.
func benchInside(ctx context.Context, to *report, log io.Writer) error {
	var figures []figure
	for _, in := range largestInputs {
		f := figure{what: in.what, unit: "ms", target: insideTarget}
		cpu := figure{what: "– of which CPU", unit: "ms"}
		h, err := newChannelServer(ctx)
		if err != nil {
			return err
		}
		for range insideTimes {
			took, computed, err := h.measureInput(in)
			if err != nil {
				return errors.Join(fmt.Errorf("%s: %w", in.what, err), h.close())
			}
			f.values, cpu.values = append(f.values, toMillis(took)), append(cpu.values, toMillis(computed))
		}
		if err := h.close(); err != nil {
			return err
		}
		fmt.Fprintf(log, "%s: median %.2g ms, at most %.2g; CPU %.2g, at most %.2g\n", in.what,
			summarizeValues(f.values).median, slices.Max(f.values), summarizeValues(cpu.values).median, slices.Max(cpu.values))
		figures = append(figures, f, cpu)
	}
	return to.writeFigures(figures)
}

func newChannelServer(ctx context.Context) (h *channelServer, err error) {
	h = &channelServer{ctx: ctx}
	many := make([]string, 16_000)
	for i := range many {
		many[i] = fmt.Sprintf(`"k%d":%d`, i, i)
	}
	h.large = "{" + strings.Join(many, ",") + "}"
	if h.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return nil, err
	}
	if h.db, err = store.OpenDB(ctx, filepath.Join(h.dir, "state.db")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(h.dir))
	}
	h.engine, err = openintent.NewEngine(ctx, openintent.Config{
		Store: h.db, Self: insideHere, OpenTo: func(string) bool { return true }, Inside: h.timeWrite,
		RequestTTL: time.Hour, Retention: time.Hour, MaxPayload: 256 << 10,
	})
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	h.here = newHandlerWebAgent(ctx, api.NewAPI(h.engine, nil).NewHandler(api.IdentifyLocalCaller), "planner")
	h.peer = api.NewAPI(h.engine, nil).NewHandler(func(r *http.Request) (openintent.Caller, error) { return api.IdentifyRemoteCaller(insidePeer, r) })
	runs, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- h.engine.Run(runs) }() // stop waits for it
	h.stop = func() error {
		end()
		return <-ended
	}
	return h, nil
}

func (h *channelServer) close() error {
	var err error
	if h.stop != nil {
		err = h.stop()
	}
	return errors.Join(err, h.db.Close(), os.RemoveAll(h.dir))
}

// timeWrite takes the time of a write.
func (h *channelServer) timeWrite(run func() error) error {
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

// measureInput makes one input, on an intent of its own, and returns how long the longest of
// its writes took, and the most CPU time of one.
func (h *channelServer) measureInput(in largestInput) (took, computed time.Duration, err error) {
	h.n++
	if h.intent, err = h.here.createObject("intents", `{"title":"bench"}`); err != nil {
		return 0, 0, err
	}
	if _, err = h.here.fetch("POST", "intents/"+h.intent+"/acl/entries", fmt.Sprintf(`{"principal_id":"worker","home":%q,"permission":"admin"}`, insidePeer)); err != nil {
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

// handlerTransport answers requests by a handler, without a connection.
type handlerTransport struct{ http.Handler }

func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	t.ServeHTTP(w, r)
	return w.Result(), nil
}

func newHandlerWebAgent(ctx context.Context, handler http.Handler, agent string) *webAgent {
	return &webAgent{ctx: ctx, agent: agent, Client: http.Client{Transport: handlerTransport{handler}}}
}

// newPeerWebAgent returns an agent of the peer.
func (h *channelServer) newPeerWebAgent(agent string) *webAgent {
	return newHandlerWebAgent(h.ctx, h.peer, agent)
}

// sendAsPeer makes a request of an agent of the peer, whose answer nobody reads.
func (h *channelServer) sendAsPeer(method, path, body string, header ...string) error {
	_, err := h.newPeerWebAgent("worker").fetch(method, path, body, header...)
	return err
}

// openChannel opens a channel with these options.
func (h *channelServer) openChannel(options string) (err error) {
	id, err := h.newPeerWebAgent("worker").createObject("intents/"+h.intent+"/channels", `{"name":"talk","options":{`+options+`}}`)
	h.channel = "channels/" + id
	return err
}

func (h *channelServer) sendLarge() error {
	return h.sendAsPeer("POST", h.channel+"/messages", `{"payload":`+h.large+`}`)
}

func (h *channelServer) sendManyLarge(n int) error {
	for range n {
		if err := h.sendLarge(); err != nil {
			return err
		}
	}
	return nil
}

// composePatches are as many as one request may have, of the deepest path.
func (h *channelServer) composePatches() string {
	patch := fmt.Sprintf(`{"op":"set","path":%q,"value":%d}`, deepPath+"/x", h.n)
	return `{"patches":[` + patch + strings.Repeat(","+patch, insideMany-1) + `]}`
}

var deepPath = strings.Repeat("/a", 31)

// composeEntries are as many as an access list may have.
func composeEntries() string {
	all := []string{fmt.Sprintf(`{"principal_id":"worker","home":%q,"permission":"admin"}`, insidePeer)}
	for i := range insideMany - 2 {
		all = append(all, fmt.Sprintf(`{"principal_id":"agent-%d","home":%q,"permission":"read"}`, i, insidePeer))
	}
	return `{"default_policy":"open","entries":[` + strings.Join(all, ",") + `]}`
}

// useIntentAsAgents has so many agents of the peer use the intent.
func (h *channelServer) useIntentAsAgents(n int) error {
	for i := range n {
		if _, err := h.newPeerWebAgent(fmt.Sprint("agent-", i)).fetch("GET", "intents/"+h.intent, ""); err != nil {
			return err
		}
	}
	return nil
}

// assignRoles makes all agents that a peer may have hold a role, which counts on the intent.
func (h *channelServer) assignRoles() error {
	for i := range insideMany {
		if h.n > 1 {
			break
		}
		if _, err := h.newPeerWebAgent(openintent.Daemon).fetch("PUT", fmt.Sprintf("agents/agent-%d/record", i), `{"status":"active","role_id":"welder"}`); err != nil {
			return err
		}
	}
	if err := h.sendAsPeer("POST", "intents/"+h.intent+"/acl/entries", fmt.Sprintf(`{"principal_id":"welder","principal_type":"role","home":%q,"permission":"read"}`, insidePeer)); err != nil {
		return err
	}
	return h.openChannel("")
}

// composeMembers fill a channel's object.
func composeMembers() string {
	var all []string
	for i := range 300 {
		all = append(all, fmt.Sprintf(`{"agent_id":"agent-%d","home":%q}`, i, insidePeer))
	}
	return strings.Join(all, ",")
}

// awaitGravesRemoved waits until nothing is left to be removed.
func (h *channelServer) awaitGravesRemoved() error {
	for left := 1; left > 0; time.Sleep(time.Millisecond) {
		if err := h.db.Read(h.ctx, func(tx *store.Tx) error {
			return tx.QueryRow("SELECT count(*) FROM openintent_grave").Scan(&left)
		}); err != nil {
			return err
		}
	}
	return nil
}

func prepareNothing(*channelServer) error { return nil }

var largestInputs = []largestInput{
	{"1,000 patches of a state of 216 KB", func(h *channelServer) error {
		return h.sendAsPeer("POST", "intents/"+h.intent+"/state", fmt.Sprintf(`{"patches":[{"op":"set","path":%q,"value":%s}]}`, deepPath, h.large), "If-Match", "1")
	}, func(h *channelServer) error {
		return h.sendAsPeer("POST", "intents/"+h.intent+"/state", h.composePatches(), "If-Match", "2")
	}},
	{"a state of 216 KB that replaces another", func(h *channelServer) error {
		return h.sendAsPeer("POST", "intents/"+h.intent+"/state", `{"state":{"a":`+h.large+`}}`, "If-Match", "1")
	}, func(h *channelServer) error {
		return h.sendAsPeer("POST", "intents/"+h.intent+"/state", `{"state":{"a":`+h.large+`}}`, "If-Match", "2")
	}},
	{"a message of 216 KB", func(h *channelServer) error { return h.openChannel("") }, (*channelServer).sendLarge},
	{"a message of 216 KB that is logged", func(h *channelServer) error { return h.openChannel(`"audit":true`) }, (*channelServer).sendLarge},
	{"a message of 216 KB for which others leave", func(h *channelServer) error {
		return errors.Join(h.openChannel(`"max_messages":16`), h.sendManyLarge(47))
	}, (*channelServer).sendLarge},
	{"an event of 216 KB", prepareNothing, func(h *channelServer) error {
		return h.sendAsPeer("POST", "intents/"+h.intent+"/events", `{"event_type":"comment","payload":`+h.large+`}`)
	}},
	{"a task of 63 KB", func(h *channelServer) (err error) {
		h.id, err = h.newPeerWebAgent("worker").createObject("tasks", fmt.Sprintf(`{"intent_id":%q,"name":"n"}`, h.intent))
		return err
	}, func(h *channelServer) error {
		return h.sendAsPeer("PATCH", "tasks/"+h.id, `{"input":{"x":"`+strings.Repeat("x", 63_000)+`"}}`, "If-Match", "1")
	}},
	{"a slice of a channel of 100 messages that is deleted", func(h *channelServer) error {
		return errors.Join(h.openChannel(""), h.sendManyLarge(100))
	}, func(h *channelServer) error {
		return errors.Join(h.sendAsPeer("DELETE", h.channel, ""), h.awaitGravesRemoved())
	}},
	{"an access list of 1,000 entries", prepareNothing, func(h *channelServer) error { return h.sendAsPeer("PUT", "intents/"+h.intent+"/acl", composeEntries()) }},
	{"the 1,000th entry of an access list", func(h *channelServer) error { return h.sendAsPeer("PUT", "intents/"+h.intent+"/acl", composeEntries()) }, func(h *channelServer) error {
		return h.sendAsPeer("POST", "intents/"+h.intent+"/acl/entries", fmt.Sprintf(`{"principal_id":"last","home":%q}`, insidePeer))
	}},
	{"the 1,000th agent of a daemon that uses an intent", func(h *channelServer) error { return h.useIntentAsAgents(insideMany - 2) }, func(h *channelServer) error {
		_, err := h.newPeerWebAgent("last").fetch("GET", "intents/"+h.intent, "")
		return err
	}},
	{"a message to a role that 1,000 agents hold", (*channelServer).assignRoles, func(h *channelServer) error {
		return h.sendAsPeer("POST", h.channel+"/messages", `{"to":"role:welder","payload":{}}`)
	}},
	{"a channel of 300 members", prepareNothing, func(h *channelServer) error {
		return h.sendAsPeer("POST", "intents/"+h.intent+"/channels", `{"name":"talk","member_policy":"explicit","members":[`+composeMembers()+`]}`)
	}},
	{"a channel that 300 members leave", func(h *channelServer) (err error) {
		h.channel, err = h.newPeerWebAgent("worker").createObject("intents/"+h.intent+"/channels", `{"name":"talk","members":[`+composeMembers()+`]}`)
		return err
	}, func(h *channelServer) error {
		return h.sendAsPeer("PATCH", "channels/"+h.channel, `{"remove_members":[`+composeMembers()+`]}`)
	}},
	{"the end of an intent with 1,000 channels", func(h *channelServer) error {
		for i := range insideMany {
			if _, err := h.here.createObject("intents/"+h.intent+"/channels", fmt.Sprintf(`{"name":"talk-%d"}`, i)); err != nil {
				return err
			}
		}
		return nil
	}, func(h *channelServer) error {
		return h.sendAsPeer("POST", "intents/"+h.intent+"/status", `{"status":"completed"}`, "If-Match", "1")
	}},
	{"an agent with 1,000 open requests that leaves", func(h *channelServer) error {
		if err := h.openChannel(""); err != nil {
			return err
		}
		for range insideMany {
			if err := h.sendAsPeer("POST", h.channel+"/messages", `{"message_type":"request","to":"worker","payload":{}}`); err != nil {
				return err
			}
		}
		return h.storeWorkerStatus("active")
	}, func(h *channelServer) error { return h.storeWorkerStatus("deregistered") }},
	{"an entry of 500 KB that a host relays", prepareNothing, func(h *channelServer) error {
		far := strings.Replace(h.intent, insideHere[:openintent.HostDigits], insidePeer[:openintent.HostDigits], 1)
		line := fmt.Sprintf("data: {\"event\":\"comment\",\"intent_id\":%q,\"for\":[\"planner\"],\"own\":[],\"data\":{\"intent_id\":%q,\"a\":%q}}\nid: %d\n\n",
			far, far, strings.Repeat("x", 500_000), h.n)
		return h.engine.ReceiveHostStream(h.ctx, insidePeer, strings.NewReader(line), nil)
	}},
}

// storeWorkerStatus stores what the peer says of its agent worker.
func (h *channelServer) storeWorkerStatus(status string) error {
	return h.engine.StoreAgentStates(h.ctx, insidePeer, []string{"worker"}, openintent.AgentStates{Agents: map[string]openintent.AgentState{"worker": {Status: status}}})
}
