package transfer

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/kinds"
)

// storeFile stores data under name, or under name_2 and so on if another message has that name.
// It returns the name when the file is durable. A file with the same bytes is the same message.
// Readers never see a part of the file: it is written as temp, which no reader takes for mail,
// and then linked. Nobody else writes temp, so an old file of that name was left behind.
func storeFile(dir *os.Root, temp, name string, data []byte) (string, error) {
	if err := dir.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if there := findFileByHash(dir, name, int64(len(data)), sha256.Sum256(data)); there != "" {
		return there, durable.SyncRoot(dir)
	}
	err := durable.CreateFileIn(dir, temp, data, fileMode)
	if err != nil {
		return "", err
	}
	defer dir.Remove(temp)
	for _, final := range makeNumberedNames(name) {
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
	return "", err // another message was quicker; the sender tries again
}

// maxNumbered bounds the messages of one name in a folder: in an inbox, each is read before the
// next gets its name.
const maxNumbered = 16

// checkFreeFileName fails if an inbox has no name left for a message, which is not there already.
func checkFreeFileName(dir *os.Root, name string, size int64, hash [sha256.Size]byte) error {
	for _, n := range makeNumberedNames(name) {
		if _, err := dir.Lstat(n); errors.Is(err, fs.ErrNotExist) || fileMatchesHash(dir, n, size, hash) {
			return nil
		}
	}
	return &singleMessageError{kinds.Errorf(kinds.Overloaded, "%d messages of the name %s wait there to be read: it is tried again", maxNumbered, name)}
}

// fileMatchesHash reports whether a file has this size and hash. It reads no file of another size;
// size 0 means any.
func fileMatchesHash(dir *os.Root, name string, size int64, hash [sha256.Size]byte) bool {
	if info, err := dir.Lstat(name); err != nil || size != 0 && info.Size() != size {
		return false
	}
	l, err := readMailFile(dir, name)
	return err == nil && l.hash == hash
}

// makeNumberedNames returns the names that a message may have: its own, then name_2 and so on.
func makeNumberedNames(name string) []string {
	stem := strings.TrimSuffix(name, extension)
	all := []string{name}
	for i := 2; i <= maxNumbered; i++ {
		all = append(all, fmt.Sprintf("%s_%d%s", stem, i, extension))
	}
	return all
}

// findFileByHash returns the name that a message has in dir, or "" if it is not there. It tries
// all names, because messages with earlier numbers may be gone.
func findFileByHash(dir *os.Root, name string, size int64, hash [sha256.Size]byte) string {
	for _, n := range makeNumberedNames(name) {
		if fileMatchesHash(dir, n, size, hash) {
			return n
		}
	}
	return ""
}
