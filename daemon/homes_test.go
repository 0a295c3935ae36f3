package daemon

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// events follows an event stream and returns what it tells, name and data.
func (w *web) events(path string) <-chan object {
	w.t.Helper()
	answer := w.do("GET", path, nil)
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		w.t.Fatalf("%s: %s %s", path, answer.Status, text)
	}
	w.t.Cleanup(func() { answer.Body.Close() })
	all := make(chan object, 100)
	go func() {
		lines, name := bufio.NewScanner(answer.Body), ""
		for lines.Scan() {
			if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = event
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			var m object
			if ok && json.Unmarshal([]byte(data), &m) == nil {
				m["event"] = name
				all <- m
			}
		}
	}()
	return all
}

// again starts a daemon on another port: who has taken the old one meanwhile is anybody's guess.
func (r *running) again() *running { return start(r.t, r.dir, r.name) }

// find returns the object of a list that has the value under the name.
func find(all []object, name string, value any) object {
	for _, o := range all {
		if o[name] == value {
			return o
		}
	}
	return nil
}

// A host knows of another daemon's agents what their home says, with their first
// request and from then on, until their end.
func TestHostsKnowTheirGuests(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := desk.web("planner"), laptop.web("reviewer")
	reviewer.must(201, "POST", "agents/register", object{"role_id": "review"})
	intent := planner.must(201, "POST", "intents", object{"title": "Ship it"})["id"].(string)
	channel := "channels/" + planner.must(201, "POST", "intents/"+intent+"/channels", object{"name": "build", "members": []string{"planner", "reviewer"}})["id"].(string)
	reviewer.must(200, "GET", channel, nil)
	guest := func() object { return find(list(t, planner.do("GET", "agents", nil)), "agent_id", "reviewer") }
	if g := guest(); g["host"] != laptop.ID().String() || g["role_id"] != "review" || g["status"] != "active" {
		t.Errorf("%v", g)
	}
	planner.must(201, "POST", channel+"/messages", object{"message_type": "request", "to": "role:review", "payload": object{}})
	if got := list(t, reviewer.do("GET", channel+"/messages", nil)); len(got) != 1 {
		t.Errorf("by its role it got %v", got)
	}
	reviewer.must(200, "PATCH", "agents/reviewer/status", object{"status": "draining"})
	eventually(t, "the change", func() bool { return guest()["status"] == "draining" })
	desk.stop()
	reviewer.must(200, "DELETE", "agents/reviewer", nil)
	laptop.stop()
	laptop, desk = laptop.again(), desk.again()
	befriend(t, laptop, desk)
	planner = desk.web("planner")
	eventually(t, "its end", func() bool {
		notice := find(list(t, planner.do("GET", channel+"/messages?wait=0", nil)), "sender", "system")
		return notice != nil && notice["payload"].(object)["agent_id"] == "reviewer"
	})
	if members := planner.must(200, "GET", channel, nil)["members"].([]any); len(members) != 1 {
		t.Errorf("members %v", members)
	}
	for _, r := range []struct{ method, path string }{{"PUT", "agents/reviewer/record"}, {"GET", "subscribe/home"}} {
		planner.must(403, r.method, r.path, object{"status": "active"})
	}
}

func TestListsHaveWhatLivesElsewhere(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := desk.web("planner"), laptop.web("reviewer")
	planner.must(201, "POST", "agents/register", object{})
	reviewer.must(201, "POST", "agents/register", object{})
	var ids []any
	for i, at := range []*web{planner, reviewer, planner} {
		before := time.Now().UnixMilli()
		eventually(t, "the next millisecond", func() bool { return time.Now().UnixMilli() > before })
		ids = append([]any{at.must(201, "POST", "intents", object{"title": strings.Repeat("x", i+1)})["id"]}, ids...)
	}
	closed := planner.must(201, "POST", "intents", object{"title": "closed"})["id"].(string)
	planner.must(200, "PUT", "intents/"+closed+"/acl", object{"default_policy": "closed", "entries": []any{}})
	intents := func(w *web, query string) (all []any, hosts []any) {
		for _, in := range w.must(200, "GET", "intents"+query, nil)["intents"].([]any) {
			all, hosts = append(all, in.(object)["id"]), append(hosts, in.(object)["host"])
		}
		return all, hosts
	}
	same := func(what string, got, want []any) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
	}
	got, hosts := intents(reviewer, "")
	same("intents", got, ids)
	same("hosts", hosts, []any{desk.ID().String(), nil, desk.ID().String()})
	got, _ = intents(reviewer, "?limit=1&offset=1")
	same("a page", got, ids[1:2])
	got, _ = intents(laptop.web(""), "")
	same("the operator's", got, ids[1:2])
	got, _ = intents(laptop.web("planner"), "") // another agent of the name sees nothing of the first
	same("a namesake's", got, ids[1:2])
	agents := list(t, reviewer.do("GET", "agents", nil))
	if a := find(agents, "agent_id", "planner"); len(agents) != 2 || a["host"] != desk.ID().String() {
		t.Errorf("%v", agents)
	}
	desk.stop()
	got, _ = intents(reviewer, "")
	same("without the host", got, ids[1:2])
}

