package local

import (
	"slices"
	"sync"
)

// connList lists open connections, the oldest first. If it is full, the oldest that may be
// closed makes room for a new one: so a program that leaves connections open does not keep
// others out.
type connList[C closer] struct {
	mu    sync.Mutex // guards conns
	conns []C
}

type closer interface {
	comparable
	Close() error
}

// addOrReplaceOldest appends c. If the list has most connections already, it removes and closes the
// oldest one that mayClose accepts, or returns false if mayClose accepts none of them.
func (l *connList[C]) addOrReplaceOldest(c C, most int, mayClose func(C) bool) bool {
	l.mu.Lock()
	var evicted []C
	if len(l.conns) >= most {
		i := slices.IndexFunc(l.conns, mayClose)
		if i < 0 {
			l.mu.Unlock()
			return false
		}
		evicted = slices.Clone(l.conns[i : i+1])
		l.conns = slices.Delete(l.conns, i, i+1)
	}
	l.conns = append(l.conns, c)
	l.mu.Unlock()
	for _, old := range evicted { // not under mu: it may call remove
		old.Close()
	}
	return true
}

// remove removes c if it is listed.
func (l *connList[C]) remove(c C) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.conns, c); i >= 0 {
		l.conns = slices.Delete(l.conns, i, i+1)
	}
}
