package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/daemon/sessions"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/peer"
	"github.com/acpd/acpd/wire"
)

// nextApproval returns what waits for the owner's word as soon as it is the only one.
func (d *running) nextApproval() client.Approval {
	d.t.Helper()
	var all client.Approvals
	await.Until(d.t, "an approval", func() bool {
		all = client.Approvals{}
		d.dial().must("approvals", nil, &all)
		return len(all.Approvals) == 1
	})
	return all.Approvals[0]
}

func (d *running) decide(id, answer string) {
	d.t.Helper()
	d.dial().must("approvals.decide", client.ApproveParams{ID: id, Answer: answer}, nil)
}

// A query, a delegation or a notice that names no agent goes to a session for which the owner is to be
// asked: after agents that answer by themselves and sessions that may be woken at once.
func TestWhatNamesNoAgentAsksTheOwner(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	s := laptop.session("claude")
	asker := desk.dial()
	answer := asker.query("laptop")
	asked := s.next(false)
	a := laptop.nextApproval()
	if a.Message != asked.ID || a.Agent != "claude" {
		t.Errorf("the owner is asked about %+v", a)
	}
	laptop.decide(a.ID, "yes")
	if in := s.next(true); in.ID != asked.ID {
		t.Errorf("woken for %s, asked %s", in.ID, asked.ID)
	}
	s.release <- wire.Payload(`{"summary":"x"}`)
	await.Receive(t, "the answer", answer)

	s.release <- wire.Payload(accepted)
	delegateTo(asker, "laptop", task1(""))
	s.next(false)
	laptop.decide(laptop.nextApproval().ID, "yes")
	s.next(true)

	if r := asker.notify(client.NotifyParams{To: client.To("laptop"), Payload: wire.Payload(`{"topic":"t"}`)}); r.State != client.Held {
		t.Errorf("%+v", r)
	}
	s.next(false)
	if a := laptop.nextApproval(); a.Kind != kinds.KindNotify {
		t.Errorf("the owner is asked about %+v", a)
	}

	// Sessions that may be woken at once go first, and then agents that answer.
	laptop.allow(client.WakeAllowParams{Peer: "desk", Agent: "codex"})
	codex := laptop.session("codex")
	answer = asker.query("laptop")
	codex.nextRequest()
	codex.release <- wire.Payload(`{"summary":"codex"}`)
	if got := await.Receive(t, "the answer", answer); parse[kinds.Response](t, got.Payload).Summary != "codex" {
		t.Errorf("the answer is %s", got.Payload)
	}
	laptop.agent(client.AttachParams{Name: "serve"}, say(`{"summary":"serve"}`))
	if got := await.Receive(t, "the answer", asker.query("laptop")); parse[kinds.Response](t, got.Payload).Summary != "serve" {
		t.Errorf("the answer is %s", got.Payload)
	}
}

// What waits for the owner's word keeps the beginning of a long delegation alone, and wakes its session
// all the same.
// holds: security.md#the-budget
func TestALongDelegationThatWaitsKeepsLittle(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	s := laptop.session("claude")
	s.release <- wire.Payload(accepted)
	take := func() (wire.MessageID, weak.Pointer[byte]) {
		env := wire.NewEnvelope(desk.ID(), laptop.ID(), kinds.KindDelegate, kinds.EncodePayload(&kinds.Delegate{Task: strings.Repeat("é", sessions.MaxWakePayload)}))
		env.Agent = "claude"
		message, err := kinds.CheckEnvelope(env)
		sender, _ := laptop.trust.FindPeer(desk.ID())
		if _, refused := laptop.incoming.HandleExchange(t.Context(), &peer.Passing{Checked: message, Inbound: true, Sender: sender}); err != nil || refused != nil {
			t.Fatalf("%v, %v", err, refused)
		}
		return env.ID, weak.Make(&env.Payload[0])
	}
	id, payload := take()
	s.next(false)
	await.Until(t, "the payload is kept no more", func() bool { runtime.GC(); return payload.Value() == nil })
	laptop.decide(laptop.nextApproval().ID, "yes")
	if in := s.next(true); in.ID != id || len(in.Payload) > sessions.MaxWakePayload || !strings.Contains(parse[kinds.Delegate](t, in.Payload).Task, "éé") {
		t.Errorf("woken by %s with %d bytes, want %s", in.ID, len(in.Payload), id)
	}
}

