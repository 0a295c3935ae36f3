package openintent

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/openintent/object"
)

// stream is an open event stream without a network: the handler writes into a pipe.
type stream struct {
	t      testing.TB
	events chan frame
	end    chan error
	stop   func()
}

type frame struct {
	name, id string
	data     obj
}

// pipe is a ResponseWriter whose reader may be slow.
type pipe struct {
	*io.PipeWriter
	header  http.Header
	flushed chan struct{}
	once    bool
}

func (p *pipe) Header() http.Header { return p.header }
func (p *pipe) WriteHeader(int)     {}
func (p *pipe) Flush() {
	if !p.once {
		p.once = true
		close(p.flushed)
	}
}

// follow opens a stream and returns once it is subscribed.
func (h *host) follow(c *client, path string) *stream {
	return h.followFrom(c, path, "")
}

func (h *host) followFrom(c *client, path, last string) *stream {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	p := &pipe{PipeWriter: w, header: http.Header{}, flushed: make(chan struct{})}
	s := &stream{t: h.t, events: make(chan frame, 100_000), end: make(chan error, 1)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer w.Close()
		req, err := http.NewRequestWithContext(ctx, "GET", "/api/v1"+path, nil)
		if err != nil {
			s.end <- err
			return
		}
		req.Header = c.header.Clone()
		speak(req, c.agent)
		if last != "" {
			req.Header.Set("Last-Event-ID", last)
		}
		c.handler.ServeHTTP(p, req)
	}()
	parsed := make(chan struct{})
	go func() {
		defer close(parsed)
		s.end <- s.parse(r)
	}()
	s.stop = func() {
		cancel()
		r.Close()
		<-served
		<-parsed
	}
	<-p.flushed
	return s
}

// parse reads frames as the Python SDK does.
func (s *stream) parse(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	var f frame
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			if f.name != "" {
				s.events <- f
			}
			f = frame{}
			continue
		}
		field, value, _ := strings.Cut(line, ": ")
		switch field {
		case "event":
			f.name = value
		case "id":
			f.id = value
		case "data":
			if err := json.Unmarshal([]byte(value), &f.data); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

func (s *stream) next() frame {
	s.t.Helper()
	select {
	case f := <-s.events:
		return f
	case <-time.After(10 * time.Second):
		s.t.Fatal("nothing was pushed")
	}
	return frame{}
}

func (s *stream) pending() int { return len(s.events) }

func TestListsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		p, r := h.as("planner"), h.as("reviewer")
		first := p.say(ch, obj{})
		began := time.Now()
		r.get(ch + "/messages?wait=5&since=" + first).is("id")
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("waited %v", took)
		}
		got := make(chan *answer)
		go func() { got <- r.get(ch + "/messages?wait=60&since=" + first) }()
		time.Sleep(time.Second)
		p.say(ch, obj{"to": "desk"}) // not for reviewer
		synctest.Wait()
		second := p.say(ch, obj{})
		(<-got).is("id", second)
		go func() { got <- r.get(ch + "/messages?wait=60&since=" + second) }()
		synctest.Wait()
		p.patch(ch, obj{"status": "closed"}).ok(200)
		(<-got).is("id")
		ctx, cancel := context.WithCancel(t.Context())
		other := h.channel("planner", h.intent("planner"), "other")
		go func() { got <- r.doContext(ctx, "GET", other+"/messages?wait=60", nil) }()
		synctest.Wait()
		cancel()
		<-got
	})
}

func TestStreamsTellTheFullMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, in, ch := team(t)
		p, r := h.as("planner"), h.as("reviewer")
		p.post("/intents/"+in+"/agents", obj{"agent_id": "reviewer"}).ok(201)
		streams := map[string]*stream{}
		for _, path := range []string{"/intents/" + in + "/subscribe", "/subscribe/intents/" + in, "/agents/reviewer/subscribe", "/subscribe/agents/reviewer", "/subscribe" + ch, ch + "/subscribe"} {
			streams[path] = h.follow(r, path)
		}
		a := p.send(ch, obj{"to": "reviewer", "payload": obj{"text": "line\u2028and\u0085line"}}).ok(201)
		hidden := p.say(ch, obj{"to": "desk"})
		reply := h.as("desk").respond(ch, p.request(ch, "desk")).ok(201).id()
		last := p.say(ch, obj{})
		var ids []string
		for path, s := range streams {
			f := s.next()
			if f.name != object.KindMessage || f.data["id"] != a.id() || f.data["intent_id"] != in || f.data["channel_name"] != "talk" {
				t.Errorf("%s: %+v", path, f)
			}
			for name, v := range a.body.(obj) {
				if object.EncodeJSONText(f.data[name]) != object.EncodeJSONText(v) {
					t.Errorf("%s: %s is %v, want %v", path, name, f.data[name], v)
				}
			}
			ids = append(ids, f.id)
			if f = s.next(); f.data["id"] != last {
				t.Errorf("%s: %+v is not the next for reviewer (%s and %s are not)", path, f, hidden, reply)
			}
		}
		// Log entries, in the names that each family uses.
		p.with("If-Match", "1").post("/intents/"+in+"/state", obj{"patches": []obj{{"op": "set", "path": "progress", "value": 1}}}).ok(200)
		p.with("If-Match", "2").post("/intents/"+in+"/status", obj{"status": "completed"}).ok(200)
		for path, s := range streams {
			if strings.Contains(path, "channels") {
				continue
			}
			changed, done := s.next(), s.next()
			want := []string{"state_patched", "status_changed"}
			if strings.HasSuffix(path, "/subscribe") {
				want = []string{"STATE_CHANGED", "STATUS_CHANGED"}
			}
			if changed.name != want[0] || object.EncodeJSONText(changed.data["new_state"]) != `{"progress":1}` || object.EncodeJSONText(changed.data["old_state"]) != `{}` || changed.data["intent_id"] != in {
				t.Errorf("%s: %+v", path, changed)
			}
			if done.name != want[1] || done.data["new_status"] != "completed" || done.data["intent_id"] != in {
				t.Errorf("%s: %+v", path, done)
			}
		}
		synctest.Wait()
		for path, s := range streams {
			if s.pending() > 0 {
				t.Errorf("%s: also %+v", path, s.next())
			}
			s.stop()
		}
		// Resumed, a stream tells what came after, from the store too.
		for range 2 {
			for _, path := range []string{"/intents/" + in + "/subscribe", "/agents/reviewer/subscribe", "/subscribe" + ch} {
				s := h.followFrom(h.as("reviewer"), path, ids[0])
				if f := s.next(); f.data["id"] != last {
					t.Errorf("resumed %s: %+v", path, f)
				}
				s.stop()
			}
			h.restart()
		}
	})
}

func TestAssignmentsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		s := h.follow(h.as("reviewer"), "/agents/reviewer/subscribe")
		in, p := h.intent("planner"), h.as("planner")
		p.post("/intents/"+in+"/agents", obj{"agent_id": "desk"}).ok(201)
		p.post("/intents/"+in+"/agents", obj{"agent_id": "reviewer"}).ok(201)
		p.post("/intents/"+in+"/agents", obj{"agent_id": "lamp"}).ok(201)
		if f := s.next(); f.name != "AGENT_ASSIGNED" || f.data["intent_id"] != in || f.data["agent_id"] != "reviewer" {
			t.Errorf("%+v", f)
		}
		p.post("/intents/"+in+"/events", obj{"event_type": "comment", "payload": obj{}}).ok(201)
		synctest.Wait()
		if s.pending() > 0 {
			t.Errorf("also %+v", s.next())
		}
		s.stop()
		h.as("desk").get("/agents/reviewer/subscribe").refused(403, "sender_mismatch")
	})
}

