package durable

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// PrivateMode is the mode of files that only their owner can read and write.
const PrivateMode = 0o600

// Problem is why a file that should be private is not fit for use.
type Problem string

const (
	ProblemCorrupt    Problem = "is corrupt"
	ProblemTooOpen    Problem = "is open to others than its owner"
	ProblemSymlink    Problem = "is a symbolic link"
	ProblemNotRegular Problem = "is not a regular file"
	ProblemForeign    Problem = "belongs to another user"
)

// FileError reports that a file that should be private exists and is not fit for use, and
// what a person can do. It never contains the content.
type FileError struct {
	Path    string
	Problem Problem
	Detail  string
	Remedy  string
}

func (e *FileError) Error() string {
	return fmt.Sprintf("%s %s (%s): %s", e.Path, e.Problem, e.Detail, e.Remedy)
}

// OwnWords returns the text.
func (e *FileError) OwnWords() string { return e.Error() }

// ReadPrivateFile reads a regular file of at most limit bytes that belongs to this user and is open to nobody
// else. It checks the open file and not the path, so it reads the same file that it has checked.
func ReadPrivateFile(path string, limit int64) ([]byte, error) {
	// O_NONBLOCK: opening a pipe that somebody put there must not hang.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		if info, lerr := os.Lstat(path); lerr == nil {
			if perr := checkPrivateFile(path, info); perr != nil {
				return nil, perr
			}
		}
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkPrivateFile(path, info); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, &FileError{path, ProblemCorrupt, fmt.Sprintf("over %d bytes", limit), "move it away"}
	}
	return data, nil
}

func checkPrivateFile(path string, info fs.FileInfo) error {
	mode := info.Mode()
	switch {
	case mode&fs.ModeSymlink != 0:
		return &FileError{path, ProblemSymlink, "links are not followed", "put the file itself there"}
	case !mode.IsRegular():
		return &FileError{path, ProblemNotRegular, mode.Type().String(), "move it away"}
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return &FileError{path, ProblemForeign, fmt.Sprintf("uid %d, not %d", stat.Uid, os.Geteuid()),
			"run as its owner, or choose another home directory"}
	}
	if mode.Perm()&^PrivateMode != 0 {
		return &FileError{path, ProblemTooOpen, fmt.Sprintf("mode %04o", mode.Perm()), "run chmod 600 " + path}
	}
	return nil
}