// The owner sees the beginning of what is to be approved, in one line without what a terminal obeys.
// holds: security.md#agents-on-this-machine
func TestApprovalsShowWhatAMessageSays(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	s := laptop.session("claude")
	asker := desk.dial()
	shown := func() string {
		t.Helper()
		s.next(false)
		a := laptop.nextApproval()
		laptop.decide(a.ID, "no")
		return a.Text
	}
	go desk.dial().call("query", client.QueryParams{To: "laptop/claude", Payload: wire.Payload(`{"question":"Which\n\u001b[31mbranch\u202e?"}`)}, nil)
	if got := shown(); got != "Which branch?" {
		t.Errorf("a query says %q", got)
	}
	await.Until(t, "the session has given it up", func() bool { return s.working.Load() == 0 })
	s.release <- wire.Payload(accepted)
	delegateTo(asker, "laptop/claude", wire.Payload(`{"task":"`+strings.Repeat("é", 8192)+`"}`))
	if got := shown(); got != strings.Repeat("é", (client.MaxBeginning-3)/2)+"…" {
		t.Errorf("a delegation says %q", got)
	}
	asker.notify(client.NotifyParams{To: client.To("laptop/claude"), Payload: wire.Payload(`{"topic":"build","data":{"ok":true}}`)})
	if got := shown(); !strings.Contains(got, "build") || !strings.Contains(got, `{"ok":true}`) {
		t.Errorf("a notice says %q", got)
	}
}

// The owner's no reaches who asked at once, and ends the request at the session; another message stays in
// the inbox.
func TestTheOwnersNoReachesTheAsker(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	s := laptop.session("claude")
	asker := desk.dial()
	refuse := func(what string, call func() error) {
		t.Helper()
		failed := make(chan error, 1)
		go func() { failed <- call() }()
		if in := s.next(false); in.Kind != what {
			t.Errorf("told of %+v", in)
		}
		laptop.decide(laptop.nextApproval().ID, "no")
		if e := kinds.AsError(await.Receive(t, "the error", failed)); !e.IsDeclined() || e.Message != "the owner there has declined the "+what || e.From == "" {
			t.Errorf("who sent a %s hears %v", what, e)
		}
		await.Until(t, "the session has given it up", func() bool { return s.working.Load() == 0 })
	}
	refuse(kinds.KindQuery, func() error {
		return desk.dial().call("query", client.QueryParams{To: "laptop/claude", Payload: wire.Payload(`{"question":"?","deadline_ms":600000}`)}, nil)
	})
	refuse(kinds.KindDelegate, func() error {
		return desk.dial().call("delegate", client.DelegateParams{To: "laptop/claude", Payload: task1("")}, nil)
	})

	// A delegation that the session has accepted.
	s.release <- wire.Payload(accepted)
	given := delegateTo(asker, "laptop/claude", task1(""))
	s.next(false)
	s.release <- wire.Payload(accepted)
	laptop.decide(laptop.nextApproval().ID, "no")
	end := get[client.Task](asker, "wait", client.WaitParams{ID: given.ID})
	if e := parse[kinds.Error](t, end.Result); end.State != client.TaskFailed || !e.IsDeclined() || end.Outcome != "declined: the owner there has declined the delegate" {
		t.Errorf("the delegation is %s %q: %s", end.State, end.Outcome, end.Result)
	}
	if in := s.next(false); in.Kind != kinds.KindCancel || *in.Ref != given.ID || in.From != desk.ID() {
		t.Errorf("the session is told of %+v", in)
	}

	// A no takes a yes back, and the sender hears it.
	laptop.allow(client.WakeAllowParams{Peer: "desk", Kinds: []string{kinds.KindDelegate}})
	s.release <- wire.Payload(accepted)
	delegateTo(asker, "laptop/claude", task1(""))
	s.nextRequest() // and it works on that
	refuseLater := later(desk.dial(), "query", client.QueryParams{To: "laptop/claude", Payload: query("?")})
	a := laptop.nextApproval()
	laptop.decide(a.ID, "yes")
	laptop.decide(a.ID, "no")
	if e := kinds.AsError(await.Receive(t, "the error", refuseLater)); !e.IsDeclined() {
		t.Errorf("after a yes: %v", e)
	}
}

// The owner's no to a question about what the session delegated reaches whoever works on it.
func TestTheOwnersNoToAQuestion(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	worker := laptop.agent(client.AttachParams{Name: "welder"}, say(accepted))
	desk.allow(client.WakeAllowParams{Peer: "laptop", Ask: true})
	s := desk.session("claude")
	given := delegateTo(s.program, "laptop", task1(""))
	failed := later(worker, "query", client.QueryParams{Ref: given.ID, Payload: query("?")})
	s.next(false)
	desk.decide(desk.nextApproval().ID, "no")
	if e := kinds.AsError(await.Receive(t, "the error", failed)); !e.IsDeclined() || e.From == "" {
		t.Errorf("who asked back hears %v", e)
	}
}

