package live

import (
	"os"
	"path/filepath"
	"sync"
)

// addTables gives a state directory in which no daemon has run a state.db with all tables and no
// rows. To make them anew costs most of what a start does under the race detector.
func (m *Machine) addTables() {
	m.T.Helper()
	if info, err := os.Stat(m.Home); err != nil || info.Mode().Perm() != 0o700 {
		return // open to others: the daemon mends that only if the directory is empty
	}
	for _, name := range []string{"state.db", "identity.key"} {
		if _, err := os.Lstat(filepath.Join(m.Home, name)); err == nil {
			return
		}
	}
	tables.Do(func() {
		first := NewMachine(m.T, "tables")
		first.Acpd = first.StartProcess(first.DaemonCommand()...)
		first.AwaitReady()
		first.StopDaemon()
		var err error
		if tables.db, err = os.ReadFile(filepath.Join(first.Home, "state.db")); err != nil {
			m.T.Fatal(err)
		}
	})
	if err := os.WriteFile(filepath.Join(m.Home, "state.db"), tables.db, 0o600); err != nil {
		m.T.Fatal(err)
	}
}

// tables is the state.db of a daemon that has ended.
var tables struct {
	sync.Once
	db []byte
}
