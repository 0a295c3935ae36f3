//go:build interop

package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/kinds"
)

// What is held, open or on its way when a daemon is killed is there when it is back, also if it is
// of this version then, and of the release before.
func TestRestart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ victim, other, again version }{
		{older, newer, older},
		{newer, older, newer},
		{older, newer, newer},
		{older, older, newer},
	} {
		for _, name := range []string{"desk", "laptop"} {
			t.Run(fmt.Sprintf("%s of %s beside %s comes back as %s", name, c.victim, c.other, c.again), func(t *testing.T) {
				t.Parallel()
				versions := map[string]version{"desk": c.other, "laptop": c.other}
				versions[name] = c.victim
				desk, laptop := newSide(t, "desk", versions["desk"], versions["desk"]), newSide(t, "laptop", versions["laptop"], versions["laptop"])
				meet(t, desk, laptop)
				checkRestart(t, desk, laptop, map[string]*side{"desk": desk, "laptop": laptop}[name], c.again)
			})
		}
	}
}

// checkRestart leaves open what can be left open between two machines, kills the victim's daemon and
// starts that of the version again.
func checkRestart(t *testing.T, desk, laptop, victim *side, again version) {
	other := map[*side]*side{desk: laptop, laptop: desk}[victim]
	done := filepath.Join(desk.Home, "done")
	desk.Serve("worker", "--prompt", "--", "sh", "-c", "until [ -e '"+done+"' ]; do sleep 0.05; done; echo built")
	initMailboxes(desk, laptop)
	channel := strings.TrimSpace(victim.MustOutput("channel", "create", "review", "--title", "Ship it", "--as", "owner"))
	victim.MustOutput("channel", "send", channel, "before", "--as", "owner")

	open := delegate(laptop, "build")
	called := delegate(laptop, "to be called off")
	laptop.MustOutput("notify", "desk", "to.desk", "1")
	desk.MustOutput("notify", "laptop", "to.laptop", "1")
	laptop.mail("reviewer", "planner", "delivered", "--wait-delivered")

	before := describeState(victim)
	victim.KillDaemon()
	victim.install("acpd", again)
	victim.install("acpctl", again)
	victim.StartDaemon()
	checkState(t, victim, before)
	live.AwaitConnection(desk.Machine, laptop.Machine)

	victim.StopDaemon()
	other.RunAcpctl(kinds.Unreachable.Info().Exit, "notify", victim.Name, "lost", "1")
	victim.mail(agentAt(victim), agentAt(other), "from "+victim.Name)
	other.mail(agentAt(other), agentAt(victim), "from "+other.Name)
	reached := other.Builds["acpd"] == victim.Builds["acpd"] // versions have different requests about channels
	if reached {
		other.MustOutput("channel", "send", channel, "while it was away", "--as", "member")
	}
	victim.StartDaemon()
	live.AwaitConnection(desk.Machine, laptop.Machine)

	awaitMail(t, other, agentAt(other), "from "+victim.Name)
	awaitMail(t, victim, agentAt(victim), "from "+other.Name)
	awaitMail(t, desk, "planner", "delivered")
	await.Until(t, "the channel's messages", func() bool {
		seen := victim.MustOutput("channel", "tail", channel, "--as", "owner")
		return strings.Contains(seen, "before") && (strings.Contains(seen, "while it was away") || !reached)
	})

	desk.AwaitAgent("worker")
	laptop.MustOutput("cancel", called)
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if outcome := laptop.MustOutput("wait", open); outcome != "built\n" {
		t.Errorf("the outcome is %q", outcome)
	}
	if state := findTask(t, laptop, called).State; state != client.TaskCancelled {
		t.Errorf("what was called off is %s", state)
	}
	await.Until(t, "the desk has reported", func() bool { return findTask(t, desk, open).State == client.TaskCompleted })
}

// agentAt names the agent that lives at a machine.
func agentAt(s *side) string {
	return map[string]string{"desk": "planner", "laptop": "reviewer"}[s.Name]
}

