package transfer

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"sync"

	"github.com/acpd/acpd/store"
)

// failure is something that fails, and why. It is tried again and again: the log has it
// once, until it works or fails for another reason.
type failure struct{ what, why string }

// failureLog knows the failures that were logged.
type failureLog struct {
	mu   sync.Mutex // guards seen
	seen map[failure]struct{}
}

// maxFailures bounds what is kept, since peers choose some of the reasons.
const maxFailures = 1024

// isNew reports whether it is news that something fails for a reason.
func (l *failureLog) isNew(what, why string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := failure{what, why}
	if _, old := l.seen[f]; old {
		return false
	}
	if len(l.seen) == maxFailures {
		clear(l.seen)
	}
	l.seen[f] = struct{}{}
	return true
}

// clear notes that something works: its next failure is news.
func (l *failureLog) clear(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.seen, func(f failure, _ struct{}) bool { return f.what == what })
}

// writeStore writes what is found out again if that fails.
func (m *Mailer) writeStore(ctx context.Context, change func(*store.Tx) error) error {
	return m.logStoreError("mail: the store cannot be written", m.cfg.DB.Write(context.WithoutCancel(ctx), false, change))
}

// readStore reads what the next scan asks again if that fails.
func (m *Mailer) readStore(ctx context.Context, ask func(*store.Tx) error) error {
	return m.logStoreError("mail: the store cannot be read", m.cfg.DB.Read(context.WithoutCancel(ctx), ask))
}

func (m *Mailer) logStoreError(what string, err error) error {
	if err == nil {
		m.failures.clear(what)
	} else if m.failures.isNew(what, err.Error()) {
		m.cfg.Log.Warn(what, "err", err)
	}
	return err
}

// withoutPath is an error's text without the file that it is of, since each has another name.
func withoutPath(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}
