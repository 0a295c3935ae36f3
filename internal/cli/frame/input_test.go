package frame

import (
	"os"
	"path/filepath"
	"testing"
)

// What a command line names as @FILE may begin with a tilde, which no shell expands there.
func TestArgumentFileWithATilde(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.WriteFile(filepath.Join(home, "note"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := readArgumentFile("~/note"); text != "text" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
