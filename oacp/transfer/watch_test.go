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
		m := &Mailer{ledger: l, cfg: Config{Home: "/home/me/oacp"}}
		w := &folderWatch{mailer: m}
		w.handleEvent(fsnotify.Event{Name: filepath.Join(m.inboxPath(reviewer), hidden), Op: fsnotify.Remove})
		w.handleEvent(fsnotify.Event{Name: filepath.Join("/home/me/inbox", hidden), Op: fsnotify.Remove})
		if got := slices.Sorted(maps.Keys(l.takeDirtyFiles()[reviewer])); !slices.Equal(got, want) {
			t.Errorf("%s went: %q are to be scanned, want %q", hidden, got, want)
		}
	}
}
