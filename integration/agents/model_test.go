//go:build agents

package agents

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/integration/await"
)

// model stands in for the models of the agent programs: it speaks Anthropic's messages and
// OpenAI's responses, and does what its rules say. It needs no key and keeps none.
type model struct {
	t      *testing.T
	server *httptest.Server

	mu    sync.Mutex // guards what follows
	rules []rule
	asked []*request
}

// rule says what the model does about the latest item of a conversation in which a text
// stands: one step after the other, a turn of the conversation each, and then it says "done".
type rule struct {
	about string
	steps []step
}

// step is one answer of the model: a text, a tool call, or a call with a text before it.
type step struct {
	tool  string // a name that the tool's ends with
	more  []step // calls that are made together with this one
	input func(*request) map[string]any
	text  string
	bare  bool            // also if no tools are offered
	echo  bool            // a text: all that tools have answered
	code  string          // instead of a tool: a script for Codex's code mode
	pause <-chan struct{} // the answer waits until this is closed; nil: it does not wait
	think time.Duration   // before the answer
}

// item is a part of a conversation.
type item struct {
	role string // user, developer, system, assistant, call, result
	name string // of the tool, for call
	text string
}

// request is what a program asked the model.
type request struct {
	at    time.Time
	path  string
	items []item
	tools []tool
	body  string
}

// tool is one that the model is offered.
type tool struct{ namespace, name string }

// newModel starts a model. It ends with the test, and then says what it was asked if the test
// failed.
func newModel(t *testing.T, rules ...rule) *model {
	m := &model{t: t, rules: rules}
	m.server = httptest.NewServer(m)
	t.Cleanup(func() {
		m.server.CloseClientConnections()
		m.server.Close()
		if t.Failed() {
			t.Logf("the model was asked:\n%s", m.describe())
		}
	})
	return m
}

// on adds a rule, which goes before those that are there.
func (m *model) on(about string, steps ...step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rules = append([]rule{{about, steps}}, m.rules...)
}

// say is a step that is a text.
func say(text string) step { return step{text: text} }

// call is a step that calls a tool.
func call(tool string, input map[string]any) step {
	return step{tool: tool, input: func(*request) map[string]any { return input }}
}

// list returns what was asked so far.
func (m *model) list() []*request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// find returns the first request in which an item of that role has the text, nil if none.
func (m *model) find(role, text string) *request {
	for _, r := range m.list() {
		if r.has(role, text) {
			return r
		}
	}
	return nil
}

// awaitRequest waits for a request in which an item of that role has the text.
func (m *model) awaitRequest(role, text string) (r *request) {
	m.t.Helper()
	await.Until(m.t, fmt.Sprintf("the model is given %q by %s", text, role), func() bool {
		r = m.find(role, text)
		return r != nil
	})
	return r
}

// count returns how many items of that role in the latest request have the text.
func (r *request) count(role, text string) (n int) {
	for _, i := range r.items {
		if i.role == role && strings.Contains(i.text, text) {
			n++
		}
	}
	return n
}

func (r *request) has(role, text string) bool { return r.count(role, text) > 0 }

// last returns the text of the latest item of that role.
func (r *request) last(role string) string {
	for _, i := range slices.Backward(r.items) {
		if i.role == role {
			return i.text
		}
	}
	return ""
}

func (m *model) describe() string {
	var b strings.Builder
	for _, r := range m.list() {
		fmt.Fprintf(&b, "%s %s, %d tools\n", r.at.Format("05.000"), r.path, len(r.tools))
		for _, i := range r.items[max(0, len(r.items)-6):] {
			fmt.Fprintf(&b, "    %s %s: %.600q\n", i.role, i.name, i.text)
		}
	}
	text := b.String()
	return text[max(0, len(text)-12_000):]
}

