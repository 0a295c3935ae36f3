package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/oacp/message"
	"github.com/acpd/acpd/wire"
)

// mailbox is an agent of a project.
type mailbox struct{ project, agent string }

// Folders and endings of names.
const (
	inboxDir  = "inbox"
	outboxDir = "outbox"
	deadDir   = "dead_letter"

	extension = ".yaml"
	tempMark  = ".tmp-acpd-" // of files that are being stored: hidden, no .yaml, and no other program's
)

// What is made here is its user's alone, as in package mailbox.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

func (p mailbox) dir() string { return path.Join("projects", p.project, "agents", p.agent) }

// check refuses names that are no names, or that would lead out of the home.
func (p mailbox) check() error {
	if err := checkProject(p.project); err != nil {
		return err
	}
	if !message.LegalAgent(p.agent) {
		return kinds.Errorf(kinds.Invalid, "agent %.80q: use letters, digits, dots, hyphens and underscores, a letter or digit first, at most 64", p.agent)
	}
	return nil
}

func checkProject(name string) error {
	bad := func(r rune) bool { return r == '/' || r == '\\' || !unicode.IsPrint(r) }
	if name == "" || len(name) > wire.MaxMailProject || name[0] == '.' || !utf8.ValidString(name) || strings.ContainsFunc(name, bad) {
		return kinds.Errorf(kinds.Invalid, "project %.80q: a project's name has no slash and no dot in front, and at most %d bytes", name, wire.MaxMailProject)
	}
	return nil
}

// openFolder opens a folder below the home. What a root opens stays within it, links or
// not. The home is opened anew each time: it may have been replaced.
func (m *Mailer) openFolder(dir string) (*os.Root, error) {
	home, err := os.OpenRoot(m.cfg.Home)
	if err != nil {
		return nil, err
	}
	defer home.Close()
	return home.OpenRoot(dir)
}

func (m *Mailer) openAgent(p mailbox) (*os.Root, error) { return m.openFolder(p.dir()) }
func (m *Mailer) openInbox(p mailbox) (*os.Root, error) {
	return m.openFolder(path.Join(p.dir(), inboxDir))
}

// checkSpelling fails with [fs.ErrNotExist] if there is no agent of exactly this name: a
// file system that ignores case, and a link, open the folder of another for it.
func (m *Mailer) checkSpelling(p mailbox) error {
	for _, of := range []struct {
		dir, name string
		link      bool // it may be one
	}{{"projects", p.project, true}, {path.Join("projects", p.project, "agents"), p.agent, false}} {
		dir, err := m.openFolder(of.dir)
		if err != nil {
			return err
		}
		entries, err := fs.ReadDir(dir.FS(), ".")
		dir.Close()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == of.name && (of.link || e.IsDir()) }) {
			return fmt.Errorf("%s has no folder %s: %w", of.dir, of.name, fs.ErrNotExist)
		}
	}
	return nil
}

// fileVersion tells one state of a file from the next without reading it.
type fileVersion struct {
	inode uint64
	size  int64
	mtime int64
}

func versionOf(info fs.FileInfo) fileVersion {
	m := fileVersion{size: info.Size(), mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		m.inode = st.Ino
	}
	return m
}

// arrivedAt is when a file came to lie where it does, or was changed last, as the file system
// has it: the same after a restart, and never later than now.
func arrivedAt(info fs.FileInfo, now time.Time) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		since := changed(st)
		if at := time.Unix(since.Unix()); at.Before(now) {
			return at
		}
	}
	return now
}

// inodeOf tells a folder from another that takes its place. Its device is left out: a
// disk may have another at the next start.
func inodeOf(dir *os.Root) (uint64, error) {
	info, err := dir.Stat(".")
	if err != nil {
		return 0, err
	}
	return versionOf(info).inode, nil
}

// mailFile is a message as it lies in a file.
type mailFile struct {
	version fileVersion
	hash    [sha256.Size]byte
	data    []byte
}

// errChanging says that a file was written to while it was read.
var errChanging = errors.New("it is being written")

// unfitError says why a file cannot be mail as it is.
type unfitError string

func (e unfitError) Error() string { return string(e) }

