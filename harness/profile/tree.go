package profile

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// removeTree removes a folder, also if a run has taken rights from its folders.
func removeTree(folder string) error {
	err := os.RemoveAll(folder)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			root.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(folder)
}

const (
	entrySize = 512     // bytes that are added for each file and folder
	maxDepth  = 100     // of folders in each other: a tree with deeper ones is too large
	readOnce  = 1 << 10 // names of a folder that are read at once
)

// measureTree returns how many bytes the files below a folder have, and stops over most. A run could
// hide files where they cannot be measured, such as in a folder that may not be read. The size of
// such a tree is more than most.
func measureTree(folder string, most int64) int64 {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return most + 1
	}
	return measureFolder(root, most, maxDepth)
}

// measureFolder is [measureTree] for an open folder, which it closes.
func measureFolder(folder *os.Root, most int64, depth int) (size int64) {
	defer folder.Close()
	names, err := folder.Open(".")
	if err != nil || depth == 0 {
		return most + 1
	}
	defer names.Close()
	for size <= most {
		entries, err := names.ReadDir(readOnce)
		for _, e := range entries {
			size += entrySize + measureEntry(folder, e, most-size, depth)
		}
		if errors.Is(err, io.EOF) {
			return size
		}
		if err != nil {
			return most + 1
		}
	}
	return size
}

func measureEntry(folder *os.Root, e fs.DirEntry, most int64, depth int) int64 {
	if e.IsDir() {
		below, err := folder.OpenRoot(e.Name())
		if err != nil {
			return most + 1
		}
		return measureFolder(below, most, depth-1)
	}
	info, err := e.Info()
	switch {
	case err != nil:
		return most + 1
	case info.Mode().IsRegular():
		return info.Size()
	}
	return 0
}
