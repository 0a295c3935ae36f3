package transfer

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"

	"github.com/acpd/acpd/store"
)

// failure is something that fails, and why. It is tried again and again: the log has it
// once, until it works or fails for another reason.
type failure struct{ what, why string }

// maxFailures bounds what is kept, since peers choose some of the reasons.
const maxFailures = 1024

// isNewFailure reports whether it is news that something fails for a reason.
func (m *Mailer) isNewFailure(what, why string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := failure{what, why}
	if _, old := m.failures[f]; old {
		return false
	}
	if len(m.failures) == maxFailures {
		clear(m.failures)
	}
	m.failures[f] = struct{}{}
	return true
}

// clearFailure says that something does not fail.
func (m *Mailer) clearFailure(what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.failures, func(f failure, _ struct{}) bool { return f.what == what })
}

// writeStore writes to the ledger what is found out again if that fails.
func (m *Mailer) writeStore(ctx context.Context, change func(*store.Tx) error) error {
	return m.logStoreError("mail: the ledger cannot be written", m.cfg.DB.Write(context.WithoutCancel(ctx), false, change))
}

// readStore reads from the ledger what the next look asks again if that fails.
func (m *Mailer) readStore(ctx context.Context, ask func(*store.Tx) error) error {
	return m.logStoreError("mail: the ledger cannot be read", m.cfg.DB.Read(context.WithoutCancel(ctx), ask))
}

func (m *Mailer) logStoreError(what string, err error) error {
	if err == nil {
		m.clearFailure(what)
	} else if m.isNewFailure(what, err.Error()) {
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
