package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/kinds"
)

// A name is kept for ten minutes, to the nanosecond, and names without work are not.
// holds: security.md#agents-on-this-machine
func TestNamesAreKeptForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, open := NewRegistry(), map[string]bool{"planner": true}
		attach := func(name, key string) (*Agent, error) {
			a, _, err := r.Attach(new(jsonrpc.Conn), client.AttachParams{Name: name, Key: key}, true, open)
			return a, err
		}
		first, err := attach("planner", "")
		if err != nil {
			t.Fatal(err)
		}
		idle, err := attach("reviewer", "")
		if err != nil {
			t.Fatal(err)
		}
		working := func() map[string]bool { return open }
		r.Detach(first.Conn, working)
		r.Detach(idle.Conn, working)
		if len(r.protectedNames) != 1 {
			t.Errorf("kept: %v", r.protectedNames)
		}
		time.Sleep(NameKeptFor - time.Nanosecond)
		if _, err := attach("planner", ""); !errors.Is(err, &kinds.Error{Code: kinds.NotAuthorized}) || kinds.AsError(err).Reason() != kinds.ReasonNameTaken {
			t.Errorf("before the time: %v", err)
		}
		if err := r.CheckCredential(Credential{"planner", first.KeyHash}); err != nil {
			t.Errorf("its key: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if err := r.CheckCredential(Credential{"planner", first.KeyHash}); err == nil {
			t.Error("its key speaks for it after the time")
		}
		if _, err := attach("planner", ""); err != nil {
			t.Errorf("after the time: %v", err)
		}
	})
}

// An agent that declares itself anew on its connection is attached since the first time; on another connection, anew.
func TestSinceWhenAnAgentIsAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, conn := NewRegistry(), new(jsonrpc.Conn)
		attach := func(conn *jsonrpc.Conn, name, key string) *Agent {
			time.Sleep(time.Second)
			a, _, err := r.Attach(conn, client.AttachParams{Name: name, Key: key}, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		first := attach(conn, "codex", "")
		for _, key := range []string{first.Key, ""} {
			if a := attach(conn, "codex", key); !a.since.Equal(first.since) {
				t.Errorf("declared with key %q: since %v, want %v", key, a.since, first.since)
			}
		}
		if a := attach(conn, "planner", first.Key); a.since.Equal(first.since) {
			t.Error("under another name it keeps the time")
		}
		planner := attach(conn, "planner", first.Key)
		if a := attach(new(jsonrpc.Conn), "planner", first.Key); a.since.Equal(planner.since) {
			t.Error("on another connection it keeps the time")
		}
	})
}

// Agents in the folder shut nobody out of acp.sock.
// holds: security.md#agents-on-this-machine
func TestGuestsLeavePlacesForTheOwner(t *testing.T) {
	r := NewRegistry()
	attach := func(guest bool) error {
		_, _, err := r.Attach(new(jsonrpc.Conn), client.AttachParams{Name: NewAgentKey()[:32]}, guest, nil)
		return err
	}
	for range maxGuests {
		if err := attach(true); err != nil {
			t.Fatal(err)
		}
	}
	if err := attach(true); !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
		t.Errorf("one guest more: %v", err)
	}
	for range MaxAgents - maxGuests {
		if err := attach(false); err != nil {
			t.Fatal(err)
		}
	}
	if err := attach(false); !errors.Is(err, &kinds.Error{Code: kinds.Overloaded}) {
		t.Errorf("one agent more: %v", err)
	}
}

