package config

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/identity"
)

func TestDecide(t *testing.T) {
	policy := Policy{
		"*":               {Kinds: []string{"ping"}},
		"planner":         {Kinds: []string{"query", "mail"}, Domains: []string{"code", "docs.api"}},
		"reviewer":        {Domains: []string{"code"}},
		"laptop":          {Kinds: []string{}},
		deskID.String():   {Kinds: []string{"notify"}},
		laptopID.String(): {Kinds: []string{"channel"}},
	}
	other := identity.ID{1}
	for _, c := range []struct {
		policy             Policy
		peer               identity.ID
		name, kind, domain string
		allowed            bool
		rule               string
	}{
		{nil, other, "planner", "query", "code", true, "no rule"},
		{Policy{"laptop": {}}, other, "planner", "query", "", true, "no rule"},
		{policy, other, "", "ping", "", true, `policy.*: allows "ping"`},
		{policy, other, "stranger", "query", "", false, `policy.*: kinds [ping] do not include "query"`},

		// The id before the name, the name before "*"; they do not add up.
		{policy, deskID, "planner", "notify", "", true, "policy." + deskID.String()},
		{policy, deskID, "planner", "query", "code", false, "policy." + deskID.String()},
		{policy, laptopID, "laptop", "channel", "", true, "policy." + laptopID.String()},
		{policy, other, "planner", "ping", "", false, "policy.planner: kinds"},
		{policy, other, "laptop", "ping", "", false, "policy.laptop: kinds [] do not include"},

		// Domains, on label boundaries.
		{policy, other, "planner", "query", "code", true, "policy.planner: allows \"query\" in domain code"},
		{policy, other, "planner", "query", "code.go", true, "in domain code"},
		{policy, other, "planner", "query", "code.go.test", true, "in domain code"},
		{policy, other, "planner", "query", "codec", false, `policy.planner: domains [code, docs.api] do not include "codec"`},
		{policy, other, "planner", "query", "cod", false, "do not include"},
		{policy, other, "planner", "query", "docs", false, "do not include"},
		{policy, other, "planner", "query", "docs.api.v1", true, "in domain docs.api"},
		{policy, other, "planner", "query", "go.code", false, "do not include"},
		{policy, other, "planner", "query", "Code", false, "do not include"},
		{policy, other, "planner", "query", "", false, "the message names none"},
		{policy, other, "planner", "mail", "", false, "the message names none"},
		{policy, other, "planner", "delegate", "code", false, "kinds [query, mail]"},
		{policy, other, "reviewer", "delegate", "code", true, "policy.reviewer"},
		{policy, other, "reviewer", "ping", "", false, "the message names none"},
		{Policy{"*": {Domains: []string{}}}, other, "", "query", "code", false, "domains []"},

		// What belongs to a delegation passes every rule.
		{policy, other, "laptop", "cancel", "", true, "always allowed"},
		{policy, other, "laptop", "result", "", true, "always allowed"},
		{policy, other, "laptop", "error", "", true, "always allowed"},

		{policy, other, "laptop", "x\x1b[2J\n" + strings.Repeat("y", 1000), "", false, `x\x1b[2J\n`},
	} {
		got := c.policy.Decide(c.peer, c.name, c.kind, c.domain)
		if got.Allowed != c.allowed || !strings.Contains(got.Rule, c.rule) {
			t.Errorf("%s %q %s %q: %+v, want %v %s", c.peer.Label(), c.name, c.kind, c.domain, got, c.allowed, c.rule)
		}
		if len(got.Rule) > 300 {
			t.Errorf("%d bytes of text", len(got.Rule))
		}
	}
}

func TestFindRate(t *testing.T) {
	limits := Limits{Rate: []Rate{
		{Peer: "*", Kind: "*", Burst: 1},
		{Peer: "*", Kind: "query", Burst: 2},
		{Peer: "planner", Kind: "*", Burst: 3},
		{Peer: "planner", Kind: "query", Burst: 4},
		{Peer: deskID.String(), Kind: "*", Burst: 5},
	}}
	for _, c := range []struct {
		peer       identity.ID
		name, kind string
		want       int
	}{
		{laptopID, "", "ping", 1},
		{laptopID, "laptop", "query", 2},
		{laptopID, "planner", "ping", 3},
		{laptopID, "planner", "query", 4},
		{deskID, "planner", "query", 5},
	} {
		if got := limits.FindRate(c.peer, c.name, c.kind); got != c.want-1 {
			t.Errorf("%q %s: entry %d, want %d", c.name, c.kind, got, c.want-1)
		}
	}
	some := Limits{Rate: []Rate{{Peer: "planner", Kind: "query", Burst: 1}}}
	for _, kind := range []string{"query", "ping"} {
		if got := some.FindRate(laptopID, "laptop", kind); got >= 0 {
			t.Errorf("another peer's %s: %d", kind, got)
		}
	}
	if got := some.FindRate(laptopID, "planner", "ping"); got >= 0 {
		t.Errorf("another kind: %d", got)
	}
}

func TestCountRule(t *testing.T) {
	c := mustParse(t, "policy:\n  planner: {kinds: []}\n  \"*\": {kinds: []}\n  laptop: {kinds: []}\n")
	for key, want := range map[string]int{"policy.planner": 1, "policy.*": 2, "policy.laptop": 3} {
		if place, all := c.CountRule(key); place != want || all != 3 || c.Lines[key] != want+1 {
			t.Errorf("%s is %d of %d in line %d, want %d of 3 in line %d", key, place, all, c.Lines[key], want, want+1)
		}
	}
}
