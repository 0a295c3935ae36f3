package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/integration/await"
)

var kills = flag.Int("kills", 8, "how often TestMailSurvivesKills kills a daemon")

// agentDir is the folder of an agent of the project demo on this machine; nothing
// says where mailboxes are, so they are below the user's home.
func (m *machine) agentDir(agent string) string {
	return filepath.Join(m.Home, "oacp", "projects", "demo", "agents", agent)
}

func (m *machine) mailInbox(agent string) string { return filepath.Join(m.agentDir(agent), "inbox") }

// hosts makes the folders of an agent.
func (m *machine) hosts(agent string) {
	m.T.Helper()
	for _, dir := range []string{"inbox", "outbox"} {
		if err := os.MkdirAll(filepath.Join(m.agentDir(agent), dir), 0o777); err != nil {
			m.T.Fatal(err)
		}
	}
}

func (m *machine) binds(agent string, to *machine) {
	m.T.Helper()
	if _, err := m.Client.OACPBind(await.NewContext(m.T), client.OACPBindParams{Project: "demo", Agent: agent, Peer: to.Name}); err != nil {
		m.T.Fatal(err)
	}
}

// correspondents runs two daemons: the planner lives at the desk and the reviewer at
// the laptop, and each side knows of the other's.
func correspondents(t *testing.T) (desk, laptop *machine) {
	t.Helper()
	desk, laptop = friends(t)
	desk.hosts("planner")
	laptop.hosts("reviewer")
	desk.binds("reviewer", laptop)
	laptop.binds("planner", desk)
	return desk, laptop
}

// mail writes a message of the planner's to the reviewer as other tools do: under a
// hidden name and then renamed, into the inbox and the outbox.
func (m *machine) mail(name, priority, body string) {
	m.T.Helper()
	text := fmt.Sprintf("id: msg-%s\nfrom: planner\nto: reviewer\ntype: question\npriority: %s\ncreated_at_utc: \"2026-11-20T13:00:00Z\"\nsubject: s\nbody: %s\n", name, priority, body)
	for _, dir := range []string{m.mailInbox("reviewer"), filepath.Join(m.agentDir("planner"), "outbox")} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			m.T.Fatal(err)
		}
		temp := filepath.Join(dir, "."+name+".tmp-1-abcdef")
		if err := os.WriteFile(temp, []byte(text), 0o644); err != nil {
			m.T.Fatal(err)
		}
		if err := os.Rename(temp, filepath.Join(dir, name)); err != nil {
			m.T.Fatal(err)
		}
	}
}

// mailIn returns the hashes of the messages in a folder, by their names.
func mailIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".yaml") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		all[e.Name()] = hex.EncodeToString(sum[:])
	}
	return all
}

// debris are the names in a folder that are neither messages nor folders.
func debris(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() && !strings.HasSuffix(e.Name(), ".yaml") {
			names = append(names, e.Name())
		}
	}
	return names
}

// longer waits for what takes its time on a busy machine.
func longer(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * await.Patience); time.Now().Before(end); <-tick.C {
		if holds() {
			return
		}
	}
	t.Fatalf("%s: it never holds", what)
}

// TestMailSurvivesKills kills both sides at random moments while 500 messages are on
// their way: the reviewer has each of them once, whole at every moment, and when it
// is done with them the copies at the planner's machine go.
func TestMailSurvivesKills(t *testing.T) {
	t.Parallel()
	desk, laptop := correspondents(t)
	const letters = 500
	inbox, outbox := laptop.mailInbox("reviewer"), filepath.Join(desk.agentDir("planner"), "outbox")

	// What is seen of the inbox at any moment is whole.
	ctx, stop := context.WithCancel(t.Context())
	looked := make(chan map[string]string, 1)
	go func() {
		seen := make(map[string]string)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			entries, _ := os.ReadDir(inbox)
			for _, e := range entries {
				if text, err := os.ReadFile(filepath.Join(inbox, e.Name())); err == nil && strings.HasSuffix(e.Name(), ".yaml") && seen[e.Name()] == "" {
					sum := sha256.Sum256(text)
					seen[e.Name()] = hex.EncodeToString(sum[:])
				}
			}
		}
		looked <- seen
	}()

	sent := 0
	for k := range *kills {
		for ; sent < letters*(k+1) / *kills; sent++ {
			desk.mail(fmt.Sprintf("20261120130000_planner_question_%04d.yaml", sent), "P2", strings.Repeat("x", rand.IntN(3000)))
		}
		victim := []*machine{desk, laptop}[rand.IntN(2)]
		select { // a random moment: of that there is no sign to wait for
		case <-time.After(rand.N(200 * time.Millisecond)):
		case <-t.Context().Done():
		}
		victim.KillDaemon()
		victim.StartDaemon()
	}
	want := mailIn(t, outbox)
	if len(want) != letters {
		t.Fatalf("%d messages in the outbox", len(want))
	}
	longer(t, "all arrive", func() bool { return len(mailIn(t, inbox)) >= letters })
	longer(t, "the sender knows", func() bool {
		queue, err := desk.Client.OACPQueue(await.NewContext(t), "demo")
		return err == nil && len(queue) == letters && !slices.ContainsFunc(queue, func(q client.OACPQueued) bool { return q.State != client.MailDelivered })
	})
	stop()
	seen := <-looked // some may have come since the last look
	for name, hash := range seen {
		if want[name] != hash {
			t.Errorf("%s was seen while it was not the message that was sent", name)
		}
	}
	if len(seen) < letters/2 {
		t.Errorf("%d files were seen: too few to mean anything", len(seen))
	}
	if got := mailIn(t, inbox); !maps.Equal(got, want) {
		t.Errorf("%d messages arrived, not those that were sent", len(got))
	}
	if left := debris(t, inbox); left != nil {
		t.Errorf("debris: %v", left)
	}
	// The reviewer deals with all of them, while daemons die.
	for i, name := range slices.Sorted(maps.Keys(want)) {
		if err := os.Remove(filepath.Join(inbox, name)); err != nil {
			t.Fatal(err)
		}
		if i == letters/3 {
			laptop.KillDaemon()
			laptop.StartDaemon()
		}
		if i == 2*letters/3 {
			desk.KillDaemon()
			desk.StartDaemon()
		}
	}
	longer(t, "the copies go", func() bool { return len(mailIn(t, desk.mailInbox("reviewer"))) == 0 })
	if got := mailIn(t, inbox); len(got) != 0 {
		t.Errorf("%d messages came again", len(got))
	}
}
