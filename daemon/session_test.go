package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/daemon/delegation"
	"github.com/acpd/acpd/daemon/sessions"
	"github.com/acpd/acpd/daemon/waking"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/statedb"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// liveSession is a session in the agents' folder of a daemon, whose program a test plays.
type liveSession struct {
	*program
	d    *running
	key  string
	name string

	mu     sync.Mutex // guards the rest
	answer func(*client.Inbound) client.WakeAnswer

	working atomic.Int32         // queries and delegations that it has not answered
	told    chan *client.Inbound // what it was called with
	release chan wire.Payload    // the answers of the model to queries and delegations
}

var claude = &client.SessionInfo{Harness: "claude", Version: "2.1.330"}

// session attaches a session that posts what it may be woken for, and proves nothing.
func (d *running) session(name string) *liveSession {
	d.t.Helper()
	return d.sessionWith(client.AttachParams{Name: name, Session: claude})
}

// sessionWith attaches a session that has as many places as acpctl mcp gives one.
func (d *running) sessionWith(p client.AttachParams) *liveSession {
	d.t.Helper()
	p.MaxConcurrent = 16
	s := &liveSession{d: d, name: p.Name, told: make(chan *client.Inbound, 256), release: make(chan wire.Payload, 64)}
	s.answer = func(in *client.Inbound) client.WakeAnswer { return client.WakeAnswer{Posted: in.Wake != nil} }
	s.program, s.key = d.guestAgent(p, func(ctx context.Context, r *jsonrpc.Request) {
		in := bind(d.t, r)
		if r.Method == client.MethodWake {
			s.mu.Lock()
			answer := s.answer(in)
			s.mu.Unlock()
			s.tell(in)
			r.Respond(&answer)
			return
		}
		s.working.Add(1)
		defer s.working.Add(-1)
		s.tell(in)
		select {
		case answer := <-s.release:
			r.Respond(answer)
		case <-ctx.Done():
		}
	})
	return s
}

func (s *liveSession) tell(in *client.Inbound) {
	select {
	case s.told <- in:
	default: // of a flood, nobody looks at all
	}
}

