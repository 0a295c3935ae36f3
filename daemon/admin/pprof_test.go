package admin

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A socket at which another program listens stays that program's.
func TestPprofTakesNoSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.sock")
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := ServePprof(t.Context(), path); err == nil || !strings.Contains(err.Error(), "a program listens at") {
		t.Errorf("ServePprof returned %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}
