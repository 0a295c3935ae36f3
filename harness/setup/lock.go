package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockPatience  = 3 * time.Second
	statePatience = 10 * time.Second // for another setup, which may wait for a program's lock
	lockStale     = 10 * time.Second // a program's lock that is older was left by a crash
	lockAgain     = 20 * time.Millisecond
	lockFile      = "lock" // in the state folder
)

// lockState keeps other processes from setting up and undoing at the same time. Two of them would write
// the same files under the same temporary names, and records that do not fit the files. The caller
// calls unlock, which leaves no empty state folder behind.
func (o *Options) lockState(patience time.Duration) (unlock func(), err error) {
	path := filepath.Join(o.State, lockFile)
	folders := append(listMissingFolders(path), o.State)
	for end := time.Now().Add(patience); ; time.Sleep(lockAgain) {
		held, err := tryLock(path)
		isOver := time.Now().After(end)
		switch {
		case err != nil && (isOver || !errors.Is(err, fs.ErrNotExist)):
			return nil, fmt.Errorf("keep others from setting up: %w", err)
		case held != nil:
			return func() {
				os.Remove(path)
				removeEmptyFolders(folders)
				held.Close()
			}, nil
		case err == nil && isOver:
			return nil, fmt.Errorf("another acpctl setup is writing, and holds %s: wait for its end, then run setup again", path)
		}
	}
}

// tryLock makes the file at path, with its folders, and locks the file until it is closed. It returns
// nil if another process has locked the file. The error is fs.ErrNotExist if another process has just
// removed the file, or a folder of it.
func tryLock(path string) (*os.File, error) {
	if err := makeFolders(path, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		var own, now fs.FileInfo
		if own, err = f.Stat(); err == nil {
			if now, err = os.Lstat(path); err == nil && os.SameFile(own, now) {
				return f, nil
			}
		}
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	return nil, err
}

// lockPlace keeps the program from writing the file, as long as its own processes keep each other
// from it. The caller calls unlock.
func lockPlace(p place) (unlock func(), err error) {
	if p.lock == "" {
		return func() {}, nil
	}
	if _, err := os.Stat(filepath.Dir(p.lock)); errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil // nobody writes there
	}
	for end := time.Now().Add(lockPatience); ; {
		err := os.Mkdir(p.lock, 0o755)
		if err == nil {
			return func() { os.Remove(p.lock) }, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if info, err := os.Lstat(p.lock); err == nil && info.IsDir() && time.Since(info.ModTime()) > lockStale {
			os.Remove(p.lock)
			continue
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%s is being written by another program, which holds %s: try again", p.path, p.lock)
		}
		time.Sleep(lockAgain)
	}
}
