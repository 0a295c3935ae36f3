package remote

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
)

// A host knows of another daemon's agents what their home says, with their first
// request and from then on, until their end.
func TestHostsKnowTheirGuests(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := desk.agent("planner"), laptop.agent("reviewer")
	reviewer.must(201, "POST", "agents/register", obj{"role_id": "review"})
	intent := planner.must(201, "POST", "intents", obj{"title": "Ship it"})["id"].(string)
	channel := "channels/" + planner.must(201, "POST", "intents/"+intent+"/channels", obj{"name": "build", "members": []string{"planner", "reviewer@" + laptop.key.ID().String()}})["id"].(string)
	reviewer.must(200, "GET", channel, nil)
	planner.must(201, "POST", "intents/"+intent+"/acl/entries", obj{"principal_id": "review", "principal_type": "role", "home": laptop.key.ID().String()})
	guest := func() obj { return find(planner.list("agents"), "agent_id", "reviewer") }
	if g := guest(); g["host"] != laptop.key.ID().String() || g["role_id"] != "review" || g["status"] != "active" {
		t.Errorf("%v", g)
	}
	planner.must(201, "POST", channel+"/messages", obj{"message_type": "request", "to": "role:review", "payload": obj{}})
	if got := reviewer.list(channel + "/messages"); len(got) != 1 {
		t.Errorf("by its role it got %v", got)
	}
	reviewer.must(200, "PATCH", "agents/reviewer/status", obj{"status": "draining"})
	await.Until(t, "the change", func() bool { return guest()["status"] == "draining" })
	desk.stop()
	reviewer.must(200, "DELETE", "agents/reviewer", nil)
	laptop.again()
	desk.start()
	planner = desk.agent("planner")
	await.Until(t, "its end", func() bool {
		notice := find(planner.list(channel+"/messages?wait=0"), "sender", "system")
		return notice != nil && notice["payload"].(obj)["agent_id"] == "reviewer"
	})
	if members := planner.must(200, "GET", channel, nil)["members"].([]any); len(members) != 1 {
		t.Errorf("members %v", members)
	}
	for _, r := range []struct{ method, path string }{{"POST", "departed"}, {"GET", "subscribe/home"}} {
		planner.must(403, r.method, r.path, obj{"status": "active"})
	}
}

