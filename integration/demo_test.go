package integration

import (
	"strings"
	"testing"
)

// TestTheDemoIsAnnounced: in a fresh clone the demonstration is built without the compiler's profile, and says first
// what is done and for how long.
func TestTheDemoIsAnnounced(t *testing.T) {
	typed := commandWithin(t, buildTime, "..", nil, "make", "--no-print-directory", "--dry-run", "demo")
	if !strings.HasPrefix(typed, "echo 'The demo takes ") || !strings.Contains(typed, "echo 'Building acpd and acpctl: ") || !strings.Contains(typed, " -pgo=off ") {
		t.Errorf("make demo would run\n%s", typed)
	}
}
