package openintent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json/jsontext"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/openintent"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/store"
)

var update = flag.Bool("update", false, "write testdata/recorded.txt anew")

// recorded has a line for each request that TestRecorded sends: its place in the script, method and
// path, where it came in, the status of the answer, how long it took if that was any time, the
// code of a refusal, and the keys of its JSON. Ids, which differ in each run, are replaced by
// names with numbers. A stream has the names of its events.
const recorded = "testdata/recorded.txt"

// The daemons of the record: the one that answers and three others. It knows agents of near
// by open_to, has no space on the disk for what full sends, and never reaches away.
var (
	self = "0123456789" + strings.Repeat("abcdef", 9)
	near = strings.Repeat("a", 64)
	full = strings.Repeat("f", 64)
	away = strings.Repeat("c", 64)
)

// Fixed ids of things that live at near.
func elsewhere(kind string) string {
	return kind + "_" + near[:10] + "_00VHNCZB00" + strings.Repeat("A", 16)
}

// TestRecorded compares how the whole API answers over HTTP/1.1 with what was recorded, under
// a clock that moves only between requests and while they wait. A change of answers that is
// meant is recorded by running this test with -update; then it is the diff that is reviewed.
// Who may call, and how, is in scriptCallers.
// holds: security.md#agents-on-this-machine
func TestRecorded(t *testing.T) {
	var got []string
	synctest.Test(t, func(t *testing.T) {
		handler, stop := recordedEngine(t)
		defer stop()
		r := &recorder{t: t, conns: make(chan net.Conn), known: make(map[string]string), kinds: make(map[string]int), statuses: make(map[string][]int)}
		defer r.listen(handler)()
		script(r)
		r.covers()
		got = r.entries
	})
	text := strings.Join(got, "\n") + "\n"
	if *update {
		if err := os.WriteFile(recorded, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(old) {
		t.Errorf("the answers are not as %s has them: if that is meant, run this test with -update and review the change (-recorded +answered):\n%s",
			recorded, gocmp.Diff(strings.Split(string(old), "\n"), strings.Split(text, "\n")))
	}
}

// recordedEngine returns the handler of a new engine and what ends it. Who calls is what
// [door] says. Nothing else of the record knows how a handler is made.
func recordedEngine(t *testing.T) (handler http.Handler, stop func()) {
	db, err := store.OpenDB(t.Context(), filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := openintent.NewEngine(t.Context(), openintent.Config{
		Store: db, Self: self, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		OpenTo:  func(home string) bool { return home == near },
		Petname: func(name string) bool { return name == "attic" },
		Room: func(home string) error {
			if home == full {
				return fmt.Errorf("the disk is almost full")
			}
			return nil
		},
		Gather: func(_ context.Context, who openintent.Caller, path string, _ func(string, int) error) (map[string][]byte, []string) {
			intent := fmt.Sprintf(`{"id":%q,"title":%q,"status":"draft","state":{},"constraints":{},"depends_on":[],"created_by":%q}`, elsewhere("intent"), path, who.Agent)
			lists := map[string][]byte{near: []byte(`{"intents":[` + intent + `]}`)}
			if strings.HasPrefix(path, "agents") {
				lists[near] = []byte(`[{"agent_id":"gardener","status":"active","name":"` + path + `","capabilities":[],"capacity":{},"metadata":{}}]`)
			}
			return lists, []string{away}
		},
		Unsent: func(_ context.Context, who openintent.Caller, limit int, after int64) ([]jsontext.Value, error) {
			return []jsontext.Value{fmt.Appendf(nil, `{"sender":%q,"limit":%d,"after":%d}`, who.Agent, limit, after)}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	agents := api.NewAgentIdentifier(func(agent string, _ *http.Request) error {
		if agent == "liar" {
			return &api.Error{Status: http.StatusForbidden, Code: "not_you", Message: "you may not speak for this agent"}
		}
		return nil
	})
	keys := api.NewKeyIdentifier([]api.Key{{Hash: api.HashAPIKey("for planner"), Agent: "planner"}, {Hash: api.HashAPIKey("for all")}})
	handler = api.NewAPI(e, forwarded).NewHandler(func(r *http.Request) (openintent.Caller, error) {
		switch at := r.Context().Value(door{}); at {
		case "":
			return api.IdentifyLocalCaller(r)
		case "agents":
			return agents(r)
		case "keys":
			return keys(r)
		default:
			return api.IdentifyRemoteCaller(at.(string), r)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { e.Run(ctx) })
	return handler, func() {
		cancel()
		run.Wait()
		db.Close()
	}
}

// forwarded answers in the place of another host.
func forwarded(p openintent.ForwardedRequest, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	pending := p.Pending
	if pending == nil {
		pending = jsontext.Value("null")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Forwarded", p.Host)
	fmt.Fprintf(w, `{"method":%q,"uri":%q,"caller":%q,"operator":%v,"wait":%q,"message_id":%q,"pending":%s,"body":%q,"same":%v,"error":%v}`,
		r.Method, r.RequestURI, p.Caller.Agent, p.Caller.Operator, p.Wait, p.MessageID, pending, body, bytes.Equal(body, p.Body), err != nil)
}

// door is the key of where a connection comes in: nothing, where callers are this daemon's
// user, agents, keys, or the id of another daemon.
type door struct{}

// caller is who sends a request.
type caller struct {
	door    string
	headers []string
}

var (
	nobody   = caller{}
	Operator = caller{headers: []string{"X-Operator: true"}}
	planner  = agentRecord("planner")
	reviewer = agentRecord("reviewer")
	desk     = agentRecord("desk")
)

func agentRecord(id string) caller       { return caller{headers: []string{"X-Agent-ID: " + id}} }
func at(door, id string) caller          { return caller{door, agentRecord(id).headers} }
func (c caller) with(h ...string) caller { c.headers = slices.Concat(c.headers, h); return c }

// recorder plays requests and writes down what is answered.
type recorder struct {
	t        *testing.T
	conns    chan net.Conn
	entries  []string
	known    map[string]string // what differs from run to run -> what stands for it
	kinds    map[string]int    // how many of each kind there are
	statuses map[string][]int  // method and path -> what was answered
	part     string            // of the script
	sent     int               // in it
	ops      []operation       // that the API describes

	work, secret, task, talk, club, dark, note string // ids of what the script has made
}

// opened is a connection that came in by a door.
type opened struct {
	net.Conn
	door string
}

// pipes is a listener without a network.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
	end   func()
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.end(); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// listen serves the connections that are opened until stop is called.
func (r *recorder) listen(handler http.Handler) (stop func()) {
	ended := make(chan struct{})
	srv := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.NewTextHandler(r.t.Output(), nil), slog.LevelError),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, door{}, c.(opened).door)
		}}
	var served sync.WaitGroup
	served.Go(func() { srv.Serve(&pipes{r.conns, ended, sync.OnceFunc(func() { close(ended) })}) })
	return func() {
		srv.Close()
		served.Wait()
		synctest.Wait()
	}
}

// differs finds what is another in each run.
var differs = regexp.MustCompile(`([a-z0-9%]+)_([0-9a-f]{10})_[0-9A-HJKMNP-TV-Z]{26}\b`)

// named puts names in the place of ids.
func (r *recorder) named(text string) string {
	return differs.ReplaceAllStringFunc(text, func(id string) string {
		if r.known[id] == "" {
			m := differs.FindStringSubmatch(id)
			r.kinds[m[1]]++
			if r.known[id] = fmt.Sprintf("%s#%d", m[1], r.kinds[m[1]]); m[2] != self[:10] {
				r.known[id] += "@" + m[2]
			}
		}
		return r.known[id]
	})
}

// keysOf describes the body of an answer: the code of a refusal and the keys of an object, the
// number of elements of an array and the keys of the first, or the events of a stream.
func keysOf(body []byte) string {
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil {
		if len(list) == 0 {
			return "[]"
		}
		return fmt.Sprintf("[%d %s]", len(list), keysOf(list[0]))
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(body, &all) == nil {
		keys := strings.Join(slices.Sorted(maps.Keys(all)), ",")
		var code string
		if json.Unmarshal(all["error"], &code) == nil && code != "" {
			return code + " " + keys
		}
		return keys
	}
	var events []string
	for line := range strings.Lines(string(body)) {
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			events = append(events, strings.TrimSpace(name))
		}
	}
	return strings.Join(events, ",")
}

// operation is a method and a path of the API's description.
type operation struct {
	method, path string
	form         *regexp.Regexp
	args         int
}

// operations reads the API's description.
func (x *exchange) operations() (all []operation) {
	var doc struct {
		Paths map[string]map[string]jsontext.Value `json:"paths"`
	}
	if err := json.Unmarshal(x.body, &doc); err != nil {
		x.t.Fatal(err)
	}
	arg := regexp.MustCompile(`\\\{[a-z]+\\\}`)
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			form := regexp.MustCompile("^" + arg.ReplaceAllString(regexp.QuoteMeta(path), "[^/]+") + "$")
			all = append(all, operation{strings.ToUpper(method), path, form, strings.Count(path, "{")})
		}
	}
	return all
}

// covers fails the test unless each operation that the API describes has succeeded and has
// been refused.
func (r *recorder) covers() {
	all := r.ops
	answered := make(map[string][]int)
	for request, statuses := range r.statuses {
		method, path, _ := strings.Cut(request, " ")
		if rest, ok := strings.CutPrefix(path, "/v1/"); ok {
			path = "/api/v1/" + rest
		}
		var best *operation
		for i, op := range all {
			if op.method == method && op.form.MatchString(path) && (best == nil || op.args < best.args) {
				best = &all[i]
			}
		}
		if best != nil {
			answered[best.method+" "+best.path] = append(answered[best.method+" "+best.path], statuses...)
		}
	}
	for _, op := range all {
		name := op.method + " " + op.path
		if !slices.ContainsFunc(answered[name], func(s int) bool { return s < 300 }) {
			r.t.Errorf("%s never succeeds in the script", name)
		}
		if strings.HasPrefix(op.path, "/api/") && !slices.ContainsFunc(answered[name], func(s int) bool { return s >= 400 }) {
			r.t.Errorf("%s is never refused in the script", name)
		}
	}
}
