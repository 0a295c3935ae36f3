package mailbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/oacp/message"
)

func TestSend(t *testing.T) {
	p := demo(t)
	s := send(t, p, question("reviewer"))
	if len(s.Inboxes) != 1 || filepath.Dir(s.Inboxes[0]) != p.must(t, "reviewer").Inbox() || filepath.Dir(s.Outbox) != p.must(t, "planner").Outbox() {
		t.Fatalf("sent to %v and %s", s.Inboxes, s.Outbox)
	}
	for _, path := range []string{s.Inboxes[0], s.Outbox} {
		if content(t, path) != string(s.Data) || filepath.Base(path) != filepath.Base(s.Outbox) || !message.IsLegalFileName(filepath.Base(path)) {
			t.Errorf("%s is not what was sent", path)
		}
	}
	e := readMessageEntry(s.Outbox)
	if m := e.Message; m.ID != s.Message.ID || m.ConversationID == "" || m.Body != "Soon." || len(m.Validate()) > 0 || m.ToList {
		t.Errorf("sent %+v: %v", m, m.Validate())
	}

	l := question("reviewer", "tester")
	l.Suffix, l.NoConversation = "why", true
	s = send(t, p, l)
	if len(s.Inboxes) != 2 || !strings.HasSuffix(s.Outbox, "_why.yaml") || s.Message.ConversationID != "" {
		t.Errorf("a broadcast: %+v", s)
	}
	for i, name := range []string{"reviewer", "tester"} {
		if want := filepath.Join(p.must(t, name).Inbox(), filepath.Base(s.Outbox)); s.Inboxes[i] != want || content(t, want) != string(s.Data) {
			t.Errorf("copy %d of a broadcast is %s", i, s.Inboxes[i])
		}
	}

	l.DryRun = true
	if s = send(t, p, l); s.Outbox != "" || len(files(t, p.must(t, "planner").Outbox())) != 2 {
		t.Errorf("a dry run has written %+v", s)
	}
}

func TestSendRefuses(t *testing.T) {
	p := demo(t)
	write(t, filepath.Join(p.must(t, "tester").Dir(), "config.yaml"), "signing:\n  sign_messages: true\n")
	write(t, filepath.Join(p.must(t, "reviewer").Dir(), "status.yaml"), message.StatusMark+"status: offline\n")
	change := func(f func(*Letter)) Letter {
		l := question("reviewer")
		f(&l)
		return l
	}
	for want, l := range map[string]Letter{
		"no recipient":                      question(),
		"known agents: planner, rev":        question("nobody"),
		"recipient '../x': a name has no":   question("../x"),
		"entry 2 is the sender":             question("reviewer", "planner"),
		"sender '..': a name has no":        change(func(l *Letter) { l.Message.From = ".." }),
		"agent 'human' not found":           change(func(l *Letter) { l.Message.From = "human" }),
		"reviewer lives on another machine": change(func(l *Letter) { l.Message.From, l.Message.To = "reviewer", []string{"planner"} }),
		"suffix '../x': use 1 to 64":        change(func(l *Letter) { l.Suffix = "../x" }),
		"field 'body' is empty":             change(func(l *Letter) { l.Message.Body = "\n" }),
		"NUL":                               change(func(l *Letter) { l.Message.Body = "a\x00b" }),
		"the reference tool, oacp send":     change(func(l *Letter) { l.Message.From = "tester" }),
	} {
		if s, err := p.Home.SendLetter(p.Name, l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("sent %+v: %v, want %s", s.Message, err, want)
		}
	}
	if _, err := p.Home.SendLetter("none", question("reviewer")); err == nil {
		t.Error("sent to a project that is not there")
	}
	for _, name := range []string{"planner", "reviewer", "tester"} {
		if a := p.must(t, name); len(files(t, a.Inbox()))+len(files(t, a.Outbox())) > 0 {
			t.Errorf("%s has messages", name)
		}
	}
	l := question("newcomer")
	l.Create = true
	if s, err := p.Home.SendLetter("other", l); err != nil || len(s.Inboxes) != 1 || content(t, s.Inboxes[0]) != content(t, s.Outbox) {
		t.Errorf("with Create: %+v, %v", s, err)
	}
	write(t, filepath.Join(p.must(t, "planner").Dir(), "config.yaml"), "signing: [\n")
	if _, err := p.Home.SendLetter(p.Name, question("reviewer")); err == nil {
		t.Error("sent without knowing whether to sign")
	}
}

