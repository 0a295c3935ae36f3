package inbox

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/store"
)

// Acknowledge removes messages that List has returned to the owner, or to the agent of, and returns which ones. If it
// fails in the middle, some are gone, and a second call removes the others. Messages for any agent that an agent
// acknowledges are kept for takenKeptFor with its name: it is responsible for what it has taken.
func (b *Inbox) Acknowledge(ctx context.Context, p *client.AckParams, of *string, peers []identity.ID) (gone []MessageKey, err error) {
	reader := nameReader(of)
	b.mu.Lock()
	shown := b.shown.findAcknowledged(reader, p)
	b.mu.Unlock()
	taken := 0
	for seqs := range slices.Chunk(shown, MaxRowsPerWrite-1) { // one more would be asked for again
		args := make([]any, len(seqs))
		for i, seq := range seqs {
			args[i] = seq
		}
		where, args := appendSQLFilter(p.Kinds, peers, nil, args)
		where = "seq IN (?" + strings.Repeat(", ?", len(seqs)-1) + ")" + where
		some, moved, err := b.takeMatching(ctx, of, where, args...)
		gone, taken = append(gone, some...), taken+moved
		if err != nil {
			return gone, ownwords.Errorf("ack: %w", err)
		}
		if len(p.Kinds)+len(peers) == 0 {
			b.mu.Lock()
			b.shown.forgetShown(reader, seqs)
			b.mu.Unlock()
		}
	}
	if taken > 0 {
		err = b.deleteOldTaken(ctx)
	}
	return gone, err
}

// takeMatching removes the messages that match the SQL condition: for the owner all, for the agent of its own. It marks
// those for any agent as taken by the agent. It returns all of them, and how many it has marked.
func (b *Inbox) takeMatching(ctx context.Context, of *string, where string, args ...any) (gone []MessageKey, moved int, err error) {
	if of == nil {
		gone, err = b.removeHeldMatching(ctx, false, deleteHeldMessages, where, args...)
		return gone, 0, err
	}
	agent := *of
	own := func(tx *store.Tx, where string, most int, args ...any) ([]MessageKey, error) {
		return deleteHeldMessages(tx, where+" AND agent = ?", most, append(args, agent)...)
	}
	now := time.Now().UnixMilli()
	common := func(tx *store.Tx, where string, most int, args ...any) ([]MessageKey, error) {
		return moveHeldToTaken(tx, agent, now, where+" AND agent = ''", most, args...)
	}
	if gone, err = b.removeHeldMatching(ctx, false, own, where, args...); err != nil {
		return gone, 0, err
	}
	marked, err := b.removeHeldMatching(ctx, false, common, where, args...)
	return append(gone, marked...), len(marked), err
}

// deleteOldTaken deletes taken messages that are too old, or too many.
func (b *Inbox) deleteOldTaken(ctx context.Context) error {
	return b.deleteTakenMatching(ctx, false, "at <= ? OR (SELECT count(*) > ? OR sum(size) > ? FROM daemon_taken)", time.Now().Add(-takenKeptFor).UnixMilli(), maxTaken, maxTakenBytes)
}

// TakeMessage removes a message that an agent has read, as its ack would, and reports whether the
// inbox had it. The name "" means the owner, who takes messages for any agent.
func (b *Inbox) TakeMessage(ctx context.Context, k MessageKey, agent string) (removed bool, err error) {
	of, where := &agent, "peer = ? AND id = ?"
	if agent == "" {
		of, where = nil, where+" AND agent = ''"
	}
	gone, moved, err := b.takeMatching(ctx, of, where, k.Peer[:], k.ID[:])
	if err == nil && moved > 0 {
		err = b.deleteOldTaken(ctx)
	}
	if err != nil {
		return len(gone) > 0, ownwords.Errorf("take a message from the inbox: %w", err)
	}
	return len(gone) > 0, nil
}

// deleteTakenMatching deletes the taken messages that match the SQL condition, a few a write.
func (b *Inbox) deleteTakenMatching(ctx context.Context, durable bool, where string, args ...any) error {
	const atOnce = MaxRowsPerWrite / 2 // each has a row in two tables
	for n := atOnce; n == atOnce; {
		err := b.db.Write(ctx, durable, func(tx *store.Tx) (err error) {
			n, err = deleteTakenMessages(tx, where, atOnce, args...)
			return err
		})
		if err != nil {
			return ownwords.Errorf("forget what agents took: %w", err)
		}
	}
	return nil
}

// removal deletes, or moves, the first held messages that match the SQL condition, and
// returns their keys.
type removal func(tx *store.Tx, where string, most int, args ...any) ([]MessageKey, error)

// removeHeldMatching calls do until no held message matches the SQL condition, a few messages a
// write, and returns those that it has removed.
func (b *Inbox) removeHeldMatching(ctx context.Context, durable bool, do removal, where string, args ...any) (all []MessageKey, err error) {
	for {
		var removed []MessageKey
		err := b.db.Write(ctx, durable, func(tx *store.Tx) (err error) {
			removed, err = do(tx, where, MaxRowsPerWrite, args...)
			return err
		})
		if err != nil {
			return all, err
		}
		b.releaseShares(removed)
		for _, k := range removed {
			if b.Removed != nil {
				b.Removed(k)
			}
		}
		all = append(all, removed...)
		if len(removed) < MaxRowsPerWrite {
			return all, nil
		}
	}
}

// ListSenders returns the senders of all stored messages, taken messages included.
func (b *Inbox) ListSenders(ctx context.Context) ([]identity.ID, error) {
	return store.ReadValue(ctx, b.db, readHeldSenders)
}

// DeletePeerMessages removes everything of a peer. It is gone from the disk when DeletePeerMessages returns.
func (b *Inbox) DeletePeerMessages(ctx context.Context, peer identity.ID) error {
	if _, err := b.removeHeldMatching(ctx, true, deleteHeldMessages, "peer = ?", peer[:]); err != nil {
		return ownwords.Errorf("purge the inbox: %w", err)
	}
	if err := b.deleteTakenMatching(ctx, true, "seq IN (SELECT seq FROM daemon_inbox WHERE peer = ?)", peer[:]); err != nil {
		return ownwords.Errorf("purge the inbox: %w", err)
	}
	return nil
}
