package mailbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/oacp/message"
)

// looks is a watch and what it told.
type looks struct {
	Watch
	t testing.TB
}

func watch(t testing.TB, p Project) *looks {
	return &looks{Watch{Home: p.Home, Agent: "reviewer", Projects: []string{p.Name}, ShowArchived: true}, t}
}

// brief is an event in short.
func brief(e Event) string {
	if e.Event == WatchError {
		return "error " + e.File
	}
	return e.Event + " " + e.File
}

func (l *looks) expect(want ...string) {
	l.t.Helper()
	var got []string
	ok := l.Scan(func(e Event) { got = append(got, brief(e)) })
	if failed := strings.HasPrefix(strings.Join(want, " "), "error"); strings.Join(got, ", ") != strings.Join(want, ", ") || ok == failed {
		l.t.Errorf("told %q (%v), want %q", got, ok, want)
	}
}

func TestWatch(t *testing.T) {
	p := demo(t)
	inbox := p.must(t, "reviewer").Inbox()
	in := func(name string) string { return filepath.Join(inbox, name) }
	old := time.Now().Add(-time.Hour)
	strange(t, inbox)
	write(t, in("old.yaml"), text())
	write(t, in("new.yaml"), text("subject: 'N: é'"))
	if err := os.Chtimes(in("old.yaml"), old, old); err != nil {
		t.Fatal(err)
	}
	w := watch(t, p)
	w.Since = time.Now().Add(-time.Minute)
	w.expect("new_message new.yaml")
	w.expect()
	state := filepath.Join(p.Dir(), "state/watch/reviewer.json")
	info, err := os.Stat(state)
	if err != nil {
		t.Fatal(err)
	}
	w.expect()
	if again, err := os.Stat(state); err != nil || !os.SameFile(info, again) {
		t.Error("a cursor was written that has not moved")
	}

	own := watch(t, p)
	own.StateID, own.Since = "own", time.Unix(0, 0)
	own.expect("new_message new.yaml", "new_message old.yaml")

	write(t, in("bad.yaml"), "\t")
	write(t, in("b.yaml"), "")
	if err := os.Remove(in("old.yaml")); err != nil {
		t.Fatal(err)
	}
	w.expect("error bad.yaml", "new_message b.yaml", "message_archived old.yaml")
	w.expect("error bad.yaml")
	write(t, in("bad.yaml"), text())
	w.expect("new_message bad.yaml")
	own.ShowArchived = false
	own.expect("new_message b.yaml", "new_message bad.yaml")

	write(t, state, "[]")
	w.expect("error ")
	if content(t, state) != "[]" {
		t.Error("a cursor that cannot be read was written over")
	}
}

func TestWatchTargets(t *testing.T) {
	p := demo(t)
	if _, _, _, err := p.Home.InitProject("other", Workspace{Agents: []string{"reviewer"}}); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := p.Home.InitProject("foreign", Workspace{Agents: []string{"planner"}}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(p.must(t, "reviewer").Inbox(), "m.yaml"), text())
	var told []string
	tell := func(e Event) {
		project := "-"
		if e.Project != nil {
			project = *e.Project
		}
		told = append(told, fmt.Sprintf("%s %s %s", e.Event, project, e.Path))
	}
	for _, c := range []struct {
		agent    string
		projects []string
		want     string
	}{
		{"reviewer", nil, "new_message demo "},
		{"reviewer", []string{"demo", "demo"}, "new_message demo "},
		{"reviewer", []string{"none", "foreign", "demo"}, "error none " + filepath.Join(p.Home.projectsDir(), "none") +
			"; error foreign " + filepath.Join(p.Home.projectsDir(), "foreign/agents/reviewer") + "; new_message demo "},
		{"nobody", nil, "error - "},
		{"..", []string{"demo"}, "error demo " + filepath.Join(p.agentsDir(), "..")},
	} {
		if err := os.RemoveAll(filepath.Join(p.Dir(), "state/watch")); err != nil {
			t.Fatal(err)
		}
		told = nil
		w := Watch{Home: p.Home, Agent: c.agent, Projects: c.projects, Since: time.Unix(0, 0)}
		if ok := w.Scan(tell); strings.Join(told, "; ") != c.want || ok == strings.Contains(c.want, "error") {
			t.Errorf("%s in %v: told %q, %v", c.agent, c.projects, told, ok)
		}
	}
}

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for s, want := range map[string]string{
		"now": "2026-03-04T05:06:07Z", "epoch": "1970-01-01T00:00:00Z", "30s": "2026-03-04T05:05:37Z", "5m": "2026-03-04T05:01:07Z",
		"2h": "2026-03-04T03:06:07Z", "7d": "2026-02-25T05:06:07Z", "0s": "2026-03-04T05:06:07Z", "99999999999999d": "1970-01-01T00:00:00Z",
		"2026-01-02": "2026-01-02T00:00:00Z", "2026-01-02T03:04": "2026-01-02T03:04:00Z", "2026-01-02 03:04:05": "2026-01-02T03:04:05Z",
		"2026-01-02T03:04:05.5Z": "2026-01-02T03:04:05.5Z", "2026-01-02T03:04:05+02:00": "2026-01-02T01:04:05Z", "2026-01-02T03:04-01:00": "2026-01-02T04:04:00Z",
	} {
		if got, err := ParseSince(s, now); err != nil || got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%s is %s, %v, want %s", s, got.UTC().Format(time.RFC3339Nano), err, want)
		}
	}
	for _, s := range []string{"", "3x", "s", "-5m", "+5m", "5 m", "1.5h", "Now", "2026-13-01", "2026-01-02T25:00", "yesterday"} {
		if got, err := ParseSince(s, now); err == nil {
			t.Errorf("%q is %s", s, got)
		}
	}
}