// A reader that does not keep up loses its stream and nothing else.
func TestSlowStreamEndsAndResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		r, p := h.as("reviewer"), h.as("planner")
		pr, pw := io.Pipe() // nobody reads it yet
		w := &pipe{PipeWriter: pw, header: http.Header{}, flushed: make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			req, _ := http.NewRequest("GET", "/api/v1/subscribe"+ch, nil)
			req.Header.Set(headerAgent, "reviewer")
			h.h.ServeHTTP(w, req)
			pw.Close()
		}()
		io.ReadFull(pr, make([]byte, len(": ok\n\n")))
		const n = 3*streamBacklog + 7
		var ids []string
		for range n {
			ids = append(ids, p.say(ch, obj{}))
		}
		s := &stream{t: t, events: make(chan frame, n), end: make(chan error, 1)}
		if err := s.parse(pr); err != nil {
			t.Error(err)
		}
		<-done
		got := s.pending()
		if got == 0 || got >= n {
			t.Fatalf("%d of %d before the end", got, n)
		}
		var last frame
		for i := range got {
			if last = s.next(); last.data["id"] != ids[i] {
				t.Fatalf("%d: %v", i, last)
			}
		}
		s = h.followFrom(r, "/subscribe"+ch, last.id)
		for i := got; i < n; i++ {
			if f := s.next(); f.data["id"] != ids[i] {
				t.Fatalf("%d: %v", i, f)
			}
		}
		s.stop()
	})
}

func TestStreamsPingAndCountAsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		r := h.as("reviewer")
		r.register(obj{}).ok(201)
		s := h.follow(r, "/agents/reviewer/subscribe")
		time.Sleep(10 * time.Minute)
		h.as("planner").get("/agents/reviewer").has(obj{"status": "active"})
		s.stop()
		time.Sleep(10 * time.Minute)
		h.as("planner").get("/agents/reviewer").has(obj{"status": "dead"})
		r.agent = "planner"
		h.as("").post("/agents/reviewer/heartbeat", nil).refused(410, "agent_gone")
		h.as("reviewer").register(obj{}).ok(200).has(obj{"status": "active"})
	})
}

// The SDK opens a refused stream again at once: it is made to wait.
func TestRefusedStreamsAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t)
		began := time.Now()
		for range 4 {
			h.as("planner").get("/intents/nothing/subscribe").refused(404, "not_found")
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("four refusals took %v", took)
		}
		h.as("planner").get("/portfolios/p/subscribe").refused(404, "not_found")
	})
}

// A channel is ended cleanly when the daemon stops.
func TestStoppingEndsStreamsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, ch := team(t)
		stop := h.run()
		s := h.follow(h.as("reviewer"), "/subscribe"+ch)
		list, asked := make(chan *answer), make(chan *answer)
		go func() { list <- h.as("reviewer").get(ch + "/messages?wait=60") }()
		go func() { asked <- h.as("planner").post(ch+"/ask", obj{"to": "reviewer"}) }()
		synctest.Wait()
		stop()
		if err := <-s.end; err != nil {
			t.Errorf("the stream ended with %v", err)
		}
		(<-asked).refused(503, "stopping")
		<-list
		s.stop()
	})
}

// Where the last entries are gone with their channel, a restart does not give their
// numbers out again: who resumes after them would miss what has these now.
func TestNumbersOfStreamsAreUsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, in, ch := team(t)
		p, r := h.as("planner"), h.as("reviewer")
		s := h.follow(r, "/subscribe/intents/"+in)
		for range 5 {
			p.say(ch, obj{})
		}
		var last frame
		for range 5 {
			last = s.next()
		}
		s.stop()
		p.do("DELETE", ch, nil).ok(200)
		h.restart()
		missed := h.as("planner").say(h.channel("planner", in, "more"), obj{})
		s = h.followFrom(h.as("reviewer"), "/subscribe/intents/"+in, last.id)
		if f := s.next(); f.data["id"] != missed {
			t.Errorf("%+v", f)
		}
		s.stop()
	})
}