// says makes the session's program answer wakes so.
func (s *liveSession) says(answer func(*client.Inbound) client.WakeAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// next returns what the session was told of next.
func (s *liveSession) next(grant bool) *client.Inbound {
	s.t.Helper()
	in := await.Receive(s.t, "what the session is told", s.told)
	if (in.Wake != nil) != grant {
		s.t.Errorf("%s %s came with the grant %+v, want one: %v", in.Kind, in.ID, in.Wake, grant)
	}
	return in
}

// TestASessionSaysThatItsModelSawNothing: the asker of such a query is told that it has not arrived, unless this daemon
// knows that the session was woken for it, and only of a query.
func TestASessionSaysThatItsModelSawNothing(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	for to, session := range map[string]*client.SessionInfo{"claude": claude, "worker": nil} {
		laptop.guestAgent(client.AttachParams{Name: to, Session: session}, func(_ context.Context, r *jsonrpc.Request) {
			in := bind(t, r)
			if r.Method == client.MethodWake {
				r.Respond(&client.WakeAnswer{Posted: true})
				return
			}
			if to == "claude" && parse[kinds.Query](t, in.Payload).Question == "woken" {
				await.Until(t, "it is woken", func() bool {
					return laptop.sessions.Waker.HasWoken(waking.Message{Agent: to, Peer: identity.Peer{ID: desk.ID()}, Kind: in.Kind, ID: in.ID})
				})
			}
			r.RespondError(kinds.Errorf(kinds.Timeout, "unseen").WithDelivered(kinds.DeliveredNo))
		})
		asker := desk.dial()
		want := map[bool]kinds.Delivered{true: kinds.DeliveredNo}[session != nil]
		e := asker.refused(kinds.Timeout, "query", client.QueryParams{To: "laptop/" + to, Payload: query("?")})
		if e.Delivered() != want || session != nil && !strings.Contains(e.Message, "was not woken") {
			t.Errorf("%s: %v, delivered %q, want %q", to, e, e.Delivered(), want)
		}
		if e := asker.refused(kinds.Timeout, "delegate", client.DelegateParams{To: "laptop/" + to, Payload: task1("")}); e.Delivered() != "" {
			t.Errorf("a delegation to %s: delivered %q", to, e.Delivered())
		}
	}
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	if e := desk.dial().refused(kinds.Timeout, "query", client.QueryParams{To: "laptop/claude", Payload: query("woken")}); e.Delivered() != "" {
		t.Errorf("of a query that has woken it: delivered %q", e.Delivered())
	}
}

// nextRequest returns the query or delegation that the session has and is woken for next, with the
// grant. Either may come first.
func (s *liveSession) nextRequest() *client.Inbound {
	s.t.Helper()
	request, woken := await.Receive(s.t, "a request, or a wake", s.told), await.Receive(s.t, "a wake, or a request", s.told)
	if request.Wake != nil {
		request, woken = woken, request
	}
	if request.Wake != nil || woken.Wake == nil || request.ID != woken.ID {
		s.t.Errorf("it was told of %s %s with the grant %+v, and of %s %s with %+v", request.Kind, request.ID, request.Wake, woken.Kind, woken.ID, woken.Wake)
	}
	return woken
}

// query asks, and returns where the answer comes.
func (l *program) query(to string) <-chan client.Answer {
	answers := make(chan client.Answer, 1)
	go func() {
		var got client.Answer
		if err := l.call("query", client.QueryParams{To: to, Payload: query("?")}, &got); err != nil {
			l.t.Error(err)
		}
		answers <- got
	}()
	return answers
}

// unread returns the messages in the inbox that are for the session, as its tool call does.
func (s *liveSession) unread() (ids []wire.MessageID) {
	s.t.Helper()
	in := get[client.Inbox](s, "inbox", client.InboxParams{Limit: 1000})
	for _, m := range in.Messages {
		ids = append(ids, m.Envelope.ID)
	}
	return ids
}

// notice returns a notify for the session.
func (s *liveSession) notice(peer string) client.NotifyParams {
	return client.NotifyParams{To: client.To(peer + "/" + s.name), Payload: wire.Payload(`{"topic":"t"}`)}
}

// allow lets a peer wake sessions.
func (d *running) allow(p client.WakeAllowParams) {
	d.t.Helper()
	d.dial().must("wake.allow", p, nil)
}

func (l *program) notify(p client.NotifyParams) client.Receipt {
	l.t.Helper()
	got := get[client.Receipt](l, "notify", p)
	return got
}

// What names no agent goes to agents that answer by themselves, as long as one takes it. A
// session comes after them, and only if the peer may wake it.
// holds: security.md#agents-on-this-machine
func TestSessionsComeAfterAgentsThatAnswer(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk", Kinds: []string{"query"}})
	serve := laptop.agent(client.AttachParams{Name: "serve"}, say(`{"summary":"serve"}`))
	s := laptop.session("claude") // the one that attached last
	asker := desk.dial()
	for range 100 {
		var got client.Answer
		if asker.must("query", client.QueryParams{To: "laptop", Payload: query("?")}, &got); parse[kinds.Response](t, got.Payload).Summary != "serve" {
			t.Fatalf("the answer is %s", got.Payload)
		}
	}
	if len(s.told) > 0 {
		t.Error("the session was told of a query")
	}
	serve.Close()
	laptop.awaitLeft("serve")
	answer := asker.query("laptop")
	if in := s.nextRequest(); in.Wake.Unattended {
		t.Error("it may be woken unattended")
	}
	s.release <- wire.Payload(`{"summary":"claude"}`)
	if got := await.Receive(t, "the answer", answer); parse[kinds.Response](t, got.Payload).Summary != "claude" {
		t.Errorf("the answer is %s", got.Payload)
	}
	const allow = "its owner lets a %s of yours wake it by typing there, with your name there as PEER: acpctl wake allow PEER --kinds %[1]s" // of what was allowed, another kind
	if e := asker.refused(kinds.NoAgent, "delegate", client.DelegateParams{To: "laptop", Payload: task1("")}); !strings.HasSuffix(e.Message, fmt.Sprintf(allow, "delegate")) {
		t.Error(e)
	}
	laptop.dial().must("wake.revoke", client.WakeRevokeParams{Peer: "desk"}, nil)
	if e := asker.refused(kinds.NoAgent, "query", client.QueryParams{To: "laptop", Payload: query("?")}); !strings.HasSuffix(e.Message, fmt.Sprintf(allow, "query")) {
		t.Error(e)
	}
}

// A peer that names no agent is told of a session that it may name, if it may discover that there
// is one.
func TestASenderIsToldToNameASession(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.session("claude")
	asker := desk.dial()
	ask := func() string {
		return asker.refused(kinds.NoAgent, "query", client.QueryParams{To: "laptop", Payload: query("?")}).Message
	}
	if got := ask(); !strings.Contains(got, `name a session, such as "claude"`) {
		t.Error(got)
	}
	laptop.configure("policy: {desk: {kinds: [query]}}\n")
	if got := ask(); strings.Contains(got, "session") {
		t.Error(got)
	}
}

// Who may discover hears which agent a mistyped name may have meant; who may not hears of none.
func TestAMistypedAgentIsNamed(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.session("mine")
	laptop.agent(client.AttachParams{Name: "notices", Kinds: []string{kinds.KindNotify}}, say(`{}`))
	asker := desk.dial()
	ask := func(name string) string {
		return asker.refused(kinds.NoAgent, "query", client.QueryParams{To: "laptop/" + name, Payload: query("?")}).Message
	}
	if got := ask("mien"); got != `no agent "mien" is attached that takes this: did you mean mine?` {
		t.Error(got)
	}
	for _, far := range []string{"reviewer", "notice"} {
		if got := ask(far); got != `no agent "`+far+`" is attached that takes this: name one that does, like mine` {
			t.Error(got)
		}
	}
	laptop.configure("policy: {desk: {kinds: [query]}}\n")
	if got := ask("mien"); strings.Contains(got, "mine") {
		t.Error(got)
	}
}

// A session takes what names it, also from a peer that may not wake it: that waits for its next
// tool call, until the deadline.
// holds: security.md#agents-on-this-machine
func TestASessionTakesWhatNamesIt(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	s := laptop.session("claude")
	asker := desk.dial()
	for ms := 1000; len(s.told) == 0; ms *= 2 { // until it has come before its deadline
		asker.refused(kinds.Timeout, "query", client.QueryParams{To: "laptop/claude", Payload: wire.Payload(fmt.Sprintf(`{"question":"?","deadline_ms":%d}`, ms))})
	}
	s.next(false)
	await.Until(t, "the session has given it up", func() bool { return s.working.Load() == 0 })
	s.release <- wire.Payload(`{"summary":"later"}`)
	asker.must("query", client.QueryParams{To: "laptop/claude", Payload: query("?")}, nil)
	s.next(false)
	s.release <- wire.Payload(accepted)
	if given := delegateTo(asker, "laptop/claude", task1("")); asker.state(given.ID).State != client.TaskAccepted {
		t.Error("the delegation is not accepted")
	}
	s.next(false)
}

// Nothing that a session had taken on waits for another one of its name: its asker hears
// no_agent, and that the model may have begun.
func TestASessionThatEndsTellsItsAskers(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	s := laptop.session("claude")
	asker := desk.dial()
	s.release <- wire.Payload(accepted)
	given := delegateTo(asker, "laptop/claude", task1(""))
	s.next(false)
	failed := make(chan error, 2)
	for _, call := range []func() error{
		func() error {
			return desk.dial().call("query", client.QueryParams{To: "laptop/claude", Payload: query("?")}, nil)
		},
		func() error {
			return desk.dial().call("delegate", client.DelegateParams{To: "laptop/claude", Payload: task1("")}, nil)
		},
	} {
		go func() { failed <- call() }()
		s.next(false)
	}
	s.Close()
	for range 2 {
		err := await.Receive(t, "the error", failed)
		if e, ok := errors.AsType[*kinds.Error](err); !ok || e.Code != kinds.NoAgent || e.Delivered() != kinds.DeliveredUnknown || e.From == "" {
			t.Errorf("the asker hears %v", err)
		}
	}
	end := get[client.Task](asker, "wait", client.WaitParams{ID: given.ID})
	if e := parse[kinds.Error](t, end.Result); end.State != client.TaskFailed || e.Code != kinds.NoAgent || e.Delivered() != kinds.DeliveredUnknown {
		t.Errorf("the delegation is %+v: %s", end.State, end.Result)
	}
}

// subscribe returns the events that a subscriber gets.
func (d *running) subscribe(p client.SubscribeParams) <-chan *client.Event {
	d.t.Helper()
	events := make(chan *client.Event, 64)
	l := d.dialWith(func(_ context.Context, r *jsonrpc.Request) {
		if r.Method == client.NotificationEvent {
			e := new(client.Event)
			if err := r.ReadParams(e); err == nil {
				events <- e
			}
		}
	})
	l.must("subscribe", p, nil)
	return events
}

// woken returns the next message for which the session is woken.
func (s *liveSession) woken() *client.Inbound {
	s.t.Helper()
	for {
		if in := await.Receive(s.t, "what the session is woken for", s.told); in.Wake != nil {
			return in
		}
	}
}

// A session that comes back while its old connection ends is a session.
func TestTheEndOfAnOldConnectionEndsNoNewSession(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	sender, _ := laptop.trust.FindPeer(desk.ID())
	laptop.agent(client.AttachParams{Name: "welder"}, say(accepted))
	delegateTo(desk.dial(), "laptop/welder", task1(""))
	done := make(chan struct{})
	var holding sync.WaitGroup
	holding.Go(func() { // the table is held most of the time, so that each step waits for it
		for {
			select {
			case <-done:
				return
			default:
				// Nothing is waited for: the table stays locked for the pause.
				laptop.delegations.List(nil, func(*delegation.Delegation, client.TaskState) bool { time.Sleep(time.Millisecond); return false })
			}
		}
	})
	defer holding.Wait()
	defer close(done)
	for n := range 100 {
		old := s
		var closing sync.WaitGroup
		closing.Go(func() { old.Close() })
		s = laptop.sessionWith(client.AttachParams{Name: "claude", Session: claude, Key: old.key})
		closing.Wait()
		if !laptop.sessions.Waker.MayWake("claude", sender, kinds.KindNotify) {
			t.Fatalf("the end of connection %d ended the session of the next one", n)
		}
	}
}

// A delegation whose ack cannot be written keeps its session from nothing else.
func TestAnAckThatCannotBeWrittenFreesTheSession(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s := laptop.session("claude")
	statedb.Exec(t, laptop.store, "CREATE TRIGGER broken BEFORE UPDATE OF ack ON daemon_task BEGIN SELECT RAISE(ABORT, 'broken'); END")
	s.release <- wire.Payload(accepted)
	if err := desk.dial().call("delegate", client.DelegateParams{To: "laptop/claude", Payload: task1("")}, nil); err == nil {
		t.Fatal("accepted")
	}
	statedb.Exec(t, laptop.store, "DROP TRIGGER broken")
	for note := desk.dial().notify(s.notice("laptop")); s.woken().ID != note.ID; {
	}
}

// The owner is asked nothing about a delegation whose time is over.
func TestAnExpiredDelegationAsksNobody(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	s := laptop.session("claude")
	asked := laptop.subscribe(client.SubscribeParams{Events: client.EventFilter{Types: []client.EventType{client.EventApproval}}})
	s.release <- wire.Payload(accepted)
	delegateTo(desk.dial(), "laptop/claude", wire.Payload(`{"task":"t","deadline_ms":3000}`)) // time enough to accept it
	await.Receive(t, "the owner is asked", asked)
	await.Until(t, "the owner is asked no more", func() bool { return len(laptop.sessions.Waker.Approvals()) == 0 })
}

// Messages that have woken a session, and that it left in the inbox, hide no others from it when
// it comes back.
func TestWhatHasWokenASessionHidesNothing(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	s := laptop.session("claude")
	asker, id := desk.dial(), desk.ID()
	dir := laptop.home
	for range sessions.MaxRestored {
		old := asker.notify(s.notice("laptop")).ID
		statedb.Exec(t, laptop.store, "INSERT INTO daemon_turn (agent, peer, message, cause, at, sent) VALUES ('claude', ?, ?, ?, ?, 0)",
			id[:], old[:], id[:], store.Millis(time.Now().Add(-2*time.Hour))) // it woke the session two hours ago
	}
	last := asker.notify(s.notice("laptop"))
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	laptop.stop()
	laptop = start(t, string(dir), "laptop") // it reads the turns
	again := laptop.sessionWith(client.AttachParams{Name: "claude", Session: claude, Key: s.key})
	if in := again.woken(); in.ID != last.ID {
		t.Errorf("woken for %s, want %s", in.ID, last.ID)
	}
}
