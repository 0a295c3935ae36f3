package mailbox

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/acpd/acpd/internal/durable"
)

// stageFile writes data, durably, into a temporary file of dir that is to become name. A
// process that dies leaves at most this file, which no tool takes for a message.
func stageFile(dir, name string, data []byte) (temp string, err error) {
	var random [4]byte
	rand.Read(random[:])
	temp = filepath.Join(dir, "."+name+tempMark+hex.EncodeToString(random[:]))
	if err := durable.CreateFile(temp, data, fileMode); err != nil {
		return "", err
	}
	return temp, nil
}

// Other users cannot access files and folders that are made here: mail is private, and whoever can
// write into an inbox can write in any name.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

// tempMark is in the names of temporary files, which must not end in .yaml. The daemon has
// another mark, because at its start it removes the files that it has left behind.
const tempMark = ".tmp-acpctl-"

// publishFile moves a file to name, relative to its folder, and returns the new path. If the name
// is taken, it tries name_2, name_3 and so on, with the number before the ending. If one of these
// files already has the content data, publishFile only removes the file.
func publishFile(file, name string, data []byte) (string, error) {
	stem := strings.TrimSuffix(name, ".yaml")
	path := filepath.Join(filepath.Dir(file), name)
	for n := 2; ; n++ {
		err := durable.RenameIfAbsent(file, path)
		switch {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrExist) || n > maxNumbered:
			return "", err
		case hasFileContent(path, data):
			return path, os.Remove(file)
		}
		path = filepath.Join(filepath.Dir(file), fmt.Sprintf("%s_%d%s", stem, n, name[len(stem):]))
	}
}

// maxNumbered bounds the files that may want the same name.
const maxNumbered = 1000

// createMissingFile writes a file if it does not exist. Readers see it whole or not at all.
func createMissingFile(path, text string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	err := writeFile(path, []byte(text), durable.RenameIfAbsent)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// writeFile writes a temporary file and renames it to path. Readers see the whole old file or the
// whole new one.
func writeFile(path string, data []byte, rename func(from, to string) error) error {
	temp, err := stageFile(filepath.Dir(path), filepath.Base(path), data)
	if err != nil {
		return err
	}
	if err = rename(temp, path); err != nil {
		os.Remove(temp)
	}
	return err
}

// makeFolder makes a folder if it is missing. It refuses a link.
func makeFolder(dir string) error {
	if isFolder(dir) {
		return nil
	}
	if err := os.MkdirAll(dir, folderMode); err != nil {
		return err
	}
	if !isFolder(dir) {
		return fmt.Errorf("%s is a link: replace it with a folder", dir)
	}
	return durable.SyncDir(filepath.Dir(dir))
}