// What the owner is asked about ends with the message, whoever removes it.
func TestApprovalsEndWithTheirMessage(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	claude, codex := laptop.session("claude"), laptop.session("codex")
	owner, asker := laptop.dial(), desk.dial()
	for what, remove := range map[string]func(){
		"the owner": func() {
			in := get[client.Inbox](owner, "inbox", nil)
			owner.must("ack", client.AckParams{UpTo: in.Messages[0].Seq}, nil)
		},
		"another session": func() {
			codex.must("ack", client.AckParams{IDs: codex.unread()}, nil)
		},
	} {
		asker.notify(client.NotifyParams{To: client.To("laptop"), Payload: wire.Payload(`{"topic":"t"}`)})
		claude.next(false)
		laptop.nextApproval()
		remove()
		var all client.Approvals
		if owner.must("approvals", nil, &all); len(all.Approvals) != 0 {
			t.Errorf("%s has removed the message: %+v", what, all.Approvals)
		}
	}
}

// After a restart the owner is asked again about what lies in the inbox, also if the answer was a yes that
// was not used yet, by whichever session comes; of what has woken the session nobody asks.
func TestApprovalsOutliveARestart(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	s := laptop.session("claude")
	asker := desk.dial()
	notify := func(to string) (id wire.MessageID) {
		t.Helper()
		id = wire.NewMessageID()
		asker.notify(client.NotifyParams{Head: client.Head{ID: id}, To: client.To(to), Payload: wire.Payload(`{"topic":"t"}`)})
		s.next(false)
		return id
	}
	list := func() (all client.Approvals) {
		t.Helper()
		laptop.dial().must("approvals", nil, &all)
		return all
	}
	notify("laptop/claude")
	laptop.decide(laptop.nextApproval().ID, "yes")
	s.next(true) // and has not taken it
	approved := notify("laptop/claude")
	laptop.decide(laptop.nextApproval().ID, "yes")
	open := map[wire.MessageID]bool{approved: true, notify("laptop/claude"): true, notify("laptop"): true}

	laptop.stop()
	laptop = start(t, laptop.dir, "laptop")
	if all := list(); len(all.Approvals) != 0 {
		t.Errorf("without a session: %+v", all)
	}
	s = laptop.session("claude")
	await.Until(t, "the owner is asked again", func() bool { return len(list().Approvals) == len(open) })
	laptop.session("codex") // does not ask about the same
	for _, a := range list().Approvals {
		if !open[a.Message] || a.Approved || !a.Again || a.Agent != "claude" {
			t.Errorf("after a restart: %+v", a)
		}
		laptop.decide(a.ID, "no")
	}
	laptop.session("opencode")
	befriendAgain := func() bool { return desk.dial().call("ping", client.PingParams{To: "laptop"}, nil) == nil }
	await.Until(t, "the peer is back", befriendAgain)
	fresh := notify("laptop/claude")
	if a := laptop.nextApproval(); a.Message != fresh || a.Again {
		t.Errorf("after the answers: %+v", a)
	}
}

