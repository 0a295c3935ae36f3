package openintent

import (
	"context"

	"github.com/acpd/acpd/store"
)

// What one read of the store may look at. Then it ends and another goes on where it
// was: nobody waits long for a reader, and the store's log can be started again.
const (
	maxLooked      = 1000    // rows: messages, receipts, events
	maxLookedBytes = 8 << 20 // of their texts
)

// look counts what a read has looked at.
type look struct{ rows, bytes int }

// takes counts so many rows and their bytes, and reports whether there is room for
// more.
func (l *look) takes(rows, bytes int) bool {
	l.rows, l.bytes = l.rows+rows, l.bytes+bytes
	return l.rows < maxLooked && l.bytes < maxLookedBytes
}

// read runs one read of the store. fn looks at no more than l lets it. Its errors are
// those of [store.DB.Read].
func (e *Engine) read(ctx context.Context, fn func(stx *store.Tx, l *look) error) error {
	var l look
	err := e.readBeside(ctx, func(stx *store.Tx) error { return fn(stx, &l) })
	if e.looked != nil {
		e.looked(l)
	}
	return err
}
