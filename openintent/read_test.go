package openintent

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/openintent/object"
	"github.com/acpd/acpd/store"
)

// looks are the reads of a store since they were last asked for.
type looks struct {
	mu  sync.Mutex
	all []readQuota
}

func (h *host) looks() *looks {
	l := &looks{}
	h.e.looked = func(one readQuota) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, one)
	}
	return l
}

// bounded fails the test if a read has looked at more than it may, and returns what
// all of them have looked at. The last row may be as long as rows are.
func (l *looks) bounded(t *testing.T, what string, reads int) (sum readQuota) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all {
		if one.rows > maxLooked || one.bytes > maxLookedBytes+1<<20 {
			t.Errorf("%s: a read has looked at %d rows of %d bytes", what, one.rows, one.bytes)
		}
		sum.spend(one.rows, one.bytes)
	}
	if len(l.all) < reads {
		t.Errorf("%s: %d reads, want at least %d", what, len(l.all), reads)
	}
	l.all = nil
	return sum
}

// repeat stores the last message of a channel, and the last event of its intent, n
// more times, without its rules.
func (h *host) repeat(path string, n int) {
	h.t.Helper()
	ch := h.e.channels[strings.TrimPrefix(path, "/channels/")]
	const counted = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM n WHERE n < ?1) "
	if err := h.db.Write(h.t.Context(), false, func(stx *store.Tx) error {
		last := h.e.next
		if _, err := stx.Exec(counted+`INSERT INTO openintent_message
			(seq, channel, number, id, kind, sender, recipient, correlation, at, expires, deadline, answered, lead, recipients, receipts, given, head)
			SELECT ?2 + n, channel, number + n, id, kind, sender, recipient, correlation, at, expires, deadline, answered, lead, recipients, receipts, given, head
			FROM openintent_message, n WHERE channel = ?3 AND number = ?4`, n, last, ch.row, ch.count); err != nil {
			return err
		}
		_, err := stx.Exec(counted+`INSERT INTO openintent_event (seq, intent, sequence, type, at, trace, doc)
			SELECT ?2 + n, intent, sequence + n, type, at, trace, doc FROM openintent_event, n WHERE intent = ?3 AND sequence = ?4`, n, last+int64(n), ch.in.row, ch.in.sequence)
		return err
	}); err != nil {
		h.t.Fatal(err)
	}
	h.restart()
}

// However much there is, one read looks at little of it, and what is not listed is
// not read at all.
// holds: security.md#the-budget
func TestReadsAreBounded(t *testing.T) {
	h := start(t, toOthers)
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk", obj{"options": obj{"max_messages": 10_000}})
	h.as("planner").post("/intents/"+in+"/events", obj{"event_type": "comment", "payload": obj{"text": strings.Repeat("x", 1000)}}).ok(201)
	h.as("planner").say(ch, obj{"payload": obj{"text": strings.Repeat("x", 1000)}})
	reads := 10
	if testing.Short() {
		reads = 3
	}
	n := reads*maxLooked - 1
	h.repeat(ch, n)
	other := h.channel("planner", h.intent("planner"), "other")
	seen := h.looks()
	for _, who := range []*client{h.as(""), h.as("reviewer"), h.from(desk, "worker")} {
		for _, query := range []string{"status=read", "types=response", "types=request&since=2020-01-01T00:00:00Z", "status=read&since=2020-01-01T00:00:00Z&limit=1"} {
			who.get(ch + "/messages?" + query).ok(200).is("id")
			if sum := seen.bounded(t, query, reads); sum.rows > n+11 || sum.bytes > 0 {
				t.Errorf("%s: looked at %+v", query, sum)
			}
		}
		for _, query := range []string{"event_type=nothing", "trace_id=" + strings.Repeat("a", 32), "since=2999-01-01T00:00:00Z", fmt.Sprint("offset=", 2*n)} {
			who.get("/intents/" + in + "/events?" + query).ok(200).is("id")
			if sum := seen.bounded(t, query, reads); sum.rows > n+11 || sum.bytes > 0 {
				t.Errorf("%s: looked at %+v", query, sum)
			}
		}
		if got := who.get(fmt.Sprintf("/intents/%s/events?limit=1000&offset=%d", in, n)).ok(200).list("event_type"); got[0] != "comment" || got[len(got)-1] != "intent_created" {
			t.Errorf("the last events are %v", got)
		}
		seen.bounded(t, "the last page", reads)
		if v := who.get("/intents/" + in + "/events/verify").ok(200); v.at("event_count").(float64) < float64(n) || len(v.at("breaks").([]any)) != 100 {
			t.Errorf("verified: %s", v.raw)
		}
		seen.bounded(t, "verify", reads)
		all := who.get(ch + "/messages?since=2020-01-01T00:00:00Z").ok(200).list("created_at")
		if len(all) != object.MaxList {
			t.Errorf("%d messages in a list", len(all))
		}
		seen.bounded(t, "a list", 1)
	}
	// Who resumes gets what it has missed, and nothing else is read of the rest.
	reviewer := h.as("reviewer")
	want := h.as("planner").say(other, obj{})
	s := h.followFrom(reviewer, "/subscribe"+other, "0")
	defer s.stop()
	if f := s.next(); f.data["id"] != want {
		t.Errorf("resumed with %+v", f)
	}
	if sum := seen.bounded(t, "resume", 2*reads); sum.bytes > 1000 {
		t.Errorf("resuming has looked at %+v", sum)
	}
	every := h.followFrom(reviewer, "/subscribe"+ch, "0")
	defer every.stop()
	for range n {
		every.next()
	}
	seen.bounded(t, "resume all", 2*reads)
}

