package profile

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

func newBuiltIn(t testing.TB, name string) *Profile {
	t.Helper()
	p, err := New(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What the real programs printed, shortened, and what it means.
func TestOutputs(t *testing.T) {
	for _, c := range []struct {
		name, what, out string
		want            reading
	}{
		{"claude", "an answer", `
{"type":"system","subtype":"init","cwd":"/w","session_id":"ad10c285-6257","tools":[]}
{"type":"assistant","message":{"content":[{"type":"text","text":"I look."},{"type":"tool_use","name":"Read"}]},"session_id":"ad10c285-6257"}
{"type":"result","subtype":"success","is_error":false,"result":"the answer","session_id":"ad10c285-6257","total_cost_usd":0.0044,"usage":{"input_tokens":1000,"cache_creation_input_tokens":7,"cache_read_input_tokens":3,"output_tokens":20},"permission_denials":[]}`,
			reading{done: true, session: "ad10c285-6257", text: []byte("the answer"), cost: 0.0044, tokens: 1030}},
		{"claude", "half of a surrogate pair", `{"type":"result","subtype":"success","result":"cut \ud83d"}`, reading{done: true, text: []byte("cut \ufffd")}},
		{"claude", "a model that is away: subtype is success", `
{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"Invalid API key","session_id":"s","total_cost_usd":0,"usage":{"input_tokens":0,"output_tokens":0}}`,
			reading{done: true, session: "s", text: []byte("Invalid API key"), failed: true}},
		{"claude", "too many turns", `
{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (1)"],"session_id":"s","total_cost_usd":0.01,"usage":{"input_tokens":5,"output_tokens":5}}`,
			reading{done: true, session: "s", failed: true, why: "Reached maximum number of turns (1)", cost: 0.01, tokens: 10}},
		{"claude", "denied", `
{"type":"result","subtype":"success","is_error":false,"result":"no","session_id":"s","total_cost_usd":0.5,"usage":{"output_tokens":1},"structured_output":{"a":1},"permission_denials":[{"tool_name":"Bash","tool_input":{"command":"cat /x"}}]}`,
			reading{done: true, session: "s", text: []byte("no"), cost: 0.5, tokens: 1, denials: []string{"Bash"}}},
		{"codex", "an answer", `
WARNING: proceeding
{"type":"thread.started","thread_id":"01a209b3-940f-7721-a362-2b7364e8c734"}
{"type":"item.completed","item":{"id":"item_0","type":"error","message":"Code Mode is unavailable"}}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"I look."}}
{"type":"item.completed","item":{"id":"item_2","type":"mcp_tool_call","tool":"acp_query","status":"failed","error":{"message":"MCP tool call requires approval, but approval policy is never"}}}
{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"the answer"}}
{"type":"turn.completed","usage":{"input_tokens":2000,"cached_input_tokens":0,"output_tokens":40,"reasoning_output_tokens":0}}`,
			reading{done: true, session: "01a209b3-940f-7721-a362-2b7364e8c734", text: []byte("the answer"), tokens: 2040, denials: []string{"acp_query"}}},
		{"codex", "a model that is away", `
{"type":"thread.started","thread_id":"t"}
{"type":"error","message":"unexpected status 401 Unauthorized"}
{"type":"turn.failed","error":{"message":"unexpected status 401 Unauthorized"}}`,
			reading{session: "t", failed: true, why: "unexpected status 401 Unauthorized"}},
		{"opencode", "an answer", `
{"type":"step_start","sessionID":"ses_df64dbbaaffe","part":{"type":"step-start"}}
{"type":"text","sessionID":"ses_df64dbbaaffe","part":{"type":"text","text":"I look."}}
{"type":"step_finish","sessionID":"ses_df64dbbaaffe","part":{"reason":"tool-calls","tokens":{"total":1020},"cost":0.25}}
{"type":"text","sessionID":"ses_df64dbbaaffe","part":{"type":"text","text":"the answer"}}
{"type":"step_finish","sessionID":"ses_df64dbbaaffe","part":{"reason":"stop","tokens":{"total":1020},"cost":0.25}}`,
			reading{done: true, session: "ses_df64dbbaaffe", text: []byte("the answer"), cost: 0.5, tokens: 2040}},
		{"opencode", "a model that is away", `
{"type":"error","sessionID":"s","error":{"name":"APIError","data":{"message":"stub says 401","statusCode":401}}}`,
			reading{failed: true, why: "stub says 401"}},
		{"codex", "half an answer", `{"type":"turn.completed","usage":{"input_tok`, reading{}},
		{"claude", "what is no JSON", "{\n[1]\n\"type\"\n{}\n{\"type\":7}\n{\"type\":\"result\"} x\n", reading{}},
		{"claude", "wrong types", `{"type":"result","result":7,"is_error":"yes","session_id":{"a":1},"total_cost_usd":"1","usage":{"input_tokens":-5,"output_tokens":1.5},"permission_denials":{"a":1},"errors":"x"}`, reading{done: true}},
		{"claude", "an id that is a flag", `{"type":"result","result":"x","session_id":"--dangerously-skip-permissions"}`, reading{done: true, text: []byte("x")}},
	} {
		p := newBuiltIn(t, c.name)
		for _, size := range []int{1, 7, len(c.out) + 1} { // as it may come
			got := reading{read: p.read}
			for part := range slices.Chunk([]byte(c.out), size) {
				if _, err := got.Write(part); err != nil {
					t.Fatal(err)
				}
			}
			got.finish()
			if got.done != c.want.done || got.session != c.want.session || string(got.text) != string(c.want.text) || got.failed != c.want.failed || got.why != c.want.why ||
				got.cost != c.want.cost || got.tokens != c.want.tokens || !slices.Equal(got.denials, c.want.denials) {
				t.Errorf("%s, %s: %+v", c.name, c.what, got)
			}
		}
	}
}

func FuzzOutput(f *testing.F) {
	f.Add([]byte(`{"type":"result","result":"x","usage":{"input_tokens":1e300}}`))
	f.Add([]byte(`{"type":"item.completed","item":{"type":"agent_message","text":"\ud800"}}`))
	f.Fuzz(func(t *testing.T, out []byte) {
		for _, name := range []string{"claude", "codex", "opencode"} {
			r := reading{read: newBuiltIn(t, name).read, progress: func(string) {}}
			if _, err := r.Write(out); err == nil {
				r.finish()
			}
			if r.session != "" && !sessionID.MatchString(r.session) || r.cost < 0 || len(r.denials) > maxNamed {
				t.Errorf("%+v", r)
			}
		}
	})
}

// What a program prints is kept within bounds, and numbers that cannot be are none.
func TestBoundsOfWhatIsRead(t *testing.T) {
	r := &reading{read: newFake(t).read}
	if _, err := r.Write(bytes.Repeat([]byte("x"), maxLine)); err != nil {
		t.Error(err)
	}
	if _, err := r.Write([]byte("x")); !errors.Is(err, errLongLine) {
		t.Errorf("a long line: %v", err)
	}
	read := func(r *reading, event any) {
		r.setText(event, "text")
		r.setReason(event, "error")
		r.setCost(event, "cost")
		r.setTokens(event, "tokens")
		r.addDenials(event, "tools.*")
	}
	r = &reading{}
	long := strings.Repeat("x", maxLine+1)
	var tools []any
	for i := range 2 * maxNamed {
		tools = append(tools, strings.Repeat(string(rune('a'+i)), 2*maxReason))
	}
	read(r, map[string]any{"text": long, "error": long, "cost": -1.0, "tokens": -1.0, "tools": tools})
	if len(r.why) != maxReason || len(r.denials) != maxNamed || len(r.denials[0]) != maxReason {
		t.Errorf("%d bytes of an error, %d denials, %d bytes of the first", len(r.why), len(r.denials), len(r.denials[0]))
	}
	for _, n := range []float64{-1, 1.5e-1 - 1, 1e13, 1e300} {
		read(r, map[string]any{"cost": n, "tokens": n})
	}
	read(r, map[string]any{"tokens": 1.5})
	if r.hasCost || r.hasTokens || r.cost != 0 || r.tokens != 0 {
		t.Errorf("cost %v, tokens %d", r.cost, r.tokens)
	}
	command := &reading{}
	for range 2 {
		if _, err := command.Write([]byte(long)); err != nil || len(command.text) != maxLine {
			t.Errorf("%d bytes of a command, %v", len(command.text), err)
		}
	}
}
