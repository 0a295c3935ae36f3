package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/sealed"
	"github.com/acpd/acpd/internal/shellpath"
	"github.com/acpd/acpd/internal/statedir"
)

// Restore is a restore that is under way: the archive is whole and checked, and its files are in a folder of the state
// directory, which is locked. The caller closes it.
type Restore struct {
	Manifest *Manifest
	Identity IdentitySource
	Peers    []identity.Peer // that the backup trusts
	Warning  *sealed.Warning // nil, or what is wrong with the trust store in the backup

	dir          string
	isNew        bool // the state directory was made for this, and has nothing of the backup yet
	isIncomplete bool // an earlier restore into it was interrupted
	lock         *os.File
	staging      string
	step         func() error // is called before each change of what a daemon sees; an error, of tests, keeps it from being made
}

// IdentitySource says where the identity of a restored directory comes from.
type IdentitySource string

const (
	IdentityFromBackup IdentitySource = "backup" // it was in the archive
	IdentityNone       IdentitySource = "none"   // the daemon makes a new one when it starts
)

// Options say how to restore.
type Options struct {
	Dir string // the state directory

	// Passphrase is called if the archive has the identity. nil: the identity is left out.
	Passphrase func() (string, error)
}

// Prepare locks the state directory, and reads and checks an archive. It changes nothing but
// the folder restore.tmp, which Close removes.
func Prepare(ctx context.Context, archive io.Reader, o Options) (_ *Restore, err error) {
	r := &Restore{dir: o.Dir, staging: filepath.Join(o.Dir, statedir.StagingName), step: func() error { return nil }}
	if err := r.openDir(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if r.lock, err = statedir.LockDir(r.dir, "acpctl restore"); err != nil {
		return nil, err
	}
	err = statedir.CheckComplete(r.dir)
	if _, r.isIncomplete = errors.AsType[*statedir.IncompleteError](err); err != nil && !r.isIncomplete {
		return nil, err
	}
	if err := r.checkVacant(); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(r.staging); err != nil {
		return nil, err
	}
	if err := os.Mkdir(r.staging, 0o700); err != nil {
		return nil, err
	}
	if r.Manifest, err = extract(ctx, archive, r.staging); err != nil {
		return nil, err
	}
	if r.Peers, _, r.Warning, err = identity.InspectTrust(r.staging); err != nil {
		return nil, err
	}
	return r, r.prepareIdentity(o.Passphrase)
}

// openDir makes the state directory, or checks that it is one of this user.
func (r *Restore) openDir() error {
	err := os.Mkdir(r.dir, 0o700)
	switch {
	case err == nil:
		r.isNew = true
		return nil
	case !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("state directory: %w: make the folder in which it shall be", err)
	}
	info, err := os.Stat(r.dir)
	switch {
	case err != nil:
		return fmt.Errorf("state directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("state directory: %s is no directory: name another with --home", r.dir)
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != os.Geteuid() {
		return fmt.Errorf("state directory: %s belongs to user %d and this is user %d: run this as that user", r.dir, owner, os.Geteuid())
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("state directory: %s is open to others (mode %04o): chmod 700 %s", r.dir, info.Mode().Perm(), r.dir)
	}
	return nil
}

// listPlaced returns the names of all that a restore may put into a state directory, and of what belongs to it.
func listPlaced() []string {
	names := []string{statedir.KeyName, statedir.StateName, statedir.StateIndexName}
	for name := range maxBytes {
		names = append(names, name)
	}
	return names
}

// checkVacant returns an error if the state directory has files of a state, unless they are of a restore
// that was interrupted.
func (r *Restore) checkVacant() error {
	for _, name := range listPlaced() {
		_, err := os.Lstat(filepath.Join(r.dir, name))
		switch {
		case err == nil && !r.isIncomplete:
			aside := r.dir + time.Now().UTC().Format(".20060102T150405Z")
			return fmt.Errorf("%s has %s already: name another directory with --home, or move this one aside: mv %s %s", r.dir, name, shellpath.Quote(r.dir), shellpath.Quote(aside))
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("state directory: %w", err)
		}
	}
	return nil
}

// prepareIdentity decrypts the identity of the archive next to the other files, if it is wanted and in the archive.
func (r *Restore) prepareIdentity(passphrase func() (string, error)) error {
	r.Identity = IdentityNone
	if !r.Manifest.HasIdentity() {
		return nil
	}
	encrypted := filepath.Join(r.staging, IdentityName)
	text, err := os.ReadFile(encrypted)
	if err != nil {
		return err
	}
	if err := os.Remove(encrypted); err != nil {
		return err
	}
	if passphrase == nil {
		return nil
	}
	given, err := passphrase()
	if err != nil {
		return err
	}
	key, err := decryptIdentity(text, given)
	if err != nil {
		return err
	}
	path := filepath.Join(r.staging, statedir.KeyName)
	if err := durable.CreateFile(path, key, durable.PrivateMode); err != nil {
		return err
	}
	switch got, err := identity.LoadKey(path); {
	case err != nil:
		return fmt.Errorf("identity: what is in the backup is no identity: %w", err)
	case got.ID() != r.Manifest.Identity:
		return fmt.Errorf("identity: the backup says that it is %s, and has %s: use another backup", r.Manifest.Identity, got.ID())
	}
	r.Identity = IdentityFromBackup
	return nil
}

// Commit puts the files of the archive into the state directory. If it is interrupted, a mark stays, by which a daemon
// does not start; another restore then begins anew.
func (r *Restore) Commit() error {
	r.isNew = false
	mark := filepath.Join(r.dir, statedir.IncompleteName)
	if r.isIncomplete {
		if err := r.removePlaced(); err != nil {
			return err
		}
	} else {
		if err := r.step(); err != nil {
			return err
		}
		if err := durable.CreateFile(mark, []byte("A restore of acpctl is under way, or was interrupted: then run acpctl restore again.\n"), durable.PrivateMode); err != nil {
			return err
		}
		if err := durable.SyncDir(r.dir); err != nil {
			return err
		}
	}
	if err := r.place(); err != nil {
		return err
	}
	if err := r.step(); err != nil {
		return err
	}
	if err := os.Remove(mark); err != nil {
		return err
	}
	return durable.SyncDir(r.dir)
}

// removePlaced removes the files that an interrupted restore has put into the state directory.
func (r *Restore) removePlaced() error {
	for _, name := range listPlaced() {
		if err := os.RemoveAll(filepath.Join(r.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// place moves the files of the archive to where they belong.
func (r *Restore) place() error {
	files, err := os.ReadDir(r.staging)
	if err != nil {
		return err
	}
	for _, f := range files {
		from, to := filepath.Join(r.staging, f.Name()), filepath.Join(r.dir, f.Name())
		if err := r.step(); err != nil {
			return err
		}
		if err := durable.RenameIfAbsent(from, to); err != nil {
			return err
		}
	}
	return durable.SyncDir(r.dir)
}

// Close unlocks the state directory and removes what is only for the restore. A directory that was
// made for one that did not succeed goes too.
func (r *Restore) Close() {
	os.RemoveAll(r.staging)
	if r.isNew && r.lock != nil {
		os.Remove(filepath.Join(r.dir, statedir.LockName))
		os.Remove(r.dir)
	}
	if r.lock != nil {
		r.lock.Close()
	}
}
