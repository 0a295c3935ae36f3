package integration

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acpd/acpd/integration/await"
)

// A session sends a file of its folder to one on another machine, which takes it into its own folder. No model reads
// a byte of what is in it, and the owner there is asked first.
// holds: security.md#agents-on-this-machine
func TestSessionsSendFiles(t *testing.T) {
	t.Parallel()
	desk, laptop := friends(t)
	there, here := t.TempDir(), t.TempDir()
	fixer := desk.startSessionIn(there, "fixer", "--attach")
	reviewer := laptop.startSessionIn(here, "reviewer", "--attach")
	desk.AwaitAgent("fixer")
	laptop.AwaitAgent("reviewer")
	line := make([]byte, 24)
	rand.Read(line)
	secret := hex.EncodeToString(line)
	content := bytes.Repeat([]byte(secret+"\n"), 3<<20/len(secret)) // of several ranges
	if err := os.WriteFile(filepath.Join(here, "build.log"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	sent := make(chan *toolResult, 1)
	go func() {
		sent <- reviewer.call("acp_file", map[string]any{"do": "send", "to": "desk/fixer", "path": "build.log", "text": "The log of the failed run"})
	}()
	await.Until(t, "the owner is asked", func() bool { return strings.Contains(desk.MustOutput("approvals"), "build.log") })
	approval, _, _ := strings.Cut(desk.MustOutput("approvals"), "\t")
	desk.MustOutput("approvals", "yes", approval)
	s := await.Receive(t, "it is sent", sent)
	if s.State != "handed" && s.State != "held" {
		t.Fatalf("%s", s.said)
	}
	seen := s.said
	inbox := fixer.must("shown", "acp_inbox", nil)
	if !strings.Contains(inbox.said, "acp_file with do take and id "+s.ID) || !strings.Contains(inbox.said, "The log of the failed run") {
		t.Errorf("%s", inbox.said)
	}
	taken := fixer.must("taken", "acp_file", map[string]any{"do": "take", "id": s.ID})
	got, err := os.ReadFile(filepath.Join(there, taken.Detail["path"].(string)))
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
	}
	for _, text := range []string{seen, inbox.said, taken.said, fixer.must("listed", "acp_file", map[string]any{"do": "list"}).said} {
		if strings.Contains(text, secret) {
			t.Errorf("the model reads what is in the file: %s", text)
		}
	}
}
