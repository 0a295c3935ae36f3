package profile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acpd/acpd/identity"
)

// fakeConversations is the conversations of a profile, at a time that the test sets.
type fakeConversations struct {
	*Conversations
	t      testing.TB
	folder string
	at     time.Time
}

func openConversations(t testing.TB) *fakeConversations {
	t.Helper()
	c := &fakeConversations{t: t, folder: realDir(t), at: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	c.open()
	t.Cleanup(func() { c.Close() })
	return c
}

func (c *fakeConversations) open() {
	c.t.Helper()
	s, err := OpenConversations(c.folder, "fake")
	if err != nil {
		c.t.Fatal(err)
	}
	c.Conversations = s
	s.now = func() time.Time { return c.at }
}

// talk has one exchange in a conversation, and reports whether it went on.
func (c *fakeConversations) talk(peer identity.ID, thread string) (wentOn bool) {
	c.t.Helper()
	s, err := c.begin(c.t.Context(), conversationKey{"fake", peer, "", thread}, "1")
	if err != nil {
		c.t.Fatal(err)
	}
	wentOn = s.Session != ""
	s.Session = "id"
	if err := s.end(true); err != nil {
		c.t.Fatal(err)
	}
	return wentOn
}

func TestConversationsAreBounded(t *testing.T) {
	c := openConversations(t)
	for i := range maxConversations {
		c.talk(desk, fmt.Sprint(i))
		c.at = c.at.Add(time.Minute)
	}
	c.talk(laptop, "0")
	c.talk(desk, "0") // used again
	c.at = c.at.Add(time.Minute)
	c.talk(desk, "one more")
	if n := len(c.listPeer(desk.String())); n != maxConversations {
		t.Errorf("%d conversations", n)
	}
	if !c.talk(desk, "0") || !c.talk(laptop, "0") || !c.talk(desk, "2") {
		t.Error("another went than the one that was used longest ago")
	}
	if c.talk(desk, "1") {
		t.Error("the one that was used longest ago went on")
	}
}

func TestConversationsEnd(t *testing.T) {
	c := openConversations(t)
	c.talk(desk, "old")
	c.at = c.at.Add(conversationLife - time.Minute)
	if !c.talk(desk, "old") {
		t.Error("it ended early")
	}
	c.talk(laptop, "young")
	c.at = c.at.Add(conversationLife)
	if c.talk(desk, "old") {
		t.Error("it went on after 7 days")
	}
	c.RemovePeersUnless(func(identity.ID) bool { return true })
	if left := c.listPeer(laptop.String()); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	c.at = c.at.Add(-time.Hour)
	c.talk(laptop, "t")
	c.talk(desk, "t")
	c.RemovePeersUnless(func(id identity.ID) bool { return id == desk })
	if c.talk(laptop, "t") || !c.talk(desk, "t") {
		t.Error("not only the peer that is not trusted any more lost its conversations")
	}
}

// A file of a conversation that is damaged, or says what no program has said, ends that conversation
// alone.
func TestDamagedConversations(t *testing.T) {
	c := openConversations(t)
	for _, text := range []string{"", "{", `{"session":7}`, `{"session":"","trust":"1"}`, `{"session":"--config=/tmp/x","trust":"1","used":"2026-11-23T12:00:00Z"}`, "\x00\x00\x00\x00"} {
		c.talk(desk, "t")
		c.talk(desk, "other")
		k := conversationKey{"fake", desk, "", "t"}
		writeFile(t, filepath.Join(c.root, desk.String(), k.folder(), conversationFile), text, 0o600)
		if c.talk(desk, "t") || !c.talk(desk, "other") {
			t.Errorf("%q: it went on, or the other one did not", text)
		}
	}
}

// A conversation that cannot be written down ends, and leaves nothing on a disk that may be full.
func TestConversationsThatCannotBeKept(t *testing.T) {
	c := openConversations(t)
	c.talk(desk, "t")
	s, err := c.begin(t.Context(), conversationKey{"fake", desk, "", "t"}, "1")
	if err != nil {
		t.Fatal(err)
	}
	makeDir(t, filepath.Join(s.folder, conversationFile+".new", "in the way"))
	if err := s.end(true); err == nil {
		t.Error("no error")
	}
	if left := c.listPeer(desk.String()); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	if c.talk(desk, "t") {
		t.Error("it went on")
	}
}

// Where the owner chose the folder, what else lies there stays.
func TestOtherFoldersStay(t *testing.T) {
	c := openConversations(t)
	c.Close()
	file := filepath.Join(c.folder, "fake", "src", "parser", "main.go")
	writeFile(t, file, "package main", 0o600)
	c.open()
	c.RemovePeersUnless(func(identity.ID) bool { return false })
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// What a killed process has left goes at the next start; conversations stay.
func TestRestart(t *testing.T) {
	c := openConversations(t)
	c.talk(desk, "t")
	if _, err := c.begin(t.Context(), conversationKey{"fake", desk, "", ""}, "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenConversations(c.folder, "fake"); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second process: %v", err)
	}
	if other, err := OpenConversations(c.folder, "other"); err != nil {
		t.Error(err)
	} else {
		other.Close()
	}
	c.Close()
	c.at = time.Now()
	c.open()
	if left := c.listPeer(desk.String()); len(left) != 1 {
		t.Errorf("left: %+v", left)
	}
	if !c.talk(desk, "t") {
		t.Error("the conversation is lost")
	}
}

// A run can make its folders such that they cannot be listed; they are removed all the same,
// and nothing outside of them.
func TestFoldersThatResist(t *testing.T) {
	c := openConversations(t)
	outside := filepath.Join(realDir(t), "kept")
	writeFile(t, outside, "", 0o600)
	s, err := c.begin(t.Context(), conversationKey{"fake", desk, "", ""}, "1")
	if err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(s.home(), "a", "b")
	makeDir(t, deep)
	link(t, filepath.Dir(outside), filepath.Join(deep, "link"))
	if err := os.Chmod(deep, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(deep), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.end(false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.folder); err == nil {
		t.Error("it is still there")
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// The links to credentials and the files of the profile are in the home whatever a run has put
// there.
func TestPrepareHome(t *testing.T) {
	user, home := realDir(t), realDir(t)
	t.Setenv("HOME", user)
	writeFile(t, filepath.Join(user, "token"), "secret", 0o600)
	p := &Profile{
		files:       func(v *values) map[string]string { return map[string]string{".config/a": "is " + string(v.tools)} },
		Credentials: []Credential{{"~/token", ".agent/token"}, {"~/missing", ".agent/missing"}},
	}
	for range 3 {
		read, err := p.prepareHome(&values{home: home, tools: ToolsRead})
		if err != nil || len(read) != 1 || read[0] != filepath.Join(user, "token") {
			t.Fatalf("%q, %v", read, err)
		}
		for path, want := range map[string]string{".config/a": "is read", ".agent/token": "secret"} {
			if got, err := os.ReadFile(filepath.Join(home, path)); err != nil || string(got) != want {
				t.Errorf("%s: %s, %v", path, got, err)
			}
		}
		// What a run may do there: other content, links out, a folder in the place of a file.
		os.Remove(filepath.Join(home, ".config/a"))
		os.Symlink(filepath.Join(user, "token"), filepath.Join(home, ".config/a"))
		os.Remove(filepath.Join(home, ".agent/token"))
		os.MkdirAll(filepath.Join(home, ".agent/token/x"), 0o700)
	}
	if got, _ := os.ReadFile(filepath.Join(user, "token")); string(got) != "secret" {
		t.Errorf("the credential is %q", got)
	}
	os.RemoveAll(filepath.Join(home, ".config"))
	os.Symlink(user, filepath.Join(home, ".config"))
	if _, err := p.prepareHome(&values{home: home}); err == nil {
		t.Error("a link out of the home was followed")
	}
	if _, err := os.Stat(filepath.Join(user, "a")); err == nil {
		t.Error("a file was written outside of the home")
	}
}
