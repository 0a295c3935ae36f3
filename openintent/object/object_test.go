package object

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent/chain"
)

// refused fails the test unless err is a refusal with that code.
func refused(t *testing.T, what any, err error, code string) {
	t.Helper()
	e, ok := err.(*Error)
	if got := ""; ok != (code != "") || ok && e.Code != code {
		if ok {
			got = e.Code
		}
		t.Errorf("%+v: %q, want %q: %v", what, got, code, err)
	}
}

// Which messages there are, and what is filled in.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		kind, to, answers, home string // as it is sent
		want, recipient         string // as it is stored; "": it is refused
	}{
		{want: "notify"},
		{to: "*", want: "notify", recipient: "*"},
		{to: "reviewer", home: strings.Repeat("a", 64), want: "notify", recipient: "reviewer"},
		{kind: "notify", to: "role:tester", want: "notify", recipient: "role:tester"},
		{kind: "message", want: "broadcast", recipient: "*"}, // as the MCP bridge says
		{kind: "message", to: "reviewer", want: "notify", recipient: "reviewer"},
		{kind: "broadcast", want: "broadcast", recipient: "*"},
		{kind: "broadcast", to: "*", want: "broadcast", recipient: "*"},
		{kind: "request", to: "reviewer", want: "request", recipient: "reviewer"},
		{kind: "request", to: "role:tester", want: "request", recipient: "role:tester"},
		{kind: "response", answers: "msg_1", want: "response"},
		{kind: "weird"},
		{kind: "request"},
		{kind: "request", to: "*"},
		{kind: "request", to: "role:"},
		{kind: "request", to: "a b"},
		{kind: "request", to: "reviewer", answers: "msg_1"},
		{kind: "broadcast", to: "reviewer"},
		{kind: "response"},
		{answers: "msg_1"},
		{home: "desk"},
		{to: "role:tester", home: "desk"},
	} {
		m := &SendMessage{Kind: c.kind, To: &c.to, Correlation: &c.answers, Home: c.home, Payload: []byte("{}")}
		if err := m.Check(false); c.want == "" {
			refused(t, c, err, "invalid")
		} else if err != nil || m.Kind != c.want || m.Recipient() != c.recipient {
			t.Errorf("%+v: %s to %q, %v", c, m.Kind, m.Recipient(), err)
		}
	}
	refused(t, "a request to nobody", (&SendMessage{Kind: "request", Payload: []byte("{}")}).Check(true), "")
	long := func(n int) []byte { return []byte(`{"a":"` + strings.Repeat("x", n-len(`{"a":""}`)) + `"}`) }
	for code, m := range map[string]*SendMessage{
		"": {Payload: long(MaxPayload), Metadata: long(64 << 10)}, "too_large": {Payload: long(MaxPayload + 1)}, "invalid": {Payload: []byte("[]")},
	} {
		refused(t, code, m.Check(false), code)
	}
	refused(t, "metadata", (&SendMessage{Payload: []byte("{}"), Metadata: long(64<<10 + 1)}).Check(false), "too_large")
}

// The texts and lists of objects have bounds, so that a few objects do not fill what there is for many.
func TestBounds(t *testing.T) {
	bounded := func(field string, most int, check func(n int) error) {
		t.Helper()
		refused(t, field, check(most), "")
		refused(t, field, check(most+1), "invalid")
	}
	text := func(n int) *string {
		s := strings.Repeat("x", n)
		return &s
	}
	bounded("task_id of a channel", 128, func(n int) error {
		_, err := (&Channel{Name: "talk", Policy: PolicyIntent, TaskID: text(n)}).CheckNew()
		return err
	})
	bounded("role of an assignment", 128, func(n int) error { return (&Assign{AgentID: "a", Role: *text(n)}).Check() })
	bounded("reason of an entry", 4096, func(n int) error { return (&GrantEntry{PrincipalID: "a", Reason: text(n)}).Check() })
	list := func(n int) []string { return make([]string, n) }
	for field, task := range map[string]func(n int) Task{
		"artifacts":             func(n int) Task { return Task{Artifacts: list(n)} },
		"capabilities_required": func(n int) Task { return Task{Capabilities: list(n)} },
		"depends_on":            func(n int) Task { return Task{DependsOn: list(n)} },
		"blocks":                func(n int) Task { return Task{Blocks: list(n)} },
	} {
		bounded(field, MaxEntries, func(n int) error {
			d := task(n)
			d.Name = "build"
			return d.CheckNew()
		})
	}
	bounded("name of a task", 1024, func(n int) error { return (&Task{Name: *text(n)}).CheckNew() })
	bounded("name of an agent", 4096, func(n int) error { return (&Register{AgentID: "a", Name: text(n)}).FillDefaultsAndCheck() })
	bounded("endpoint of an agent", 4096, func(n int) error { return (&Register{AgentID: "a", Endpoint: text(n)}).FillDefaultsAndCheck() })
	bounded("capabilities of an agent", MaxEntries, func(n int) error { return (&Register{AgentID: "a", Capabilities: list(n)}).FillDefaultsAndCheck() })
}

