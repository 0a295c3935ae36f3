package openintent

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/openintent/chain"
	"github.com/acpd/acpd/openintent/object"
)

// telling lets a host of that id give these answers to lists.
func telling(home string, answers map[string]string) func(*Config) {
	return func(c *Config) {
		c.Gather = func(_ context.Context, _ Caller, path string, _ func(string, int) error) (map[string][]byte, []string) {
			path, _, _ = strings.Cut(path, "?")
			return map[string][]byte{home: []byte(answers[path])}, nil
		}
	}
}

// theirID is the id of an intent of a host, made at that time.
func theirID(home string, at time.Time, n int) string {
	id := object.NewID(home, object.IDIntent, chain.Time(at.UnixMicro()))
	return id[:len(id)-16] + fmt.Sprintf("%016d", n) // sorts by time, then by n
}

// What a host lists takes room in a list as far as the list may need it: an intent once,
// none of a time to come, and the agents here go before all others.
// holds: security.md#the-budget
func TestHostsDoNotCrowdOutWhatIsHere(t *testing.T) {
	answers := map[string]string{}
	h := start(t, telling(desk, answers))
	here := h.intent("planner")
	h.as("zoe").register(obj{}).ok(201)
	var intents, agents []string
	add := func(at time.Time, n int) {
		intents = append(intents, fmt.Sprintf(`{"id":%q,"title":"x"}`, theirID(desk, at, n)))
	}
	list := func() []string {
		t.Helper()
		answers["intents"] = `{"more":[{}],"intents":[` + strings.Join(intents, ",") + `]}`
		return h.as("planner").intents()
	}
	at := time.Now().Add(time.Hour)
	for range 80 {
		add(at, 1)
	}
	if got := list(); !slices.Equal(got, []string{theirsFrom(intents[0]), here}) {
		t.Errorf("of one intent that is told 80 times the list has %q", got)
	}
	intents = nil
	add(time.Now().Add(1000*time.Hour), 1)
	if got := list(); !slices.Equal(got, []string{here}) {
		t.Errorf("the list has an intent of a time to come: %q", got)
	}
	intents = nil
	for n := range 300 {
		add(time.Now().Add(-time.Hour), n)
	}
	if got := list(); len(got) != 50 || got[0] != here {
		t.Errorf("a list of %d begins with %s", len(got), got[0])
	}
	for n := range 3 * object.MaxList {
		agents = append(agents, fmt.Sprintf(`{"agent_id":"a%d","name":%q}`, n/2, strings.Repeat("x", 1000)))
	}
	answers["agents"] = "[" + strings.Join(agents, ",") + "]"
	got := h.as("planner").get("/agents").ok(200).list("agent_id")
	if len(got) != object.MaxList/2+1 || got[0] != "zoe" {
		t.Errorf("a list of %d agents begins with %v", len(got), got[0])
	}
}

func theirsFrom(doc string) string {
	var in object.Intent
	if err := json.Unmarshal([]byte(doc), &in); err != nil {
		panic(err)
	}
	return in.ID
}

// A host's answer that is no list of what was asked for costs no more than its bytes.
// holds: security.md#the-budget
func TestWhatIsNoListIsNotDecoded(t *testing.T) {
	for path, element := range map[string]string{"agents": "{},", "intents": "0,", "intents ": "{},"} {
		many := "[" + strings.Repeat(element, (4<<20)/len(element)) + "{}]"
		path = strings.TrimSpace(path)
		if path == "intents" {
			many = `{"intents":` + many + `}`
		}
		h := start(t, telling(desk, map[string]string{path: many}))
		here := h.intent("planner")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := h.as("planner").get("/" + path).ok(200)
		runtime.ReadMemStats(&after)
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 8<<20 {
			t.Errorf("%s of %q: %d bytes were needed", path, element, bytes)
		}
		if path == "intents" {
			if got := a.at("intents").([]any); len(got) != 1 || got[0].(obj)["id"] != here {
				t.Errorf("the list is %.200s", a.raw)
			}
		}
	}
	// What comes before an element that is none counts.
	one := theirID(desk, time.Now(), 1)
	for list, want := range map[string]int{`{"intents":[{"id":"%s"},0,{"id":"%s"}]}`: 1, `{"intents":{"id":"%s"}}`: 0, `{"a":1`: 0, `[{"id":"%s"}]`: 0, "": 0} {
		h := start(t, telling(desk, map[string]string{"intents": strings.ReplaceAll(list, "%s", one)}))
		if got := h.as("planner").intents(); len(got) != want {
			t.Errorf("%s gives %q", list, got)
		}
	}
}

// What hosts say for lists that are being put together is charged to them, as what they
// have not taken is, until the lists are done.
// holds: security.md#the-budget
func TestWhatHostsListIsCharged(t *testing.T) {
	const peer, list = 256 << 10, 64 << 10
	var h *host
	taken, refused, most := 0, 0, 10*peer/list // ten times the share, all at a time
	h = start(t, func(c *Config) {
		c.Gather = func(_ context.Context, _ Caller, _ string, room func(string, int) error) (map[string][]byte, []string) {
			err := room(desk, list)
			if err != nil {
				refused++
			} else {
				taken++
			}
			if n := held(h.e.unread, desk); n > peer {
				t.Errorf("%d bytes are charged", n)
			}
			if taken+refused < most {
				h.as("reviewer").get("/intents").ok(200)
			}
			if err != nil {
				return nil, []string{desk}
			}
			return nil, nil
		}
	})
	h.e.unread = new(budget.Book).OpenAccount(budget.Row{Name: "answers", Unit: budget.Bytes, Peer: peer, All: 4 * peer})
	h.as("planner").get("/intents").ok(200)
	if taken < 3 || taken > peer/list || taken+refused != most {
		t.Errorf("of %d lists at a time there was room for %d", most, taken)
	}
	if n := held(h.e.unread, desk); n != 0 {
		t.Errorf("%d bytes are charged when all is over", n)
	}
	before := taken
	h.as("planner").get("/intents").ok(200)
	if taken != before+1 {
		t.Error("there is no room for the next list")
	}
}
