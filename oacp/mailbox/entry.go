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

// Entry is a message file as it was found.
type Entry struct {
	Name    string // of the file
	Path    string
	Info    fs.FileInfo // nil if the file could not be opened
	Data    []byte
	Message message.Message // zero if Err is not nil
	Err     error           // why it cannot be read as a message
}

// open reads a message file. One that is gone has fs.ErrNotExist as its error.
func open(path string) Entry {
	e := Entry{Name: filepath.Base(path), Path: path}
	if e.Data, e.Info, e.Err = Read(path); e.Err != nil {
		return e
	}
	var d *message.Document
	if d, e.Err = message.Parse(e.Data); e.Err == nil {
		e.Message = d.Message()
	}
	return e
}

// list returns the names of the message files in a folder, sorted: regular files,
// not links, not hidden, whose names end in .yaml.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && candidate(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// entries reads the message files of a folder, sorted by name; of a folder that is
// not there, none. What is gone before it is read was never there.
func entries(dir string) ([]Entry, error) {
	names, err := list(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	all := make([]Entry, len(names))
	var next atomic.Int64
	var readers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(names)) { // parsing takes most of the time
		readers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(names)); i = next.Add(1) - 1 {
				all[i] = open(filepath.Join(dir, names[i]))
			}
		})
	}
	readers.Wait()
	return slices.DeleteFunc(all, func(e Entry) bool { return errors.Is(e.Err, fs.ErrNotExist) }), err
}

// Entries returns the messages in the agent's inbox, in the order of their names.
func (a Agent) Entries() ([]Entry, error) { return entries(a.Inbox()) }

// byProcessing puts entries in the order in which their receiver should process
// them, those of one time by name.
func byProcessing(entries []Entry, now time.Time) {
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(message.Compare(a.Message, b.Message, now), strings.Compare(a.Name, b.Name))
	})
}

// Find returns the message that ref names in the first of the folders that has it:
// by the name or the path of its file, else by its id.
func Find(ref string, dirs ...string) (Entry, error) {
	for _, dir := range dirs {
		if name := filepath.Base(ref); candidate(name) && (name == ref || filepath.Dir(ref) == dir) {
			if e := open(filepath.Join(dir, name)); !errors.Is(e.Err, fs.ErrNotExist) {
				return e, nil
			}
		}
	}
	for _, dir := range dirs {
		all, err := entries(dir)
		if err != nil {
			return Entry{}, err
		}
		all = slices.DeleteFunc(all, func(e Entry) bool { return e.Err != nil || e.Message.ID != strings.TrimSpace(ref) })
		copies := func(a, b Entry) bool { return bytes.Equal(a.Data, b.Data) }
		switch all = slices.CompactFunc(all, copies); {
		case len(all) == 1:
			return all[0], nil
		case len(all) > 1:
			return Entry{}, fmt.Errorf("%d files have the id '%s': name one of them, for example %s", len(all), ref, all[0].Name)
		}
	}
	return Entry{}, &NotFoundError{fmt.Sprintf("message '%s' not found in %s", ref, strings.Join(dirs, ", ")), ""}
}

// Find returns a message that the agent got or sent: from its inbox, its archive or
// its outbox, in this order. See the function [Find].
func (a Agent) Find(ref string) (Entry, error) {
	return Find(ref, a.Inbox(), a.Archive(), a.Outbox())
}

// Created is when the message was made: what it says, else when its file was written.
func (e Entry) Created() time.Time {
	t, err := time.Parse(stampLayout, e.Message.Created)
	if err != nil && e.Info != nil {
		t = e.Info.ModTime()
	}
	return t
}

// stampLayout is the form of every time in a message.
const stampLayout = "2006-01-02T15:04:05Z"

// state is what is told of a message in one line.
func (e Entry) state() stateMessage {
	return stateMessage{
		File: e.Name, From: cmp.Or(e.Message.From, "?"), Priority: cmp.Or(e.Message.Priority, "?"),
		Subject: cmp.Or(e.Message.Subject, "(no subject)"), Type: cmp.Or(e.Message.Type, "?"),
	}
}

// Done takes a message out of the inbox: into inbox/archive/, under a name that is
// free there and with its bytes and times as they are, or with discard away for
// good. It refuses a file that is no longer the one that was found. It returns the
// path in the archive.
func (a Agent) Done(e Entry, discard bool) (string, error) {
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
	path, err := publish(e.Path, filepath.Join("archive", e.Name), e.Data)
	if err == nil {
		err = errors.Join(durable.SyncDir(a.Archive()), durable.SyncDir(a.Inbox()))
	}
	if err != nil {
		return "", fmt.Errorf("done: %w", err)
	}
	return path, nil
}