// What agents declare fits into one answer of discover, however many there are, and each is heard.
func TestDeclarationsAreBounded(t *testing.T) {
	for field, p := range map[string]client.AttachParams{
		"capabilities":   {Name: "a", Capabilities: &kinds.Capabilities{Tools: []string{strings.Repeat("x", maxDeclaration)}}},
		"escaped":        {Name: "a", Capabilities: &kinds.Capabilities{Model: strings.Repeat("\x01", maxDeclaration/4)}},
		"max_concurrent": {Name: "a", MaxConcurrent: maxConcurrent + 1},
	} {
		if err := checkAttachParams(&p); err == nil {
			t.Errorf("%s: no error", field)
		}
	}
	r := NewRegistry()
	for i := range MaxAgents {
		first := fmt.Sprintf("first tool of %d", i)
		p := client.AttachParams{Name: fmt.Sprintf("agent-%d", i), MaxConcurrent: maxConcurrent, Capabilities: &kinds.Capabilities{Tools: []string{first}}}
		for range 220 { // as many as there is room for
			p.Capabilities.Tools = append(p.Capabilities.Tools, fmt.Sprintf("%d, %d: %s", i, len(p.Capabilities.Tools), strings.Repeat("\x01", 8)))
		}
		if err := checkAttachParams(&p); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.Attach(new(jsonrpc.Conn), p, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	sum, err := r.DescribeCapabilities("laptop", "")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(kinds.EncodePayload(sum)); n > maxDescribed+MaxAgents*maxAgentName || sum.MaxConcurrentTasks != MaxAgents*maxConcurrent {
		t.Errorf("%d bytes, %d tasks", n, sum.MaxConcurrentTasks)
	}
	for i := range MaxAgents {
		if first := fmt.Sprintf("first tool of %d", i); !slices.Contains(sum.Tools, first) {
			t.Errorf("there is no %s", first)
		}
	}
	one, err := r.DescribeCapabilities("laptop", "agent-7")
	if err != nil || len(one.Tools) < 2 || one.AgentName != "agent-7" {
		t.Errorf("of one: %d tools, %v", len(one.Tools), err)
	}
}

// What a list of all agents says of each fits into one answer of the socket, however much they
// declare, and each is in it.
func TestListedDeclarationsAreBounded(t *testing.T) {
	r := NewRegistry()
	var long []string
	for i := range 60 { // as many as there is room for
		long = append(long, fmt.Sprintf("d%d.%s", i, strings.TrimSuffix(strings.Repeat(strings.Repeat("x", 61)+".", 4), ".")))
	}
	for i := range MaxAgents {
		p := client.AttachParams{Name: fmt.Sprintf("agent-%d", i), Domains: append([]string{fmt.Sprintf("domain-%d", i)}, long[:30]...), Topics: long[30:]}
		if err := checkAttachParams(&p); err != nil {
			t.Fatal(err)
		}
		mustAttach(t, r, p)
		if i > 0 {
			continue
		}
		if one := r.ListAgents()[0]; !slices.Equal(one.Domains, p.Domains) || !slices.Equal(one.Topics, p.Topics) {
			t.Errorf("of one: %d domains, %d topics", len(one.Domains), len(one.Topics))
		}
	}
	all := r.ListAgents()
	if n := len(kinds.EncodePayload(&client.Status{Agents: all})); n > maxDescribed+MaxAgents*maxAgentRow {
		t.Errorf("%d bytes", n)
	}
	for i, a := range all {
		if len(a.Domains) == 0 || a.Domains[0] != fmt.Sprintf("domain-%d", i) {
			t.Errorf("%s: %q", a.Name, a.Domains)
		}
	}
}

// maxAgentRow is more than the other fields of these agents take in JSON.
const maxAgentRow = 512

// maxAgentName is more than an agent's name takes in JSON.
const maxAgentName = 100

// An agent that attaches learns that its name is another's, also where it could replace that one.
func TestATakenNameIsSaidToBe(t *testing.T) {
	r := NewRegistry()
	for i, guest := range []bool{false, false, true} {
		_, _, err := r.Attach(new(jsonrpc.Conn), client.AttachParams{Name: "planner"}, guest, nil)
		switch {
		case i == 0 && err != nil:
			t.Fatal(err)
		case i > 0 && (!errors.Is(err, &kinds.Error{Code: kinds.Invalid}) || kinds.AsError(err).Reason() != kinds.ReasonNameTaken):
			t.Errorf("guest %v: %v", guest, err)
		}
	}
	if err := checkAttachParams(&client.AttachParams{Name: "a/b"}); err == nil || kinds.AsError(err).Reason() != "" {
		t.Errorf("a name that nobody can have: %v", err)
	}
}

// The registry asks for open work while it is not locked: the table of delegations, which
// answers, is locked while it calls the registry.
func TestDetachAsksUnlocked(t *testing.T) {
	r := NewRegistry()
	a, _, err := r.Attach(new(jsonrpc.Conn), client.AttachParams{Name: "planner"}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	asked := false
	r.Detach(a.Conn, func() map[string]bool {
		if asked = r.mu.TryLock(); asked {
			r.mu.Unlock()
		}
		return nil
	})
	if !asked {
		t.Error("the registry is locked, or asks nothing")
	}
}

// A list of kinds without end fills neither the memory nor the list of agents.
func TestKindsAreDeclaredOnce(t *testing.T) {
	r := NewRegistry()
	for _, c := range []struct {
		times int
		taken bool
	}{{1, true}, {2, false}} {
		p := client.AttachParams{Name: "planner", Kinds: slices.Repeat(kinds.ListNames(kinds.Offered), c.times)}
		if _, _, err := r.Attach(nil, p, true, nil); (err == nil) != c.taken || err != nil && !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
			t.Errorf("each kind %d times: %v", c.times, err)
		}
	}
}
