package daemon

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/daemon/local"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/openintent/api"
)

type object = map[string]any

// web is an agent that speaks HTTP to its daemon.
type web struct {
	t     testing.TB
	base  string
	agent string
	mute  bool // says not who it is
	key   string
	http.Client
}

// web returns an agent on http.sock; without a name it is the operator.
func (r *running) web(agent string) *web {
	path := filepath.Join(r.dir, "http.sock")
	return &web{t: r.t, base: "http://acpd", agent: agent, Client: http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}}
}

func (w *web) do(method, path string, body any) *http.Response {
	w.t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			w.t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.base+"/api/v1/"+path, strings.NewReader(string(text)))
	if err != nil {
		w.t.Fatal(err)
	}
	if w.agent != "" {
		r.Header.Set("X-Agent-ID", w.agent)
	} else if !w.mute {
		r.Header.Set("X-Operator", "true")
	}
	if w.key != "" {
		r.Header.Set("X-API-Key", w.key)
	}
	answer, err := w.Do(r)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer
}

// must makes a request that is answered with the status, and returns its object.
func (w *web) must(status int, method, path string, body any) object {
	w.t.Helper()
	answer := w.do(method, path, body)
	defer answer.Body.Close()
	var got object
	if err := json.UnmarshalRead(answer.Body, &got); err != nil || answer.StatusCode != status {
		w.t.Fatalf("%s %s: %s, want %d: %v: %v", method, path, answer.Status, status, got, err)
	}
	return got
}

// Programs that cannot use a unix socket come over loopback, with a key that says
// who they are.
func TestChannelsOverTCPNeedAKey(t *testing.T) {
	t.Parallel()
	desk := startConfigured(t, "desk", "channels:\n  listen: 127.0.0.1:0\n  keys:\n  - {sha256: "+api.HashAPIKey("bound")+", agent: planner}\n  - {sha256: "+api.HashAPIKey("any")+"}\n")
	at := &web{t: t, base: "http://" + desk.channels.Listeners[2].Addr().String()}
	for _, test := range []struct {
		key, agent string
		mute       bool
		status     int
	}{
		{"", "planner", false, 401}, {"wrong", "planner", false, 401}, {"bound", "reviewer", false, 403}, {"bound", "", false, 403},
		{"bound", "", true, 201}, {"bound", "planner", false, 201}, {"any", "reviewer", false, 201}, {"any", "", false, 201}, {"any", "", true, 400},
	} {
		at.key, at.agent, at.mute = test.key, test.agent, test.mute
		got := at.must(test.status, "POST", "intents", object{"title": "Ship it"})
		if by := map[string]string{"bound": "planner", "any": test.agent}[test.key]; test.status == 201 && by != "" && got["created_by"] != by {
			t.Errorf("key %q, agent %q: made by %v", test.key, test.agent, got["created_by"])
		}
	}
}

// A daemon that ends finishes its event streams as HTTP wants it: clients then
// come back instead of giving up.
func TestAnEventStreamEndsWithTheDaemon(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	planner := desk.web("planner")
	intent := planner.must(201, "POST", "intents", object{"title": "Ship it"})["id"].(string)
	stream := desk.web("reviewer").do("GET", "intents/"+intent+"/subscribe", nil)
	defer stream.Body.Close()
	planner.must(201, "POST", "intents/"+intent+"/channels/build/messages", object{"message_type": "notify", "payload": object{"n": 1}})
	lines := bufio.NewReader(stream.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "event: ") {
			break
		}
	}
	desk.stop()
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
}

// openTo makes the daemon's open intents open to the agents of others, at once.
func (r *running) openTo(names string) {
	r.t.Helper()
	writeConfig(r.t, r.dir, "channels: {open_to: ["+names+"]}\n")
	if _, err := r.reloadConfig(); err != nil {
		r.t.Fatal(err)
	}
}