// choose returns the step for a request.
func (m *model) choose(r *request) step {
	m.mu.Lock()
	rules := m.rules
	m.mu.Unlock()
	at, chosen := -1, rule{}
	for _, rule := range rules {
		for i, it := range r.items {
			if i > at && it.role != "assistant" && it.role != "call" && strings.Contains(it.text, rule.about) {
				at, chosen = i, rule
			}
		}
	}
	calls := 0
	for _, it := range r.items[at+1:] {
		if it.role == "call" {
			calls++
		}
	}
	next := 0
	for ; next < len(chosen.steps) && calls > 0; next++ {
		calls -= 1 + len(chosen.steps[next].more)
	}
	if at < 0 || next == len(chosen.steps) || len(r.tools) == 0 && !chosen.steps[next].bare {
		return say("done")
	}
	s := chosen.steps[next]
	if s.echo {
		s.text = "tools said:"
		for _, it := range r.items {
			if it.role == "result" {
				s.text += "\n" + it.text
			}
		}
	}
	return s
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return
	}
	q := &request{at: time.Now(), path: r.Method + " " + r.URL.Path, body: string(text)}
	var answer func(http.ResponseWriter, *request, step)
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages"):
		q.items, q.tools = readMessages(text)
		answer = answerMessages
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/responses"):
		q.items, q.tools = readResponses(text)
		answer = answerResponses
	}
	m.mu.Lock()
	m.asked = append(m.asked, q)
	m.mu.Unlock()
	if answer == nil {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"data":[],"models":[],"input_tokens":1000}`)
		return
	}
	s := m.choose(q)
	if s.pause != nil {
		select {
		case <-s.pause:
		case <-r.Context().Done():
			return
		}
	}
	time.Sleep(s.think)
	answer(w, q, s)
}

// findTool returns the whole name of a tool. One that is not offered is called all the same.
func (q *request) findTool(name string) tool {
	for _, t := range q.tools {
		if t.name == name || strings.HasSuffix(t.name, "__"+name) || strings.HasSuffix(t.name, "_"+name) {
			return t
		}
	}
	return tool{name: name}
}

func (s step) makeInput(q *request) string {
	if s.input == nil {
		return "{}"
	}
	text, err := json.Marshal(s.input(q), json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return string(text)
}

// writeEvents writes a stream of events, each an object with its type.
func writeEvents(w http.ResponseWriter, events ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.(object)["type"], data)
	}
}

type object = map[string]any

// readParts returns the text of a content that is a text, or a list of parts with text.
func readParts(content jsontext.Value) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return string(content)
	}
	var texts []string
	for _, p := range parts {
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}

// readMessages reads a request for Anthropic's messages.
func readMessages(body []byte) (items []item, tools []tool) {
	var q struct {
		System   jsontext.Value `json:"system"`
		Messages []struct {
			Role    string         `json:"role"`
			Content jsontext.Value `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &q, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return []item{{role: "error", text: err.Error()}}, nil
	}
	for _, m := range q.Messages {
		var blocks []struct {
			Type    string         `json:"type"`
			Text    string         `json:"text"`
			Name    string         `json:"name"`
			Input   jsontext.Value `json:"input"`
			Content jsontext.Value `json:"content"`
		}
		if json.Unmarshal(m.Content, &blocks) != nil {
			items = append(items, item{role: m.Role, text: readParts(m.Content)})
			continue
		}
		for _, b := range blocks {
			switch b.Type {
			case "tool_use":
				items = append(items, item{role: "call", name: b.Name, text: string(b.Input)})
			case "tool_result":
				items = append(items, item{role: "result", text: readParts(b.Content)})
			default:
				items = append(items, item{role: m.Role, text: b.Text})
			}
		}
	}
	for _, t := range q.Tools {
		tools = append(tools, tool{name: t.Name})
	}
	return items, tools
}

var sequence struct {
	sync.Mutex
	n int
}

// nextID returns an id that no other answer has.
func nextID(prefix string) string {
	sequence.Lock()
	defer sequence.Unlock()
	sequence.n++
	return fmt.Sprintf("%s_%d", prefix, sequence.n)
}

