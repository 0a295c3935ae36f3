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

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent"
)

type object = map[string]any

// web is an agent that speaks HTTP to its daemon.
type web struct {
	t     testing.TB
	base  string
	agent string
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

func TestChannelsSurviveARestart(t *testing.T) {
	t.Parallel()
	desk := start(t, stateDir(t), "desk")
	planner := desk.web("planner")
	intent := planner.must(201, "POST", "intents", object{"title": "Ship it"})["id"].(string)
	if host, _ := openintent.HostOf(intent); !strings.HasPrefix(desk.ID().String(), host) {
		t.Errorf("intent %s does not name its host %s", intent, desk.ID())
	}
	path := "intents/" + intent + "/channels/build/messages"
	sent := planner.must(201, "POST", path, object{"message_type": "notify", "payload": object{"n": 1}})
	desk.stop()
	desk = start(t, desk.dir, "desk")
	got := desk.web("planner").must(200, "GET", "channels/"+sent["channel_id"].(string)+"/messages/"+sent["id"].(string), nil)
	if got["status"] != "delivered" || got["payload"].(object)["n"] != 1.0 {
		t.Errorf("after a restart: %v", got)
	}
}

// Programs that cannot use a unix socket come over loopback, with a key that says
// who they are.
func TestChannelsOverTCPNeedAKey(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	writeConfig(t, dir, "channels:\n  listen: 127.0.0.1:0\n  keys:\n  - {sha256: "+openintent.HashKey("bound")+", agent: planner}\n  - {sha256: "+openintent.HashKey("any")+"}\n")
	desk := start(t, dir, "desk")
	at := &web{t: t, base: "http://" + desk.channels.listener[1].Addr().String()}
	for _, test := range []struct {
		key, agent string
		status     int
	}{
		{"", "planner", 401}, {"wrong", "planner", 401}, {"bound", "reviewer", 403},
		{"bound", "", 201}, {"bound", "planner", 201}, {"any", "reviewer", 201}, {"any", "", 201},
	} {
		at.key, at.agent = test.key, test.agent
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