func TestSendWarns(t *testing.T) {
	p := demo(t)
	write(t, filepath.Join(p.must(t, "reviewer").Dir(), "status.yaml"), "status: 'Offline'\ncapabilities: [x]\n")
	write(t, filepath.Join(p.must(t, "tester").Dir(), "status.yaml"), "status: [\n")
	l := question("reviewer", "tester")
	if s := send(t, p, l); len(s.Warnings) != 1 || s.Warnings[0] != "Note: agent 'reviewer' is offline" {
		t.Errorf("warned of %q", s.Warnings)
	}
	l.Message.Priority, l.InReplyTo = "P0", "lost"
	s := send(t, p, l)
	if len(s.Warnings) != 2 || !strings.Contains(s.Warnings[0], "planner has no message 'lost'") || !strings.Contains(s.Warnings[1], "agent 'reviewer' is offline, and") {
		t.Errorf("warned of %q", s.Warnings)
	}
	if other := send(t, p, l); other.Message.ConversationID == s.Message.ConversationID {
		t.Error("two answers to what is lost share a conversation")
	}
}

func TestThreads(t *testing.T) {
	p := demo(t)
	planner, reviewer := p.must(t, "planner"), p.must(t, "reviewer")
	question := send(t, p, question("reviewer"))
	first := question.Message
	if _, err := reviewer.FinishMessage(mustFind(t, reviewer, first.ID), false); err != nil {
		t.Fatal(err)
	}
	l := Letter{Message: message.Message{From: "reviewer", To: []string{"planner"}, Type: "notification", Priority: "P1", Subject: "main", Body: "x"}, InReplyTo: first.ID}
	s := send(t, p, l) // its parent lies in the archive
	if s.Message.ConversationID != first.ConversationID || s.Message.ParentID != first.ID || len(s.Warnings) > 0 {
		t.Errorf("the answer is %+v, %v", s.Message, s.Warnings)
	}
	l.InReplyTo = filepath.Base(question.Inboxes[0])
	if m := send(t, p, l).Message; m.ParentID != first.ID || m.ConversationID != first.ConversationID {
		t.Errorf("the answer to a file is %+v", m)
	}

	r := planner.DraftReply(mustFind(t, planner, s.Message.ID).Message)
	if r.To[0] != "reviewer" || r.Type != "" || r.Priority != "P1" || r.Subject != "Re: main" || r.ParentID != s.Message.ID || r.ConversationID != first.ConversationID {
		t.Errorf("the answer to the answer begins as %+v", r)
	}
	own := planner.DraftReply(first)
	if strings.Join(own.To, ",") != "reviewer" {
		t.Errorf("an answer to oneself goes to %v", own.To)
	}
	long := first
	long.Subject = strings.Repeat("ä", 200)
	if r := reviewer.DraftReply(long); r.Type != "notification" || len([]rune(r.Subject)) != 200 || !strings.HasPrefix(r.Subject, "Re: ä") {
		t.Errorf("a long subject becomes %q", r.Subject)
	}
	if long.Subject = "RE: x"; reviewer.DraftReply(long).Subject != "RE: x" {
		t.Error("Re: is said twice")
	}
}

