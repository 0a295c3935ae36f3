package transfer

import (
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// folderWatch hears of changes in folders, which makes mail fast. It promises nothing:
// what it misses the next rescan finds. It begins with the first folder, since most
// daemons have none.
type folderWatch struct {
	mailer *Mailer
	tasks  *sync.WaitGroup // of Run, which waits for it

	events *fsnotify.Watcher // nil before the first folder, or where the system gives none; Run's alone
	warned bool              // that something cannot be watched; Run's alone

	mu   sync.Mutex // guards dirs
	dirs map[string]mailbox
}

func newFolderWatch(m *Mailer, tasks *sync.WaitGroup) *folderWatch {
	return &folderWatch{mailer: m, tasks: tasks, dirs: make(map[string]mailbox)}
}

// close ends it, and with it the goroutine that listens.
func (w *folderWatch) close() {
	if w.events != nil {
		w.events.Close()
	}
}

func (w *folderWatch) dir(p mailbox) string {
	return filepath.Join(w.mailer.cfg.Home, filepath.FromSlash(p.dir()), inboxDir)
}

// add watches an inbox; again, if it was replaced.
func (w *folderWatch) add(p mailbox) {
	if w.mailer.cfg.unwatched {
		return
	}
	dir := w.dir(p)
	err := w.startWatcher()
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

func (w *folderWatch) startWatcher() error {
	if w.events != nil {
		return nil
	}
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	w.events = events
	w.tasks.Go(func() { w.listen(events) })
	return nil
}

// removeOthers stops watching all but some inboxes.
func (w *folderWatch) removeOthers(places map[mailbox]struct{}) {
	w.mu.Lock()
	var old []string
	for dir, p := range w.dirs {
		if _, ok := places[p]; !ok {
			old = append(old, dir)
			delete(w.dirs, dir)
		}
	}
	w.mu.Unlock()
	for _, dir := range old {
		w.events.Remove(dir) // an error says that it is not watched any more
	}
}

// listen passes on what it hears until the watch is closed.
func (w *folderWatch) listen(events *fsnotify.Watcher) {
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
	if isHidden(name) {
		// A writer that gives up its temporary name, .NAME.yaml.tmp…, by a rename or
		// after a link, has written NAME.yaml whole.
		end := strings.Index(name, extension+".")
		if end >= 0 && (e.Has(fsnotify.Rename) || e.Has(fsnotify.Remove)) {
			ledger.noteWhole(p, name[1:end+len(extension)])
		}
		return
	}
	if strings.HasSuffix(name, extension) {
		ledger.noteChanged(p, names{name: {}})
	}
}
