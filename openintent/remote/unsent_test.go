package remote

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/store"
)

// A message that waited and that its host then refuses is told to its sender with what the
// host said: in its own list and by its id, after a restart, and though the sender has lost
// access.
func TestWhatWasRefusedIsTold(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	planner, reviewer := desk.agent("planner"), laptop.agent("reviewer")
	intent := planner.must(201, "POST", "intents", obj{"title": "Ship it"})["id"].(string)
	channel := "channels/" + planner.must(201, "POST", "intents/"+intent+"/channels", obj{"name": "build"})["id"].(string)
	reviewer.must(200, "GET", channel, nil)
	planner.must(200, "PUT", "intents/"+intent+"/acl", obj{"policy": "closed"})
	desk.stop()
	ids := []string{
		reviewer.must(201, "POST", channel+"/messages", obj{"message_type": "notify", "payload": obj{"n": 1}})["id"].(string),
		reviewer.must(201, "POST", "intents/"+intent+"/channels/build/messages", obj{"payload": obj{"text": strings.Repeat("x", maxRefusal)}})["id"].(string),
	}
	told := func(want string) {
		t.Helper()
		for name, all := range map[string]int{"reviewer": 2, "": 2, "tester": 0} {
			list := laptop.agent(name).list("unsent")
			if len(list) != all {
				t.Fatalf("%q is told of %d: %v", name, len(list), list)
			}
			for i, m := range list {
				if m["id"] != ids[i] || m["status"] != want || m["host"] != desk.key.ID().String() || m["sender"] != "reviewer" {
					t.Errorf("%q is told: %v", name, m)
				}
			}
		}
	}
	told("pending")
	first := reviewer.list("unsent?limit=1")
	if len(first) != 1 || first[0]["id"] != ids[0] {
		t.Fatalf("the first: %v", first)
	}
	if list := reviewer.list(fmt.Sprint("unsent?limit=1&after=", first[0]["seq"])); len(list) != 1 || list[0]["channel_name"] != "build" || list[0]["intent_id"] != intent {
		t.Errorf("the second: %v", list)
	}
	desk.start()
	await.Until(t, "the refusals", func() bool {
		list := reviewer.list("unsent")
		return list[0]["status"] == "refused" && list[1]["status"] == "refused"
	})
	laptop.again()
	reviewer = laptop.agent("reviewer")
	told("refused")
	for i, id := range ids {
		m := reviewer.must(200, "GET", channel+"/messages/"+id, nil)
		why, _ := m["refusal"].(obj)
		text, _ := why["message"].(string)
		if m["status"] != "refused" || why["status"] != 404.0 || why["error"] != "not_found" || text == "" || (m["truncated"] == true) != (i == 1) || (m["payload"] == nil) != (i == 1) {
			t.Errorf("%d: %v", i, m)
		}
	}
	if answer := laptop.agent("tester").do("GET", channel+"/messages/"+ids[0], nil); answer.StatusCode != 404 {
		t.Errorf("another agent's message: %s", answer.Status)
	}
	if theirs := desk.agent("reviewer").list("unsent"); len(theirs) != 0 {
		t.Errorf("the agent of that id elsewhere: %v", theirs)
	}
}

