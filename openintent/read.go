package openintent

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/store"
)

// One read of the store looks at so much at most. Then it ends, and another one continues from
// there, so that nobody waits long for a reader, and the store's log can be started again.
const (
	maxLooked      = 1000    // rows: messages, receipts, events
	maxLookedBytes = 8 << 20 // of their texts
)

// readQuota counts the rows and bytes that a read has looked at.
type readQuota struct{ rows, bytes int }

// spend adds rows and bytes, and reports whether the read may look at more.
func (l *readQuota) spend(rows, bytes int) bool {
	l.rows, l.bytes = l.rows+rows, l.bytes+bytes
	return l.rows < maxLooked && l.bytes < maxLookedBytes
}

// readWithQuota runs fn in one read of the store. fn stops when l has no room for more. The
// errors are those of [store.DB.Read].
func (e *Engine) readWithQuota(ctx context.Context, fn func(stx *store.Tx, l *readQuota) error) error {
	var l readQuota
	err := e.readYieldingTurn(ctx, func(stx *store.Tx) error { return fn(stx, &l) })
	if e.looked != nil {
		e.looked(l)
	}
	return err
}

// scanDoc scans a row, whose first column is a document, into v, and the others into more.
func scanDoc(scan func(...any) error, v any, more ...any) error {
	var doc []byte
	if err := scan(append([]any{&doc}, more...)...); err != nil {
		return err
	}
	return json.Unmarshal(doc, v)
}

// errEnough ends a query when no more rows are wanted.
var errEnough = errors.New("enough")

// eachRowWhile calls row with the rows of a query, as long as row wants more. all reports whether
// row wanted more after the last row.
func eachRowWhile(stx *store.Tx, query string, row func(scan func(...any) error) (more bool, err error), args ...any) (all bool, err error) {
	all = true
	err = stx.EachRow(query, func(scan func(...any) error) (err error) {
		if all, err = row(scan); err == nil && !all {
			err = errEnough
		}
		return err
	}, args...)
	if err == errEnough {
		err = nil
	}
	return all, err
}

// readYieldingTurn runs fn in a read of the store. Such a read may have to wait for others of
// the same daemon, so the turn of ctx, if it has one, is another's meanwhile.
func (e *Engine) readYieldingTurn(ctx context.Context, fn func(*store.Tx) error) error {
	t, ok := ctx.Value(turnKey{}).(*longBodyTurn)
	if !ok || !t.has {
		return e.db.Read(ctx, fn)
	}
	t.release()
	if err := e.db.Read(ctx, fn); err != nil {
		return err
	}
	return t.acquire(ctx)
}
