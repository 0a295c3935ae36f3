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

	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// keyNames are patterns of names that keys and passwords usually have. They stop mistakes, and nobody who gives a key
// another name.
var keyNames = []string{"*.pem", "*.key", "*.p12", "id_*", "*.kdbx", "credentials*"}

// openToSend opens a regular file below the session's folder. It follows no link. It refuses what programs keep below
// names with a dot, and what looks like a key. The caller closes the file.
func openToSend(path string) (f *os.File, info fs.FileInfo, err error) {
	local, err := checkMaySend(path)
	if err != nil {
		return nil, nil, err
	}
	session, err := os.OpenRoot(".")
	if err != nil {
		return nil, nil, err
	}
	defer session.Close()
	before, err := describeNoLink(session, local)
	if err == nil && !before.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err == nil {
		f, err = session.OpenFile(local, os.O_RDONLY|syscall.O_NONBLOCK, 0) // without O_NONBLOCK, a named pipe would block it
	}
	if err != nil {
		return nil, nil, kinds.Errorf(kinds.Invalid, "path: %v", err)
	}
	if info, err = f.Stat(); err != nil || !os.SameFile(before, info) {
		f.Close()
		return nil, nil, kinds.Errorf(kinds.Invalid, "path: it was replaced meanwhile: call again")
	}
	return f, info, nil
}

// checkMaySend returns a path from the session's folder, if a file there may be sent.
func checkMaySend(path string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if dir == string(filepath.Separator) || hasHome(dir) {
		return "", kinds.Errorf(kinds.NotAuthorized, "path: this session's folder is %s: nothing is sent from there; your user can start the program in the folder of the project", dir)
	}
	local := filepath.Clean(path)
	if filepath.IsAbs(local) {
		if local, err = filepath.Rel(dir, local); err != nil {
			return "", err
		}
	}
	if path == "" || local == "." || !filepath.IsLocal(local) {
		return "", kinds.Errorf(kinds.Invalid, "path: only files below the session's folder are sent, which is %s", dir)
	}
	parts := strings.Split(local, string(filepath.Separator))
	if slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(part, ".") }) {
		return "", kinds.Errorf(kinds.NotAuthorized, "path: a part of it begins with a dot: such files are not sent")
	}
	for _, pattern := range keyNames {
		if matches, _ := filepath.Match(pattern, strings.ToLower(parts[len(parts)-1])); matches {
			return "", kinds.Errorf(kinds.NotAuthorized, "path: a file with a name like %s may be a key: such files are not sent", pattern)
		}
	}
	return local, nil
}

// hasHome reports whether a folder is the user's home or one above it.
func hasHome(dir string) bool {
	home, err := os.UserHomeDir()
	if err != nil {
		return false
	}
	if home, err = filepath.EvalSymlinks(home); err != nil || !filepath.IsAbs(home) {
		return false
	}
	for !isSameFolder(dir, home) {
		if home == filepath.Dir(home) {
			return false
		}
		home = filepath.Dir(home)
	}
	return true
}

// isSameFolder reports whether two paths are of one folder.
func isSameFolder(a, b string) bool {
	one, err := os.Stat(a)
	other, otherErr := os.Stat(b)
	return err == nil && otherErr == nil && os.SameFile(one, other)
}

// describeNoLink describes what is at a path below a folder. No folder on the way may be a link.
func describeNoLink(in *os.Root, path string) (fs.FileInfo, error) {
	if folder := filepath.Dir(path); folder != "." {
		if info, err := describeNoLink(in, folder); err != nil {
			return nil, err
		} else if !info.IsDir() {
			return nil, fmt.Errorf("%s is no folder", folder)
		}
	}
	return in.Lstat(path)
}

// takenFolder is the folder below the session's folder in which files of peers are, each in a folder of its own.
const takenFolder = ".acp"

// makeTakenFolder makes the folder of a file, which git does not see, and returns its path from the session's folder.
// No part of it is a peer's word.
func makeTakenFolder(session *os.Root) (string, error) {
	if err := session.Mkdir(takenFolder, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := session.Lstat(takenFolder)
	switch {
	case err != nil:
		return "", err
	case !info.IsDir():
		return "", fmt.Errorf("%s is no folder", takenFolder)
	case int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
		return "", fmt.Errorf("%s is another user's", takenFolder)
	}
	if ignore, err := session.OpenFile(filepath.Join(takenFolder, ".gitignore"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
		io.WriteString(ignore, "*\n") // without it, git shows the folder, and nothing else happens
		ignore.Close()
	}
	folder := filepath.Join(takenFolder, wire.NewMessageID().String())
	return folder, session.Mkdir(folder, 0o700)
}
