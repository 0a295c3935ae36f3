package transfer

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/oacp/message"
)

// fileVersion distinguishes states of a file without reading it.
type fileVersion struct {
	inode uint64
	size  int64
	mtime int64
}

func newFileVersion(info fs.FileInfo) fileVersion {
	m := fileVersion{size: info.Size(), mtime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		m.inode = st.Ino
	}
	return m
}

// readFolderInode returns the number that distinguishes a folder from one that replaces it. The
// device is not part of it, because a disk may have another device at the next start.
func readFolderInode(dir *os.Root) (uint64, error) {
	info, err := dir.Stat(".")
	if err != nil {
		return 0, err
	}
	return newFileVersion(info).inode, nil
}

// mailFile is the content of a message's file.
type mailFile struct {
	version fileVersion
	hash    [sha256.Size]byte
	data    []byte
}

// errChanging means that a file was written while it was read.
var errChanging = ownwords.New("it is being written")

// unfitError is the reason for which a file cannot be mail.
type unfitError string

func (e unfitError) Error() string { return string(e) }

// readMailFile reads a message's file. It follows no link and does not block on a FIFO.
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
	if reason := explainUnfitFile(before); reason != "" {
		return nil, unfitError(reason)
	}
	l := &mailFile{version: newFileVersion(before)}
	if l.data, err = io.ReadAll(io.LimitReader(f, message.MaxBytes+1)); err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if int64(len(l.data)) != l.version.size || newFileVersion(after) != l.version {
		return nil, errChanging
	}
	l.hash = sha256.Sum256(l.data)
	return l, nil
}

// explainUnfitFile returns the reason for which a file cannot be mail, or "" if it can be.
func explainUnfitFile(info fs.FileInfo) string {
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

// isHiddenName reports whether readers of folders ignore a name.
func isHiddenName(name string) bool { return strings.HasPrefix(name, ".") }
