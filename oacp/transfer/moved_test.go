package transfer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/integration/await"
)

// TestMoved: an agent that is bound to another peer has moved there. What it has not
// dealt with follows it, once, and goes when it is dealt with there; what the agent's
// former machine says of it does not count.
func TestMoved(t *testing.T) {
	desk, laptop := bound(t)
	tower := newSide(t, "tower")
	for _, s := range [][2]*side{{desk, tower}, {tower, desk}} {
		if _, err := s[0].trust.Trust(identity.Peer{ID: s[1].key.ID(), Name: s[1].name, Addrs: []string{s[1].addr}}); err != nil {
			t.Fatal(err)
		}
	}
	tower.makeAgent("demo", "reviewer")
	tower.start()
	tower.bind("demo", "planner", desk)
	file, written := desk.question("not dealt with")
	desk.becomes(file, Delivered)
	desk.bind("demo", "reviewer", tower)
	tower.holds("reviewer", file, written)
	if q := desk.becomes(file, Delivered); q.Peer != tower.key.ID() {
		t.Errorf("it is delivered to %s", q.Peer.Label())
	}
	// The ledger says so too, to a daemon that starts.
	desk.stop()
	desk.start()
	desk.becomes(file, Delivered)
	if got := tower.arrivedFiles(); len(got) != 1 {
		t.Errorf("arrived: %v", got)
	}
	told := func(s *side) func() bool {
		return func() bool {
			a, err := s.storedArrival(file)
			return err == nil && a != nil && a.state == reported
		}
	}
	remove := func(s *side) {
		t.Helper()
		if err := os.Remove(filepath.Join(s.inbox("reviewer"), file)); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "the "+s.name+" has told that it is consumed", told(s))
	}
	remove(laptop)
	if got := desk.files("reviewer"); got[file] != written {
		t.Errorf("the former machine had the copy removed: %v", got)
	}
	remove(tower)
	await.Until(t, "the copy goes", func() bool { return len(desk.files("reviewer")) == 0 })
}

// TestUnreadable: a file that cannot be read for now is not given up.
func TestUnreadable(t *testing.T) {
	desk, laptop := bound(t)
	file, _ := desk.question("later")
	desk.becomes(file, Delivered)
	p := mailbox{"demo", "reviewer"}
	inbox, err := desk.openInbox(p)
	if err != nil {
		t.Fatal(err)
	}
	inbox.Close() // so that reading fails
	desk.ledger.mu.Lock()
	e := desk.ledger.bound[p].entries[file]
	e.state = settling
	desk.ledger.mu.Unlock()
	desk.classifyEntries(t.Context(), laptop.key.ID(), p, inbox, []*entry{e})
	if q := desk.queued(file); q.State == Parked {
		t.Errorf("it is parked: %s", q.Reason)
	}
	desk.becomes(file, Delivered) // at the next look
}

// TestTwins: two messages of the same bytes that become one file are both over when
// that is consumed.
func TestTwins(t *testing.T) {
	desk, laptop := bound(t)
	deposit(t, laptop.inbox("reviewer"), "twin.yaml", "mine")
	letter := text1("planner", "reviewer", "x")
	for _, name := range []string{"twin.yaml", "twin_2.yaml"} {
		desk.send("reviewer", name, letter)
		desk.becomes(name, Delivered)
	}
	if got := laptop.files("reviewer"); len(got) != 2 || got["twin_2.yaml"] != letter {
		t.Errorf("the laptop holds %v", got)
	}
	if err := os.Remove(filepath.Join(laptop.inbox("reviewer"), "twin_2.yaml")); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "both copies go", func() bool { return len(desk.files("reviewer")) == 0 })
}

// TestEditedBack: a copy that was changed after its delivery is neither sent nor removed. One that is
// again what was delivered goes, if the recipient is done with its own, whenever that was said.
func TestEditedBack(t *testing.T) {
	desk, laptop := bound(t)
	for _, restart := range []bool{false, true} {
		file, text := desk.question("first")
		desk.becomes(file, Delivered)
		desk.send("reviewer", file, text+"# edited\n")
		if q := desk.becomes(file, Parked); !strings.Contains(q.Reason, "changed after it was delivered") {
			t.Errorf("reason %q", q.Reason)
		}
		if err := os.Remove(filepath.Join(laptop.inbox("reviewer"), file)); err != nil {
			t.Fatal(err)
		}
		laptop.eventuallyReported()
		if got := desk.files("reviewer")[file]; got != text+"# edited\n" {
			t.Errorf("the changed message holds %q", got)
		}
		if restart {
			desk.stop()
			desk.start()
			desk.becomes(file, Parked)
		}
		desk.send("reviewer", file, text)
		await.Until(t, "the copy goes", func() bool { return len(desk.files("reviewer")) == 0 && len(desk.ListQueue("")) == 0 })
	}
	if got := laptop.arrivedFiles(); len(got) != 2 {
		t.Errorf("arrived: %v", got)
	}
}

// TestInboxReplaced: what lies in a folder that another has taken the place of is not
// consumed. It is when it goes from that folder, or from one into which it was copied.
func TestInboxReplaced(t *testing.T) {
	desk, laptop := bound(t)
	p := mailbox{"demo", "reviewer"}
	look := func() {
		t.Helper()
		inbox, err := laptop.openInbox(p)
		if err != nil {
			t.Fatal(err)
		}
		defer inbox.Close()
		found, _, err := listMailFiles(inbox, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		laptop.recordConsumedArrivals(t.Context(), p, inbox, found, nil)
	}
	var files, texts []string
	for _, body := range []string{"comes back", "is copied"} {
		file, text := desk.question(body)
		desk.becomes(file, Delivered)
		files, texts = append(files, file), append(texts, text)
	}
	inbox := laptop.inbox("reviewer")
	away := inbox + ".away"
	swap := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	// Nothing looks while there is none, and a start is no reason to forget.
	laptop.stop()
	swap(inbox, away)
	laptop.makeAgent("demo", "reviewer")
	deposit(t, inbox, files[1], texts[1])
	laptop.start()
	look()
	for _, file := range files {
		if a, err := laptop.storedArrival(file); err != nil || a == nil || a.state != stored {
			t.Errorf("%s: %+v, %v", file, a, err)
		}
	}
	if got := desk.files("reviewer"); len(got) != 2 {
		t.Errorf("the copies went: %v", got)
	}
	// The copy is the one that counts now.
	if err := os.Remove(filepath.Join(inbox, files[1])); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the copy of one goes", func() bool { _, there := desk.files("reviewer")[files[1]]; return !there })
	if got := desk.files("reviewer"); got[files[0]] != texts[0] {
		t.Errorf("left: %v", got)
	}
	swap(inbox, inbox+".new")
	swap(away, inbox)
	look()
	if got := desk.files("reviewer"); got[files[0]] != texts[0] {
		t.Errorf("left: %v", got)
	}
	if err := os.Remove(filepath.Join(inbox, files[0])); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the copy of the other goes", func() bool { return len(desk.files("reviewer")) == 0 })
}
