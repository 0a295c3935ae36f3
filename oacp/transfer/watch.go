package transfer

import (
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// folderWatch notes changes of inboxes in the ledger, so that mail is carried at once. It may miss
// some; the next rescan finds them. It begins with the first folder, because most daemons have
// none.
type folderWatch struct {
	mailer *Mailer
	tasks  *sync.WaitGroup // of Run, which waits for it

	// Only Run uses events and warned.
	events *fsnotify.Watcher // nil before the first folder, or if the system has none left
	warned bool              // it has logged that a folder cannot be watched

	mu   sync.Mutex // guards dirs
	dirs map[string]mailbox
}

// closeWatcher ends the watch, and with it the goroutine that listens.
func (w *folderWatch) closeWatcher() {
	if w.events != nil {
		w.events.Close()
	}
}

// watchInbox watches an inbox. It must be called again if the folder was replaced.
func (w *folderWatch) watchInbox(p mailbox) {
	if w.mailer.cfg.unwatched {
		return
	}
	dir := filepath.Join(w.mailer.cfg.Home, filepath.FromSlash(p.dir()), inboxDir)
	var err error
	if w.events == nil {
		var events *fsnotify.Watcher
		if events, err = fsnotify.NewWatcher(); err == nil {
			w.events = events
			w.tasks.Go(func() { w.handleEvents(events) })
		}
	}
	if err == nil {
		w.mu.Lock()
		w.dirs[dir] = p
		w.mu.Unlock()
		err = w.events.Add(dir)
	}
	if err != nil && !w.warned {
		w.warned = true
		w.mailer.cfg.Log.Warn("mail: a folder is scanned every few seconds, because it cannot be watched", "folder", dir, "err", err)
	}
}

// unwatchUnscanned stops watching inboxes that are not scanned any more.
func (w *folderWatch) unwatchUnscanned() {
	w.mu.Lock()
	var old []string
	for dir, p := range w.dirs {
		if !w.mailer.ledger.isInboxScanned(p) {
			old = append(old, dir)
			delete(w.dirs, dir)
		}
	}
	w.mu.Unlock()
	for _, dir := range old {
		w.events.Remove(dir) // fails only if it is no longer watched
	}
}

// handleEvents handles events until the watch is closed.
func (w *folderWatch) handleEvents(events *fsnotify.Watcher) {
	for {
		select {
		case e, ok := <-events.Events:
			if !ok {
				return
			}
			w.handleEvent(e)
		case err, ok := <-events.Errors:
			if !ok {
				return
			}
			w.mailer.cfg.Log.Debug("mail: some changes of folders were missed", "err", err)
			w.mailer.ledger.markAllDirty()
		}
	}
}

func (w *folderWatch) handleEvent(e fsnotify.Event) {
	dir, name := filepath.Split(e.Name)
	w.mu.Lock()
	p, known := w.dirs[filepath.Clean(dir)]
	w.mu.Unlock()
	if !known {
		return
	}
	ledger := w.mailer.ledger
	if isHiddenName(name) {
		// A writer that removes its temporary name, .NAME.yaml.tmp…, by a rename or after a
		// link, has written NAME.yaml completely.
		end := strings.Index(name, extension+".")
		if end > 1 && (e.Has(fsnotify.Rename) || e.Has(fsnotify.Remove)) {
			ledger.markFileComplete(p, name[1:end+len(extension)])
		}
		return
	}
	if strings.HasSuffix(name, extension) {
		ledger.markFilesDirty(p, names{name: {}})
	}
}