// readMailFile reads a message's file. It follows no link and waits for no FIFO.
func readMailFile(dir *os.Root, name string) (*mailFile, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	before, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if reason := unfit(before); reason != "" {
		return nil, unfitError(reason)
	}
	l := &mailFile{version: versionOf(before)}
	if l.data, err = io.ReadAll(io.LimitReader(f, message.MaxBytes+1)); err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if int64(len(l.data)) != l.version.size || versionOf(after) != l.version {
		return nil, errChanging
	}
	l.hash = sha256.Sum256(l.data)
	return l, nil
}

// unfit says why a file cannot be mail, "" if it may be.
func unfit(info fs.FileInfo) string {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return "a link: what it points to is not carried; put the message itself here"
	case !info.Mode().IsRegular():
		return "not a regular file: remove it"
	case info.Size() > message.MaxBytes:
		return fmt.Sprintf("%d bytes: a message may have %d: shorten or remove it", info.Size(), message.MaxBytes)
	case info.Size() == 0:
		return "empty: write the message, or remove the file"
	}
	return ""
}

// storeFile writes data into temp, and stores it under name, or, where another message has that, under name_2 and
// so on, and returns when it is durable. A message with the same bytes that is
// there already is the same message. The file is never seen in part: temp is a name
// that no reader takes for mail, and is then linked. Nobody else writes temp: what has
// that name was left behind.
func storeFile(dir *os.Root, temp, name string, data []byte) (string, error) {
	if err := dir.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if there := findMessage(dir, name, int64(len(data)), sha256.Sum256(data)); there != "" {
		return there, durable.SyncRoot(dir)
	}
	err := durable.CreateIn(dir, temp, data, fileMode)
	if err != nil {
		return "", err
	}
	defer dir.Remove(temp)
	for _, final := range numberedNames(name, maxNumbered) {
		err = dir.Link(temp, final)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		// The temporary name goes first: that tells those who watch the folder, and
		// one fsync is for both.
		dir.Remove(temp)
		return final, durable.SyncRoot(dir)
	}
	return "", err // another was quicker; it is tried again
}

// maxNumbered is how many messages of one name may lie in an inbox: each is read
// before the next gets its name.
const maxNumbered = 16

// checkFreeName fails if an inbox has no name left for a message, which is not there already.
func checkFreeName(dir *os.Root, name string, size int64, hash [sha256.Size]byte) error {
	for _, n := range numberedNames(name, maxNumbered) {
		if _, err := dir.Lstat(n); errors.Is(err, fs.ErrNotExist) || holdsMessage(dir, n, size, hash) {
			return nil
		}
	}
	return &singleError{kinds.Errorf(kinds.Overloaded, "%d messages of the name %s wait there to be read: it is tried again", maxNumbered, name)}
}

// holdsMessage reports whether a file is a message of so many bytes and that hash. It reads no
// file of another size; size 0 is any.
func holdsMessage(dir *os.Root, name string, size int64, hash [sha256.Size]byte) bool {
	if info, err := dir.Lstat(name); err != nil || size != 0 && info.Size() != size {
		return false
	}
	l, err := readMailFile(dir, name)
	return err == nil && l.hash == hash
}

// numberedNames are the names that a message may have: its own, then name_2 and so on.
func numberedNames(name string, most int) []string {
	stem := strings.TrimSuffix(name, extension)
	all := make([]string, 1, most)
	all[0] = name
	for i := 2; i <= most; i++ {
		all = append(all, fmt.Sprintf("%s_%d%s", stem, i, extension))
	}
	return all
}

// findMessage returns the name under which a message lies in dir, "" if it does not. Those
// before it may have gone.
func findMessage(dir *os.Root, name string, size int64, hash [sha256.Size]byte) string {
	for _, n := range numberedNames(name, maxNumbered) {
		if holdsMessage(dir, n, size, hash) {
			return n
		}
	}
	return ""
}

// localName is the name here of a message that is called name at its sender: the
// same, unless that could do harm.
func localName(name string, hash [sha256.Size]byte) string {
	if message.LegalFileName(name) {
		return name
	}
	return "unnamed_" + hex.EncodeToString(hash[:8]) + extension
}

// isHidden reports whether readers of folders are to leave a name alone.
func isHidden(name string) bool { return strings.HasPrefix(name, ".") }