// TestFollow: what comes is told soon, once, and not before it is whole.
func TestFollow(t *testing.T) {
	p := demo(t)
	reviewer := p.must(t, "reviewer")
	ctx, cancel := context.WithCancel(await.NewContext(t))
	defer cancel()
	w := watch(t, p)
	w.Projects, w.Since = nil, time.Unix(0, 0)
	told := make(chan string, 100)
	ended := make(chan error)
	go func() { ended <- w.Follow(ctx, func(e Event) { told <- brief(e) }) }()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-told:
			if got != want {
				t.Errorf("told %s, want %s", got, want)
			}
		case err := <-ended:
			t.Fatalf("ended (%v) without telling %s", err, want)
		}
	}

	in := func(name string) string { return filepath.Join(reviewer.Inbox(), name) }
	s := send(t, p, question("reviewer"))
	name := filepath.Base(s.Inboxes[0])
	expect("new_message " + name)

	half, err := os.Create(in("half.yaml")) // by hand, in pieces
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	fmt.Fprintf(half, "id: h\nfrom: [planner,")
	quit, written := make(chan struct{}), make(chan struct{})
	go func() { // on and on, so that it is a file that somebody writes, however long it takes to send the next one
		defer close(written)
		for {
			select {
			case <-quit:
				return
			case <-time.After(20 * time.Millisecond): // the pace of who writes
				fmt.Fprint(half, "x,")
			}
		}
	}()
	s2 := send(t, p, question("reviewer"))
	expect("new_message " + filepath.Base(s2.Inboxes[0])) // it is no half of a message that is told first
	close(quit)
	<-written
	half.Truncate(0)
	half.WriteAt([]byte(text()), 0)
	expect("new_message half.yaml")

	write(t, in("bad.yaml"), "[1]")
	expect("error bad.yaml")
	if _, err := reviewer.FinishMessage(readMessageEntry(in(name)), false); err != nil {
		t.Fatal(err)
	}
	expect("message_archived " + name) // and the error is not told again
	write(t, in("bad.yaml"), text())
	expect("new_message bad.yaml")

	if _, _, _, err := p.Home.InitProject("later", Workspace{Agents: []string{"reviewer"}}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(p.Home.projectsDir(), "later/agents/reviewer/inbox/late.yaml"), text())
	expect("new_message late.yaml") // found by looking again
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("ended with %v", err)
	}
}

func TestAnswer(t *testing.T) {
	p := demo(t)
	planner := p.must(t, "planner")
	ctx := await.NewContext(t)
	w, err := planner.NewAnswerWaiter()
	if err != nil {
		t.Fatal(err)
	}
	asked := send(t, p, question("reviewer")).Message
	type result struct {
		e   Entry
		err error
	}
	answered := make(chan result)
	go func() {
		e, err := w.AwaitAnswer(ctx, asked)
		answered <- result{e, err}
	}()
	answer := func(from string, f func(*message.Message)) Sent {
		m := p.must(t, from).DraftReply(asked)
		m.Type, m.Body = "notification", "x"
		f(&m)
		return send(t, p, Letter{Message: m})
	}
	answer("tester", func(m *message.Message) { m.ParentID = "" }) // it was not asked
	answer("reviewer", func(m *message.Message) { m.ParentID = "another" })
	answer("reviewer", func(m *message.Message) { m.ParentID, m.ConversationID = "", "" })
	write(t, filepath.Join(planner.Inbox(), "bad.yaml"), "[1]")
	s := answer("reviewer", func(m *message.Message) { m.ParentID = "" }) // by the conversation
	if r := <-answered; r.err != nil || r.e.Message.ID != s.Message.ID {
		t.Fatalf("the answer is %+v, %v", r.e.Message, r.err)
	}
	if _, err := os.Stat(s.Inboxes[0]); err != nil {
		t.Error("waiting has taken the answer out of the inbox")
	}

	w, err = planner.NewAnswerWaiter()
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if e, err := w.AwaitAnswer(short, asked); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an old answer was taken: %+v, %v", e.Message, err)
	}
}
