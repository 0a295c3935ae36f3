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

// failure is an operation that fails, and its reason. The operation is tried again and again. It
// is logged once, until it works or fails for another reason.
type failure struct{ what, why string }

// failureLog knows the failures that were logged.
type failureLog struct {
	mu   sync.Mutex // guards seen
	seen map[failure]struct{}
}

// maxFailures bounds the failures that are kept, because peers choose some of the reasons.
const maxFailures = 1024

// addIfNew adds a failure, and reports whether it was not in the log yet.
func (l *failureLog) addIfNew(what, why string) bool {
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

// clearFailure notes that an operation works. Its next failure is logged.
func (l *failureLog) clearFailure(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.seen, func(f failure, _ struct{}) bool { return f.what == what })
}

// writeStore writes facts that are found again if the write fails. It logs a failure.
func (m *Mailer) writeStore(ctx context.Context, change func(*store.Tx) error) error {
	return m.logStoreError("mail: the store cannot be written", m.cfg.DB.Write(context.WithoutCancel(ctx), false, change))
}

// readStore reads facts that the next scan reads again if the read fails. It logs a failure.
func (m *Mailer) readStore(ctx context.Context, ask func(*store.Tx) error) error {
	return m.logStoreError("mail: the store cannot be read", m.cfg.DB.Read(context.WithoutCancel(ctx), ask))
}

func (m *Mailer) logStoreError(what string, err error) error {
	if err == nil {
		m.failures.clearFailure(what)
	} else if m.failures.addIfNew(what, err.Error()) {
		m.cfg.Log.Warn(what, "err", err)
	}
	return err
}

// errorTextWithoutPath returns an error's text without the path of the file, which differs each time.
func errorTextWithoutPath(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}
