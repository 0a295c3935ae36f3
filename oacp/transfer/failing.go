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

// failing reports whether it is news that something fails for a reason.
func (c *Carrier) failing(what, why string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := failure{what, why}
	if _, old := c.failures[f]; old {
		return false
	}
	if len(c.failures) == maxFailures {
		clear(c.failures)
	}
	c.failures[f] = struct{}{}
	return true
}

// works says that something does not fail.
func (c *Carrier) works(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.failures, func(f failure, _ struct{}) bool { return f.what == what })
}

// record writes to the ledger what is found out again if that fails.
func (c *Carrier) record(ctx context.Context, change func(*store.Tx) error) error {
	return c.ledger("mail: the ledger cannot be written", c.cfg.DB.Write(context.WithoutCancel(ctx), false, change))
}

// consult reads from the ledger what the next look asks again if that fails.
func (c *Carrier) consult(ctx context.Context, ask func(*store.Tx) error) error {
	return c.ledger("mail: the ledger cannot be read", c.cfg.DB.Read(context.WithoutCancel(ctx), ask))
}

func (c *Carrier) ledger(what string, err error) error {
	if err == nil {
		c.works(what)
	} else if c.failing(what, err.Error()) {
		c.cfg.Log.Warn(what, "err", err)
	}
	return err
}

// bare is an error's text without the file that it is of, since each has another name.
func bare(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}