// Refusals are kept within bounds: of an agent at a host, of all, in bytes and in time,
// also after a restart.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	db := openStore(t)
	away := func(context.Context, *outgoingMessage) (int, []byte, error) {
		return 0, nil, kinds.Errorf(kinds.Unreachable, "away")
	}
	open := func() *messageQueue {
		t.Helper()
		q, err := openMessageQueue(t.Context(), db, slog.New(slog.DiscardHandler), quiet(), away)
		if err != nil {
			t.Fatal(err)
		}
		q.mostRefused, q.mostAllRefused = 3, 8
		return q
	}
	q := open()
	check := func(want int) {
		t.Helper()
		var n, bytes int
		if err := db.Read(t.Context(), func(tx *store.Tx) error {
			return tx.QueryRow("SELECT count(*), coalesce(sum(length(answer) + length(refusal) + length(body)), 0) FROM carrier_parcel").Scan(&n, &bytes)
		}); err != nil {
			t.Fatal(err)
		}
		if n != want || bytes > n*3*maxRefusal {
			t.Fatalf("%d refusals of %d bytes are kept, want %d", n, bytes, want)
		}
	}
	message := fmt.Appendf(nil, `{"payload":{"text":%q}}`, strings.Repeat("x", 100<<10))
	for agent := range 5 {
		for i := range 5 {
			p := &outgoingMessage{id: fmt.Sprint("m", agent, "_", i), host: desk.ID, agent: fmt.Sprint("planner", agent), body: message, answer: message}
			if err := q.storeMessage(t.Context(), senderKey{p.host, p.agent}, p); err != nil {
				t.Fatal(err)
			}
			p, err := readInTransaction(t.Context(), q.db, func(tx *store.Tx) (*outgoingMessage, error) { return sqlReadMessage(tx, p.id) })
			if err != nil {
				t.Fatal(err)
			}
			if err := q.storeRefusal(t.Context(), p, http.StatusConflict, []byte(strings.Repeat("no", maxRefusal))); err != nil {
				t.Fatal(err)
			}
			if agent == 2 && i == 3 {
				q = open()
			}
		}
		check(min(3*(agent+1), 8))
	}
	for id, kept := range map[string]bool{"m0_4": false, "m1_4": false, "m2_2": false, "m2_3": true, "m4_1": false, "m4_2": true, "m4_4": true} {
		if m, err := q.findAgentMessage(t.Context(), id, "planner"+id[1:2]); err != nil || (m != nil) != kept {
			t.Errorf("%s: %s %v", id, m, err)
		}
	}
	if err := q.deleteOldRefused(t.Context(), time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	check(8)
	if err := q.deleteOldRefused(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	check(0)
}

// What a host says when it refuses is passed on as text, whatever it is.
func TestWhatAHostSaysWhenItRefuses(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]api.Refusal{
		`{"error":"not_found","message":"no such channel"}`: {Status: 404, Error: "not_found", Message: "no such channel"},
		`{"error":3}`:       {Status: 404, Error: "refused", Message: "the host refused the message with status 404: look at the channel, then send another"},
		`no`:                {Status: 404, Error: "refused", Message: "the host refused the message with status 404: look at the channel, then send another"},
		`{"status":"sent"}`: {Status: 404, Error: "refused", Message: "the host refused the message with status 404: look at the channel, then send another"},
	} {
		var m struct {
			ID      string      `json:"id"`
			Status  string      `json:"status"`
			Refusal api.Refusal `json:"refusal"`
		}
		if err := json.Unmarshal(describeRefusedMessage([]byte(`{"id":"m","status":"pending","payload":{}}`), 404, []byte(said)), &m); err != nil || m.ID != "m" || m.Status != "refused" || m.Refusal != want {
			t.Errorf("%s: %+v %v", said, m, err)
		}
	}
	r := httptest.NewRequest("GET", apiPath+"unsent", nil)
	speak(r, "planner")
	w := httptest.NewRecorder()
	home(t, func(context.Context) (Stream, error) { return nil, kinds.Errorf(kinds.Unreachable, "away") }).API.NewHandler(api.IdentifyLocalCaller).ServeHTTP(w, r)
	if w.Code != 200 || w.Body.String() != "[]" {
		t.Errorf("nothing: %d %s", w.Code, w.Body)
	}
}

// Hosts that refuse at once, when no more refusals are kept, push out one each.
func TestRefusalsAtOnce(t *testing.T) {
	t.Parallel()
	const most, more = 20, 40
	var all []outgoingMessage
	for n := range most + more {
		all = append(all, outgoingMessage{id: fmt.Sprint("m", n), agent: fmt.Sprint("planner", n), body: []byte("{}")})
	}
	q := sends(t, nil, all...)
	q.mostAllRefused = most
	refuse := func(n int) {
		p, err := readInTransaction(t.Context(), q.db, func(tx *store.Tx) (*outgoingMessage, error) { return sqlReadMessage(tx, fmt.Sprint("m", n)) })
		if err == nil {
			err = q.storeRefusal(t.Context(), p, http.StatusConflict, []byte("{}"))
		}
		if err != nil {
			t.Error(err)
		}
	}
	var refusing sync.WaitGroup
	for n := range all {
		if n < most {
			refuse(n)
		} else {
			refusing.Go(func() { refuse(n) })
		}
	}
	refusing.Wait()
	var kept int
	statedb.Query(t, q.db, &kept, "SELECT count(*) FROM carrier_parcel WHERE status <> 0")
	if kept != most {
		t.Errorf("%d refusals are kept of %d", kept, most)
	}
}

// The list of one agent's costs no look at those of others, nor a page those before it.
func TestPagesOfUnsentAreFound(t *testing.T) {
	t.Parallel()
	if err := sends(t, nil).db.Read(t.Context(), func(tx *store.Tx) error {
		for query, args := range map[string][]any{unsentOfAgent: {"planner", 5, 1}, unsentOfAll: {5, 1}} {
			if err := tx.EachRow("EXPLAIN QUERY PLAN "+query, func(scan func(...any) error) error {
				var a, b, c int
				var step string
				err := scan(&a, &b, &c, &step)
				if !strings.HasPrefix(step, "SEARCH") {
					t.Errorf("%s: %s", query, step)
				}
				return err
			}, args...); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
