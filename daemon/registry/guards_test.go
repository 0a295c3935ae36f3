package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
)

func mustAttach(t *testing.T, r *Registry, p client.AttachParams) *Agent {
	t.Helper()
	a, _, err := r.Attach(new(jsonrpc.Conn), p, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func session(name string, domains ...string) client.AttachParams {
	return client.AttachParams{Name: name, Session: &client.SessionInfo{Harness: "claude"}, Domains: domains}
}

func listNames(agents []*Agent) (names []string) {
	for _, a := range agents {
		names = append(names, a.Name)
	}
	return names
}

// A session takes what names it, and nothing else; it has one place for a peer at least.
func TestASessionTakesWhatNamesIt(t *testing.T) {
	r := NewRegistry()
	p := session("claude", "code")
	p.MaxConcurrent = 1
	mustAttach(t, r, p)
	if _, err := r.ReserveAgent(identity.ID{1}, true, kinds.KindQuery, "", ""); !errors.Is(err, &kinds.Error{Code: kinds.NoAgent}) {
		t.Errorf("what names no agent: %v", err)
	}
	if _, err := r.ReserveAgent(identity.ID{1}, false, kinds.KindQuery, "", "claude"); err != nil {
		t.Errorf("what names it: %v", err)
	}
	_, err := r.ReserveAgent(identity.ID{2}, false, kinds.KindQuery, "", "claude")
	if e := kinds.AsError(err); e.Code != kinds.Overloaded || e.RetryAfterMS != RetryAfterMS {
		t.Errorf("one that is full: %v", err)
	}
	mustAttach(t, r, client.AttachParams{Name: "a", Domains: []string{"docs"}})
	mustAttach(t, r, client.AttachParams{Name: "b", Domains: []string{"music"}, Kinds: []string{kinds.KindNotify}})
	_, err = r.ReserveAgent(identity.ID{2}, false, kinds.KindQuery, "code", "")
	if e := kinds.AsError(err); e.Code != kinds.UnknownDomain || string(e.Details) != `{"domains":["docs"]}` {
		t.Errorf("the domains there are: %v, %s", err, e.Details)
	}
}

// What a peer has of an agent is what runs and what the agent has accepted.
func TestAcceptedWorkCountsToItsPeer(t *testing.T) {
	r := NewRegistry()
	idle := mustAttach(t, r, client.AttachParams{Name: "idle", Kinds: []string{kinds.KindNotify}})
	a := mustAttach(t, r, client.AttachParams{Name: "reviewer", MaxConcurrent: 3})
	first, err := r.ReserveAgent(identity.ID{1}, false, kinds.KindDelegate, "", "")
	if err != nil {
		t.Fatal(err)
	}
	r.AdjustAcceptedCount("reviewer", identity.ID{1}, 1, first)
	for range 2 { // giving it back once more changes nothing
		if n := r.countActive(a); n != 1 {
			t.Errorf("a place that became an accepted delegation counts %d times", n)
		}
		r.ReleasePlace(first)
	}
	if _, err := r.ReserveAgent(identity.ID{1}, false, kinds.KindQuery, "", ""); err != nil {
		t.Fatal(err)
	}
	var share *ShareError
	if _, err := r.ReserveAgent(identity.ID{1}, false, kinds.KindQuery, "", ""); !errors.As(err, &share) || !strings.Contains(err.Error(), "2 requests") {
		t.Errorf("a third place of one peer: %v", err)
	}
	if _, err := r.ReserveAgent(identity.ID{2}, false, kinds.KindQuery, "", ""); err != nil {
		t.Errorf("the last place, of another peer: %v", err)
	}
	if state, _, _ := r.SummarizeLoad(); state != client.DaemonBusy {
		t.Errorf("with one that is idle it is %s", state)
	}
	r.Detach(idle.Conn, func() map[string]bool { return nil })
	if state, active, attached := r.SummarizeLoad(); state != client.DaemonOverloaded || active != 3 || attached != 1 {
		t.Errorf("%s, %d active, %d attached", state, active, attached)
	}
	r.AdjustAcceptedCount("reviewer", identity.ID{1}, -1, nil)
	if len(r.accepted) != 0 {
		t.Errorf("left: %v", r.accepted)
	}
	if state, _, _ := NewRegistry().SummarizeLoad(); state != client.DaemonIdle {
		t.Errorf("without agents it is %s", state)
	}
}

// Sessions are tried in the order of their domains, of their free places, of how busy they are and of
// when they attached.
func TestTheOrderOfSessions(t *testing.T) {
	r := NewRegistry()
	mustAttach(t, r, client.AttachParams{Name: "worker"})
	notify := session("notify")
	notify.Kinds = []string{kinds.KindNotify}
	mustAttach(t, r, notify)
	for _, c := range []struct {
		name    string
		domains string
		running int
		most    int
	}{{"any", "", 0, 4}, {"docs", "docs", 0, 4}, {"code", "code", 0, 4}, {"go", "code.go", 3, 4}, {"full", "", 1, 1}, {"busy", "", 2, 4}, {"late", "", 0, 4}} {
		p := session(c.name, strings.Fields(c.domains)...)
		p.MaxConcurrent = c.most
		mustAttach(t, r, p).running = c.running
	}
	for domain, want := range map[string][]string{
		"":          {"late", "code", "docs", "any", "busy", "go", "full"},
		"code.go.x": {"go", "code", "late", "any", "busy", "full"},
		"music":     {"late", "any", "busy", "full"},
	} {
		if got := listNames(r.FindSessions(kinds.KindQuery, domain)); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", domain, got, want)
		}
	}
}

// Who takes a notice is who wants its kind and its topic, or who is named.
func TestTakers(t *testing.T) {
	r := NewRegistry()
	mustAttach(t, r, client.AttachParams{Name: "all"})
	mustAttach(t, r, client.AttachParams{Name: "builds", Topics: []string{"build"}})
	mustAttach(t, r, client.AttachParams{Name: "queries", Kinds: []string{kinds.KindQuery}})
	for _, c := range []struct {
		topic, name string
		want        []string
	}{
		{"", "", []string{"all", "builds"}},
		{"build.done", "", []string{"all", "builds"}},
		{"deploy", "", []string{"all"}},
		{"", "builds", []string{"builds"}},
		{"deploy", "builds", nil},
		{"", "queries", nil},
	} {
		if got := listNames(r.FindTakers(kinds.KindNotify, c.topic, c.name)); !slices.Equal(got, c.want) {
			t.Errorf("%q for %q: %v", c.topic, c.name, got)
		}
	}
}

// A key is 64 hex digits, and speaks for its own agent alone.
func TestKeys(t *testing.T) {
	for _, key := range []string{"", "00", strings.Repeat("0", 62), strings.Repeat("0", 66), strings.Repeat("x", 64)} {
		if _, err := HashAgentKey("speak", key); !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
			t.Errorf("%q: %v", key, err)
		}
	}
	r := NewRegistry()
	a, b := mustAttach(t, r, client.AttachParams{Name: "a"}), mustAttach(t, r, client.AttachParams{Name: "b"})
	for as, want := range map[Credential]kinds.Code{{"a", a.KeyHash}: "", {"a", b.KeyHash}: kinds.NotAuthorized, {"c", a.KeyHash}: kinds.NoAgent, {"c", KeyHash{}}: kinds.NoAgent} {
		if err := r.CheckCredential(as); err == nil != (want == "") || err != nil && kinds.AsError(err).Code != want {
			t.Errorf("%s: %v, want %q", as.Name, err, want)
		}
	}
}