// delegate gives the desk's worker a task, and returns its id.
func delegate(laptop *side, task string) (id string) {
	laptop.T.Helper()
	return strings.TrimSpace(laptop.MustOutput("delegate", "desk/worker", task))
}

// keeping are verbs whose JSON says what a daemon keeps.
var keeping = [][]string{{"whoami"}, {"peers"}, {"tasks"}, {"inbox"}, {"channel", "list"}, {"oacp", "bindings"}, {"oacp", "queue"}}

// passing are fields that change by themselves: those of a connection, and of mail until its file has
// rested after a start.
var passing = []string{"uptime_secs", "version", "state", "rtt_us", "connected_at", "last_seen", "addrs", "source", "claim", "software", "path", "reason", "since", "sha256"}

// describeState returns what a daemon keeps, as acpctl tells it, by verbs.
func describeState(s *side) map[string]any {
	s.T.Helper()
	all := make(map[string]any)
	for _, verb := range keeping {
		printed := s.MustOutput(append(slices.Clone(verb), "--json")...)
		if lines := strings.Split(strings.TrimSpace(printed), "\n"); len(lines) > 1 && lines[0] != "{" && lines[0] != "[" {
			printed = "[" + strings.Join(lines, ",") + "]"
		} else if printed == "" {
			printed = "null"
		}
		all[strings.Join(verb, " ")] = parse[any](s.T, printed)
	}
	return all
}

// checkState checks that a daemon keeps what it kept before, whatever else it tells now.
func checkState(t *testing.T, s *side, before map[string]any) {
	t.Helper()
	now := describeState(s)
	for verb, kept := range before {
		checkWithin(t, s.Name+": "+verb, kept, now[verb])
	}
}

// checkWithin checks that a JSON value has all that another one had before.
func checkWithin(t *testing.T, where string, before, now any) {
	t.Helper()
	switch before := before.(type) {
	case map[string]any:
		members, _ := now.(map[string]any)
		for name, value := range before {
			if !slices.Contains(passing, name) {
				checkWithin(t, where+"."+name, value, members[name])
			}
		}
	case []any:
		items, _ := now.([]any)
		if len(items) != len(before) {
			t.Errorf("%s: %v, was %v", where, now, before)
			return
		}
		for n, value := range before {
			checkWithin(t, fmt.Sprintf("%s[%d]", where, n), value, items[n])
		}
	default:
		if now != before {
			t.Errorf("%s: %v, was %v", where, now, before)
		}
	}
}

// The release refuses the state of this version with a sentence that says what to do, and changes
// nothing of it: this version goes on with it.
func TestRollback(t *testing.T) {
	t.Parallel()
	desk, laptop := newSide(t, "desk", older, older), newSide(t, "laptop", older, older)
	meet(t, desk, laptop)
	laptop.MustOutput("notify", "desk", "kept", "1")
	desk.StopDaemon()
	desk.install("acpd", newer)
	desk.StartDaemon()
	before := describeState(desk)
	desk.StopDaemon()

	files := readFiles(t, desk.Home)
	desk.install("acpd", older)
	desk.LaunchDaemon()
	if said := desk.Acpd.AwaitFailure(1); !strings.Contains(said, "was written by a newer version of this program") || !strings.Contains(said, "install that version, or use another state directory") {
		t.Errorf("the release says %q", said)
	}
	for path, text := range readFiles(t, desk.Home) {
		if files[path] != text {
			t.Errorf("the release changes %s", path)
		}
		delete(files, path)
	}
	for path := range files {
		t.Errorf("the release removes %s", path)
	}

	desk.install("acpd", newer)
	desk.StartDaemon()
	checkState(t, desk, before)
	live.AwaitConnection(desk.Machine, laptop.Machine)
}

// readFiles returns the files below a folder but the lock and those that SQLite makes beside the database, by
// their paths.
func readFiles(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || e.Name() == "lock" || strings.HasPrefix(e.Name(), "state.db-") {
			return err
		}
		text, err := os.ReadFile(path)
		all[path] = string(text)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
