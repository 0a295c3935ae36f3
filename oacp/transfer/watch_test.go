package transfer

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fsnotify/fsnotify"
)

// TestHiddenNames: a temporary name that goes marks the file whose name it carries, and
// nothing if it carries none.
func TestHiddenNames(t *testing.T) {
	for hidden, want := range map[string][]string{
		".1-task.yaml.tmp1": {"1-task.yaml"},
		".yaml.tmp1":        nil,
		"..yaml.tmp1":       nil,
		".tmp1":             nil,
	} {
		l := testLedger()
		dir := filepath.FromSlash("/inbox")
		w := &folderWatch{mailer: &Mailer{ledger: l}, dirs: map[string]mailbox{dir: reviewer}}
		w.handleEvent(fsnotify.Event{Name: filepath.Join(dir, hidden), Op: fsnotify.Remove})
		if got := slices.Sorted(maps.Keys(l.takeDirtyFiles()[reviewer])); !slices.Equal(got, want) {
			t.Errorf("%s went: %q are to be scanned, want %q", hidden, got, want)
		}
	}
}
