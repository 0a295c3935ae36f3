package carrier

import (
	"context"
	"maps"

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
	const ledger = "ledger"
	err := c.cfg.DB.Write(context.WithoutCancel(ctx), false, change)
	if err == nil {
		c.works(ledger)
	} else if c.failing(ledger, err.Error()) {
		c.cfg.Log.Warn("mail: the ledger cannot be written", "err", err)
	}
	return err
}
