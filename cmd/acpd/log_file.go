package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"sync"
)

// maxLogFile bounds the log file, in bytes. The one before stays beside it.
const maxLogFile = 8 << 20

// logFile is a log in a file that is bounded: a full one is renamed, in place of the one that
// was renamed before. It is for where nobody else rotates the log, as under launchd.
type logFile struct {
	path string
	most int64

	mu   sync.Mutex // guards the rest
	file *os.File
	size int64
}

// openLogFile opens the log file at path for its owner alone, and makes it if it is not there.
// What the runtime says of a crash goes there too.
func openLogFile(path string, most int64) (*logFile, error) {
	l := &logFile{path: path, most: most}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("--log-file: %w: name a file that acpd may write", err)
	}
	return l, nil
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	debug.SetCrashOutput(f, debug.CrashOptions{}) // best effort: the log works without
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write writes one line. If the file has become too large for it, a new one is begun; if that
// fails, the line goes into the old one.
func (l *logFile) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(line)) > l.most && os.Rename(l.path, l.path+".old") == nil {
		l.open()
	}
	n, err := l.file.Write(line)
	l.size += int64(n)
	return n, err
}