// An agent talks to its own daemon about an intent that lives on another.
func TestChannelsAcrossMachines(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := desk.web("planner"), laptop.web("reviewer")
	intent := planner.must(201, "POST", "intents", object{"title": "Ship it"})["id"].(string)
	reviewer.must(404, "GET", "intents/"+intent, nil)
	desk.openTo("laptop")
	planner.must(201, "POST", "intents/"+intent+"/channels", object{"name": "build"})
	stream := reviewer.do("GET", "intents/"+intent+"/subscribe", nil)
	defer stream.Body.Close()
	asked := make(chan object, 1)
	go func() {
		defer close(asked)
		lines := bufio.NewScanner(stream.Body)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			var m object
			if ok && json.Unmarshal([]byte(data), &m) == nil && m["message_type"] == "request" {
				asked <- m
			}
		}
	}()
	answer := make(chan object, 1)
	go func() {
		for m := range asked {
			answer <- reviewer.must(201, "POST", "channels/"+m["channel_id"].(string)+"/messages/"+m["id"].(string)+"/reply", object{"payload": object{"answer": 42}})
			return
		}
	}()
	channel := planner.do("GET", "intents/"+intent+"/channels", nil)
	var list []object
	if err := json.UnmarshalRead(channel.Body, &list); err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	channel.Body.Close()
	got := planner.must(200, "POST", "channels/"+list[0]["id"].(string)+"/ask", object{"to": "reviewer", "payload": object{"q": "?"}, "timeout": 15})
	if got["sender"] != "reviewer@"+laptop.ID().String() || got["payload"].(object)["answer"] != 42.0 {
		t.Errorf("%v", got)
	}
	await.Receive(t, "answer", answer)
	laptop.web("").must(403, "GET", "intents/"+intent, nil) // operators are so at home alone
	planner.must(422, "POST", "intents/"+intent+"/channels/build/messages", object{"to": "reviewer@laptop", "payload": object{}})
	desk.web("reviewer").must(201, "POST", "intents/"+intent+"/channels/build/messages", object{"message_type": "notify", "payload": object{}})
	reviewer.must(409, "GET", "intents/"+intent, nil)
	desk.openTo("")
	laptop.web("welder").must(404, "GET", "intents/"+intent, nil)
	planner.must(201, "POST", "intents/"+intent+"/acl/entries", object{"principal_id": "welder@" + laptop.ID().String()})
	laptop.web("welder").must(200, "GET", "intents/"+intent, nil)
	desk.stop()
	if e := reviewer.must(502, "GET", "intents/"+intent, nil); e["error"] != "host_unreachable" {
		t.Errorf("%v", e)
	}
	laptop.dial().must("untrust", object{"peer": "desk"}, nil)
	if e := reviewer.must(404, "GET", "intents/"+intent, nil); e["error"] != "unknown_host" {
		t.Errorf("%v", e)
	}
}

// A policy that is read again takes effect at once, also for what other daemons follow.
func TestAPolicyMayForbidChannels(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := desk.web("planner"), laptop.web("reviewer")
	desk.openTo("laptop")
	intent := "intents/" + planner.must(201, "POST", "intents", object{"title": "Ship it"})["id"].(string)
	send := func() { planner.must(201, "POST", intent+"/channels/build/messages", object{"payload": object{}}) }
	hears := func(w *web) <-chan string {
		stream := w.do("GET", intent+"/subscribe", nil)
		t.Cleanup(func() { stream.Body.Close() })
		all := make(chan string, 100)
		go func() {
			for lines := bufio.NewScanner(stream.Body); lines.Scan(); {
				if strings.Contains(lines.Text(), `"message_type"`) {
					all <- lines.Text()
				}
			}
		}()
		return all
	}
	here, there := hears(desk.web("tester")), hears(reviewer)
	send()
	await.Receive(t, "a message", here)
	await.Receive(t, "a message elsewhere", there)
	desk.configure("channels: {open_to: [laptop]}\npolicy: {laptop: {kinds: [query]}}\n")
	send()
	await.Receive(t, "a message", here)
	for range 100 { // long enough for both ways
		reviewer.must(201, "POST", "intents", object{"title": "its own"})
		if e := reviewer.must(403, "GET", intent, nil); e["error"] != "not_authorized" || !strings.Contains(e["message"].(string), "channel") {
			t.Errorf("%v", e)
		}
	}
	select {
	case m := <-there:
		t.Errorf("it still hears %s", m)
	default:
	}
	desk.openTo("laptop")
	reviewer.must(200, "GET", intent, nil)
}

// TestKeylessConnections: of those without a key 64 are open, the newest; who has
// one comes in beside them.
// holds: security.md#in-channels
func TestKeylessConnections(t *testing.T) {
	t.Parallel()
	desk := startConfigured(t, "desk", "channels:\n  listen: 127.0.0.1:0\n  keys:\n  - {sha256: "+api.HashAPIKey("bound")+", agent: planner}\n")
	addr := desk.channels.Listeners[2].Addr().String()
	var open []net.Conn
	for range 10 * local.MaxKeylessConns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		open = append(open, c)
	}
	for i, c := range open {
		c.SetReadDeadline(time.Now().Add(await.Patience))
		if i < len(open)-local.MaxKeylessConns {
			if _, err := c.Read(make([]byte, 1)); err != io.EOF && !strings.Contains(err.Error(), "reset") {
				t.Fatalf("connection %d of %d: %v", i, len(open), err)
			}
			continue
		}
		io.WriteString(c, "GET /.well-known/openintent.json HTTP/1.1\r\nHost: acpd\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("connection %d of %d: %q, %v", i, len(open), line, err)
		}
	}
	at := &web{t: t, base: "http://" + addr, key: "bound", agent: "planner"}
	at.must(201, "POST", "intents", object{"title": "Ship it"})
}
