package remote

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/storm"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/openintent/api"
	"github.com/acpd/acpd/store"
)

// What goes wrong between a home and a host.
const (
	away        = iota // the host cannot be reached
	cutRequest         // streams break before the host has read all of the request
	cutAnswer          // streams break before the home has read all of the answer
	stalls             // streams stand still
	denial             // the host's policy refuses the home
	hostRestart        // the host's process ends and comes back
	homeRestart        // the home's does
	stormFaults
)

var stormFaultNames = [stormFaults]string{"away", "requests cut", "answers cut", "stalls", "denials", "host restarts", "home restarts"}

// TestWhatChannelsSayIsTrue makes requests about an intent on another machine while
// streams break, the host is away, and either process ends and comes back. A message
// that was answered as sent is there once; one that was pending arrives once, or its
// sender can read why not; delivered no is true; an answer is the other agent's word.
func TestWhatChannelsSayIsTrue(t *testing.T) {
	storm.RunStorm(t, 300, stormFaultNames[:], func(t *testing.T, sw *storm.Weather) {
		home, host := t.TempDir(), t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			w := &weather{Weather: sw, t: t, said: make(map[string]*claim)}
			w.home, w.host = &machine{w: w, id: identity.ID{1}, dir: home}, &machine{w: w, id: identity.ID{2}, dir: host}
			w.home.other, w.host.other = w.host, w.home
			w.pass()
		})
	})
}

// weather is one span of time in which agents of a home ask one of a host.
type weather struct {
	*storm.Weather
	t          *testing.T
	home, host *machine

	mu   sync.Mutex        // guards what follows
	said map[string]*claim // by the token in the payload
}

// claim is what a caller was told of a message.
type claim struct {
	agent, id string
	there     bool // it was answered as sent
	pending   bool // it waits at home
	absent    bool // delivered no, or refused
}

// machine is a Gateway on a database, which its process can lose and take up again.
type machine struct {
	w     *weather
	id    identity.ID
	dir   string
	other *machine
	storm.Process[Gateway]
}

