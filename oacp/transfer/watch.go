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

	// Only Run uses these.
	events *fsnotify.Watcher // nil before the first folder, or if the system has none left
	warned bool              // it has logged that a folder cannot be watched
}

// inboxPath returns the path of an inbox.
func (m *Mailer) inboxPath(p mailbox) string {
	return filepath.Join(m.cfg.Home, filepath.FromSlash(p.dir()), inboxDir)
}

// findMailbox returns the mailbox whose inbox has a path. ok is false if it is not the path of one.
func (m *Mailer) findMailbox(inbox string) (p mailbox, ok bool) {
	agent := filepath.Dir(inbox)
	p = mailbox{filepath.Base(filepath.Dir(filepath.Dir(agent))), filepath.Base(agent)}
	return p, m.inboxPath(p) == inbox
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
	dir := w.mailer.inboxPath(p)
	var err error
	if w.events == nil {
		var events *fsnotify.Watcher
		if events, err = fsnotify.NewWatcher(); err == nil {
			w.events = events
			w.tasks.Go(func() { w.handleEvents(events) })
		}
	}
	if err == nil {
		err = w.events.Add(dir)
	}
	if err != nil && !w.warned {
		w.warned = true
		w.mailer.cfg.Log.Warn("mail: a folder is scanned every few seconds, because it cannot be watched", "folder", dir, "err", err)
	}
}

// unwatchUnscanned stops watching inboxes that are not scanned any more.
func (w *folderWatch) unwatchUnscanned() {
	if w.events == nil {
		return
	}
	for _, dir := range w.events.WatchList() {
		if p, ok := w.mailer.findMailbox(dir); !ok || !w.mailer.ledger.isInboxScanned(p) {
			w.events.Remove(dir) // fails only if it is no longer watched
		}
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
	p, known := w.mailer.findMailbox(filepath.Clean(dir))
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