// answerMessages answers with a message in blocks: the text, if there is one or no call, and the call.
func answerMessages(w http.ResponseWriter, q *request, s step) {
	var blocks, events []any
	add := func(block, start, delta object) {
		n := len(blocks)
		blocks = append(blocks, block)
		events = append(events, object{"type": "content_block_start", "index": n, "content_block": start},
			object{"type": "content_block_delta", "index": n, "delta": delta}, object{"type": "content_block_stop", "index": n})
	}
	reason := "end_turn"
	if s.text != "" || s.tool == "" {
		text := cmp.Or(s.text, "done")
		add(object{"type": "text", "text": text}, object{"type": "text", "text": ""}, object{"type": "text_delta", "text": text})
	}
	for _, s := range append([]step{s}, s.more...) {
		if s.tool == "" {
			continue
		}
		input, id, name := s.makeInput(q), nextID("toolu"), q.findTool(s.tool).name
		reason = "tool_use"
		add(object{"type": "tool_use", "id": id, "name": name, "input": jsontext.Value(input)},
			object{"type": "tool_use", "id": id, "name": name, "input": object{}}, object{"type": "input_json_delta", "partial_json": input})
	}
	message := object{
		"id": nextID("msg"), "type": "message", "role": "assistant", "model": "stub", "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": 1000, "output_tokens": 1},
	}
	if !strings.Contains(q.body, `"stream":true`) {
		message["content"], message["stop_reason"] = blocks, reason
		w.Header().Set("Content-Type", "application/json")
		json.MarshalWrite(w, message)
		return
	}
	events = slices.Concat([]any{object{"type": "message_start", "message": message}}, events, []any{
		object{"type": "message_delta", "delta": object{"stop_reason": reason, "stop_sequence": nil}, "usage": object{"output_tokens": 20}},
		object{"type": "message_stop"},
	})
	writeEvents(w, events...)
}

// readResponses reads a request for OpenAI's responses.
func readResponses(body []byte) (items []item, tools []tool) {
	type offered struct {
		Type  string    `json:"type"`
		Name  string    `json:"name"`
		Tools []offered `json:"tools"`
	}
	var q struct {
		Input []struct {
			Type      string         `json:"type"`
			Role      string         `json:"role"`
			Content   jsontext.Value `json:"content"`
			Name      string         `json:"name"`
			Namespace string         `json:"namespace"`
			Arguments string         `json:"arguments"`
			Output    jsontext.Value `json:"output"`
			Tools     []offered      `json:"tools"`
		} `json:"input"`
		Tools []offered `json:"tools"`
	}
	if err := json.Unmarshal(body, &q, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return []item{{role: "error", text: err.Error()}}, nil
	}
	for _, i := range q.Input {
		switch i.Type {
		case "additional_tools":
			q.Tools = append(q.Tools, i.Tools...)
		case "message", "":
			items = append(items, item{role: i.Role, text: readParts(i.Content)})
		case "function_call", "custom_tool_call":
			items = append(items, item{role: "call", name: i.Name, text: i.Arguments})
		case "function_call_output", "custom_tool_call_output":
			items = append(items, item{role: "result", name: i.Namespace + i.Name, text: readParts(i.Output)})
		}
	}
	for _, t := range q.Tools {
		if t.Type == "namespace" {
			for _, inner := range t.Tools {
				tools = append(tools, tool{t.Name, inner.Name})
			}
			continue
		}
		tools = append(tools, tool{name: t.Name})
	}
	return items, tools
}

// answerResponses answers with the items that [answerMessages] has as blocks, with one call at most.
func answerResponses(w http.ResponseWriter, q *request, s step) {
	id := nextID("r")
	var items []any
	events := []any{object{"type": "response.created", "response": object{"id": id}}}
	add := func(item object) {
		n := len(items)
		items = append(items, item)
		events = append(events, object{"type": "response.output_item.added", "output_index": n, "item": item},
			object{"type": "response.output_item.done", "output_index": n, "item": item})
	}
	if s.text != "" || s.tool == "" && s.code == "" {
		add(object{
			"type": "message", "id": nextID("m"), "role": "assistant", "status": "completed",
			"content": []any{object{"type": "output_text", "text": cmp.Or(s.text, "done"), "annotations": []any{}}},
		})
	}
	switch {
	case s.code != "":
		add(object{"type": "custom_tool_call", "id": nextID("ctc"), "call_id": nextID("call"), "name": "exec", "input": s.code, "status": "completed"})
	case s.tool != "":
		t := q.findTool(s.tool)
		call := object{"type": "function_call", "id": nextID("fc"), "call_id": nextID("call"), "name": t.name, "arguments": s.makeInput(q), "status": "completed"}
		if t.namespace != "" {
			call["namespace"] = t.namespace
		}
		add(call)
	}
	usage := object{
		"input_tokens": 1000, "input_tokens_details": object{"cached_tokens": 0},
		"output_tokens": 20, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 1020,
	}
	writeEvents(w, append(events, object{"type": "response.completed", "response": object{"id": id, "output": items, "usage": usage}})...)
}
