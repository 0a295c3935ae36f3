package transfer

import (
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// watch hears of changes in folders, which makes mail fast. It promises nothing:
// what it misses the next rescan finds. It begins with the first folder, since most
// daemons have none.
type watch struct {
	carrier *Carrier
	tasks   *sync.WaitGroup // of Run, which waits for it

	events *fsnotify.Watcher // nil before the first folder, or where the system gives none; Run's alone
	said   bool              // that something cannot be watched; Run's alone

	mu   sync.Mutex // guards dirs
	dirs map[string]place
}

func newWatch(c *Carrier, tasks *sync.WaitGroup) *watch {
	return &watch{carrier: c, tasks: tasks, dirs: make(map[string]place)}
}

// close ends it, and with it the goroutine that listens.
func (w *watch) close() {
	if w.events != nil {
		w.events.Close()
	}
}

func (w *watch) dir(p place) string {
	return filepath.Join(w.carrier.cfg.Home, filepath.FromSlash(p.dir()), inboxDir)
}

// add watches an inbox; again, if it was replaced.
func (w *watch) add(p place) {
	if w.carrier.cfg.unwatched {
		return
	}
	dir := w.dir(p)
	err := w.begin()
	if err == nil {
		w.mu.Lock()
		w.dirs[dir] = p
		w.mu.Unlock()
		err = w.events.Add(dir)
	}
	if err != nil && !w.said {
		w.said = true
		w.carrier.cfg.Log.Warn("mail: a folder is looked at every few seconds, since it cannot be watched", "folder", dir, "err", err)
	}
}

func (w *watch) begin() error {
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

// keep stops watching all but some inboxes.
func (w *watch) keep(places map[place]struct{}) {
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
func (w *watch) listen(events *fsnotify.Watcher) {
	for {
		select {
		case e, ok := <-events.Events:
			if !ok {
				return
			}
			w.hear(e)
		case err, ok := <-events.Errors:
			if !ok {
				return
			}
			w.carrier.cfg.Log.Debug("mail: some changes of folders were missed", "err", err)
			w.carrier.rescan()
		}
	}
}

func (w *watch) hear(e fsnotify.Event) {
	dir, name := filepath.Split(e.Name)
	w.mu.Lock()
	p, known := w.dirs[filepath.Clean(dir)]
	w.mu.Unlock()
	if !known {
		return
	}
	c := w.carrier
	c.mu.Lock()
	defer c.mu.Unlock()
	if isHidden(name) {
		// A writer that gives up its temporary name, .NAME.yaml.tmp…, by a rename or
		// after a link, has written NAME.yaml whole.
		end := strings.Index(name, extension+".")
		if end < 0 || !e.Has(fsnotify.Rename) && !e.Has(fsnotify.Remove) {
			return
		}
		name = name[1 : end+len(extension)]
		if c.hints[p] == nil {
			c.hints[p] = make(names)
		}
		c.hints[p][name] = struct{}{}
	}
	if strings.HasSuffix(name, extension) {
		c.touch(p, names{name: {}})
	}
}
