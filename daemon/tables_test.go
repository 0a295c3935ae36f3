package daemon

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/config"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

func notifyOf(text string) *wire.Envelope {
	return &wire.Envelope{ID: wire.NewMessageID(), Kind: kinds.KindNotify, Payload: wire.Payload(`{"topic":"` + text + `"}`), Thread: "t", Hops: 3}
}

func TestRepeatsForgetAfterTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, from, env := newRepeats(), identity.ID{1}, notifyOf("a")
		first, fresh, err := r.begin(from, env)
		if !fresh || err != nil {
			t.Fatal(fresh, err)
		}
		waited := make(chan outcome)
		again, fresh, err := r.begin(from, env)
		if fresh || err != nil {
			t.Fatal(fresh, err)
		}
		go func() { waited <- r.wait(t.Context(), again) }()
		synctest.Wait()
		r.finish(first, outcome{state: wire.Held})
		if out := <-waited; out.state != wire.Held {
			t.Errorf("%+v", out)
		}
		if c, ok := r.find(env.ID); !ok || c.thread != "t" || c.hops != 3 {
			t.Errorf("%+v %v", c, ok)
		}
		other := *env
		other.Payload = wire.Payload(`{"topic":"b"}`)
		if _, _, err := r.begin(from, &other); !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
			t.Error(err)
		}
		if _, fresh, _ := r.begin(identity.ID{2}, env); !fresh {
			t.Error("another peer's message of the same id counts as a repeat")
		}
		time.Sleep(repeatsFor - time.Nanosecond)
		if _, fresh, _ := r.begin(from, env); fresh {
			t.Error("forgotten too early")
		}
		time.Sleep(time.Nanosecond)
		if _, fresh, _ := r.begin(from, env); !fresh {
			t.Error("remembered too long")
		}
	})
}

func TestRepeatsAreBounded(t *testing.T) {
	r, from := newRepeats(), identity.ID{1}
	first := notifyOf("first")
	r.begin(from, first)
	for range repeatsPerPeer {
		r.begin(from, notifyOf("more"))
	}
	if n := len(r.peers[from].order); n != repeatsPerPeer || r.n != n || len(r.peers[from].runs) != n {
		t.Errorf("%d, %d and %d entries", n, r.n, len(r.peers[from].runs))
	}
	if _, fresh, _ := r.begin(from, first); !fresh {
		t.Error("the oldest stays")
	}
	r.n = repeatsInAll // as if other peers held the rest
	r.begin(identity.ID{2}, notifyOf("other"))
	if r.n != repeatsInAll-repeatsPerPeer/8+1 {
		t.Errorf("%d in all", r.n)
	}
	r.purge(from)
	if r.peers[from] != nil {
		t.Error("purge leaves some")
	}
}

func TestRefusalsAreForgotten(t *testing.T) {
	r, from, env := newRepeats(), identity.ID{1}, notifyOf("a")
	first, _, _ := r.begin(from, env)
	r.forget(from, first, outcome{err: kinds.Errorf(kinds.Overloaded, "full")})
	if _, fresh, _ := r.begin(from, env); !fresh || r.n != 1 {
		t.Errorf("fresh %v, %d entries", fresh, r.n)
	}
}

func TestDiscoveriesLastAMinuteAndARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, key, boot := newAbilities(), abilityKey{identity.ID{1}, ""}, wire.Boot{1}
		c.put(key, boot, &client.Answer{})
		if c.get(key, boot) == nil || c.get(key, wire.Boot{2}) != nil || c.get(abilityKey{identity.ID{1}, "planner"}, boot) != nil {
			t.Error("another answer than the one of this run")
		}
		time.Sleep(abilitiesFor)
		if c.get(key, boot) != nil {
			t.Error("it lasts too long")
		}
		for i := range 2 * maxAbilities {
			c.put(abilityKey{identity.ID{1}, fmt.Sprint(i)}, boot, &client.Answer{})
		}
		if len(c.found) > maxAbilities {
			t.Errorf("%d entries", len(c.found))
		}
		c.purge(identity.ID{1})
		if len(c.found) != 0 {
			t.Error("purge leaves some")
		}
	})
}

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
			r := newAgents()
			for _, a := range c.attached {
				got, _, err := r.attach(new(client.Conn), client.AttachParams{Name: a.name, Domains: list(a.domains), Kinds: list(a.kinds), MaxConcurrent: a.most})
				if err != nil {
					t.Fatal(err)
				}
				got.running = a.running
			}
			a, err := r.pick(kinds.KindQuery, c.domain, c.to)
			got := ""
			var e *kinds.Error
			switch {
			case errors.As(err, &e):
				got = string(e.Code)
			case err == nil:
				got = a.Name
			}
			if got != c.want {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

func TestInboxIsBounded(t *testing.T) {
	ts := table(t)
	b, err := openInbox(t.Context(), ts.db)
	if err != nil {
		t.Fatal(err)
	}
	big := &wire.Envelope{V: 1, ID: wire.NewMessageID(), From: identity.ID{1}, To: identity.ID{2}, Kind: kinds.KindNotify, Payload: wire.Payload(`{"topic":"t","data":"` + long(16<<20) + `"}`)}
	n := 0
	for err == nil {
		big.ID = wire.NewMessageID()
		if err = b.hold(t.Context(), big); err == nil {
			n++
		}
	}
	if n != 3 || !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
		t.Errorf("%d held, then %v", n, err)
	}
	again, err := openInbox(t.Context(), ts.db)
	if err != nil || len(again.held) != len(b.held) || again.bytes != b.bytes || len(b.held) != 3 {
		t.Errorf("%d and %d bytes, after a restart %d and %d: %v", len(b.held), b.bytes, len(again.held), again.bytes, err)
	}
	if err := b.purge(t.Context(), big.From); err != nil || len(b.held) != 0 || b.bytes != 0 {
		t.Errorf("%d and %d bytes after purge: %v", len(b.held), b.bytes, err)
	}
}

func TestBucketsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(identity.NewTrust(), &config.Config{Limits: config.Limits{Rate: []config.Rate{{Peer: "*", Kind: "*", PerSecond: 1, Burst: 1}}}})
		allow := func(n int) error {
			return g.allow(identity.Peer{ID: identity.ID{byte(n), byte(n >> 8), byte(n >> 16)}}, kinds.KindQuery)
		}
		for n := range maxBuckets + 1 {
			if err := allow(n); err != nil {
				t.Fatal(err)
			}
		}
		if len(g.buckets) > maxBuckets {
			t.Errorf("%d buckets", len(g.buckets))
		}
		if err := allow(maxBuckets); !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if err := allow(maxBuckets); err != nil {
			t.Error(err)
		}
	})
}