// However many agents follow a host's intents, its stream is one, and what happens
// while the daemons do not reach each other comes afterwards.
func TestManyStreamsAreOne(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := desk.web("planner"), laptop.web("reviewer")
	own := reviewer.events("agents/reviewer/subscribe") // it has never been at the desk
	intent := planner.must(201, "POST", "intents", object{"title": "Ship it"})["id"].(string)
	planner.must(201, "POST", "intents/"+intent+"/agents", object{"agent_id": "reviewer", "home": laptop.ID().String()})
	if e := receive(t, "the assignment", own); e["event"] != "AGENT_ASSIGNED" || e["intent_id"] != intent {
		t.Errorf("%v", e)
	}
	streams := []<-chan object{own}
	for range 100 { // more than a peer may have streams
		streams = append(streams, reviewer.events("intents/"+intent+"/subscribe"))
	}
	hear := func(n float64) {
		t.Helper()
		for _, s := range streams {
			m := receive(t, "a message", s)
			for m["event"] != "channel_message" {
				m = receive(t, "a message", s)
			}
			if m["payload"].(object)["n"] != n {
				t.Errorf("%v, want %v", m, n)
			}
		}
	}
	say := func(w *web, n int) {
		t.Helper()
		w.must(201, "POST", "intents/"+intent+"/channels/build/messages", object{"message_type": "notify", "payload": object{"n": n}})
	}
	say(planner, 1)
	hear(1)
	desk.stop()
	desk = desk.again() // it calls the laptop
	planner = desk.web("planner")
	for n := 2; n < 5; n++ {
		say(planner, n)
	}
	for n := 2; n < 5; n++ {
		hear(float64(n))
	}
	closed := planner.must(201, "POST", "intents", object{"title": "closed"})["id"].(string)
	planner.must(200, "PUT", "intents/"+closed+"/acl", object{"default_policy": "closed", "entries": []any{}})
	reviewer.must(404, "GET", "intents/"+closed+"/subscribe", nil)
}

