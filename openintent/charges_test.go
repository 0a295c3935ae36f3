package openintent

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/openintent/object"
)

// quarter is a message's text of 250 kB.
var quarter = obj{"text": strings.Repeat("x", 250_000)}

func held(a *budget.Account, home string) int64 { return a.HeldBy(peerAccountKey(home)) }

// boundsOf returns a row without its words for people.
func boundsOf(a *budget.Account) budget.Row {
	row := a.Row()
	row.What, row.Remedy = "", ""
	return row
}

func TestRowsOfChannels(t *testing.T) {
	h := start(t)
	for got, want := range map[budget.Row]budget.Row{
		boundsOf(h.e.unread):          {Name: "answers", Unit: budget.Bytes, Peer: 32 << 20, All: 128 << 20},
		boundsOf(h.e.entries.Account): {Name: "stream_entries", Unit: budget.Bytes, Peer: 8 << 20, All: 64 << 20},
	} {
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if peerAccountKey(strings.Repeat("ab", 32)).String() != strings.Repeat("ab", 32) {
		t.Error("another peer is charged")
	}
}

// The agents of a daemon that ask much get no more responses at a time than their
// daemon may hold; those of another, and those here, get theirs.
// holds: security.md#the-budget
func TestAsksAreCharged(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk")
	h.e.unread = new(budget.Book).OpenAccount(budget.Row{Name: "answers", Unit: budget.Bytes, Peer: 1 << 20, All: 4 << 20})
	reviewer := h.as("reviewer")
	open := func() []any { return reviewer.get(ch + "/messages?types=request").ok(200).list("id") }
	answers := make(chan *answer)
	const asks = 4
	ask := func(c *client, more obj) {
		before := len(open())
		go func() { answers <- c.post(ch+"/ask", more) }()
		await.Until(t, "the request", func() bool { return len(open()) > before })
	}
	many := obj{"to": "reviewer", "all": true, "min_responses": 1000, "timeout": 3600, "payload": obj{}}
	for n := range asks {
		ask(h.from(desk, fmt.Sprint("worker", n)), many)
	}
	requests := open()
	for _, one := range slices.Repeat(requests, 11) { // 11 MB in all
		reviewer.post(fmt.Sprintf("%s/messages/%s/reply", ch, one), obj{"payload": quarter}).ok(201)
		if n := held(h.e.unread, desk); n > 1<<20 {
			t.Fatalf("%d bytes are held", n)
		}
	}
	for range asks {
		a := (<-answers)
		if a.status != 429 || a.body.(obj)["error"] != "overloaded" || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("an ask got %d %.200s", a.status, a.raw)
		}
	}
	if n := held(h.e.unread, desk); n != 0 {
		t.Errorf("%d bytes are held when all is over", n)
	}
	for _, c := range []*client{h.from(laptop, "worker"), h.as("planner")} {
		ask(c, obj{"to": "reviewer", "min_responses": 3, "payload": obj{}})
		for range 3 {
			one := open()
			reviewer.post(fmt.Sprintf("%s/messages/%s/reply", ch, one[len(one)-1]), obj{"payload": quarter}).ok(201)
		}
		a := (<-answers).ok(200)
		if got := a.at("responses").([]any); len(got) != 3 || a.at("request").(obj)["to"] != "reviewer" {
			t.Errorf("an ask got %.200s", a.raw)
		}
	}
	// What is charged for answers is given back too, also by lists that are refused.
	for range 10 {
		if a := h.from(desk, "worker1").get(ch + "/messages?since=2020-01-01T00:00:00Z"); a.status != 200 {
			a.refused(429, "overloaded").has(obj{"row": "answers"})
			if a.header.Get("Retry-After") == "" {
				t.Error("no word of when to come again")
			}
		}
	}
	h.from(desk, "worker1").get(ch + "/messages?limit=2&types=response").ok(200)
	h.e.unread.AddUnchecked(peerAccountKey(desk), 1<<20-AnswerRoom)
	before := len(open())
	h.from(desk, "worker1").send(ch, obj{"message_type": "request", "to": "reviewer"}).refused(429, "overloaded")
	if len(open()) != before {
		t.Error("what was refused was sent")
	}
	h.e.unread.Release(peerAccountKey(desk), 1<<20-AnswerRoom)
	if n := held(h.e.unread, desk) + held(h.e.unread, laptop); n != 0 {
		t.Errorf("%d bytes are held when all is over", n)
	}
}

