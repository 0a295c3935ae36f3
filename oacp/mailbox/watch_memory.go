package mailbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// watchMemory is what a watch remembers from one scan to the next.
type watchMemory struct {
	read     map[string]scannedFile // by path
	reported map[string]string      // errors of the scan before, by their subjects
	errors   map[string]string      // errors of this scan
	found    map[string]bool        // files of this scan
	soon     bool                   // a file of this scan is unfinished

	inboxes []string // folders of this scan
}

// scannedFile is a file as it was read.
type scannedFile struct {
	info    fs.FileInfo
	since   time.Time // when it was first like this
	message cursorMessage
	whole   bool // it is a valid message, and so complete
	err     error
}

// errUnsettled means that a file may still be being written.
var errUnsettled = errors.New("not yet whole")

// newRepeatedErrorFilter returns a function that calls emit for every event except errors that the
// last scan had too.
func (m *watchMemory) newRepeatedErrorFilter(emit func(Event)) func(Event) {
	return func(e Event) {
		if e.Event == WatchError {
			about := e.Path
			if e.Project != nil {
				about = *e.Project + "\x00" + about
			}
			m.errors[about] = e.Error
			if m.reported[about] == e.Error {
				return
			}
		}
		emit(e)
	}
}

// readSettledFile reads a file again only after a change. It returns errUnsettled until the file is
// complete or has not changed for a while.
func (m *watchMemory) readSettledFile(path string, before map[string]cursorMessage) (cursorMessage, time.Time, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return cursorMessage{}, time.Time{}, err
	}
	s, ok := m.read[path]
	if !ok || !os.SameFile(s.info, info) || s.info.Size() != info.Size() || !s.info.ModTime().Equal(info.ModTime()) {
		s = scannedFile{info: info, since: time.Now()}
		e := readMessageEntry(path)
		s.message, s.whole, s.err = e.toCursorMessage(), e.Err == nil && len(e.Message.Validate()) == 0, e.Err
		m.read[path] = s
	}
	m.found[path] = true
	if !s.whole && time.Since(s.since) < settleTime {
		m.soon = true
		if message, told := before[toCursorFileName(filepath.Base(path))]; told {
			return message, info.ModTime(), nil
		}
		return s.message, time.Time{}, errUnsettled
	}
	return s.message, info.ModTime(), s.err
}
