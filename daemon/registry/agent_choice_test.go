package registry

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

func TestAgentsAreChosen(t *testing.T) {
	type attach struct {
		name    string
		domains string
		kinds   string
		running int
		most    int
	}
	list := func(s string) []string { return strings.Fields(s) }
	for _, c := range []struct {
		name     string
		attached []attach
		domain   string
		to       string
		want     string // an agent or a code
	}{
		{"nobody", nil, "", "", "no_agent"},
		{"the only one", []attach{{name: "a"}}, "", "", "a"},
		{"the longest domain", []attach{{name: "a", domains: "code"}, {name: "b", domains: "code.go docs"}, {name: "c", domains: "code"}}, "code.go.test", "", "b"},
		{"on label boundaries", []attach{{name: "a", domains: "code"}, {name: "b"}}, "codec", "", "b"},
		{"one without domains takes any", []attach{{name: "a"}, {name: "b", domains: "docs"}}, "code", "", "a"},
		{"a domain goes before none", []attach{{name: "a", domains: "code"}, {name: "b"}}, "code", "", "a"},
		{"no domain matches", []attach{{name: "a", domains: "code"}}, "docs", "", "unknown_domain"},
		{"no domain is asked for", []attach{{name: "a", domains: "code", running: 1}, {name: "b", domains: "docs"}, {name: "c", running: 1}}, "", "", "b"},
		{"ties go to the least busy", []attach{{name: "a", running: 1}, {name: "b", running: 2}}, "", "", "a"},
		{"then to the last attached", []attach{{name: "a"}, {name: "b"}}, "", "", "b"},
		{"one that is full is passed by", []attach{{name: "a", running: 2}, {name: "b", running: 1, most: 1}}, "", "", "a"},
		{"all are full", []attach{{name: "a", running: 4}}, "", "", "overloaded"},
		{"the best domain is full", []attach{{name: "a", domains: "code", running: 4}, {name: "b"}}, "code", "", "overloaded"},
		{"named", []attach{{name: "a"}, {name: "b"}}, "", "a", "a"},
		{"named, whatever its domains", []attach{{name: "a", domains: "code"}, {name: "b"}}, "docs", "a", "a"},
		{"named, and away", []attach{{name: "a"}}, "", "b", "no_agent"},
		{"kinds count", []attach{{name: "a"}, {name: "b", kinds: "notify"}}, "", "", "a"},
		{"none takes the kind", []attach{{name: "b", kinds: "notify"}}, "", "", "no_agent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewRegistry()
			for _, a := range c.attached {
				got, _, err := r.Attach(new(jsonrpc.Conn), client.AttachParams{Name: a.name, Domains: list(a.domains), Kinds: list(a.kinds), MaxConcurrent: a.most}, false, nil)
				if err != nil {
					t.Fatal(err)
				}
				got.running = a.running
			}
			p, err := r.ReserveAgent(identity.ID{}, true, kinds.KindQuery, c.domain, c.to)
			got := ""
			switch e, ok := errors.AsType[*kinds.Error](err); {
			case ok:
				got = string(e.Code)
			case err == nil:
				got = p.Agent.Name
			}
			if got != c.want {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

func TestOnePlaceIsLeftForOtherPeers(t *testing.T) {
	for _, c := range []struct{ concurrent, shared, whole int }{{4, 3, 4}, {2, 1, 2}, {1, 1, 1}} {
		for _, all := range []bool{false, true} {
			r := NewRegistry()
			if _, _, err := r.Attach(new(jsonrpc.Conn), client.AttachParams{Name: "reviewer", MaxConcurrent: c.concurrent}, false, nil); err != nil {
				t.Fatal(err)
			}
			var had []*Reservation
			for range 10 * c.concurrent {
				if p, err := r.ReserveAgent(identity.ID{1}, all, kinds.KindQuery, "", ""); err == nil {
					had = append(had, p)
				}
			}
			want := c.shared
			if all {
				want = c.whole
			}
			if len(had) != want {
				t.Errorf("of %d places one peer has %d (all: %v), want %d", c.concurrent, len(had), all, want)
			}
			for _, p := range had {
				r.ReleasePlace(p)
			}
			if a := had[0].Agent; len(a.runningOf) != 0 || a.running != 0 {
				t.Errorf("%d running after all were released, of %v", a.running, a.runningOf)
			}
		}
	}
}

// Of the sessions of one program in one directory, the one that began last goes first, however busy it is,
// unless it is full. Others keep their order.
func TestTheLatestSessionOfAFolderGoesFirst(t *testing.T) {
	at := func(minute int) client.Time {
		return client.Time{Time: time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)}
	}
	type attach struct {
		name, harness, folder string
		begun, running        int
	}
	for want, attached := range map[string][]attach{
		"new old":       {{"new", "codex", "a", 2, 1}, {"old", "codex", "a", 1, 0}}, // attached anew in another order
		"old full":      {{"full", "codex", "a", 2, 4}, {"old", "codex", "a", 1, 0}},
		"two one":       {{"one", "codex", "a", 2, 1}, {"two", "codex", "b", 1, 0}},
		"second first":  {{"first", "codex", "a", 2, 1}, {"second", "claude", "a", 1, 0}},
		"b a":           {{"a", "codex", "", 2, 1}, {"b", "codex", "", 1, 0}},
		"x2 y2 x1 y1":   {{"y1", "codex", "y", 1, 0}, {"x1", "codex", "x", 1, 0}, {"y2", "codex", "y", 2, 1}, {"x2", "codex", "x", 2, 1}},
		"c3 c2 c1 rest": {{"c1", "codex", "a", 1, 0}, {"c3", "codex", "a", 3, 2}, {"c2", "codex", "a", 2, 1}, {"rest", "codex", "b", 9, 3}},
	} {
		r := NewRegistry()
		for _, a := range attached {
			got, _, err := r.Attach(new(jsonrpc.Conn), client.AttachParams{Name: a.name, Session: &client.SessionInfo{Harness: a.harness, Folder: a.folder, Begun: at(a.begun)}}, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			got.running = a.running
		}
		var names []string
		for _, a := range r.FindSessions(kinds.KindQuery, "") {
			names = append(names, a.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// holds: security.md#the-budget
func TestAPeerThatIsAloneHasHalfOfASession(t *testing.T) {
	r := NewRegistry()
	if _, _, err := r.Attach(new(jsonrpc.Conn), client.AttachParams{Name: "claude", Session: &client.SessionInfo{Harness: "claude", Version: "2.1"}, MaxConcurrent: 16}, false, nil); err != nil {
		t.Fatal(err)
	}
	n := 0
	for range 20 {
		if _, err := r.ReserveAgent(identity.ID{1}, true, kinds.KindQuery, "", "claude"); err == nil {
			n++
		}
	}
	if n != 8 {
		t.Errorf("of 16 places one peer has %d", n)
	}
}

// Certified peers together have half of an agent's places while a trusted peer is connected, and keys of one
// name have what one peer may have.
// holds: security.md#the-budget
func TestCertifiedPeersLeaveHalfOfThePlaces(t *testing.T) {
	for _, c := range []struct {
		concurrent, keysOfName int
		trusted                bool // one is connected
		certified, rest        int  // places of certified peers, and then of a trusted one
	}{
		{concurrent: 8, keysOfName: 1, trusted: true, certified: 4, rest: 4},
		{concurrent: 8, keysOfName: 1, trusted: false, certified: 8, rest: 0},
		{concurrent: 8, keysOfName: 4, trusted: false, certified: 7, rest: 1},
		{concurrent: 1, keysOfName: 1, trusted: true, certified: 1, rest: 0},
	} {
		r := NewRegistry()
		r.Certified = func(id identity.ID) (string, bool) {
			return fmt.Sprintf("build-%d.corp", int(id[1])/c.keysOfName), id[0] == 1
		}
		r.IsTrustedConnected = func() bool { return c.trusted }
		if _, _, err := r.Attach(new(jsonrpc.Conn), client.AttachParams{Name: "reviewer", MaxConcurrent: c.concurrent}, false, nil); err != nil {
			t.Fatal(err)
		}
		reserve := func(id identity.ID) (n int) {
			for range c.concurrent {
				p, err := r.ReserveAgent(id, false, kinds.KindDelegate, "", "")
				if err != nil {
					continue
				}
				if n++; n%2 == 0 { // it is accepted
					r.AdjustAcceptedCount("reviewer", id, 1, p)
				}
			}
			return n
		}
		certified := 0
		for key := range 4 {
			certified += reserve(identity.ID{1, byte(key)})
		}
		if rest := reserve(identity.ID{2}); certified != c.certified || rest != c.rest {
			t.Errorf("%+v: certified peers have %d, and a trusted one %d", c, certified, rest)
		}
	}
}