// Who does not read its stream loses it when the entries that wait for it are more than
// its daemon may hold, and gets them from the store when it comes again. A host pays for
// what it relays to slow readers here; fast ones lose nothing.
// holds: security.md#the-budget
func TestEntriesThatWaitAreCharged(t *testing.T) {
	row := budget.Row{Name: "stream_entries", Unit: budget.Bytes, Peer: 512 << 10, All: 2 << 20}
	text := strings.Repeat("x", 62_500)
	synctest.Test(t, func(t *testing.T) {
		h := start(t, toOthers)
		h.e.entries = waitingEntries{new(budget.Book).OpenAccount(row)}
		in := h.intent("planner")
		ch := h.channel("planner", in, "talk")
		worker, daemon := h.from(desk, "worker"), h.from(desk, object.Daemon)
		worker.get(ch).ok(200)
		var ended []chan struct{}
		var slow []*slowReader
		for _, r := range []struct {
			who  *client
			path string
		}{{daemon, "/subscribe/home"}, {worker, "/subscribe" + ch}, {h.as("lamp"), "/subscribe" + ch}} {
			s := newSlowReader(false)
			end, stop := h.serve(r.who, r.path, s)
			defer stop()
			<-s.begun
			ended, slow = append(ended, end), append(slow, s)
		}
		fast := h.follow(h.from(laptop, "tester"), "/subscribe"+ch)
		var said []any
		for range 84 { // ten times what waits
			said = append(said, h.as("planner").say(ch, obj{"message_type": "broadcast", "payload": obj{"text": text}}))
			if f := fast.next(); f.data["id"] != said[len(said)-1] {
				t.Fatalf("the fast one got %.200v", f)
			}
			if n := held(h.e.entries.Account, desk); n > row.Peer {
				t.Fatalf("%d bytes wait", n)
			}
		}
		fast.stop()
		for i := range slow[:2] {
			close(slow[i].taken)
			<-ended[i] // it ends although nobody has stopped it
		}
		close(slow[2].taken)
		if n := held(h.e.entries.Account, desk) + held(h.e.entries.Account, laptop); n != 0 {
			t.Errorf("%d bytes are charged when all is over", n)
		}
		again := h.followFrom(worker, "/subscribe"+ch, "0")
		for _, id := range said {
			if f := again.next(); f.data["id"] != id {
				t.Fatalf("resumed with %.200v", f)
			}
		}
		again.stop()
	})
	synctest.Test(t, func(t *testing.T) {
		h := start(t, toOthers)
		h.e.entries = waitingEntries{new(budget.Book).OpenAccount(row)}
		far := strings.Replace(h.intent("planner"), hostID, farID, 1)
		s, two := newSlowReader(false), newSlowReader(false)
		end, _ := h.serve(h.as("reviewer"), "/subscribe/agents/reviewer", s)
		end2, _ := h.serve(h.as("reviewer"), "/subscribe/agents/reviewer", two)
		<-s.begun
		<-two.begun
		fast := h.follow(h.as("reviewer"), "/subscribe/agents/reviewer")
		r, w := io.Pipe()
		relayed := make(chan error)
		go func() { relayed <- h.e.ReceiveHostStream(t.Context(), farID, r, nil) }()
		for i := range 84 {
			fmt.Fprintf(w, "data: {\"event\":\"comment\",\"intent_id\":%q,\"for\":[],\"own\":[\"reviewer\"],\"data\":{\"intent_id\":%q,\"n\":%d,\"text\":%q}}\nid: %d\n\n", far, far, i, text, i+1)
			if f := fast.next(); f.data["n"] != float64(i) {
				t.Fatalf("the fast one got %.200v", f)
			}
			if n := held(h.e.entries.Account, farID); n > row.Peer+75_000 {
				t.Fatalf("%d bytes wait", n)
			}
		}
		close(s.taken)
		<-end
		close(two.taken)
		<-end2
		w.Close()
		if err := <-relayed; err != nil {
			t.Error(err)
		}
		fast.stop()
		if n := held(h.e.entries.Account, farID); n != 0 {
			t.Errorf("%d bytes are charged when all is over", n)
		}
	})
}

// An entry that is too long for the stream between daemons, as earlier versions stored them, is told of
// without its payload, and the stream goes on.
// holds: security.md#the-budget
func TestLongEntriesAreToldInBrief(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, toOthers)
		in := h.intent("planner")
		ch := h.channel("planner", in, "talk")
		h.from(desk, "worker").get(ch).ok(200)
		long := h.as("planner").say(ch, obj{"message_type": "broadcast", "payload": obj{"text": "short"}})
		short := h.as("planner").say(ch, obj{"message_type": "broadcast"})
		statedb.Exec(t, h.db, "UPDATE openintent_message SET head = CAST(replace(CAST(head AS TEXT), 'short', ?) AS BLOB)", strings.Repeat("x", 1<<20))
		h.restart()
		s := h.followFrom(h.from(desk, object.Daemon), "/subscribe/home", "0")
		data := obj{}
		for data["id"] != long {
			data = s.next().data["data"].(obj)
		}
		if data["truncated"] != true || data["payload"] != nil || data["sender"] != "planner" || data["channel_name"] != "talk" {
			t.Errorf("%.300v", data)
		}
		if data := s.next().data["data"].(obj); data["id"] != short || data["truncated"] != nil {
			t.Errorf("%.300v", data)
		}
		s.stop()
		if a := h.from(desk, "worker").get(ch + "/messages/" + long).ok(http.StatusOK); len(a.raw) < 1<<20 {
			t.Errorf("%d bytes", len(a.raw))
		}
	})
}