func mustFind(t *testing.T, a Agent, ref string) Entry {
	t.Helper()
	e, err := a.FindMessage(ref)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestClash: many senders of one name in the same second lose nothing.
func TestClash(t *testing.T) {
	p := demo(t)
	const senders, each = 8, 25
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			for n := range each {
				l := question("reviewer", "tester")
				l.Message.Subject = fmt.Sprintf("%d of %d", n, i)
				if _, err := p.Home.SendLetter(p.Name, l); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, dir := range []string{p.must(t, "reviewer").Inbox(), p.must(t, "tester").Inbox(), p.must(t, "planner").Outbox()} {
		subjects := make(map[string]bool)
		for _, name := range files(t, dir) {
			subjects[readMessageEntry(filepath.Join(dir, name)).Message.Subject] = true
		}
		if len(subjects) != senders*each || len(files(t, dir)) != senders*each {
			t.Errorf("%s has %d messages in %d files", dir, len(subjects), len(files(t, dir)))
		}
	}
}

// TestTaken: names that are taken, by whatever, are left alone.
func TestTaken(t *testing.T) {
	p := demo(t)
	planner, reviewer, tester := p.must(t, "planner"), p.must(t, "reviewer"), p.must(t, "tester")
	write(t, filepath.Join(planner.Outbox(), "a.yaml"), "outbox")
	write(t, filepath.Join(reviewer.Inbox(), "b.yaml"), "inbox")
	if err := os.Symlink("/nowhere", filepath.Join(tester.Inbox(), "c.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, to := range [][]string{{"reviewer"}, {"reviewer", "tester"}} {
		s := Sent{Message: question(to...).Message, Data: []byte(text())}
		names := []string{"b.yaml", "a.yaml", "c.yaml", "d.yaml"}
		draw := func() (name string) { name, names = names[0], names[1:]; return name }
		if err := s.writeCopies(planner, draw); err != nil {
			t.Fatal(err)
		}
		for _, path := range append(s.Inboxes, s.Outbox) {
			if content(t, path) != text() {
				t.Errorf("%s is not the message", path)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if content(t, filepath.Join(planner.Outbox(), "a.yaml")) != "outbox" || content(t, filepath.Join(reviewer.Inbox(), "b.yaml")) != "inbox" {
		t.Error("a file was written over")
	}
	if n := len(files(t, planner.Outbox())) + len(files(t, reviewer.Inbox())) + len(files(t, tester.Inbox())); n != 3 {
		t.Errorf("%d files, want 3", n)
	}
}

// TestTempName: a message has the name that its temporary file was for, so that whoever
// watches the folder knows it for whole when that goes.
func TestTempName(t *testing.T) {
	p := demo(t)
	s := Sent{Message: question("reviewer").Message, Data: []byte(text())}
	names := []string{"temp.yaml", "another.yaml"}
	draw := func() (name string) { name, names = names[0], names[1:]; return name }
	if err := s.writeCopies(p.must(t, "planner"), draw); err != nil {
		t.Fatal(err)
	}
	if got := filepath.Base(s.Inboxes[0]); got != "temp.yaml" || filepath.Base(s.Outbox) != got {
		t.Errorf("sent %+v", s)
	}
}

// TestCannotWrite: where one copy cannot be written, none is.
func TestCannotWrite(t *testing.T) {
	p := demo(t)
	tester := p.must(t, "tester")
	for what, spoil := range map[string]func() error{
		"a file in the place of the inbox": func() error { return os.WriteFile(tester.Inbox(), nil, 0o666) },
		"a link in the place of the inbox": func() error { return os.Symlink(t.TempDir(), tester.Inbox()) },
	} {
		if err := errors.Join(os.RemoveAll(tester.Inbox()), spoil()); err != nil {
			t.Fatal(err)
		}
		if s, err := p.Home.SendLetter(p.Name, question("reviewer", "tester")); err == nil || !strings.HasPrefix(err.Error(), "nothing was sent: ") {
			t.Errorf("%s: %+v, %v", what, s, err)
		}
		if n := len(files(t, p.must(t, "reviewer").Inbox())) + len(files(t, p.must(t, "planner").Outbox())); n > 0 {
			t.Errorf("%s: %d files are left", what, n)
		}
	}
}

// TestSendTooLarge: what nobody could read is not sent.
func TestSendTooLarge(t *testing.T) {
	p := demo(t)
	l := question("reviewer")
	l.Message.ContextKeys = strings.Repeat("x\n", message.MaxBytes/2)
	if _, err := p.Home.SendLetter(p.Name, l); err == nil || !strings.Contains(err.Error(), "shorten") {
		t.Error(err)
	}
	if left := files(t, p.must(t, "reviewer").Inbox()); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}
