//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// samples counts the steps at which a program is killed, of all its steps.
func samples(there int64) []int64 {
	most := int64(600)
	if testing.Short() {
		most = 32
	}
	var at []int64
	for i := range min(most, there) {
		at = append(at, 1+i*there/min(most, there))
	}
	return at
}

// folder copies a state directory, but for what a daemon makes anew.
func folder(t *testing.T, from string) string {
	t.Helper()
	to := live.MakeTempDir(t)
	for _, f := range files(t, from) {
		if f == "reserve" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, f))
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(to, f)), 0o700), os.WriteFile(filepath.Join(to, f), data, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// files are the regular files below a folder, but for how agents of OACP are: that is
// written over each time, under one name beside it.
func files(t *testing.T, dir string) (all []string) {
	t.Helper()
	if err := fs.WalkDir(os.DirFS(dir), ".", func(path string, f fs.DirEntry, err error) error {
		if err == nil && f.Type().IsRegular() && !strings.HasPrefix(strings.TrimPrefix(f.Name(), "."), "status.yaml") {
			all = append(all, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestFirstStartStopsAnywhere: a daemon that is killed at any step of its first start
// starts the next time, with the identity that it has shown, and nothing is left over.
func TestFirstStartStopsAnywhere(t *testing.T) {
	t.Parallel()
	start := func(limit int64) (m *machine, steps int64) {
		m = newMachine(t, "desk")
		s, err := runStoppable(m.Home, live.NewEnviron(t, m.Home), limit, true, m.DaemonCommand()...)
		if err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the start is over", func() bool {
			select {
			case <-s.ended:
				return true
			default:
			}
			_, err := m.Client.Whoami(await.NewContext(t))
			return err == nil && limit == 0
		})
		steps = s.taken.Load()
		if s.kill(); s.killed != (limit > 0) {
			t.Fatalf("of step %d: killed is %t: %s", limit, s.killed, s.said.String())
		}
		return m, steps
	}
	whole, steps := start(0)
	whole.StartDaemon()
	calm(whole)
	whole.StopDaemon()
	want := files(t, whole.Home)
	at := samples(steps)
	t.Logf("%d steps, killed at %d of them", steps, len(at))
	for _, n := range at {
		m, _ := start(n)
		key, none := os.ReadFile(filepath.Join(m.Home, "identity.key"))
		m.StartDaemon()
		if now, err := os.ReadFile(filepath.Join(m.Home, "identity.key")); err != nil || none == nil && string(now) != string(key) {
			t.Errorf("after step %d the identity is another one: %v", n-1, err)
		}
		m.before = whole.before
		m.closes()
		m.StopDaemon()
		m.StartDaemon() // what a crash leaves is removed at the start after it
		m.StopDaemon()
		if got := files(t, m.Home); !slices.Equal(got, want) {
			t.Errorf("after step %d: %s", n-1, cmp.Diff(want, got))
		}
		os.RemoveAll(m.Home)
	}
}

// change is something that a daemon is asked for, and what it then has promised: the
// facts that are so from then on.
type change struct {
	what  string
	do    func() error
	facts map[string]string
}

// subject is a daemon whose state is changed, by a peer too.
type subject struct {
	*live.Machine
	laptop *live.Machine
	intent string
	seen   map[string]string // what stands for a fact's name where only an answer tells it
}

// TestStateWritesStopAnywhere: a daemon that is killed at any step of what it writes
// has kept, when it starts again, all that it has promised, and of what it was asked
// for last all or nothing. Nothing is left over, neither on the disk nor open.
func TestStateWritesStopAnywhere(t *testing.T) {
	t.Parallel()
	laptop, first := live.NewMachine(t, "laptop"), live.NewMachine(t, "desk")
	laptop.StartDaemon()
	first.StartDaemon()
	live.Befriend(first, laptop)
	await.Until(t, "the key is pinned", func() bool {
		text, err := os.ReadFile(filepath.Join(first.Home, "trust.yaml"))
		return err == nil && strings.Contains(string(text), "pq: ")
	})
	s := &subject{Machine: first, laptop: laptop, seen: make(map[string]string)}
	s.intent = between(s.must("planner", "POST", "intents", `{"title":"Ship it"}`), `"id":"`, `"`)
	first.MustOutput("oacp", "init", "demo", "--agents", "planner,reviewer")
	first.StopDaemon()
	want := files(t, first.Home)

	var whole *machine // that was not killed
	run := func(limit int64) int64 {
		m := newMachine(t, "desk")
		m.Home = folder(t, first.Home)
		m.Client = &client.Client{Socket: m.SocketPath()}
		t.Cleanup(func() { m.Client.Close() })
		m.ID, m.Addr, m.Flags = first.ID, first.Addr, first.Flags
		s := &subject{Machine: m.Machine, laptop: laptop, intent: s.intent, seen: make(map[string]string)}
		p, err := runStoppable(m.Home, live.NewEnviron(t, m.Home), 0, false, m.DaemonCommand()...)
		if err != nil {
			t.Fatal(err)
		}
		connected := func() bool {
			_, err := m.Client.Whoami(await.NewContext(t))
			return err == nil && m.FindPeer(laptop.ID).State == client.PeerConnected && laptop.FindPeer(first.ID).State == client.PeerConnected
		}
		await.Until(t, "desk and laptop are connected", connected)
		p.arm(limit)
		promised, asked := make(map[string]string), map[string]string(nil)
		for _, c := range s.changes() {
			if err := c.do(); err != nil {
				if limit == 0 {
					t.Fatalf("%s: %v\n%s", c.what, err, p.said.String())
				}
				asked = c.facts
				break
			}
			for fact, value := range c.facts {
				promised[fact] = value
			}
		}
		steps := p.taken.Load()
		p.kill()
		m.StartDaemon()
		facts := s.facts()
		for fact, value := range promised {
			now := facts[fact]
			if next, open := asked[fact]; now != value && !(open && now == next) {
				t.Errorf("after step %d: %s was %q, and is %q", limit-1, fact, value, now)
			}
		}
		for fact, next := range asked {
			if now := facts[fact]; now != promised[fact] && now != next {
				t.Errorf("after step %d: %s should be %q or %q, and is %q", limit-1, fact, promised[fact], next, now)
			}
		}
		if facts["binding reviewer"] != "" { // a daemon that had one keeps what carries mail
			if _, err := m.Client.OACPUnbind(await.NewContext(t), client.OACPUnbindParams{Project: "demo", Agent: "reviewer"}); err != nil {
				t.Error(err)
			}
			m.StopDaemon()
			m.StartDaemon()
		}
		await.Until(t, "desk and laptop are connected again", connected)
		if limit == 0 {
			calm(m)
			whole = m
		}
		m.before = whole.before
		m.closes()
		m.StopDaemon()
		if got := files(t, m.Home); !slices.Equal(got, want) {
			t.Errorf("after step %d: %s", limit-1, cmp.Diff(want, got))
		}
		os.RemoveAll(m.Home)
		return steps
	}
	steps := run(0)
	at := samples(steps)
	t.Logf("%d steps, killed at %d of them", steps, len(at))
	for _, n := range at {
		run(n)
	}
}

func (s *subject) changes() (all []change) {
	ctx := func() context.Context { return await.NewContext(s.T) }
	add := func(what string, do func() error, facts ...string) {
		c := change{what: what, do: do, facts: make(map[string]string)}
		for i := 0; i < len(facts); i += 2 {
			c.facts[facts[i]] = facts[i+1]
		}
		all = append(all, c)
	}
	stranger := strings.Repeat("1", 64)
	trust := func(name string, addrs ...string) func() error {
		return func() error {
			_, err := s.Client.Trust(ctx(), client.TrustParams{Peer: stranger, Name: name, Addrs: addrs})
			return err
		}
	}
	fact := "peer " + stranger
	add("trust", trust("mill"), fact, "trusted mill")
	add("trust with an address", trust("mill", "192.0.2.7:7117"), fact, "trusted mill 192.0.2.7:7117")
	add("untrust", func() error { _, err := s.Client.Untrust(ctx(), "mill"); return err }, fact, "blocked")
	add("trust again", trust("forge"), fact, "trusted forge 192.0.2.7:7117")
	for _, topic := range []string{"build", "test"} {
		add("notify "+topic, func() error {
			within, cancel := context.WithTimeout(ctx(), 10*time.Second)
			defer cancel()
			r, err := s.laptop.Client.Notify(within, client.NotifyParams{
				Head: client.Head{ID: wire.NewMessageID()}, To: client.To(s.ID.String()), Payload: kinds.EncodePayload(&kinds.Notify{Topic: topic}),
			})
			if err == nil && r.State != "held" {
				err = errors.New(string(r.State))
			}
			return err
		}, "inbox "+topic, "held")
	}
	add("ack", func() error {
		page, err := s.Client.Inbox(ctx(), client.InboxParams{})
		if err == nil {
			_, err = s.Client.Ack(ctx(), client.AckParams{IDs: []wire.MessageID{page.Messages[0].Envelope.ID}})
		}
		return err
	}, "inbox build", "")
	add("bind", func() error {
		_, err := s.Client.OACPBind(ctx(), client.OACPBindParams{Project: "demo", Agent: "reviewer", Peer: s.laptop.ID.String()})
		return err
	}, "binding reviewer", "laptop")
	add("unbind", func() error {
		_, err := s.Client.OACPUnbind(ctx(), client.OACPUnbindParams{Project: "demo", Agent: "reviewer"})
		return err
	}, "binding reviewer", "")
	ask := func(what, method, path, body string, facts ...string) {
		add(what, func() error {
			text, err := s.web("planner", method, s.named(path), body)
			if err == nil && what == "channel" {
				s.seen["CHANNEL"] = between(text, `"id":"`, `"`)
			}
			return err
		}, facts...)
	}
	ask("channel", "POST", "intents/INTENT/channels", `{"name":"build"}`, "channel build", "open")
	ask("message", "POST", "channels/CHANNEL/messages", `{"message_type":"notify","payload":{"n":"first"}}`, "message first", "there")
	ask("patch", "POST", "intents/INTENT/state", `{"patches":[{"op":"set","path":"/step","value":"second"}]}`, "state", "second")
	ask("delete", "DELETE", "channels/CHANNEL", "", "channel build", "", "message first", "")
	return all
}

func (s *subject) named(path string) string {
	path = strings.Replace(path, "INTENT", s.intent, 1)
	return strings.Replace(path, "CHANNEL", s.seen["CHANNEL"], 1)
}

// facts returns what a fresh daemon says of everything that the changes change.
func (s *subject) facts() map[string]string {
	s.T.Helper()
	ctx, f := await.NewContext(s.T), make(map[string]string)
	for _, p := range s.ListPeers() {
		f["peer "+p.ID.String()] = strings.Join(append([]string{"trusted", p.Name}, p.Addrs...), " ")
		if p.State == client.PeerBlocked {
			f["peer "+p.ID.String()] = "blocked"
		}
	}
	page, err := s.Client.Inbox(ctx, client.InboxParams{})
	if err != nil {
		s.T.Fatal(err)
	}
	for _, m := range page.Messages {
		n, err := kinds.ParsePayload[kinds.Notify](m.Envelope.Payload)
		if err != nil {
			s.T.Fatal(err)
		}
		if f["inbox "+n.Topic] += "held"; f["inbox "+n.Topic] != "held" {
			s.T.Errorf("%s is held twice", n.Topic)
		}
	}
	bindings, err := s.Client.OACPBindings(ctx, "demo")
	if err != nil {
		s.T.Fatal(err)
	}
	for _, b := range bindings {
		f["binding "+b.Agent] = b.Peer
	}
	if strings.Contains(s.must("planner", "GET", "intents/"+s.intent, ""), `"step":"second"`) {
		f["state"] = "second"
	}
	if list := s.must("planner", "GET", "intents/"+s.intent+"/channels", ""); strings.Contains(list, `"name":"build"`) {
		f["channel build"] = "open"
		if id := between(list, `"id":"`, `"`); strings.Contains(s.must("planner", "GET", "channels/"+id+"/messages?wait=0", ""), `"first"`) {
			f["message first"] = "there"
		}
	}
	return f
}

// web makes a request about channels as an agent; what is no success is an error.
func (s *subject) web(agent, method, path, body string) (string, error) {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(s.Home, "http.sock"))
	}}}
	r, err := http.NewRequestWithContext(await.NewContext(s.T), method, "http://acpd/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("X-Agent-ID", agent)
	r.Header.Set("If-Match", "1")
	answer, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return string(text), err
}

func (s *subject) must(agent, method, path, body string) string {
	s.T.Helper()
	text, err := s.web(agent, method, path, body)
	if err != nil {
		s.T.Fatal(err)
	}
	return text
}

// between returns the text between the first two such texts.
func between(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	found, _, _ := strings.Cut(rest, after)
	return found
}