func (m *machine) start() {
	t := m.w.t
	db, err := store.OpenDB(t.Context(), filepath.Join(m.dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	peer := identity.Peer{ID: m.other.id, Name: "other"}
	c, err := OpenGateway(t.Context(), Config{
		Self: m.id, Engine: engineOn(db, slog.New(slog.DiscardHandler)),
		Trusted: func(id identity.ID) (identity.Peer, bool) { return peer, id == peer.ID },
		Peers:   func() []identity.Peer { return []identity.Peer{peer} },
		OpenTo:  func(identity.Peer) bool { return false },
		Hosts: func() []identity.ID {
			if m.w.HasFault(away) {
				return nil
			}
			return []identity.ID{peer.ID}
		},
		Open: func(ctx context.Context, to identity.ID) (Stream, error) { return m.dial(ctx) },
		Admit: func(identity.ID) error {
			if m.w.HasFault(denial) {
				return kinds.Errorf(kinds.NotAuthorized, "policy forbids it")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	running.Go(func() { c.Engine.Run(ctx) })
	m.SetRunning(c, func() {
		cancel()
		running.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// dial opens a stream to the other machine, as bad as the weather is.
func (m *machine) dial(ctx context.Context) (Stream, error) {
	there := m.other.GetRunning()
	if m.w.HasFault(away) || there == nil {
		select {
		case <-time.After(m.w.DrawMillis(2000)):
		case <-ctx.Done():
		}
		return nil, kinds.Errorf(kinds.Unreachable, "the host is away").WithDelivered(kinds.DeliveredNo)
	}
	near, far := net.Pipe()
	out := &bad{Conn: near, read: -1, write: -1}
	if m.w.HasFault(cutRequest) {
		out.write = m.w.DrawBelow(600)
	}
	if m.w.HasFault(cutAnswer) {
		out.read = m.w.DrawBelow(600)
	}
	if m.w.HasFault(stalls) {
		out.pause = m.w.DrawMillis(40_000)
	}
	context.AfterFunc(ctx, func() { near.Close() })
	go there.ServeStream(context.Background(), m.id, piped{far})
	return piped{out}, nil
}

// bad is a connection that breaks after so many bytes, and stands still before its
// answer.
type bad struct {
	net.Conn
	read, write int // bytes until it breaks; negative: it does not
	pause       time.Duration
}

var errCut = errors.New("the stream was cut")

func (b *bad) Write(p []byte) (int, error) {
	if b.write < 0 {
		return b.Conn.Write(p)
	}
	n, err := b.Conn.Write(p[:min(len(p), b.write)])
	if b.write -= n; err == nil && n < len(p) {
		b.Conn.Close()
		err = errCut
	}
	return n, err
}

func (b *bad) Read(p []byte) (int, error) {
	if b.pause > 0 {
		time.Sleep(b.pause)
		b.pause = 0
	}
	if b.read < 0 {
		return b.Conn.Read(p)
	}
	if b.read == 0 {
		b.Conn.Close()
		return 0, errCut
	}
	n, err := b.Conn.Read(p[:min(len(p), b.read)])
	b.read -= n
	return n, err
}

// ask makes a request at a machine; without one, or where its process ended, the
// status is 0.
func (m *machine) ask(agent, method, path, body string) (status int, answer obj) {
	c := m.GetRunning()
	if c == nil {
		return 0, nil
	}
	r := httptest.NewRequestWithContext(m.w.t.Context(), method, apiPath+path, strings.NewReader(body))
	speak(r, agent)
	w := httptest.NewRecorder()
	c.API.NewHandler(api.IdentifyLocalCaller).ServeHTTP(w, r)
	if length := w.Header().Get("Content-Length"); length != "" && length != fmt.Sprint(w.Body.Len()) {
		return 0, nil // as a client sees it, the connection ended too soon
	}
	if w.Body.Len() > 0 && w.Body.Bytes()[0] == '{' {
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			m.w.t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	return w.Code, answer
}

// must is ask for what does not fail.
func (m *machine) must(agent, method, path, body string) obj {
	status, answer := m.ask(agent, method, path, body)
	if status/100 != 2 {
		m.w.t.Fatalf("%s %s: %d %v", method, path, status, answer)
	}
	return answer
}

// stormTime is how long a weather lasts.
const stormTime = 30 * time.Second

func (w *weather) pass() {
	w.home.start()
	w.host.start()
	defer func() { w.home.Stop(); w.host.Stop() }()
	intent := w.host.must("lead", "POST", "intents", `{"title": "Ship it"}`)["id"].(string)
	channel := w.host.must("lead", "POST", "intents/"+intent+"/channels", `{"name": "build", "options": {"max_messages": 10000}}`)["id"].(string)
	const agents = 8
	for n := range agents {
		w.host.must("lead", "POST", "intents/"+intent+"/acl/entries", fmt.Sprintf(`{"principal_id": "worker%d", "principal_type": "agent", "permission": "write", "home": %q}`, n, w.home.id))
	}
	w.host.must("lead", "POST", "intents/"+intent+"/acl/entries", `{"principal_id": "reviewer", "principal_type": "agent", "permission": "write"}`)

	begun := time.Now()
	over := func() bool { return time.Since(begun) > stormTime }
	var busy, replying sync.WaitGroup
	quiet, stopReplies := context.WithCancel(context.Background())
	replying.Go(func() { w.reply(quiet, channel) })
	for n := range agents {
		busy.Go(func() {
			for !over() {
				w.call(fmt.Sprint("worker", n), channel)
				time.Sleep(w.DrawMillis(200))
			}
		})
	}
	for !over() {
		time.Sleep(w.DrawMillis(1500))
		w.trouble()
	}
	busy.Wait()
	w.settle(channel)
	stopReplies()
	replying.Wait()
}

// reply is the reviewer at the host: it answers requests with their tokens.
func (w *weather) reply(ctx context.Context, channel string) {
	since := "&since=1999-12-31T00:00:00Z"
	for ctx.Err() == nil {
		c := w.host.GetRunning()
		if c == nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		r := httptest.NewRequestWithContext(ctx, "GET", apiPath+"channels/"+channel+"/messages?wait=30&limit=1000"+since, nil)
		speak(r, "reviewer")
		answer := httptest.NewRecorder()
		c.API.NewHandler(api.IdentifyLocalCaller).ServeHTTP(answer, r)
		var news []obj
		if answer.Code != http.StatusOK || json.Unmarshal(answer.Body.Bytes(), &news) != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		for _, m := range news {
			since = "&since=" + m["id"].(string)
			if token, ok := m["payload"].(obj)["token"].(string); ok && m["message_type"] == "request" {
				w.host.ask("reviewer", "POST", "channels/"+channel+"/messages/"+m["id"].(string)+"/reply", fmt.Sprintf(`{"payload": {"re": %q}}`, token))
			}
		}
	}
}

// call makes a request and notes what it said.
func (w *weather) call(agent, channel string) {
	token := fmt.Sprintf("%s-%d-%d", agent, w.DrawBelow(1<<30), w.DrawBelow(1<<30))
	ended := w.BeginCall()
	var status int
	var answer obj
	asks := w.DrawBelow(3) == 0
	if asks {
		status, answer = w.home.ask(agent, "POST", "channels/"+channel+"/ask", fmt.Sprintf(`{"to": "reviewer", "payload": {"token": %q}, "timeout": %d}`, token, 1+w.DrawBelow(5)))
	} else {
		to := []string{`"reviewer"`, `"*"`}[w.DrawBelow(2)]
		kind := map[string]string{`"reviewer"`: "notify", `"*"`: "broadcast"}[to]
		status, answer = w.home.ask(agent, "POST", "channels/"+channel+"/messages", fmt.Sprintf(`{"message_type": %q, "to": %s, "payload": {"token": %q}}`, kind, to, token))
	}
	said := &claim{agent: agent}
	end := storm.Failed
	switch {
	case status == http.StatusCreated && answer["status"] == "pending":
		said.pending, said.id = true, answer["id"].(string)
		end = storm.Succeeded
	case status/100 == 2 && asks:
		said.there = true
		end = storm.Succeeded
		if re := answer["payload"].(obj)["re"]; re != token {
			w.t.Errorf("the answer to %s is %v", token, answer)
		}
	case status/100 == 2:
		said.there = true
		end = storm.Succeeded
	case answer["delivered"] == string(kinds.DeliveredNo), status/100 == 4:
		said.absent = true
		end = storm.NotDelivered
	}
	w.mu.Lock()
	w.said[token] = said
	w.mu.Unlock()
	ended(end)
}

// trouble is one thing that goes wrong.
func (w *weather) trouble() {
	few := []int{stalls, denial, hostRestart} // calls are made while these last: they come twice as often
	f := w.DrawBelow(stormFaults + len(few))
	if f >= stormFaults {
		f = few[f-stormFaults]
	}
	switch f {
	case hostRestart, homeRestart:
		m := w.host
		if f == homeRestart {
			m = w.home
		}
		end := w.BeginFault(f)
		m.Stop()
		time.Sleep(w.DrawMillis(1000))
		m.start()
		end()
	default:
		end := w.BeginFault(f)
		w.SetFault(f, true)
		time.Sleep(w.DrawMillis(4000))
		w.SetFault(f, false)
		end()
	}
}

// settle waits until nothing is under way and checks what was said.
func (w *weather) settle(channel string) {
	w.ClearFaults()
	for _, m := range []*machine{w.home, w.host} {
		m.GetRunning().SetPeerConnected(m.other.id, true)
	}
	time.Sleep(5 * time.Minute)
	there := make(map[string]int)
	for since := "&since=1999-12-31T00:00:00Z"; ; {
		var page []obj
		r := httptest.NewRequestWithContext(w.t.Context(), "GET", apiPath+"channels/"+channel+"/messages?wait=0&limit=1000"+since, nil)
		speak(r, "")
		answer := httptest.NewRecorder()
		w.host.GetRunning().API.NewHandler(api.IdentifyLocalCaller).ServeHTTP(answer, r)
		if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil {
			w.t.Fatalf("list: %d %s", answer.Code, answer.Body)
		}
		for _, m := range page {
			if token, ok := m["payload"].(obj)["token"].(string); ok {
				there[token]++
			}
		}
		if len(page) == 0 {
			break
		}
		since = "&since=" + page[len(page)-1]["id"].(string)
	}
	for token, c := range w.said {
		n := there[token]
		switch {
		case n > 1:
			w.t.Errorf("%s is there %d times", token, n)
		case c.there && n != 1:
			w.t.Errorf("%s was said to be sent and is not there", token)
		case c.absent && n != 0:
			w.t.Errorf("%s was said not to be delivered and is there", token)
		case c.pending && n == 0:
			status, answer := w.home.ask(c.agent, "GET", "channels/"+channel+"/messages/"+c.id, "")
			if status != http.StatusOK || answer["status"] != "refused" {
				w.t.Errorf("%s was pending, did not arrive, and is said to be %d %v", token, status, answer)
			}
		}
	}
}
