package transfer

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acpd/acpd/kinds"
	oacpfiles "github.com/acpd/acpd/oacp/mailbox"
	"github.com/acpd/acpd/oacp/message"
	"github.com/acpd/acpd/wire"
)

// TestSpelling: an agent is only who is called exactly that. A link opens the folder of a
// bound agent under another name, as a file system that ignores case does: mail for that
// name would lie in the bound agent's inbox, and be carried on.
// holds: security.md#against-trusted-peers
func TestSpelling(t *testing.T) {
	desk, laptop := bound(t)
	for _, s := range []*side{desk, laptop} {
		for _, name := range []string{"Planner", "Reviewer"} {
			if err := os.Symlink(strings.ToLower(name), s.folder("demo", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	letter := text1("planner", "Planner", "x")
	reply := desk.says(laptop, letterOf("demo", "Planner", "a.yaml", letter), letter)
	if reply.Result != wire.MailRefused || reply.Code != string(kinds.NotFound) {
		t.Errorf("mail for a name that opens a bound agent's folder: %+v", reply)
	}
	if got := laptop.files("planner"); len(got) != 0 {
		t.Errorf("the inbox of the bound agent holds %v", got)
	}
	_, err := laptop.Bind(t.Context(), Binding{Project: "demo", Agent: "Reviewer", Peer: desk.key.ID()}, true)
	if kinds.AsError(err).Code != kinds.Invalid {
		t.Errorf("a name that opens another's folder is bound: %v", err)
	}
}

// TestOwnUser: nobody but the user gets at what is made here.
func TestOwnUser(t *testing.T) {
	desk, laptop := desks(t)
	laptop.start()
	laptop.bind("demo", "planner", desk)
	desk.start()
	desk.bind("demo", "tester", laptop)
	laptop.makeAgent("demo", "tester")
	file := desk.send("tester", fileName("planner", "question"), text1("planner", "tester", "x"))
	desk.becomes(file, Delivered)
	if _, err := desk.DropFile(t.Context(), "demo", "tester", file); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		desk.folder("demo", "tester"), desk.inbox("tester"), filepath.Join(desk.folder("demo", "tester"), outboxDir), filepath.Join(desk.folder("demo", "tester"), deadDir),
		filepath.Join(desk.folder("demo", "tester"), statusFile), filepath.Join(laptop.inbox("tester"), file),
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		want := fs.FileMode(0o600)
		if info.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

// TestOthersTemporaryFiles: what settles at the start what a crash left does so while
// others write into the same inbox.
func TestOthersTemporaryFiles(t *testing.T) {
	desk, laptop := desks(t)
	laptop.start()
	var sending sync.WaitGroup
	defer sending.Wait()
	over := make(chan bool)
	defer close(over)
	sending.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			default:
			}
			_, err := oacpfiles.Home(laptop.home).SendLetter("demo", oacpfiles.Letter{Create: true, Message: message.Message{
				From: "local", To: []string{"reviewer"}, Type: "question", Priority: "P2", Subject: "s", Body: "b",
			}})
			if err != nil {
				t.Errorf("letter %d: %v", n, err)
				return
			}
		}
	})
	a := &arrival{key: arrivalKey{desk.key.ID(), mailbox{"demo", "reviewer"}, "a.yaml", sha256.Sum256([]byte("x"))}, state: writing}
	other := arrivalKey{a.key.peer, a.key.mailbox, "b.yaml", a.key.hash}
	for range 300 {
		for _, key := range []arrivalKey{a.key, other} {
			if err := os.WriteFile(filepath.Join(laptop.inbox("reviewer"), key.tempFileName()), []byte("id: "), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if name, err := laptop.findHalfStoredFile(a); name != "" || err != nil {
			t.Fatal(name, err)
		}
		if _, err := os.Stat(filepath.Join(laptop.inbox("reviewer"), a.key.tempFileName())); err == nil {
			t.Fatal("its own is left")
		}
		if _, err := os.Stat(filepath.Join(laptop.inbox("reviewer"), other.tempFileName())); err != nil {
			t.Fatal("another's is gone")
		}
	}
	// What is left behind hinders no later attempt.
	inbox, err := laptop.openInbox(other.mailbox)
	if err != nil {
		t.Fatal(err)
	}
	defer inbox.Close()
	if name, err := storeFile(inbox, other.tempFileName(), other.localFileName(), []byte("id: m")); err != nil || name != "b.yaml" {
		t.Errorf("stored as %q, %v", name, err)
	}
}