// Who has a name: the agent of the same connection, or of the same key, or whoever may take it over.
func TestWhoReplacesWhom(t *testing.T) {
	r := NewRegistry()
	conn := new(jsonrpc.Conn)
	attach := func(conn *jsonrpc.Conn, p client.AttachParams) (*Agent, []*Agent, error) {
		return r.Attach(conn, p, false, nil)
	}
	first, _, err := attach(conn, client.AttachParams{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	again, replaced, err := attach(conn, client.AttachParams{Name: "a"})
	if err != nil || len(replaced) != 1 || again.Key != first.Key || again.KeyHash != first.KeyHash {
		t.Errorf("the same connection: %v, %v", replaced, err)
	}
	if _, _, err := attach(conn, client.AttachParams{Name: "a", Key: NewAgentKey()}); err == nil {
		t.Error("the same connection replaces its agent with another key")
	}
	if _, _, err := attach(new(jsonrpc.Conn), client.AttachParams{Name: "a"}); err == nil {
		t.Error("another connection has the name")
	}
	if back, replaced, err := attach(new(jsonrpc.Conn), client.AttachParams{Name: "a", Key: first.Key}); err != nil || len(replaced) != 1 || back.KeyHash != first.KeyHash {
		t.Errorf("the same key: %v, %v", replaced, err)
	}
	over, replaced, err := attach(conn, client.AttachParams{Name: "a", TakeOver: true})
	if err != nil || len(replaced) != 1 || over.KeyHash == first.KeyHash {
		t.Errorf("take over: %v, %v", replaced, err)
	}
	if _, replaced, err := attach(conn, client.AttachParams{Name: "b"}); err != nil || len(replaced) != 1 || r.FindByName("a") != nil {
		t.Errorf("another name of the same connection: %v, %v", replaced, err)
	}
}

// The name that an agent gives up for another one is kept for its key, if it left work. The owner needs
// no key for it, and with the key anybody has it back.
func TestANameThatWasGivenUpIsKept(t *testing.T) {
	r, open, conn := NewRegistry(), map[string]bool{"a": true}, new(jsonrpc.Conn)
	first, _, err := r.Attach(conn, client.AttachParams{Name: "a"}, true, open)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Attach(conn, client.AttachParams{Name: "b"}, true, open); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Attach(new(jsonrpc.Conn), client.AttachParams{Name: "a"}, true, open); !errors.Is(err, &kinds.Error{Code: kinds.NotAuthorized}) {
		t.Errorf("without the key: %v", err)
	}
	back, _, err := r.Attach(new(jsonrpc.Conn), client.AttachParams{Name: "a", Key: first.Key}, true, open)
	if err != nil || len(r.protectedNames) != 0 {
		t.Fatalf("with the key: %v; kept %v", err, r.protectedNames)
	}
	r.Detach(back.Conn, func() map[string]bool { return open })
	if _, _, err := r.Attach(new(jsonrpc.Conn), client.AttachParams{Name: "a"}, false, open); err != nil {
		t.Errorf("the owner, without the key: %v", err)
	}
	r.ProtectName("d", first.KeyHash, first.since)
	r.Detach(r.FindByName("a").Conn, func() map[string]bool { return open })
	if _, kept := r.protectedNames["d"]; kept {
		t.Error("a name without open work is kept")
	}
	r.ProtectName("c", first.KeyHash, first.since)
	if _, _, err := r.Attach(new(jsonrpc.Conn), client.AttachParams{Name: "c"}, true, open); err != nil {
		t.Errorf("a name without open work: %v", err)
	}
}

// What an agent declares is checked field by field.
func TestWhatIsDeclaredIsChecked(t *testing.T) {
	many := slices.Repeat([]string{"a"}, maxDeclared+1)
	info := func(harness, version, unwakeable string) *client.SessionInfo {
		return &client.SessionInfo{Harness: harness, Version: version, Unwakeable: unwakeable}
	}
	long := strings.Repeat("x", client.MaxReason+1)
	for what, p := range map[string]client.AttachParams{
		"domains":              {Domains: many},
		"topics":               {Topics: many},
		"a domain":             {Domains: []string{strings.Repeat("x", 300)}},
		"a topic":              {Topics: []string{strings.Repeat("x", 300)}},
		"max_concurrent":       {MaxConcurrent: -1},
		"a kind":               {Kinds: []string{kinds.KindPing}},
		"a long harness":       {Session: info(long, "", "")},
		"a long version":       {Session: info("", long, "")},
		"an escaped harness":   {Session: info("a\x1b[31m", "", "")},
		"an escaped version":   {Session: info("", "a\nb", "")},
		"a long unwakeable":    {Session: info("", "", long)},
		"an escaped unwakeabl": {Session: info("", "", "a\nb")},
		"a long about":         {About: strings.Repeat("ü", kinds.MaxAbout+1)},
		"an escaped about":     {About: "reviews\x1b[2J"},
		"about of two lines":   {About: "a\nb"},
		"a hidden about":       {About: "a\u202eb"},
		"escaped asks":         {Session: &client.SessionInfo{Asks: "a\nb"}},
		"a long folder":        {Session: &client.SessionInfo{Folder: long}},
	} {
		p.Name = "a"
		if err := checkAttachParams(&p); !errors.Is(err, &kinds.Error{Code: kinds.Invalid}) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := checkAttachParams(&client.AttachParams{Name: "a", About: strings.Repeat("ü", kinds.MaxAbout)}); err != nil {
		t.Errorf("about of the longest length: %v", err)
	}
}

// Discover says what the named agent declared, or what all did together.
func TestCapabilitiesOfOneAndOfAll(t *testing.T) {
	r := NewRegistry()
	mustAttach(t, r, client.AttachParams{Name: "a", Domains: []string{"code"}, Capabilities: &kinds.Capabilities{AgentName: "Alice", Model: "m", Tools: []string{"x"}}})
	if all, err := r.DescribeCapabilities("laptop", ""); err != nil || all.AgentName != "laptop" || all.Model != "m" {
		t.Errorf("the only one: %+v, %v", all, err)
	}
	p := session("s", "code")
	p.About = "reads German"
	p.Capabilities = &kinds.Capabilities{Model: "n", Tools: []string{"x"}}
	mustAttach(t, r, p)
	all, err := r.DescribeCapabilities("laptop", "")
	if err != nil || all.AgentName != "laptop" || all.Model != "" || !slices.Equal(all.Agents, []string{"a", "s"}) || !slices.Equal(all.Sessions, []string{"s"}) || !slices.Equal(all.Domains, []string{"code"}) || !slices.Equal(all.Tools, []string{"x"}) {
		t.Errorf("all: %+v, %v", all, err)
	}
	if one, err := r.DescribeCapabilities("laptop", "a"); err != nil || one.AgentName != "Alice" || one.Model != "m" || len(one.Agents)+len(one.Sessions) != 0 || one.MaxConcurrentTasks != defaultConcurrent {
		t.Errorf("one: %+v, %v", one, err)
	}
	a, s := kinds.AgentDetails{Name: "a", Answers: "now"}, kinds.AgentDetails{Name: "s", About: "reads German", Answers: "turn"}
	if !slices.Equal(all.Details, []kinds.AgentDetails{a, s}) {
		t.Errorf("of each: %+v", all.Details)
	}
	if one, err := r.DescribeCapabilities("laptop", "s"); err != nil || !slices.Equal(one.Details, []kinds.AgentDetails{s}) {
		t.Errorf("of one: %+v, %v", one, err)
	}
	mustAttach(t, r, client.AttachParams{Name: "0-listens", Kinds: []string{kinds.KindNotify}})
	for i := range kinds.MaxDetails {
		mustAttach(t, r, client.AttachParams{Name: fmt.Sprintf("b-%02d", i)})
	}
	if all, err = r.DescribeCapabilities("laptop", ""); err != nil || len(all.Details) != kinds.MaxDetails || all.Details[0] != a || all.Details[kinds.MaxDetails-1].Name != "b-62" {
		t.Errorf("of many: %+v, %v", all.Details, err)
	}
	if _, err := r.DescribeCapabilities("laptop", "b"); !errors.Is(err, &kinds.Error{Code: kinds.NoAgent}) {
		t.Errorf("nobody: %v", err)
	}
}
