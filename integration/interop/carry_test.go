//go:build interop

package interop

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/oacp/message"
)

// station is a machine: mailboxes that both tools use, and a daemon.
type station struct {
	*both
	daemon *live.Machine
}

// stations are two machines that know each other: the planner lives at the desk, the
// reviewer and the tester at the laptop, and each side has bound the other's.
func stations(t *testing.T) (desk, laptop *station) {
	t.Helper()
	set := func(name, agents string) *station {
		s := &station{&both{t, filepath.Join(t.TempDir(), "home")}, live.NewMachine(t, name)}
		s.must("theirs", "init", "demo", "--agents", agents)
		s.daemon.Env = []string{"OACP_HOME=" + s.home}
		s.daemon.StartDaemon()
		return s
	}
	desk, laptop = set("desk", "planner"), set("laptop", "reviewer,tester")
	laptop.daemon.MustOutput("join", strings.TrimSpace(desk.daemon.MustOutput("invite")))
	desk.daemon.MustOutput("oacp", "bind", "demo", "reviewer", "laptop")
	desk.daemon.MustOutput("oacp", "bind", "demo", "tester", "laptop")
	laptop.daemon.MustOutput("oacp", "bind", "demo", "planner", "desk")
	return desk, laptop
}

func (s *station) inbox(agent string) string {
	return filepath.Join(s.home, "projects", "demo", "agents", agent, "inbox")
}

// carried waits for a message that was put into an inbox here to be in the same inbox
// there, byte for byte, while the copy here is still what the tool said it is.
func carried(t *testing.T, path string, to *station) (there string) {
	t.Helper()
	agent := filepath.Base(filepath.Dir(filepath.Dir(path)))
	there = filepath.Join(to.inbox(agent), filepath.Base(path))
	await.Until(t, filepath.Base(path)+" arrives", func() bool {
		_, err := os.Stat(there)
		return err == nil
	})
	here, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("the copy that the sender was told of: %v", err)
	}
	if got, err := os.ReadFile(there); err != nil || string(got) != string(here) {
		t.Errorf("%s became %q (%v), was %q", path, got, err, here)
	}
	to.must("theirs", "validate", there)
	return there
}

// TestCarried: whatever either tool sends on one machine, both read on the other as
// it was sent, and answers come back.
func TestCarried(t *testing.T) {
	desk, laptop := stations(t)
	for _, typ := range message.ListMessageTypes() {
		for _, tool := range []string{"theirs", "ours"} {
			s := desk.send(tool, "--from", "planner", "--to", "reviewer", "--type", typ, "--subject", "Subject: "+typ, "--body", body(typ),
				"--priority", "P1", "--context-keys", "a\nb", "--expires", "2h", "--channel", "review", "--suffix", tool)
			carried(t, s.Inbox, laptop)
		}
	}
	for _, tools := range [][2]string{{"theirs", "ours"}, {"ours", "theirs"}, {"theirs", "theirs"}} {
		s := desk.send(tools[0], "--from", "planner", "--to", "reviewer,tester", "--type", "brainstorm_request", "--subject", "Ideas?", "--body", "x",
			"--conversation-id", "conv-20261120-planner-7")
		for _, path := range s.Boxes {
			carried(t, path, laptop)
		}
		answer := laptop.send(tools[1], "--from", "tester", "--to", "planner", "--type", "brainstorm_followup", "--subject", "One", "--body", "x", "--in-reply-to", s.ID)
		back := carried(t, answer.Inbox, desk)
		if m := desk.parse(back); m.ConversationID != "conv-20261120-planner-7" || m.ParentID != s.ID || m.From != "tester" {
			t.Errorf("the answer is %+v", m)
		}
	}
	// Both machines, and both tools, list the same messages.
	for _, agent := range []string{"reviewer", "tester"} {
		laptop.agree([]string{"inbox", "demo", "--agent", agent}, "--order", "name")
		list := []string{"inbox", "demo", "--agent", agent, "--json"}
		here, there := desk.must("theirs", list...), laptop.must("theirs", list...)
		drop := func(line string) bool { return strings.Contains(line, `"path"`) || strings.Contains(line, `age`) }
		if here, there = slices.DeleteFunc(here, drop), slices.DeleteFunc(there, drop); !slices.Equal(here, there) {
			t.Errorf("the inbox of the %s is\n%s\nand there\n%s", agent, strings.Join(here, "\n"), strings.Join(there, "\n"))
		}
	}
	for _, s := range []*station{desk, laptop} {
		if got := s.run("theirs", "doctor", "--project", "demo"); got.Exit != 0 || strings.Contains(strings.Join(got.Stdout, "\n"), "[x]") {
			t.Errorf("the reference's doctor at the %s: %+v", s.daemon.Name, got)
		}
	}
}

