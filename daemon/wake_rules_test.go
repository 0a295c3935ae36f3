package daemon

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
)

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
