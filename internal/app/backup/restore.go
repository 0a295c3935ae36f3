package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/internal/sealed"
	"github.com/acpd/acpd/internal/statedir"
)

const asidePrefix = "before-restore-" // begins the names of the folders that keep what was there before

// Restore is a restore that is under way: the archive is whole and checked, and lies beside the files
// of the state directory, which is locked. The caller closes it.
type Restore struct {
	Manifest *Manifest
	Identity IdentitySource
	Peers    []identity.Peer // that the backup trusts
	Warning  *sealed.Warning // nil, or what is wrong with the trust store in the backup
	Old      *Old            // what is in the state directory now; nil if it is empty
	Aside    string          // the folder that keeps that; "" before Commit, or if there is none

	dir     string
	isNew   bool // the state directory was made for this
	lock    *os.File
	staging string
	onStep  func() error // of tests: is called before each change, which an error keeps from being made
}

// Old is the state directory as it was.
type Old struct {
	Identity identity.ID // zero if there is none, or none that can be read
	Peers    []identity.Peer
	Blocked  []identity.Block
}

// IdentitySource says where the identity of a restored directory comes from.
type IdentitySource string

const (
	IdentityFromBackup IdentitySource = "backup" // it was in the archive
	IdentityKept       IdentitySource = "kept"   // the directory has the one that the archive is of
	IdentityNone       IdentitySource = "none"   // the daemon makes a new one when it starts
)

// Options say how to restore.
type Options struct {
	Dir   string // the state directory
	Force bool   // also if it is not empty

	// Passphrase is called if the archive has the identity, and again, with how often it was
	// wrong, until it returns an error. nil: the identity is left out.
	Passphrase func(wrong int) (string, error)
}

// NotEmptyError says that a state directory has files.
type NotEmptyError struct{ Dir string }

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("%s is not empty: name an empty directory with --home; or --force moves what is there into a folder of it, %s and the time", e.Dir, asidePrefix)
}