// Long texts end a read, and a list, before there are many rows of them.
// holds: security.md#the-budget
func TestReadsOfLongTextsAreBounded(t *testing.T) {
	h := start(t)
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk")
	long := obj{"text": strings.Repeat("x", 250_000)}
	h.as("planner").post("/intents/"+in+"/events", obj{"event_type": "comment", "payload": long}).ok(201)
	h.as("planner").say(ch, obj{"payload": long})
	texts := 400 // 100 MB, which is ten times what one read may look at
	if testing.Short() {
		texts = 100
	}
	h.repeat(ch, texts)
	seen := h.looks()
	all := h.as("reviewer").get(ch + "/messages").ok(200).list("id")
	if size := len(all) * 250_000; size < object.MaxListBytes || size > object.MaxListBytes+250_000 {
		t.Errorf("a list of %d bytes", size)
	}
	seen.bounded(t, "a list", 1)
	h.as("reviewer").get("/intents/" + in + "/events?limit=1000").ok(200)
	seen.bounded(t, "the log", 1)
	h.as("reviewer").get("/intents/" + in + "/events/verify").ok(200)
	seen.bounded(t, "verify", texts*250_000/(verifyBytes+250_000))
	s := h.followFrom(h.as("reviewer"), "/subscribe"+ch, "0")
	defer s.stop()
	for range texts + 1 {
		s.next()
	}
	seen.bounded(t, "resume", texts*250_000/(resumeBytes+250_000))
}

// Receipts that are read with messages count as what a read looks at.
func TestReceiptsCountAsLookedAt(t *testing.T) {
	h := start(t)
	in := h.intent("planner")
	ch := h.channel("planner", in, "talk", obj{"options": obj{"audit": true}})
	const n, receipts = 20, 900
	for range n {
		h.as("planner").say(ch, obj{"to": "role:leads"})
	}
	if err := h.db.Write(t.Context(), false, func(stx *store.Tx) error {
		if _, err := stx.Exec(`WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM n WHERE n < ?)
			INSERT INTO openintent_receipt (message, agent, at) SELECT seq, 'reader' || n, 1 FROM openintent_message, n`, receipts); err != nil {
			return err
		}
		_, err := stx.Exec("UPDATE openintent_message SET receipts = 1")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	h.restart()
	seen := h.looks()
	h.as("reviewer").get("/intents/" + in + "/events").ok(200)
	// The last of a read may have as many as one message has.
	check := func(what string) {
		t.Helper()
		seen.mu.Lock()
		defer seen.mu.Unlock()
		rows := 0
		for _, l := range seen.all {
			if rows += l.rows; l.rows > maxLooked+receipts {
				t.Errorf("%s: a read has looked at %d rows", what, l.rows)
			}
		}
		if rows < n*receipts || len(seen.all) < n*receipts/(maxLooked+receipts) {
			t.Errorf("%s: %d reads, which have looked at %d rows", what, len(seen.all), rows)
		}
		seen.all = nil
	}
	check("a list of events")
	s := h.followFrom(h.as(""), "/subscribe"+ch, "0")
	for range n {
		s.next()
	}
	s.stop()
	check("a stream that resumes")
}