func TestListsHaveWhatLivesElsewhere(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := desk.agent("planner"), laptop.agent("reviewer")
	planner.must(201, "POST", "agents/register", obj{})
	reviewer.must(201, "POST", "agents/register", obj{})
	var ids []any
	for i, at := range []*agent{planner, reviewer, planner} {
		before := time.Now().UnixMilli()
		await.Until(t, "the next millisecond", func() bool { return time.Now().UnixMilli() > before })
		ids = append([]any{at.must(201, "POST", "intents", obj{"title": strings.Repeat("x", i+1)})["id"]}, ids...)
	}
	closed := planner.must(201, "POST", "intents", obj{"title": "closed"})["id"].(string)
	planner.must(200, "PUT", "intents/"+closed+"/acl", obj{"default_policy": "closed", "entries": []any{}})
	intents := func(w *agent, query string) (all []any, hosts []any) {
		for _, in := range w.must(200, "GET", "intents"+query, nil)["intents"].([]any) {
			all, hosts = append(all, in.(obj)["id"]), append(hosts, in.(obj)["host"])
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
	same("hosts", hosts, []any{desk.key.ID().String(), nil, desk.key.ID().String()})
	got, _ = intents(reviewer, "?limit=1&offset=1")
	same("a page", got, ids[1:2])
	got, _ = intents(laptop.agent(""), "")
	same("the operator's", got, ids[1:2])
	got, _ = intents(laptop.agent("planner"), "") // another agent of the name sees nothing of the first
	same("a namesake's", got, ids[1:2])
	agents := reviewer.list("agents")
	if a := find(agents, "agent_id", "planner"); len(agents) != 2 || a["host"] != desk.key.ID().String() {
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
	planner, reviewer := desk.agent("planner"), laptop.agent("reviewer")
	own := reviewer.events("agents/reviewer/subscribe") // it has never been at the desk
	intent := planner.must(201, "POST", "intents", obj{"title": "Ship it"})["id"].(string)
	planner.must(201, "POST", "intents/"+intent+"/agents", obj{"agent_id": "reviewer", "home": laptop.key.ID().String()})
	if e := await.Receive(t, "the assignment", own); e["event"] != "AGENT_ASSIGNED" || e["intent_id"] != intent {
		t.Errorf("%v", e)
	}
	streams := []<-chan obj{own}
	for range 100 { // more than a peer may have streams
		streams = append(streams, reviewer.events("intents/"+intent+"/subscribe"))
	}
	hear := func(n float64) {
		t.Helper()
		for _, s := range streams {
			m := await.Receive(t, "a message", s)
			for m["event"] != "channel_message" {
				m = await.Receive(t, "a message", s)
			}
			if m["payload"].(obj)["n"] != n {
				t.Errorf("%v, want %v", m, n)
			}
		}
	}
	say := func(w *agent, n int) {
		t.Helper()
		w.must(201, "POST", "intents/"+intent+"/channels/build/messages", obj{"message_type": "notify", "payload": obj{"n": n}})
	}
	say(planner, 1)
	hear(1)
	desk.again() // it calls the laptop
	planner = desk.agent("planner")
	for n := 2; n < 5; n++ {
		say(planner, n)
	}
	for n := 2; n < 5; n++ {
		hear(float64(n))
	}
	closed := planner.must(201, "POST", "intents", obj{"title": "closed"})["id"].(string)
	planner.must(200, "PUT", "intents/"+closed+"/acl", obj{"default_policy": "closed", "entries": []any{}})
	reviewer.must(404, "GET", "intents/"+closed+"/subscribe", nil)
}

// What a host refuses is refused at once; it does not wait for better days.
func TestAHostMayRefuseChannels(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	reviewer := laptop.agent("reviewer")
	reviewer.must(201, "POST", "agents/register", obj{"role_id": "review"})
	intent := desk.agent("planner").must(201, "POST", "intents", obj{"title": "Ship it"})["id"].(string)
	reviewer.events("intents/" + intent + "/subscribe")
	streams := func() int {
		desk.Gateway.mu.Lock()
		defer desk.Gateway.mu.Unlock()
		return len(desk.streams)
	}
	await.Until(t, "the stream of its home", func() bool { return streams() == 1 })
	desk.deny(kinds.Errorf(kinds.NotAuthorized, "no channels"))
	desk.CancelStreamsUnless(func(id identity.ID) bool { return id != laptop.key.ID() })
	await.Until(t, "its end", func() bool { return streams() == 0 })
	send := "intents/" + intent + "/channels/build/messages"
	for _, r := range []struct{ method, path string }{{"GET", "intents/" + intent}, {"POST", send}, {"GET", "intents/" + intent + "/subscribe"}} {
		if e := reviewer.must(403, r.method, r.path, obj{"payload": obj{}}); e["error"] != "not_authorized" || e["message"] != "no channels" {
			t.Errorf("%s %s: %v", r.method, r.path, e)
		}
	}
	if got := reviewer.list("agents"); len(got) != 1 {
		t.Errorf("%v", got)
	}
	desk.deny(kinds.Errorf(kinds.Overloaded, "too often"))
	if e := reviewer.must(429, "GET", "intents/"+intent, nil); e["error"] != "overloaded" {
		t.Errorf("%v", e)
	}
	desk.deny(nil)
	reviewer.must(201, "POST", send, obj{"payload": obj{}})
}

// A name may have signs that mean something in a path; a client may ask before it
// sends a body. Neither keeps what comes after from its host.
func TestWhatIsPassedOnArrivesAsItWas(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	reviewer := laptop.agent("reviewer")
	intent := "intents/" + desk.agent("planner").must(201, "POST", "intents", obj{"title": "Ship it"})["id"].(string)
	names := []string{"100%", "a/b", "a b?c#d", "..", "café", `"&=+;`}
	for _, name := range names {
		m := reviewer.must(201, "POST", intent+"/channels/"+url.PathEscape(name)+"/messages", obj{"payload": obj{}})
		if m["status"] != "delivered" {
			t.Errorf("%s: %v", name, m)
		}
	}
	for i, c := range reviewer.list(intent + "/channels") {
		if c["name"] != names[i] {
			t.Errorf("channel %d: %q, want %q", i, c["name"], names[i])
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), "POST", reviewer.base+apiPath+intent+"/channels", strings.NewReader(`{"name": "expected"}`))
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
	var made obj
	if err := json.UnmarshalRead(answer.Body, &made); err != nil || answer.StatusCode != 201 || made["created_by"] != "reviewer" {
		t.Errorf("%s: %v %v", answer.Status, made, err)
	}
	if e := laptop.agent("").must(403, "POST", intent+"/channels/build/messages", obj{"payload": obj{}}); e["error"] != "no_agent" {
		t.Errorf("an operator from elsewhere: %v", e)
	}
}

// A peer has room for so many requests at a time; one more is told to come again.
func TestTooManyRequestsForAHost(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := desk.agent("planner"), laptop.agent("reviewer")
	intent := planner.must(201, "POST", "intents", obj{"title": "Ship it"})["id"].(string)
	channel := planner.must(201, "POST", "intents/"+intent+"/channels", obj{"name": "build"})["id"].(string)
	ctx, cancel := context.WithCancel(t.Context())
	var polls sync.WaitGroup
	refused := make(chan struct{}, 10)
	for range maxWaiting + cap(refused) {
		polls.Go(func() {
			r, err := http.NewRequestWithContext(ctx, "GET", reviewer.base+"/api/v1/channels/"+channel+"/messages?wait=60", nil)
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("X-Agent-ID", "reviewer")
			answer, err := reviewer.Do(r)
			if err != nil {
				return // the test has ended the poll
			}
			answer.Body.Close()
			if answer.StatusCode == 503 && answer.Header.Get("Retry-After") != "" {
				refused <- struct{}{}
			}
		})
	}
	for range cap(refused) {
		await.Receive(t, "a refusal", refused)
	}
	reviewer.must(503, "GET", "channels/"+channel+"/messages?wait=0.001", nil)
	reviewer.must(200, "GET", "intents/"+intent, nil) // what does not wait has room
	if m := reviewer.must(201, "POST", "channels/"+channel+"/messages", obj{"payload": obj{}}); m["status"] != "delivered" {
		t.Errorf("%v", m)
	}
	cancel()
	polls.Wait()
	await.Until(t, "room", func() bool {
		answer := reviewer.do("GET", "channels/"+channel+"/messages?wait=0", nil)
		answer.Body.Close()
		return answer.StatusCode == 200
	})
}

func TestTheHeadOfAHostsAnswerIsBounded(t *testing.T) {
	r := httptest.NewRequest("GET", "http://acpd/", nil)
	ok := "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000)
	answer, err := readAnswerHead(strings.NewReader(ok), r)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(answer.Body); err != nil || len(body) != 100_000 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	endless := strings.NewReader("HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 1<<20))
	if _, err := readAnswerHead(endless, r); err == nil || endless.Len() < 5<<20 {
		t.Errorf("%v, %d bytes are left", err, endless.Len())
	}
	for _, bad := range []string{"", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "x"} {
		if _, err := readAnswerHead(strings.NewReader(bad), r); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// Those who wait for answers leave room for the answers: here both are at home at the
// laptop, and meet at the desk.
func TestAsksLeaveRoomForTheirReplies(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := laptop.agent("planner"), laptop.agent("reviewer")
	intent := "intents/" + desk.agent("desk").must(201, "POST", "intents", obj{"title": "Ship it"})["id"].(string)
	channel := "channels/" + planner.must(201, "POST", intent+"/channels", obj{"name": "build"})["id"].(string)
	reviewer.must(200, "GET", channel, nil)
	requests := reviewer.events(channel + "/subscribe")
	asks := make(chan int, maxWaiting)
	for range maxWaiting {
		go func() {
			answer := planner.do("POST", channel+"/ask", obj{"to": "reviewer", "payload": obj{}, "timeout": await.Patience.Seconds()})
			answer.Body.Close()
			asks <- answer.StatusCode
		}()
	}
	var waiting []obj
	for range maxWaiting {
		waiting = append(waiting, await.Receive(t, "a request", requests))
	}
	if e := planner.must(503, "POST", channel+"/ask", obj{"to": "reviewer"}); e["error"] != "overloaded" {
		t.Errorf("one more: %v", e)
	}
	for _, m := range waiting {
		if r := reviewer.must(201, "POST", channel+"/messages/"+m["id"].(string)+"/reply", obj{"payload": obj{}}); r["status"] != "delivered" {
			t.Errorf("%v", r)
		}
	}
	for range maxWaiting {
		if status := await.Receive(t, "an answer", asks); status != http.StatusOK {
			t.Errorf("an ask got %d", status)
		}
	}
	reviewer.header.Set("Idempotency-Key", strings.Repeat("k", 10_000))
	reviewer.must(400, "POST", channel+"/messages", obj{"payload": obj{}})
	desk.stop()
	if e := reviewer.must(400, "POST", channel+"/messages", obj{"payload": obj{}}); e["error"] != "bad_key" {
		t.Errorf("%v", e)
	}
}

// What an agent sends while the host is away waits here, over a restart too, and
// arrives once, in order, under the id that it was answered with.
func TestMessagesWaitForTheirHost(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := desk.agent("planner"), laptop.agent("reviewer")
	intent := planner.must(201, "POST", "intents", obj{"title": "Ship it"})["id"].(string)
	channel := "channels/" + planner.must(201, "POST", "intents/"+intent+"/channels", obj{"name": "build"})["id"].(string)
	notify := func(n int) obj { return obj{"message_type": "notify", "payload": obj{"n": n}} }
	sent := []string{reviewer.must(201, "POST", channel+"/messages", notify(0))["id"].(string)}
	desk.stop()
	for n := 1; n < 20; n++ {
		m := reviewer.must(201, "POST", channel+"/messages", notify(n))
		if m["status"] != "pending" || m["sender"] != "reviewer" || len(m) != 12 {
			t.Fatalf("%d: %v", n, m)
		}
		sent = append(sent, m["id"].(string))
	}
	reviewer.must(422, "POST", channel+"/messages", obj{"message_type": "request", "payload": obj{}}) // the host is not needed for that
	closed := "intents/" + intent + "/channels/" + strings.Repeat("x", 200) + "/messages"             // the host will refuse it
	refused := reviewer.must(201, "POST", closed, notify(20))["id"].(string)
	laptop.again()
	reviewer = laptop.agent("reviewer")
	if m := reviewer.must(200, "GET", channel+"/messages/"+sent[5], nil); m["status"] != "pending" {
		t.Errorf("%v", m)
	}
	desk.start()
	planner = desk.agent("planner")
	await.Until(t, "all messages", func() bool {
		got := planner.list(channel + "/messages")
		return len(got) == len(sent)
	})
	for i, m := range planner.list(channel + "/messages") {
		if m["id"] != sent[i] || m["payload"].(obj)["n"] != float64(i) || m["status"] != "delivered" {
			t.Errorf("%d: %v, want %s", i, m, sent[i])
		}
	}
	await.Until(t, "the refusal", func() bool {
		m := reviewer.must(200, "GET", channel+"/messages/"+refused, nil)
		why, _ := m["refusal"].(obj)
		return m["status"] == "refused" && why["status"] == 422.0
	})
	await.Until(t, "nothing waits", func() bool { // before more is sent, which would wait behind it
		return !slices.ContainsFunc(reviewer.list("unsent"), func(m obj) bool { return m["status"] == "pending" })
	})
	await.Until(t, "a sender without waiting messages", func() bool {
		return reviewer.must(201, "POST", channel+"/messages", notify(21))["status"] == "delivered"
	})
}

// Keys can be made whose ids begin like another's: then neither is asked, nor heard.
func TestHostsThatLookAlikeAreRefused(t *testing.T) {
	t.Parallel()
	twins := []identity.Peer{{ID: identity.ID{1, 2, 3, 4, 5, 6}, Name: "desk"}, {ID: identity.ID{1, 2, 3, 4, 5, 7}, Name: "tower"}}
	c, err := OpenGateway(t.Context(), Config{
		Self: identity.ID{9}, OpenTo: func(identity.Peer) bool { return false }, Engine: engineOn(openStore(t), slog.New(slog.DiscardHandler)),
		Trusted: func(id identity.ID) (identity.Peer, bool) {
			i := slices.IndexFunc(twins, func(p identity.Peer) bool { return p.ID == id })
			return twins[max(i, 0)], i >= 0
		},
		Peers: func() []identity.Peer { return twins },
		Hosts: func() []identity.ID { return nil },
		Open: func(_ context.Context, to identity.ID) (Stream, error) {
			return nil, kinds.Errorf(kinds.Unreachable, "%s is away", to.Label())
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c)
	intent := "intents/intent_0102030405_01M7WK708745SZDSQ20JGH2Z1P"
	for _, r := range []struct{ method, path string }{{"GET", intent}, {"POST", intent + "/channels/build/messages"}, {"GET", intent + "/subscribe"}} {
		status, e := local[obj](t, c, "planner", r.method, r.path, `{"payload": {}}`)
		text, _ := e["message"].(string)
		if status != 404 || e["error"] != "ambiguous_host" || !strings.Contains(text, "desk ("+twins[0].ID.String()) || !strings.Contains(text, "tower ("+twins[1].ID.String()) || !strings.Contains(text, "acpctl untrust") {
			t.Errorf("%s %s: %d %v", r.method, r.path, status, e)
		}
	}
	if err := c.readHostEvents(t.Context(), twins[0].ID, func() { t.Error("it is heard") }); err == nil || !strings.Contains(err.Error(), "tower") {
		t.Error(err)
	}
	twins = twins[:1]
	if status, m := local[obj](t, c, "planner", "POST", intent+"/channels/build/messages", `{"payload": {}}`); status != 201 || m["status"] != "pending" {
		t.Errorf("without the other: %d %v", status, m)
	}
	if status, e := local[obj](t, c, "planner", "GET", intent, ""); status != 502 || e["error"] != "host_unreachable" {
		t.Errorf("without the other: %d %v", status, e)
	}
}