// Options that are not allowed.
func TestOptions(t *testing.T) {
	for options, code := range map[string]string{
		`{}`: "", `{"ttl_seconds":null,"max_messages":10000,"x":[]}`: "", `{"ttl_seconds":0}`: "invalid", `{"ttl_seconds":1.5}`: "invalid", `{"ttl_seconds":400000000}`: "invalid",
		`{"max_messages":0}`: "invalid", `{"max_messages":10001}`: "invalid", `{"audit":"yes"}`: "invalid", `[1]`: "invalid",
	} {
		_, err := ParseOptions([]byte(options))
		refused(t, options, err, code)
	}
}

// Events that only the server writes cannot be forged.
func TestEvents(t *testing.T) {
	for _, kind := range OwnKinds {
		refused(t, kind, (&PostEvent{Type: kind}).Check(), "reserved_event")
	}
	short, trace := "short", strings.Repeat("0", TraceDigits)
	refused(t, "a trace", (&PostEvent{Type: "comment", TraceID: &trace}).Check(), "")
	refused(t, "no trace", (&PostEvent{Type: "comment", TraceID: &short}).Check(), "invalid")
	for _, kind := range []string{"", "Bad", "bad type", strings.Repeat("a", 65)} {
		refused(t, kind, (&PostEvent{Type: kind}).Check(), "invalid")
	}
}

// What patches make of a state.
func TestStatePatches(t *testing.T) {
	for _, c := range []struct{ patches, want string }{
		{`[{"op":"set","path":"b/c","value":2},{"op":"remove","path":"a"}]`, `{"b/c":2,"d":{"e":1}}`},
		{`[{"op":"add","path":"/x/y","value":null},{"op":"replace","path":"/d/e","value":[]}]`, `{"a":1,"d":{"e":[]},"x":{"y":null}}`},
		{`[{"op":"set","path":"/b~1c","value":1},{"op":"delete","path":"/none/at/all"}]`, `{"a":1,"b/c":1,"d":{"e":1}}`},
		{`[{"op":"set","path":"/a/0","value":1}]`, ""},
		{`[{"op":"move","path":"x","value":1}]`, ""},
		{`[{"op":"set","path":"x"}]`, ""},
		{`[{"op":"set","path":"` + strings.Repeat("/a", MaxSteps+1) + `","value":1}]`, ""},
	} {
		var p StatePatch
		if err := json.Unmarshal([]byte(c.patches), &p.Patches); err != nil {
			t.Fatal(err)
		}
		doc := &Intent{State: []byte(`{"a":1,"d":{"e":1}}`)}
		_, err := p.ApplyTo(doc)
		if c.want == "" {
			refused(t, c.patches, err, "invalid")
		} else if err != nil || string(doc.State) != c.want {
			t.Errorf("%s: %s, %v", c.patches, doc.State, err)
		}
	}
}

func TestIDs(t *testing.T) {
	self := strings.Repeat("0123456789abcdef", 4)
	at := chain.Time(1_800_000_000_000_000)
	id := NewMessageID(self, at, 123_456_789_012)
	prefix, host, when, number, ok := ParseID(id)
	if !ok || prefix != IDMessage || host != self[:HostDigits] || when != at || number != 123_456_789_012 {
		t.Errorf("%s: %s %s %v %d %v", id, prefix, host, when, number, ok)
	}
	if later := NewMessageID(self, at, 123_456_789_013); later <= id {
		t.Errorf("%s does not sort after %s", later, id)
	}
	for _, bad := range []string{"", "_", "msg_", id[1:], id + "0", strings.ToLower(id), strings.Replace(id, self[:HostDigits], "012345678G", 1), id[:len(id)-1] + "U"} {
		if _, ok := HostOfID(bad); ok && !strings.HasPrefix(bad, "sg_") {
			t.Errorf("%q is taken for an id", bad)
		}
	}
	for agent, may := range map[string]bool{
		"a": true, "research-agent-01": true, "a.b_c@d+e~f": true, "team:a": true, strings.Repeat("a", 128): true,
		"": false, "a b": false, "*": false, "role:x": false, "system": false, "operator": false, "a/b": false, "é": false, "a:": false, strings.Repeat("a", 129): false, "a\n": false,
	} {
		if IsAgentID(agent) != may {
			t.Errorf("%q as the id of an agent: %v", agent, !may)
		}
	}
}
