package mcp

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// keyNames are patterns of names that keys and passwords usually have. They stop mistakes, and nobody who gives a key
// another name.
var keyNames = []string{"*.pem", "*.key", "*.p12", "id_*", "*.kdbx", "credentials*"}

// errReplaced is the error of a file or folder that somebody has replaced while it was opened.
var errReplaced = errors.New("it was replaced meanwhile: call again")

// openToSend opens a regular file below the session's folder. It follows no link. It refuses what programs keep below
// names with a dot, and what looks like a key. The caller closes the file.
func openToSend(path string) (*os.File, fs.FileInfo, error) {
	parts, err := splitToSend(path)
	if err != nil {
		return nil, nil, err
	}
	folder, err := os.OpenRoot(".")
	for _, name := range parts[:len(parts)-1] {
		if err != nil {
			break
		}
		above := folder
		folder, err = openFolder(above, name)
		above.Close()
	}
	if err == nil {
		defer folder.Close()
		var f *os.File
		var info fs.FileInfo
		if f, info, err = openRegular(folder, parts[len(parts)-1]); err == nil {
			return f, info, nil
		}
	}
	return nil, nil, kinds.Errorf(kinds.Invalid, "path: %v", err)
}

// splitToSend returns the parts of a path below the session's folder, if a file there may be sent.
func splitToSend(path string) ([]string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	local := filepath.Clean(path)
	if filepath.IsAbs(local) {
		if local, err = filepath.Rel(dir, local); err != nil {
			return nil, err
		}
	}
	if path == "" || local == "." || !filepath.IsLocal(local) {
		return nil, kinds.Errorf(kinds.Invalid, "path: only files below the session's folder are sent, which is %s", dir)
	}
	parts := strings.Split(local, string(filepath.Separator))
	if slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(part, ".") }) {
		return nil, kinds.Errorf(kinds.NotAuthorized, "path: a part of it begins with a dot: such files are not sent")
	}
	for _, pattern := range keyNames {
		if matches, _ := filepath.Match(pattern, strings.ToLower(parts[len(parts)-1])); matches {
			return nil, kinds.Errorf(kinds.NotAuthorized, "path: a file with a name like %s may be a key: such files are not sent", pattern)
		}
	}
	return parts, nil
}

// openFolder opens a folder in another one, which is not a link to one.
func openFolder(in *os.Root, name string) (*os.Root, error) {
	before, err := in.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.IsDir() {
		return nil, fmt.Errorf("%s is no folder", name)
	}
	folder, err := in.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if after, err := folder.Stat("."); err != nil || !os.SameFile(before, after) {
		folder.Close()
		return nil, errReplaced
	}
	return folder, nil
}

// openRegular opens a regular file in a folder. It does not block on a named pipe that somebody puts in its place.
func openRegular(in *os.Root, name string) (*os.File, fs.FileInfo, error) {
	before, err := in.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is no regular file", name)
	}
	f, err := in.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	after, err := f.Stat()
	if err != nil || !os.SameFile(before, after) {
		f.Close()
		return nil, nil, errReplaced
	}
	return f, after, nil
}

const (
	takenFolder = ".acp" // below the session's folder: files of peers, each in a folder of its own
	takenName   = "content"
)

// takenFile is a file of a peer that is written below the session's folder. No part of its path is a peer's word but an
// ending of letters and digits.
type takenFile struct {
	id     string // of its folder
	all    *os.Root
	folder *os.Root
	name   string
	out    *os.File
}

// newTakenFile makes the folder of a file. The caller calls close.
func newTakenFile() (*takenFile, error) {
	session, err := os.OpenRoot(".")
	if err != nil {
		return nil, err
	}
	defer session.Close()
	if err := session.Mkdir(takenFolder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	all, err := openFolder(session, takenFolder)
	if err != nil {
		return nil, err
	}
	t := &takenFile{id: wire.NewMessageID().String(), all: all}
	if t.folder, err = t.makeFolder(); err != nil {
		all.Close()
		return nil, err
	}
	return t, nil
}

// makeFolder makes the file's folder, and lets git see none of them.
func (t *takenFile) makeFolder() (*os.Root, error) {
	info, err := t.all.Stat(".")
	if err != nil {
		return nil, err
	}
	if int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s is another user's", takenFolder)
	}
	if ignore, err := t.all.OpenFile(".gitignore", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
		io.WriteString(ignore, "*\n") // without it, git shows the folder, and nothing else happens
		ignore.Close()
	}
	if err := t.all.Mkdir(t.id, 0o700); err != nil {
		return nil, err
	}
	return openFolder(t.all, t.id)
}

// create makes the file.
func (t *takenFile) create(f *client.File) (err error) {
	t.name = takenName + f.Ending()
	t.out, err = t.folder.OpenFile(t.name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	return err
}

// close ends the writing. A file that is not whole is removed.
func (t *takenFile) close(whole bool) (err error) {
	if t.out != nil {
		err = t.out.Close()
	}
	if err != nil || !whole {
		if t.name != "" {
			t.folder.Remove(t.name)
		}
		t.all.Remove(t.id)
	}
	t.folder.Close()
	t.all.Close()
	return err
}

// path returns the file's path from the session's folder.
func (t *takenFile) path() string { return filepath.Join(takenFolder, t.id, t.name) }
