// Package durable writes files that are whole whenever somebody sees them, and that
// outlast a loss of power.
//
// A file comes about in three steps. [CreateFile] or [RewriteFile] writes it under a temporary
// name, a rename or a hard link gives it its own name, and [SyncDir] makes that name last.
// [ReplaceFile] does all three.
//
// [ReadPrivateFile] reads a file that only its owner can read and write, and [ReadRegularFile] one that anybody
// may have written.
//
// The package leaves to its callers what temporary names look like and who sweeps those
// that a crash has left: by its mark a program tells its own from another's.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// newFile are the flags that make a file, and never open one that is there or follow a symbolic link.
const newFile = os.O_WRONLY | os.O_CREATE | os.O_EXCL | syscall.O_NOFOLLOW

// CreateFile writes data into a new file, which is on disk when CreateFile returns. It returns
// [fs.ErrExist] if path is taken, and leaves no file behind if it fails, as on a full disk.
func CreateFile(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, newFile, mode)
	if err != nil {
		return err
	}
	if err = writeAndCloseFile(f, data); err != nil {
		os.Remove(path)
	}
	return err
}

// CreateFileIn is [CreateFile] for a file in an open folder.
func CreateFileIn(dir *os.Root, name string, data []byte, mode fs.FileMode) error {
	f, err := dir.OpenFile(name, newFile, mode)
	if err != nil {
		return err
	}
	if err = writeAndCloseFile(f, data); err != nil {
		dir.Remove(name)
	}
	return err
}

// RewriteFile is [CreateFile] after it has removed the file that a crash may have left at path. It suits a
// temporary name that only one process at a time uses.
func RewriteFile(path string, data []byte, mode fs.FileMode) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return CreateFile(path, data, mode)
}

// ReplaceFile makes data the content of path, by way of the file temp in the same folder.
// Readers see the old file or the new one. If ReplaceFile fails, it leaves no temp behind.
func ReplaceFile(path, temp string, data []byte, mode fs.FileMode) error {
	if err := RewriteFile(temp, data, mode); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// renameByLink is [RenameIfAbsent] where the system cannot rename without replacing.
func renameByLink(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}

// SyncDir makes the names in a folder last.
func SyncDir(path string) error {
	return syncAndCloseDir(os.Open(path))
}

// SyncRoot makes the names in an open folder last.
func SyncRoot(dir *os.Root) error {
	return syncAndCloseDir(dir.Open("."))
}

func syncAndCloseDir(dir *os.File, err error) error {
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// writeAndCloseFile writes and closes a new file.
func writeAndCloseFile(f *os.File, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
