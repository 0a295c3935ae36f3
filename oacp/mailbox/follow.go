package mailbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// follower is what a watch remembers from one scan to the next.
type follower struct {
	read  map[string]seen   // files, by path
	told  map[string]string // errors, by what they are about
	next  map[string]string // the same of this scan
	found map[string]bool   // files of this scan
	soon  bool              // something is unfinished

	inboxes []string // folders of this scan
}

// seen is a file as it was read.
type seen struct {
	info    fs.FileInfo
	at      time.Time // when it was first seen like this
	message stateMessage
	whole   bool // it has all that a message needs
	err     error
}

// errUnsettled says that a file may still be being written.
var errUnsettled = errors.New("not yet whole")

func (f *follower) begin() {
	f.next, f.found = make(map[string]string), make(map[string]bool)
	f.inboxes, f.soon = nil, false
}

// end forgets what is no longer there, and returns the folders to listen at.
func (f *follower) end() (inboxes []string, soon bool) {
	f.told = f.next
	for path := range f.read {
		if !f.found[path] {
			delete(f.read, path)
		}
	}
	return f.inboxes, f.soon
}

// once passes on every event but the errors that the scan before had too.
func (f *follower) once(emit func(Event)) func(Event) {
	return func(e Event) {
		if e.Event == WatchError {
			about := e.Path
			if e.Project != nil {
				about = *e.Project + "\x00" + about
			}
			f.next[about] = e.Error
			if f.told[about] == e.Error {
				return
			}
		}
		emit(e)
	}
}

// message opens a file for each state of it, and tells it only when it is whole
// or has not changed for a while.
func (f *follower) message(path string, before map[string]stateMessage) (stateMessage, time.Time, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return stateMessage{}, time.Time{}, err
	}
	s, ok := f.read[path]
	if !ok || !os.SameFile(s.info, info) || s.info.Size() != info.Size() || !s.info.ModTime().Equal(info.ModTime()) {
		s = seen{info: info, at: time.Now()}
		e := open(path)
		s.message, s.whole, s.err = e.state(), e.Err == nil && len(e.Message.Validate()) == 0, e.Err
		f.read[path] = s
	}
	f.found[path] = true
	if !s.whole && time.Since(s.at) < settling {
		f.soon = true
		if m, told := before[cursorName(filepath.Base(path))]; told {
			return m, info.ModTime(), nil
		}
		return s.message, time.Time{}, errUnsettled
	}
	return s.message, info.ModTime(), s.err
}