// With ask, a message waits for the owner's word: yes, always, no.
func TestApprovals(t *testing.T) {
	t.Parallel()
	desk, laptop := measuredPair(t, "")
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	s := laptop.session("claude")
	asker, owner := desk.dial(), laptop.dial()
	pending := func() []client.Approval {
		t.Helper()
		all := get[client.Approvals](owner, "approvals", nil)
		return all.Approvals
	}
	decide := func(answer string) {
		t.Helper()
		all := pending()
		if len(all) != 1 || all[0].Agent != "claude" || all[0].Name != "desk" {
			t.Fatalf("approvals: %+v", all)
		}
		owner.must("approvals.decide", client.ApproveParams{ID: all[0].ID, Answer: answer}, nil)
	}
	ask := func() {
		t.Helper()
		if r := asker.notify(s.notice("laptop")); r.State != client.Held {
			t.Errorf("%+v", r)
		}
		s.next(false)
	}
	proves := func(in *client.Inbound) client.WakeAnswer {
		return client.WakeAnswer{Posted: in.Wake != nil, Proven: in.Wake != nil}
	}
	s.says(proves)
	ask()
	seen := pending()[0].ID
	var state client.SessionState
	if s.must("session", nil, &state); state.Unread != 1 || len(state.Notices) != 1 || !strings.Contains(state.Notices[0], "acpctl approvals") {
		t.Errorf("the session hears %+v", state)
	}
	if pending()[0].Approved {
		t.Error("approved before the owner has said anything")
	}
	decide("no")
	if len(pending()) != 0 || len(s.told) != 0 {
		t.Error("no is not no")
	}
	ask()
	decide("yes")
	s.next(true)
	ask()
	decide("always")
	s.next(true)
	await.Until(t, "what has woken it has left the inbox", func() bool { return len(s.unread()) == 1 })
	time.Sleep(300 * time.Millisecond) // a session is woken every 250 ms at most
	if r := asker.notify(s.notice("laptop")); r.State != client.Handed {
		t.Errorf("after always: %+v", r)
	}
	s.next(true)
	if n := len(s.unread()); n != 1 {
		t.Errorf("%d are unread, want the one that was refused", n)
	}
	laptop.countsTo(`acpd_wakes_total{outcome="posted"}`, 3)
	laptop.countsTo(`acpd_wakes_total{outcome="refused"}`, 0)
	owner.refused(kinds.NotFound, "approvals.decide", client.ApproveParams{ID: seen, Answer: "yes"})
	owner.refused(kinds.Invalid, "approvals.decide", client.ApproveParams{ID: seen, Answer: "perhaps"})
}

// Rules name one peer each.
// holds: security.md#agents-on-this-machine
func TestWakeRules(t *testing.T) {
	t.Parallel()
	_, laptop := pair(t)
	owner := laptop.dial()
	owner.refused(kinds.Invalid, "wake.allow", client.WakeAllowParams{Peer: "*"})
	owner.refused(kinds.UnknownPeer, "wake.allow", client.WakeAllowParams{Peer: "planner"})
	owner.refused(kinds.UnknownPeer, "wake.allow", client.WakeAllowParams{})
	owner.refused(kinds.Invalid, "wake.allow", client.WakeAllowParams{Peer: "desk", Kinds: []string{"ping"}})
	owner.refused(kinds.Invalid, "wake.allow", client.WakeAllowParams{Peer: "desk", Agent: "a/b"})
	owner.refused(kinds.NotFound, "wake.revoke", client.WakeRevokeParams{Peer: "desk"})
	laptop.allow(client.WakeAllowParams{Peer: "desk", Kinds: []string{"query", "notify"}, Unattended: true})
	laptop.allow(client.WakeAllowParams{Peer: "desk", Kinds: []string{"query"}, Ask: true})
	laptop.allow(client.WakeAllowParams{Peer: "desk", Agent: "claude"})
	list := func() (all []string) {
		rules := get[client.WakeRules](laptop.dial(), "wake.list", nil)
		for _, r := range rules.Rules {
			all = append(all, fmt.Sprintf("%s/%s %s ask=%v unattended=%v", r.Name, r.Agent, r.Kind, r.Ask, r.Unattended))
		}
		return all
	}
	want := []string{
		"desk/ notify ask=false unattended=true", "desk/ query ask=true unattended=false",
		"desk/claude query ask=false unattended=false", "desk/claude delegate ask=false unattended=false", "desk/claude notify ask=false unattended=false",
		"desk/claude result ask=false unattended=false", "desk/claude error ask=false unattended=false",
	}
	if got := list(); !slices.Equal(got, want) {
		t.Errorf("rules:\n%s", strings.Join(got, "\n"))
	}
	gone := get[client.Revoked](laptop.dial(), "wake.revoke", client.WakeRevokeParams{Peer: "desk", Agent: "claude", Kinds: []string{"result", "error"}})
	laptop.dial().must("wake.revoke", client.WakeRevokeParams{Peer: "desk", Kinds: []string{"query"}}, nil)
	if got := list(); gone.Revoked != 2 || len(got) != 3 {
		t.Errorf("%d revoked, %q are left", gone.Revoked, got)
	}
}

// What a revoke could not write, the next one writes, though it finds no rule any more.
func TestARevokeThatIsTriedAgainIsWritten(t *testing.T) {
	t.Parallel()
	_, laptop := pair(t)
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	file := laptop.home.filePath("wake.yaml")
	block := filepath.Join(file+".tmp", "x") // nothing can be written
	if err := os.MkdirAll(block, 0o700); err != nil {
		t.Fatal(err)
	}
	revoke := client.WakeRevokeParams{Peer: "desk"}
	laptop.dial().refused(kinds.Internal, "wake.revoke", revoke)
	if err := os.RemoveAll(filepath.Dir(block)); err != nil {
		t.Fatal(err)
	}
	laptop.dial().refused(kinds.NotFound, "wake.revoke", revoke)
	if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte("query")) {
		t.Errorf("after a restart the peer may wake again: %v\n%s", err, text)
	}
}

