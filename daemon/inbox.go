package daemon

import (
	"bytes"
	"context"
	"fmt"
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

	mu       sync.Mutex // guards messages, bytes: what is held or about to be
	messages int
	bytes    int
}

func openInbox(ctx context.Context, db *store.DB) (*inbox, error) {
	b := &inbox{db: db}
	err := db.Read(ctx, func(tx *store.Tx) (err error) {
		b.messages, b.bytes, err = sqlInboxSize(tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open inbox: %w", err)
	}
	return b, nil
}

// hold returns when the message is on disk.
func (b *inbox) hold(ctx context.Context, env *wire.Envelope) error {
	var buf bytes.Buffer
	if err := env.AppendReply(&buf); err != nil {
		return fmt.Errorf("hold: %w", err)
	}
	if !b.reserve(buf.Len()) {
		return kinds.Errorf(kinds.Overloaded, "the inbox is full (%d messages or %d MiB): its owner has to read and acknowledge it; try again later", maxHeld, maxHeldBytes>>20)
	}
	if err := b.db.Write(ctx, true, func(tx *store.Tx) error { return sqlHold(tx, env, buf.Bytes()) }); err != nil {
		b.release(1, buf.Len())
		return fmt.Errorf("hold: %w", err)
	}
	return nil
}

func (b *inbox) reserve(size int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.messages >= maxHeld || b.bytes+size > maxHeldBytes {
		return false
	}
	b.messages++
	b.bytes += size
	return true
}

func (b *inbox) release(messages, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages -= messages
	b.bytes -= bytes
}

// list returns held messages in their order, as many as fit room bytes but always
// one, and marks them as seen.
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
	if len(unseen) == 0 {
		return answer, nil
	}
	err = b.db.Write(ctx, false, func(tx *store.Tx) error {
		for _, seq := range unseen {
			if err := sqlSeen(tx, seq); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	return answer, nil
}

// ack removes messages that list has returned, never others.
func (b *inbox) ack(ctx context.Context, p *client.AckParams, peers []identity.ID) (removed int, err error) {
	var size int
	err = b.db.Write(ctx, false, func(tx *store.Tx) error {
		removed, size = 0, 0
		if p.UpTo > 0 {
			where, args := filterSQL(p.Kinds, peers, []any{p.UpTo})
			removed, size, err = sqlRemove(tx, "seen = 1 AND seq <= ?"+where, args...)
			return err
		}
		for _, id := range p.IDs {
			n, bytes, err := sqlRemove(tx, "seen = 1 AND id = ?", id[:])
			if err != nil {
				return err
			}
			removed, size = removed+n, size+bytes
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("ack: %w", err)
	}
	b.release(removed, size)
	return removed, nil
}

// purge removes everything of a peer, for good when it returns.
func (b *inbox) purge(ctx context.Context, peer identity.ID) error {
	var removed, size int
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