// What a host's policy refuses is refused at once; it does not wait for better days.
func TestAHostMayRefuseChannels(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	reviewer := laptop.web("reviewer")
	reviewer.must(201, "POST", "agents/register", object{"role_id": "review"})
	intent := desk.web("planner").must(201, "POST", "intents", object{"title": "Ship it"})["id"].(string)
	reviewer.events("intents/" + intent + "/subscribe")
	streams := func() int {
		desk.channels.homes.mu.Lock()
		defer desk.channels.homes.mu.Unlock()
		return len(desk.channels.homes.open)
	}
	eventually(t, "the stream of its home", func() bool { return streams() == 1 })
	writeConfig(t, desk.dir, "policy: {laptop: {kinds: [query]}}\n")
	if err := desk.reload(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end", func() bool { return streams() == 0 })
	send := "intents/" + intent + "/channels/build/messages"
	for _, r := range []struct{ method, path string }{{"GET", "intents/" + intent}, {"POST", send}, {"GET", "intents/" + intent + "/subscribe"}} {
		if e := reviewer.must(403, r.method, r.path, object{"payload": object{}}); e["error"] != "not_authorized" || !strings.Contains(e["message"].(string), "channel") {
			t.Errorf("%s %s: %v", r.method, r.path, e)
		}
	}
	if got := list(t, reviewer.do("GET", "agents", nil)); len(got) != 1 {
		t.Errorf("%v", got)
	}
	writeConfig(t, desk.dir, "")
	if err := desk.reload(); err != nil {
		t.Fatal(err)
	}
	reviewer.must(201, "POST", send, object{"payload": object{}})
}

// A name may have signs that mean something in a path; a client may ask before it
// sends a body. Neither keeps what comes after from its host.
func TestWhatIsPassedOnArrivesAsItWas(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	reviewer := laptop.web("reviewer")
	intent := "intents/" + desk.web("planner").must(201, "POST", "intents", object{"title": "Ship it"})["id"].(string)
	reviewer.Transport.(*http.Transport).ExpectContinueTimeout = patience
	names := []string{"100%", "a/b", "a b?c#d", "..", "café", `"&=+;`}
	for _, name := range names {
		m := reviewer.must(201, "POST", intent+"/channels/"+url.PathEscape(name)+"/messages", object{"payload": object{}})
		if m["status"] != "delivered" {
			t.Errorf("%s: %v", name, m)
		}
	}
	for i, c := range list(t, reviewer.do("GET", intent+"/channels", nil)) {
		if c["name"] != names[i] {
			t.Errorf("channel %d: %q, want %q", i, c["name"], names[i])
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", reviewer.base+"/api/v1/"+intent+"/channels", strings.NewReader(`{"name": "expected"}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"X-Agent-ID": "reviewer", "Expect": "100-continue", "X-Message-ID": "none", "Upgrade": "h2c", "Connection": "Upgrade"} {
		r.Header.Set(name, value)
	}
	answer, err := reviewer.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var made object
	if err := json.UnmarshalRead(answer.Body, &made); err != nil || answer.StatusCode != 201 || made["created_by"] != "reviewer" {
		t.Errorf("%s: %v %v", answer.Status, made, err)
	}
	if e := laptop.web("").must(403, "POST", intent+"/channels/build/messages", object{"payload": object{}}); e["error"] != "no_agent" {
		t.Errorf("an operator from elsewhere: %v", e)
	}
}

// A peer has room for so many requests at a time; one more is told to come again.
func TestTooManyRequestsForAHost(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := desk.web("planner"), laptop.web("reviewer")
	intent := planner.must(201, "POST", "intents", object{"title": "Ship it"})["id"].(string)
	channel := planner.must(201, "POST", "intents/"+intent+"/channels", object{"name": "build"})["id"].(string)
	ctx, cancel := context.WithCancel(t.Context())
	var polls sync.WaitGroup
	for range 100 {
		polls.Go(func() {
			r, err := http.NewRequestWithContext(ctx, "GET", reviewer.base+"/api/v1/channels/"+channel+"/messages?wait=60", nil)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("X-Agent-ID", "reviewer")
			if answer, err := reviewer.Do(r); err == nil {
				answer.Body.Close()
			}
		})
	}
	eventually(t, "a refusal", func() bool {
		answer := reviewer.do("GET", "channels/"+channel+"/messages?wait=0.001", nil)
		answer.Body.Close()
		return answer.StatusCode == 503 && answer.Header.Get("Retry-After") != ""
	})
	reviewer.must(200, "GET", "intents/"+intent, nil) // what does not wait has room
	if m := reviewer.must(201, "POST", "channels/"+channel+"/messages", object{"payload": object{}}); m["status"] != "delivered" {
		t.Errorf("%v", m)
	}
	cancel()
	polls.Wait()
	eventually(t, "room", func() bool {
		answer := reviewer.do("GET", "channels/"+channel+"/messages?wait=0", nil)
		answer.Body.Close()
		return answer.StatusCode == 200
	})
}

func TestTheHeadOfAHostsAnswerIsBounded(t *testing.T) {
	r := httptest.NewRequest("GET", "http://acpd/", nil)
	ok := "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000)
	answer, err := readAnswer(strings.NewReader(ok), r)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(answer.Body); err != nil || len(body) != 100_000 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	endless := strings.NewReader("HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 1<<20))
	if _, err := readAnswer(endless, r); err == nil || endless.Len() < 5<<20 {
		t.Errorf("%v, %d bytes are left", err, endless.Len())
	}
	for _, bad := range []string{"", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "x"} {
		if _, err := readAnswer(strings.NewReader(bad), r); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// Those who wait for answers leave room for the answers: here both are at home at the
// laptop, and meet at the desk.
func TestAsksLeaveRoomForTheirReplies(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := laptop.web("planner"), laptop.web("reviewer")
	intent := "intents/" + desk.web("desk").must(201, "POST", "intents", object{"title": "Ship it"})["id"].(string)
	channel := "channels/" + planner.must(201, "POST", intent+"/channels", object{"name": "build"})["id"].(string)
	reviewer.must(200, "GET", channel, nil)
	requests := reviewer.events(channel + "/subscribe")
	asks := make(chan int, maxWaiting)
	for range maxWaiting {
		go func() {
			answer := planner.do("POST", channel+"/ask", object{"to": "reviewer", "payload": object{}, "timeout": patience.Seconds()})
			answer.Body.Close()
			asks <- answer.StatusCode
		}()
	}
	var waiting []object
	for range maxWaiting {
		waiting = append(waiting, receive(t, "a request", requests))
	}
	if e := planner.must(503, "POST", channel+"/ask", object{"to": "reviewer"}); e["error"] != "overloaded" {
		t.Errorf("one more: %v", e)
	}
	for _, m := range waiting {
		if r := reviewer.must(201, "POST", channel+"/messages/"+m["id"].(string)+"/reply", object{"payload": object{}}); r["status"] != "delivered" {
			t.Errorf("%v", r)
		}
	}
	for range maxWaiting {
		if status := receive(t, "an answer", asks); status != http.StatusOK {
			t.Errorf("an ask got %d", status)
		}
	}
	reviewer.Transport = withHeader{reviewer.Transport, "Idempotency-Key", strings.Repeat("k", 10_000)}
	reviewer.must(400, "POST", channel+"/messages", object{"payload": object{}})
	desk.stop()
	if e := reviewer.must(400, "POST", channel+"/messages", object{"payload": object{}}); e["error"] != "bad_key" {
		t.Errorf("%v", e)
	}
}

type withHeader struct {
	http.RoundTripper
	name, value string
}

func (w withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set(w.name, w.value)
	return w.RoundTripper.RoundTrip(r)
}