// To switch answers off for a session says so where another rule leaves them on.
func TestAnswersOffThatLeavesThemOnIsRefused(t *testing.T) {
	t.Parallel()
	_, laptop := pair(t)
	owner := laptop.dial()
	owner.must("wake.answers", client.WakeAnswersParams{Agent: "claude", On: true}, nil)
	owner.must("wake.answers", client.WakeAnswersParams{On: true}, nil)
	owner.refused(kinds.Invalid, "wake.answers", client.WakeAnswersParams{Agent: "claude"})
	owner.must("wake.answers", client.WakeAnswersParams{}, nil)
	owner.must("wake.answers", client.WakeAnswersParams{Agent: "claude"}, nil)
}

// Who asks a session that is not woken hears so at the deadline, and what helps; of a session that was
// woken nothing is said.
func TestATimeoutSaysThatTheSessionWasNotWoken(t *testing.T) {
	t.Parallel()
	desk, laptop := pair(t)
	s := laptop.session("claude")
	const unwoken = "the deadline passed, and claude was not woken: allow more time, or delegate it"
	l, e := desk.dial(), new(kinds.Error)
	for ms := 5000; e.From == "" && ms < int(await.Patience.Milliseconds()); ms *= 2 { // until the word comes before the asker's own deadline
		e = l.refused(kinds.Timeout, "query", client.QueryParams{To: "laptop/claude", Payload: wire.Payload(fmt.Sprintf(`{"question":"?","deadline_ms":%d}`, ms))})
	}
	if e.From == "" || e.Message != unwoken+"; its owner lets a query of yours wake it by typing there, with your name there as PEER: acpctl wake allow PEER --kinds query" {
		t.Error(e)
	}
	sender, _ := laptop.trust.FindPeer(desk.ID())
	askFor := func(ms int) string { // without a way on which time is lost
		t.Helper()
		env := wire.NewEnvelope(desk.ID(), laptop.ID(), kinds.KindQuery, wire.Payload(fmt.Sprintf(`{"question":"?","deadline_ms":%d}`, ms)))
		env.Agent = "claude"
		query, err := kinds.CheckEnvelope(env)
		if err != nil {
			t.Fatal(err)
		}
		_, err = laptop.incoming.HandleExchange(t.Context(), &peer.Passing{Checked: query, Inbound: true, Sender: sender})
		if !errors.Is(err, &kinds.Error{Code: kinds.Timeout}) {
			t.Fatal(err)
		}
		await.Until(t, "the session has given it up", func() bool { return s.working.Load() == 0 })
		return kinds.AsError(err).Message
	}
	ask := func() (said string) { // until the session has answered before the deadline
		t.Helper()
		for ms := 2000; ms < int(await.Patience.Milliseconds()); ms *= 2 {
			if said = askFor(ms); said != "the deadline passed" {
				break
			}
		}
		return said
	}
	laptop.allow(client.WakeAllowParams{Peer: "desk", Ask: true})
	if got := ask(); got != unwoken+"; its owner was asked, and has not answered" {
		t.Error(got)
	}
	laptop.allow(client.WakeAllowParams{Peer: "desk"})
	s.says(func(*client.Inbound) client.WakeAnswer { return client.WakeAnswer{Refused: "nobody is there"} })
	if got := ask(); got != unwoken {
		t.Error(got)
	}
	s.says(func(*client.Inbound) client.WakeAnswer { return client.WakeAnswer{Posted: true} })
	if got := askFor(2000); strings.Contains(got, "not woken") {
		t.Error(got)
	}
	// What is so of the session is declared anew, and takes the message out of nobody's hands.
	s.must("attach", client.AttachParams{Name: "claude", Key: s.key, Session: &client.SessionInfo{Harness: "codex", Asks: "Codex"}}, nil)
	if got := ask(); got != "the deadline passed: its owner was asked by Codex, and has not answered: allow more time, or delegate it" {
		t.Error(got)
	}
	laptop.configure("agents: {claude: {turns: {hour: 2}}}")
	if got := ask(); !strings.HasPrefix(got, unwoken+"; the turns that you may cause there are used up for ") {
		t.Error(got)
	}
}