// TestConsumed: the file that send printed is there until the recipient is done with
// its own, however it is; then it goes, and watchers are told once.
func TestConsumed(t *testing.T) {
	desk, laptop := stations(t)
	watch := func() []string {
		return desk.must("theirs", "watch", "--agent", "reviewer", "--project", "demo", "--show-archived")
	}
	watch()
	for _, consume := range []func(path string){
		func(path string) { laptop.must("ours", "done", "demo", "reviewer", filepath.Base(path)) },
		func(path string) { laptop.must("ours", "done", "demo", "reviewer", filepath.Base(path), "--delete") },
		func(path string) { os.Remove(path) },
	} {
		s := desk.send("theirs", "--from", "planner", "--to", "reviewer", "--type", "question", "--subject", "S", "--body", "x")
		there := carried(t, s.Inbox, laptop)
		if told := watch(); len(told) != 1 || !strings.HasPrefix(told[0], "NEW_MESSAGE ") {
			t.Errorf("told %q", told)
		}
		laptop.must("theirs", "inbox", "demo", "--agent", "reviewer")
		await.Until(t, "the sender's daemon knows", func() bool { return strings.Contains(desk.daemon.MustOutput("oacp", "queue"), "\tdelivered\t") })
		if out, err := exec.Command("test", "-f", s.Inbox).CombinedOutput(); err != nil {
			t.Fatalf("test -f: %v %s", err, out)
		}
		consume(there)
		await.Until(t, "the copy goes", func() bool {
			_, err := os.Stat(s.Inbox)
			return errors.Is(err, fs.ErrNotExist)
		})
		if told := watch(); len(told) != 1 || !strings.HasPrefix(told[0], "MESSAGE_ARCHIVED ") || !strings.Contains(told[0], filepath.Base(s.Inbox)) {
			t.Errorf("told %q", told)
		}
		if told := watch(); len(told) != 0 {
			t.Errorf("told again %q", told)
		}
		if _, err := os.Stat(s.Outbox); err != nil {
			t.Errorf("the outbox: %v", err)
		}
	}
}

// TestOffline: the reference warns of an agent whose machine cannot be reached, and
// what it sends waits; without our daemon too.
func TestOffline(t *testing.T) {
	desk, laptop := stations(t)
	status := filepath.Join(desk.inbox("reviewer"), "..", "status.yaml")
	is := func(what string) {
		t.Helper()
		await.Until(t, "the reviewer is "+what, func() bool {
			text, _ := os.ReadFile(status)
			return strings.Contains(string(text), "\nstatus: "+what+"\n")
		})
	}
	is("available")
	desk.must("theirs", "doctor", "--project", "demo")
	laptop.daemon.StopDaemon()
	is("offline")
	send := func(priority string) (path, stderr string) {
		s := desk.run("theirs", "send", "demo", "--from", "planner", "--to", "reviewer", "--type", "question", "--subject", "S", "--body", "x", "--priority", priority)
		if s.Exit != 0 {
			t.Fatalf("%+v", s)
		}
		return strings.TrimPrefix(s.Stdout[1], "  inbox:  "), strings.Join(s.Stderr, "\n")
	}
	first, said := send("P2")
	if said != "Note: agent 'reviewer' appears offline" {
		t.Errorf("stderr %q", said)
	}
	second, said := send("P0")
	if !strings.HasPrefix(said, "WARNING: P0 message to OFFLINE agent 'reviewer'") {
		t.Errorf("stderr %q", said)
	}
	desk.daemon.StopDaemon()
	third, _ := send("P1")
	desk.must("theirs", "inbox", "demo", "--all")
	desk.must("ours", "inbox", "demo", "--all")
	laptop.daemon.StartDaemon()
	desk.daemon.StartDaemon()
	for _, path := range []string{first, second, third} {
		carried(t, path, laptop)
	}
	is("available")
}
