package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/acpd/acpd/internal/durable"
)

// maxFile bounds a file that setup reads and writes.
const maxFile = 16 << 20

// tempMark ends the names of files that are being written.
const tempMark = ".acpctl-new"

// place is a file that a program reads its configuration from.
type place struct {
	path     string      // absolute
	project  string      // the project's folder if the file belongs to one
	mode     fs.FileMode // of the file if it is made
	lock     string      // a folder that the program makes while it writes the file; may be empty
	dirsMode fs.FileMode // of folders that are made
}

// file is what is at a place now.
type file struct {
	place
	target string // the file that is read and written: path, or where its links lead
	exists bool
	mode   fs.FileMode // of the file, or for a new one
	gid    int         // of the file, if it exists
	text   []byte
}

// readFile reads the file at a place, or finds that it does not exist. It returns an error unless
// the file, its folder and the links to it belong to this user. In a project's folder nothing
// may be a link: whoever wrote the project would choose what is written.
func readFile(p place) (*file, error) {
	f := &file{place: p, target: p.path, mode: p.mode}
	if err := checkNoLinks(p); err != nil {
		return nil, err
	}
	info, err := os.Lstat(p.path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err = checkOwner(p.path, info); err != nil {
			return nil, err
		}
		if f.target, err = filepath.EvalSymlinks(p.path); err != nil {
			return nil, fmt.Errorf("%s is a link that leads nowhere: fix or remove it (%w)", p.path, err)
		}
		info, err = os.Lstat(f.target)
	} else if dir, dirErr := filepath.EvalSymlinks(filepath.Dir(p.path)); dirErr == nil {
		f.target = filepath.Join(dir, filepath.Base(p.path))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return f, checkFolder(f.target)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file: move it away", f.target)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes: setup changes files of at most %d MiB", f.target, info.Size(), maxFile>>20)
	}
	if err := errors.Join(checkOwner(f.target, info), checkFolder(f.target)); err != nil {
		return nil, err
	}
	f.exists, f.mode, f.gid = true, info.Mode().Perm(), groupOf(info)
	r, err := os.OpenFile(f.target, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if f.text, err = io.ReadAll(io.LimitReader(r, maxFile+1)); err == nil && len(f.text) > maxFile {
		err = fmt.Errorf("%s has over %d MiB", f.target, maxFile>>20)
	}
	return f, err
}

// checkWritable returns an error if the file's owner has made it read-only. A file that replaces it
// would not be.
func (f *file) checkWritable() error {
	if f.exists && f.mode&0o200 == 0 {
		return fmt.Errorf("%s is read-only: run chmod u+w %s, then run setup again", f.target, f.target)
	}
	return nil
}

// checkUnchanged returns an error if somebody has written the file since it was read.
func (f *file) checkUnchanged() error {
	now, err := readFile(f.place)
	if err != nil {
		return err
	}
	if now.exists != f.exists || !bytes.Equal(now.text, f.text) {
		return fmt.Errorf("%s was written by another program just now: run setup again", f.target)
	}
	return nil
}

// checkNoLinks returns an error if a link is on the way from a project's folder to the file.
func checkNoLinks(p place) error {
	if p.project == "" {
		return nil
	}
	rel, err := filepath.Rel(p.project, p.path)
	if err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("%s is not in %s", p.path, p.project)
	}
	at := p.project
	for name := range strings.SplitSeq(rel, string(filepath.Separator)) {
		at = filepath.Join(at, name)
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a link, which setup does not follow in a project: whoever wrote the project would choose what is written", at)
		}
	}
	return nil
}

// checkFolder returns an error unless the folder of a file, or the nearest one above that is
// there, belongs to this user.
func checkFolder(path string) error {
	for dir := range parents(path) {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s is no folder", dir)
		}
		return checkOwner(dir, info)
	}
	return fmt.Errorf("%s: %w", path, fs.ErrNotExist)
}

// checkOwner returns an error unless what is at path belongs to this user.
func checkOwner(path string, info fs.FileInfo) error {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to the user with the number %d, not to you: setup changes only your own files", path, s.Uid)
	}
	return nil
}

func groupOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Gid)
	}
	return -1
}

// write makes text the content of the file, with the mode that it had, and makes the folders
// that are missing. Readers see the old text or the new one. If another program has
// written the file since it was read, write returns an error and changes nothing.
func (f *file) write(text []byte) (err error) {
	if len(text) > maxFile {
		return fmt.Errorf("%s would have over %d MiB", f.target, maxFile>>20)
	}
	if err := makeFolders(f.target, f.dirsMode); err != nil {
		return err
	}
	temp := f.target + tempMark
	if err := durable.RewriteFile(temp, text, 0o600); err != nil {
		return err
	}
	if f.exists {
		err = keepGroup(temp, f.gid)
	}
	if err == nil {
		err = os.Chmod(temp, f.mode)
	}
	if err == nil {
		err = f.checkUnchanged()
	}
	if err == nil {
		err = os.Rename(temp, f.target)
	}
	if err != nil {
		os.Remove(temp)
		return err
	}
	return durable.SyncDir(filepath.Dir(f.target))
}

// keepGroup gives the new file the group of the old one.
func keepGroup(path string, gid int) error {
	info, err := os.Lstat(path)
	if err != nil || groupOf(info) == gid || gid < 0 {
		return err
	}
	return os.Chown(path, -1, gid)
}

// parents yields the folders that contain a path, inner ones first.
func parents(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for path != filepath.Dir(path) {
			if path = filepath.Dir(path); !yield(path) {
				return
			}
		}
	}
}

// listMissingFolders returns the folders that a file at path needs and that are not there, outer
// ones first.
func listMissingFolders(path string) (missing []string) {
	for dir := range parents(path) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, dir)
	}
	slices.Reverse(missing)
	return missing
}

// makeFolders makes the folders that a file at path needs.
func makeFolders(path string, mode fs.FileMode) error {
	for _, dir := range listMissingFolders(path) {
		if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) { // or another program has made it just now
			return err
		}
		if err := durable.SyncDir(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the file.
func (f *file) remove() error {
	if err := f.checkUnchanged(); err != nil {
		return err
	}
	if err := os.Remove(f.target); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(f.target))
}

// removeEmptyFolders removes those of these folders that are empty, inner ones first.
func removeEmptyFolders(dirs []string) {
	slices.SortFunc(dirs, func(a, b string) int { return len(b) - len(a) })
	for _, dir := range dirs {
		os.Remove(dir)
	}
}
