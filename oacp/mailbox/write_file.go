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

// Other users have no access to files and folders that are made here: mail is private, and
// whoever can write into an inbox can write in any name.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

// tempMark is in the names of temporary files, which must not end in .yaml. The daemon has
// another mark, because at its start it removes the files that it has left behind.
const tempMark = ".tmp-acpctl-"

// publishFile moves a file to name, relative to its folder. If that is taken, it tries name_2,
// name_3 and so on, with the number before the ending. If one of these files holds data
// already, publishFile only removes the file. It returns the path.
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

// createMissingFile writes a file, unless it is there. Readers see it whole or not at all.
func createMissingFile(path, text string) error {
	removeStagedFiles(path)
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	err := writeFileAtomically(path, []byte(text), durable.RenameIfAbsent)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// replaceFile writes a file of the tool's own. Readers see the old or the new one, whole.
func replaceFile(path string, data []byte) error {
	removeStagedFiles(path)
	return writeFileAtomically(path, data, os.Rename)
}

// writeFileAtomically writes a temporary file, which rename brings to its place. If another process
// has removed that, taking it for one that was left behind, it writes the next.
func writeFileAtomically(path string, data []byte, rename func(from, to string) error) error {
	for n := 1; ; n++ {
		temp, err := stageFile(filepath.Dir(path), stagedFileName(path), data)
		if err != nil {
			return err
		}
		if err = rename(temp, path); err == nil {
			return nil
		}
		os.Remove(temp)
		if !errors.Is(err, fs.ErrNotExist) || n == maxStaged {
			return err
		}
	}
}

// maxStaged bounds the attempts to write a file that others remove.
const maxStaged = 100

// stagedFileName returns the part of the names of a file's temporary files that is its own.
func stagedFileName(path string) string { return strings.TrimPrefix(filepath.Base(path), ".") }

// removeStagedFiles removes the temporary files that killed processes have left behind, as well
// as it can. A process that is at work writes another.
func removeStagedFiles(path string) {
	left, _ := filepath.Glob(filepath.Join(quoteGlob(filepath.Dir(path)), quoteGlob("."+stagedFileName(path)+tempMark)+"????????"))
	for _, temp := range left {
		os.Remove(temp)
	}
}

// quoteGlob makes a pattern that matches one name alone.
var quoteGlob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace

// makeFolder makes a folder that is missing. A link is none.
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
