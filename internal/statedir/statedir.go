// Package statedir has what the daemon and the programs that work on a state directory without
// it must agree on: the names of the files, how long a socket's path may be, the lock, the mark of a
// restore that was interrupted, and the versions of the files.
package statedir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/internal/shellpath"
)

// The files of a state directory that this package and its users name.
const (
	KeyName        = "identity.key"
	ConfigName     = "config.yaml"
	TrustName      = "trust.yaml"
	TrustCopyName  = "trust.copy.yaml"
	RulesName      = "wake.yaml"
	RulesCopyName  = "wake.copy.yaml"
	RelaysName     = "relays.yaml" // relays that the daemon keeps, with what it logs in with
	RelaysTemp     = "relays.tmp"  // while that is written
	StateName      = "state.db"
	StateLogName   = "state.db-wal"
	StateIndexName = "state.db-shm"
	LockName       = "lock"
	ReserveName    = "reserve"                  // space that is kept for what frees some
	CopyName       = "backup.tmp"               // the copy of state.db of a backup that is under way
	OldStateName   = "state.before-upgrade.db"  // state.db as it was before the last upgrade
	OldStateTemp   = "state.before-upgrade.tmp" // while that is written
	StagingName    = "restore.tmp"              // a folder: what a restore has read and checked
	IncompleteName = "restore-is-incomplete"    // see CheckComplete
	ProfilesName   = "profiles"                 // a folder
	LogName        = "acpd.log"                 // the log of an acpd that acpctl up has started
)

// The versions of the files that this program writes, and the newest that it reads.
// integration/backup_test.go: TestVersionsOfTheStateDirectory compares them with what a daemon writes.
const (
	StateVersion = 31 // of state.db: the steps of all its users (store.Migrate)
	TrustVersion = 1
	RulesVersion = 1
)

const (
	headerLen     = 100 // of an SQLite file
	versionOffset = 60  // of user_version in it
	magic         = "SQLite format 3\x00"
)

// ReadStateVersion reads the version of a state.db from its header. It returns 0 if an older acpd
// has written the file, or if only the log has the version.
func ReadStateVersion(f io.ReaderAt) (int, error) {
	var header [headerLen]byte
	if _, err := f.ReadAt(header[:], 0); err != nil || string(header[:len(magic)]) != magic {
		return 0, ownwords.Errorf("%s: it is no SQLite database", StateName)
	}
	return int(binary.BigEndian.Uint32(header[versionOffset:])), nil
}

// IncompleteError is the error if a restore into a state directory was interrupted.
type IncompleteError struct{ Dir string }

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("state directory: a restore into %s was interrupted, and its files are not whole: run acpctl --home %s restore FILE again", e.Dir, shellpath.Quote(e.Dir))
}

// OwnWords returns the text.
func (e *IncompleteError) OwnWords() string { return e.Error() }

// CheckComplete returns an [*IncompleteError] if a restore into the directory was interrupted.
func CheckComplete(dir string) error {
	_, err := os.Lstat(filepath.Join(dir, IncompleteName))
	switch {
	case err == nil:
		return &IncompleteError{dir}
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return ownwords.Errorf("state directory: %w", err)
}
