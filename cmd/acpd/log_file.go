package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
)

// maxLogFile bounds the log file, in bytes. The previous file stays in the same folder.
const maxLogFile = 8 << 20

// logFile is a log in a file that is bounded: a full one is renamed, in place of the one that
// was renamed before. It is for where nobody else rotates the log, as under launchd; where somebody
// does, or empties the folder, the next line begins a new file.
type logFile struct {
	path string
	most int64

	mu   sync.Mutex // guards the rest
	file *os.File
}

// openLogFile opens or makes the log file at path. Only its owner can read and write a new file.
// The runtime writes the report of a crash there too.
func openLogFile(path string, most int64) (*logFile, error) {
	l := &logFile{path: path, most: most}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("--log-file: %w: name a file that acpd may write", err)
	}
	return l, nil
}

func (l *logFile) open() error {
	// O_NONBLOCK: opening a FIFO without a reader must not block the start of acpd.
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", l.path)
	}
	if err != nil {
		f.Close()
		return err
	}
	debug.SetCrashOutput(f, debug.CrashOptions{}) // best effort: the log works without
	if l.file != nil {
		l.file.Close()
	}
	l.file = f
	return nil
}

// Write writes one line. If the file has become too large for it, a new one is begun.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if size := l.findSize(); size > 0 && size+int64(len(line)) > l.most {
		l.beginFile()
	}
	return l.file.Write(line)
}

// findSize returns the size of the file at the path. If that is not the open file, or does not exist,
// it first opens or makes it. If it cannot, the old file stays open.
func (l *logFile) findSize() int64 {
	have, err := l.file.Stat()
	named, nameErr := os.Stat(l.path)
	if (nameErr != nil || !os.SameFile(have, named)) && l.open() == nil {
		have, err = l.file.Stat()
	}
	if err != nil {
		return 0
	}
	return have.Size()
}

// beginFile begins a new file in place of the full one. Somebody may have removed that, or have
// left no room for another just when it had been renamed: then there is nothing to rename. If no new
// file can be made, the full one is emptied, so that the bound holds.
func (l *logFile) beginFile() {
	err := os.Rename(l.path, l.path+".old")
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = l.open()
	}
	if err != nil {
		l.file.Truncate(0)
	}
}
