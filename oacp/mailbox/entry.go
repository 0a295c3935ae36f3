package mailbox

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpd/acpd/internal/durable"
	"github.com/acpd/acpd/oacp/message"
)

// Entry is a message file that was read.
type Entry struct {
	Name    string // of the file
	Path    string
	Info    fs.FileInfo // nil if the file could not be opened
	Data    []byte
	Message message.Message // zero if Err is not nil
	Err     error           // why it cannot be read as a message
}

// readMessageEntry reads a message file. The error of the entry is fs.ErrNotExist if the file is
// gone.
func readMessageEntry(path string) Entry {
	e := Entry{Name: filepath.Base(path), Path: path}
	if e.Data, e.Info, e.Err = readFile(path); e.Err != nil {
		return e
	}
	var d *message.Document
	if d, e.Err = message.ParseDocument(e.Data); e.Err == nil {
		e.Message = d.ToMessage()
	}
	return e
}

// listMessageFiles returns the sorted names of the message files in a folder: regular files that
// are not hidden and whose names end in .yaml.
func listMessageFiles(dir string) ([]string, error) {
	return listEntryNames(dir, func(e fs.DirEntry) bool { return e.Type().IsRegular() && isMessageName(e.Name()) })
}

// readMessageEntries reads the message files of a folder, sorted by name. It returns none if the
// folder does not exist, and skips files that are gone before it reads them.
func readMessageEntries(dir string) ([]Entry, error) {
	names, err := listMessageFiles(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	all := make([]Entry, len(names))
	var next atomic.Int64
	var readers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(names)) { // parsing takes most of the time
		readers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(names)); i = next.Add(1) - 1 {
				all[i] = readMessageEntry(filepath.Join(dir, names[i]))
			}
		})
	}
	readers.Wait()
	return slices.DeleteFunc(all, func(e Entry) bool { return errors.Is(e.Err, fs.ErrNotExist) }), err
}

// ReadInbox returns the messages in the agent's inbox, in the order of their names.
func (a Agent) ReadInbox() ([]Entry, error) { return readMessageEntries(a.Inbox()) }

// sortEntriesByUrgency sorts entries in the order in which their receiver should process them, and
// equal ones by name.
func sortEntriesByUrgency(entries []Entry, now time.Time) {
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(message.CompareUrgency(a.Message, b.Message, now), strings.Compare(a.Name, b.Name))
	})
}

// FindMessageIn returns a message from the first of the folders that has it. ref is the name or
// path of its file, or its id.
func FindMessageIn(ref string, dirs ...string) (Entry, error) {
	for _, dir := range dirs {
		if name := filepath.Base(ref); isMessageName(name) && (name == ref || filepath.Dir(ref) == dir) {
			if e := readMessageEntry(filepath.Join(dir, name)); !errors.Is(e.Err, fs.ErrNotExist) {
				return e, nil
			}
		}
	}
	for _, dir := range dirs {
		all, err := readMessageEntries(dir)
		if err != nil {
			return Entry{}, err
		}
		all = slices.DeleteFunc(all, func(e Entry) bool { return e.Err != nil || e.Message.ID != strings.TrimSpace(ref) })
		switch all = slices.CompactFunc(all, func(a, b Entry) bool { return bytes.Equal(a.Data, b.Data) }); {
		case len(all) == 1:
			return all[0], nil
		case len(all) > 1:
			return Entry{}, fmt.Errorf("%d files have the id '%s': name one of them, for example %s", len(all), ref, all[0].Name)
		}
	}
	return Entry{}, &NotFoundError{fmt.Sprintf("message '%s' not found in %s", ref, strings.Join(dirs, ", ")), ""}
}

// FindMessage returns a message that the agent got or sent: from its inbox, its archive or
// its outbox, in this order. See [FindMessageIn].
func (a Agent) FindMessage(ref string) (Entry, error) {
	return FindMessageIn(ref, a.Inbox(), a.Archive(), a.Outbox())
}

// CreatedAt returns the time that the message gives, else the time of its file.
func (e Entry) CreatedAt() time.Time {
	t, err := time.Parse(message.StampLayout, e.Message.Created)
	if err != nil && e.Info != nil {
		t = e.Info.ModTime()
	}
	return t
}

// toCursorMessage returns what listings and events show of a message.
func (e Entry) toCursorMessage() cursorMessage {
	return cursorMessage{
		File: e.Name, From: cmp.Or(e.Message.From, "?"), Priority: cmp.Or(e.Message.Priority, "?"),
		Subject: cmp.Or(e.Message.Subject, "(no subject)"), Type: cmp.Or(e.Message.Type, "?"),
	}
}

// FinishMessage takes a message out of the inbox. It moves the file unchanged into
// inbox/archive/ and returns its path there. If discard is set, it removes the file. It refuses a
// file that is no longer the one that was read.
func (a Agent) FinishMessage(e Entry, discard bool) (string, error) {
	if e.Info == nil {
		return "", fmt.Errorf("done: %s: %w", e.Path, e.Err)
	}
	info, err := os.Lstat(e.Path)
	if err != nil {
		return "", fmt.Errorf("done: %w", err)
	}
	if !os.SameFile(info, e.Info) || info.Size() != e.Info.Size() || !info.ModTime().Equal(e.Info.ModTime()) {
		return "", fmt.Errorf("done: %s changed since it was read: read it again", e.Path)
	}
	if discard {
		if err := os.Remove(e.Path); err != nil {
			return "", fmt.Errorf("done: %w", err)
		}
		return "", durable.SyncDir(a.Inbox())
	}
	if err := os.Mkdir(a.Archive(), folderMode); err != nil && !isFolder(a.Archive()) {
		return "", fmt.Errorf("done: %w", err)
	}
	path, err := publishFile(e.Path, filepath.Join("archive", e.Name), e.Data)
	if err == nil {
		err = errors.Join(durable.SyncDir(a.Archive()), durable.SyncDir(a.Inbox()))
	}
	if err != nil {
		return "", fmt.Errorf("done: %w", err)
	}
	return path, nil
}
