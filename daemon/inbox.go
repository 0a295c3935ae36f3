package daemon

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// Bounds of the inbox (protocol, section 5) and of one look into it, which is also
// bounded by what fits a line.
const (
	maxHeld      = 10000
	maxHeldBytes = 64 << 20
	inboxDefault = 100
	inboxMost    = 1000
)

// inbox keeps the messages that no attached agent took, on disk, until a consumer
// acknowledges them. Nothing promised is dropped: a full inbox takes no more.
type inbox struct {
	db *store.DB

	mu    sync.Mutex           // guards what follows
	held  map[heldKey]struct{} // what is held or about to be
	bytes int                  // of their envelopes
	seen  map[uint64]struct{}  // what list has returned and the disk does not know of
}

// heldKey names a message: no other of the same name is held beside it.
type heldKey struct {
	peer identity.ID
	id   wire.MessageID
}

func openInbox(ctx context.Context, db *store.DB) (*inbox, error) {
	b := &inbox{db: db, held: make(map[heldKey]struct{}), seen: make(map[uint64]struct{})}
	err := db.Read(ctx, func(tx *store.Tx) error {
		keys, bytes, err := sqlHeldKeys(tx)
		for _, k := range keys {
			b.held[k] = struct{}{}
		}
		b.bytes = bytes
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open inbox: %w", err)
	}
	return b, nil
}

// holds reports whether the message lies in the inbox: also a restart makes no
// second copy of a repeat. Other content under its id is invalid.
func (b *inbox) holds(ctx context.Context, env *wire.Envelope) (bool, error) {
	key := heldKey{env.From, env.ID}
	b.mu.Lock()
	_, held := b.held[key]
	b.mu.Unlock()
	if !held {
		return false, nil
	}
	var text []byte
	err := b.db.Read(ctx, func(tx *store.Tx) (err error) {
		text, err = sqlHeld(tx, key)
		return err
	})
	if err != nil || text == nil { // acknowledged meanwhile
		return false, err
	}
	old, err := wire.ParseEnvelope(text)
	if err != nil {
		return false, fmt.Errorf("inbox: message %s: %w", env.ID, err)
	}
	if contentOf(old) != contentOf(env) {
		return false, usedTwice(env)
	}
	return true, nil
}

// hold returns when the message is on disk.
func (b *inbox) hold(ctx context.Context, env *wire.Envelope) error {
	var buf bytes.Buffer
	if err := env.AppendReply(&buf); err != nil {
		return fmt.Errorf("hold: %w", err)
	}
	key := heldKey{env.From, env.ID}
	if !b.reserve(key, buf.Len()) {
		return kinds.Errorf(kinds.Overloaded, "the inbox is full (%d messages or %d MiB): its owner has to read and acknowledge it; try again later", maxHeld, maxHeldBytes>>20)
	}
	if err := b.db.Write(ctx, true, func(tx *store.Tx) error { return sqlHold(tx, env, buf.Bytes()) }); err != nil {
		b.release([]heldKey{key}, buf.Len())
		return fmt.Errorf("hold: %w", err)
	}
	return nil
}

func (b *inbox) reserve(key heldKey, size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.held) >= maxHeld || b.bytes+size > maxHeldBytes {
		return false
	}
	b.held[key] = struct{}{}
	b.bytes += size
	return true
}

func (b *inbox) release(keys []heldKey, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range keys {
		delete(b.held, k)
	}
	b.bytes -= bytes
}

// list returns held messages in their order, as many as fit room bytes but always
// one. From then on they may be acknowledged; see mark.
func (b *inbox) list(ctx context.Context, p *client.InboxParams, peers []identity.ID, room int) (*client.Inbox, error) {
	limit := p.Limit
	if limit == 0 {
		limit = inboxDefault
	}
	limit = min(limit, inboxMost)
	var rows []heldRow
	err := b.db.Read(ctx, func(tx *store.Tx) (err error) {
		rows, err = sqlInbox(tx, p.After, p.Kinds, peers, limit+1)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	answer := &client.Inbox{Messages: []client.HeldMessage{}}
	var unseen []uint64
	for i, r := range rows {
		env, err := wire.ParseEnvelope(r.envelope)
		if err != nil {
			return nil, fmt.Errorf("inbox: message %d: %w", r.seq, err)
		}
		room -= 512 + len(env.Payload) + longestJSON(env.Kind+env.Agent+env.Thread+env.Trace)
		if i == limit || i > 0 && room < 0 {
			answer.Next = rows[i-1].seq
			break
		}
		answer.Messages = append(answer.Messages, client.HeldMessage{Seq: r.seq, Envelope: *env})
		if !r.seen {
			unseen = append(unseen, r.seq)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, seq := range unseen {
		b.seen[seq] = struct{}{}
	}
	return answer, nil
}

// change writes what list has returned, and with it what more changes. A mark
// that cannot be written, as on a full disk, waits for the next change: reading
// needs no space, and an ack finds what was read in this run of the daemon.
func (b *inbox) change(ctx context.Context, more func(*store.Tx) error) error {
	b.mu.Lock()
	seen := slices.Collect(maps.Keys(b.seen))
	b.mu.Unlock()
	err := b.db.Write(ctx, false, func(tx *store.Tx) error {
		for _, seq := range seen {
			if err := sqlSeen(tx, seq); err != nil {
				return err
			}
		}
		return more(tx)
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, seq := range seen {
		delete(b.seen, seq)
	}
	return nil
}

// mark writes what list has returned.
func (b *inbox) mark(ctx context.Context) error {
	b.mu.Lock()
	none := len(b.seen) == 0
	b.mu.Unlock()
	if none {
		return nil
	}
	return b.change(ctx, func(*store.Tx) error { return nil })
}

// ack removes messages that list has returned, never others.
func (b *inbox) ack(ctx context.Context, p *client.AckParams, peers []identity.ID) (int, error) {
	var removed []heldKey
	var size int
	err := b.change(ctx, func(tx *store.Tx) (err error) {
		removed, size = nil, 0
		if p.UpTo > 0 {
			where, args := filterSQL(p.Kinds, peers, []any{p.UpTo})
			removed, size, err = sqlRemove(tx, "seen = 1 AND seq <= ?"+where, args...)
			return err
		}
		for _, id := range p.IDs {
			keys, bytes, err := sqlRemove(tx, "seen = 1 AND id = ?", id[:])
			if err != nil {
				return err
			}
			removed, size = append(removed, keys...), size+bytes
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("ack: %w", err)
	}
	b.release(removed, size)
	return len(removed), nil
}

// purge removes everything of a peer, for good when it returns.
func (b *inbox) purge(ctx context.Context, peer identity.ID) error {
	var removed []heldKey
	var size int
	err := b.db.Write(ctx, true, func(tx *store.Tx) (err error) {
		removed, size, err = sqlRemove(tx, "peer = ?", peer[:])
		return err
	})
	if err != nil {
		return fmt.Errorf("purge the inbox: %w", err)
	}
	b.release(removed, size)
	return nil
}