// Prepare locks the state directory, and reads and checks an archive. It changes nothing but
// the folder restore.tmp, which Close removes.
func Prepare(ctx context.Context, archive io.Reader, o Options) (_ *Restore, err error) {
	r := &Restore{dir: o.Dir, staging: filepath.Join(o.Dir, statedir.StagingName)}
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
	if r.Old, err = r.readOld(); err != nil {
		return nil, err
	}
	if r.Old != nil && !o.Force {
		if err := statedir.CheckComplete(r.dir); err != nil {
			return nil, err
		}
		return nil, &NotEmptyError{r.dir}
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

// stays has the files that are no part of the state: a restore neither moves them nor minds them.
var stays = []string{statedir.LockName, statedir.ReserveName, client.AgentFolder, client.SocketName, client.HTTPSocketName, statedir.StagingName, statedir.IncompleteName}

// listOld returns the names of what is in the state directory, but for what stays.
func (r *Restore) listOld() (names []string, err error) {
	files, err := os.ReadDir(r.dir)
	for _, f := range files {
		if name := f.Name(); !slices.Contains(stays, name) && !strings.HasPrefix(name, asidePrefix) {
			names = append(names, name)
		}
	}
	return names, err
}

// readOld returns what the state directory has; nil if it is empty. What is damaged in it is no
// error: a restore may be the remedy.
func (r *Restore) readOld() (*Old, error) {
	names, err := r.listOld()
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	mark, err := readMark(r.dir)
	if err != nil || len(names) == 0 && mark == nil {
		return nil, err
	}
	old := new(Old)
	if folder, ok := r.findOld(mark, statedir.KeyName); ok {
		if key, err := identity.LoadKey(filepath.Join(folder, statedir.KeyName)); err == nil {
			old.Identity = key.ID()
		}
	}
	if folder, ok := r.findOld(mark, statedir.TrustName); ok {
		old.Peers, old.Blocked, _, _ = identity.InspectTrust(folder)
	}
	return old, nil
}

// findOld returns the folder in which a file from before lies, where m is the mark of a restore that
// was interrupted, and whether there is one.
func (r *Restore) findOld(m *mark, name string) (folder string, ok bool) {
	var folders []string
	if m == nil || m.Moving {
		folders = append(folders, r.dir)
	}
	if m != nil && m.Aside != "" {
		folders = append(folders, filepath.Join(r.dir, m.Aside))
	}
	for _, folder := range folders {
		if _, err := os.Lstat(filepath.Join(folder, name)); err == nil {
			return folder, true
		}
	}
	return "", false
}

// prepareIdentity puts the identity beside the other files: that of the archive; or that of the state
// directory, if the archive is of the same.
func (r *Restore) prepareIdentity(passphrase func(wrong int) (string, error)) error {
	encrypted := filepath.Join(r.staging, IdentityName)
	var key []byte
	r.Identity = IdentityNone
	if r.Manifest.HasIdentity() {
		text, err := os.ReadFile(encrypted)
		if err != nil {
			return err
		}
		if err := os.Remove(encrypted); err != nil {
			return err
		}
		if passphrase != nil {
			if key, err = decryptIdentityWith(text, passphrase); err != nil {
				return err
			}
			r.Identity = IdentityFromBackup
		}
	}
	if key == nil && r.Old != nil && r.Old.Identity == r.Manifest.Identity {
		m, err := readMark(r.dir)
		if err != nil {
			return err
		}
		folder, _ := r.findOld(m, statedir.KeyName)
		if key, err = durable.ReadPrivateFile(filepath.Join(folder, statedir.KeyName), maxPlainKey); err != nil {
			return err
		}
		r.Identity = IdentityKept
	}
	if key == nil {
		return nil
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
	return nil
}

// decryptIdentityWith decrypts the identity with what passphrase returns.
func decryptIdentityWith(text []byte, passphrase func(wrong int) (string, error)) ([]byte, error) {
	for wrong := 0; ; wrong++ {
		given, err := passphrase(wrong)
		if err != nil {
			return nil, err
		}
		key, err := decryptIdentity(text, given)
		if !errors.Is(err, ErrWrongPassphrase) {
			return key, err
		}
	}
}

// Commit puts the files of the archive in the place of those that are there, which it keeps in a
// folder. If it is interrupted, a mark stays, by which a daemon does not start; another restore
// then goes on.
func (r *Restore) Commit() error {
	m, err := readMark(r.dir)
	if err != nil {
		return err
	}
	if m == nil {
		m = &mark{Moving: r.Old != nil}
		if m.Moving {
			m.Aside = asidePrefix + time.Now().UTC().Format("20060102T150405.000Z")
		}
		if err := r.step(); err != nil {
			return err
		}
		if err := m.write(r.dir); err != nil {
			return err
		}
	}
	if m.Aside != "" {
		r.Aside = filepath.Join(r.dir, m.Aside)
	}
	if m.Moving {
		if err := r.moveAside(m); err != nil {
			return err
		}
	} else if err := r.removePlaced(); err != nil { // by the restore that was interrupted
		return err
	}
	if err := r.place(); err != nil {
		return err
	}
	if err := r.step(); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(r.dir, statedir.IncompleteName)); err != nil {
		return err
	}
	return durable.SyncDir(r.dir)
}

// step is called before each change of what a daemon sees.
func (r *Restore) step() error {
	if r.onStep == nil {
		return nil
	}
	return r.onStep()
}

// moveAside moves what was there into its folder. What says who this daemon is and whom it trusts
// goes last.
func (r *Restore) moveAside(m *mark) error {
	if err := os.Mkdir(r.Aside, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	names, err := r.listOld()
	if err != nil {
		return err
	}
	last := []string{statedir.TrustCopyName, statedir.TrustName, statedir.KeyName}
	slices.SortStableFunc(names, func(a, b string) int { return slices.Index(last, a) - slices.Index(last, b) })
	for _, name := range names {
		if err := r.step(); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(r.dir, name), filepath.Join(r.Aside, name)); err != nil {
			return err
		}
	}
	if err := errors.Join(durable.SyncDir(r.Aside), durable.SyncDir(r.dir)); err != nil {
		return err
	}
	if err := r.step(); err != nil {
		return err
	}
	m.Moving = false
	return m.write(r.dir)
}

// removePlaced removes the files that an interrupted restore has put into the state directory.
func (r *Restore) removePlaced() error {
	for name := range maxBytes {
		if err := os.Remove(filepath.Join(r.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Remove(filepath.Join(r.dir, statedir.KeyName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(filepath.Join(r.dir, statedir.ProfilesName))
}

// place moves the files of the archive to where they belong.
func (r *Restore) place() error {
	files, err := os.ReadDir(r.staging)
	if err != nil {
		return err
	}
	for _, f := range files {
		from, to := filepath.Join(r.staging, f.Name()), filepath.Join(r.dir, f.Name())
		rename := durable.RenameIfAbsent
		if f.IsDir() {
			if err := durable.SyncDir(from); err != nil {
				return err
			}
			rename = os.Rename // of a folder, never over one with files in it
		}
		if err := r.step(); err != nil {
			return err
		}
		if err := rename(from, to); err != nil {
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
		if names, err := r.listOld(); err == nil && len(names) == 0 {
			os.Remove(filepath.Join(r.dir, statedir.LockName))
			os.Remove(r.dir)
		}
	}
	if r.lock != nil {
		r.lock.Close()
	}
}

// ListReturning returns the peers that the backup trusts and the state directory does not, and
// which of them it blocks. There are none where there was no state.
func (r *Restore) ListReturning() (returning []identity.Peer, blocked map[identity.ID]bool) {
	if r.Old == nil {
		return nil, nil
	}
	blocked = make(map[identity.ID]bool)
	for _, b := range r.Old.Blocked {
		blocked[b.ID] = true
	}
	for _, p := range r.Peers {
		if !slices.ContainsFunc(r.Old.Peers, func(old identity.Peer) bool { return old.ID == p.ID }) {
			returning = append(returning, p)
		}
	}
	return returning, blocked
}

// mark is the file by which a daemon and the next restore know that one was interrupted.
type mark struct {
	Aside  string // the folder of what was there before; "" if nothing was
	Moving bool   // that is being moved; else the new files are being put in its place
}

const (
	markMoving  = "moving "
	markPlacing = "placing "
)

func (m *mark) write(dir string) error {
	step := markPlacing
	if m.Moving {
		step = markMoving
	}
	text := "A restore of acpctl is under way, or was interrupted. If it was interrupted, run acpctl restore again, with --force.\n" + step + m.Aside + "\n"
	path := filepath.Join(dir, statedir.IncompleteName)
	return durable.ReplaceFile(path, filepath.Join(dir, statedir.StagingName, statedir.IncompleteName), []byte(text), durable.PrivateMode)
}

// readMark returns the mark in a state directory, nil if there is none.
func readMark(dir string) (*mark, error) {
	path := filepath.Join(dir, statedir.IncompleteName)
	text, err := durable.ReadPrivateFile(path, 4<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(text, []byte("\n"))
	if len(lines) < 2 {
		return nil, fmt.Errorf("%s is damaged: look which folder %s* has what was there before, then move all other files away and restore again", path, asidePrefix)
	}
	aside, moving := strings.CutPrefix(string(lines[1]), markMoving)
	if !moving {
		aside = strings.TrimPrefix(aside, markPlacing)
	}
	if aside != "" && (!strings.HasPrefix(aside, asidePrefix) || filepath.Base(aside) != aside) {
		return nil, fmt.Errorf("%s is damaged: it names no folder of a restore", path)
	}
	return &mark{aside, moving}, nil
}
