// Package inbox keeps the messages that no attached agent took, on disk, until a
// consumer acknowledges them, and remembers inbound messages so that a repeat gets the
// outcome of the first run.
//
// A message that is held is on disk when [Inbox.Hold] returns, and nothing that is held
// is dropped. An agent, or the owner, acknowledges only what it was shown.
//
// It leaves to others whether a message is handed to an agent instead (package daemon).
package inbox

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// Bounds of one look into the inbox, which is also bounded by what fits a line, and
// of one write that marks or removes messages: others wait for it. What peers may have held
// stands in package budget.
const (
	defaultListed = 100
	MaxListed     = 1000
	MaxChanged    = 64

	// Beside the inbox lies what agents took that was for any of them: enough to see
	// what one of them did in the last days. The oldest go.
	maxTaken      = 1000
	maxTakenBytes = 16 << 20
	takenFor      = 7 * 24 * time.Hour
)

// Inbox keeps the messages that no attached agent took, on disk, until a consumer
// acknowledges them. Nothing promised is dropped: a full inbox takes no more.
type Inbox struct {
	db        *store.DB
	checkRoom func(identity.ID) error // why what a peer sends may not be kept; nil: it may

	mu   sync.Mutex           // guards what follows
	held map[heldKey]heldSize // what is held or about to be
	seen map[uint64]struct{}  // what list has returned to the owner and the disk does not know of

	shown showings // what list has returned to agents; guarded by mu

	unasked, asked share
}

// share is what peers may have held of one sort of message.
type share struct{ messages, bytes *budget.Account }

// heldSize is what a message takes of its sender's share.
type heldSize struct {
	bytes int64
	asked bool // the result of a delegation from here
}

// isAsked reports whether messages of the kind come only where they were asked for.
func isAsked(kind string) bool { return kind == kinds.KindResult || kind == kinds.KindError }

// heldKey names a message: no other of the same name is held beside it.
type heldKey struct {
	peer identity.ID
	id   wire.MessageID
}

// Open reads what is held. room says why what a peer sends may not be kept; nil:
// it may.
func Open(ctx context.Context, db *store.DB, book *budget.Book, maxMessage int, room func(identity.ID) error) (*Inbox, error) {
	b := &Inbox{
		db: db, checkRoom: room, held: make(map[heldKey]heldSize), seen: make(map[uint64]struct{}),
		unasked: share{book.Open(budget.Inbox), book.Open(budget.InboxBytes(maxMessage))},
		asked:   share{book.Open(budget.Results), book.Open(budget.ResultsBytes(maxMessage))},
	}
	err := db.Read(ctx, func(tx *store.Tx) error {
		return sqlHeldKeys(tx, func(k heldKey, size heldSize) {
			b.held[k] = size
			b.shareOf(size).messages.Add(k.peer, 1)
			b.shareOf(size).bytes.Add(k.peer, size.bytes)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("open inbox: %w", err)
	}
	return b, nil
}

// Holds reports whether the message lies in the inbox: also a restart makes no
// second copy of a repeat. Other content under its id is invalid.
func (b *Inbox) Holds(ctx context.Context, env *wire.Envelope) (bool, error) {
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
	if HashContent(old) != HashContent(env) {
		return false, ReusedID(env)
	}
	return true, nil
}

// Hold returns when the message is on disk, for an agent, or "" for any.
func (b *Inbox) Hold(ctx context.Context, env *wire.Envelope, agent string) error {
	var buf bytes.Buffer
	if err := env.AppendReply(&buf); err != nil {
		return fmt.Errorf("hold: %w", err)
	}
	key, size := heldKey{env.From, env.ID}, heldSize{int64(buf.Len()), isAsked(env.Kind)}
	if b.checkRoom != nil {
		if err := b.checkRoom(env.From); err != nil {
			return err
		}
	}
	if err := b.reserve(key, size); err != nil {
		return kinds.Errorf(kinds.Overloaded, "the inbox is full for this peer (%v): its owner has to read and acknowledge what lies there; try again later", err)
	}
	if err := b.db.Write(ctx, true, func(tx *store.Tx) error { return sqlHold(tx, env, agent, buf.Bytes()) }); err != nil {
		b.release([]heldKey{key})
		return fmt.Errorf("hold: %w", err)
	}
	return nil
}

func (b *Inbox) shareOf(size heldSize) share {
	if size.asked {
		return b.asked
	}
	return b.unasked
}

func (b *Inbox) reserve(key heldKey, size heldSize) error {
	s := b.shareOf(size)
	if err := s.messages.Take(key.peer, 1); err != nil {
		return err
	}
	if err := s.bytes.Take(key.peer, size.bytes); err != nil {
		s.messages.Give(key.peer, 1)
		return err
	}
	b.release([]heldKey{key}) // of a run that is so old that its repeat is not known as one
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[key] = size
	return nil
}

func (b *Inbox) release(keys []heldKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range keys {
		size, ok := b.held[k]
		if !ok {
			continue
		}
		delete(b.held, k)
		s := b.shareOf(size)
		s.messages.Give(k.peer, 1)
		s.bytes.Give(k.peer, size.bytes)
	}
}

// List returns held messages in their order, or those that agents took, as many as fit
// room bytes but always one: all of them, or what an agent may see. From then on that
// caller may acknowledge them, unless it only peeks; see show and mark.
func (b *Inbox) List(ctx context.Context, p *client.InboxParams, of *string, peers []identity.ID, room int) (*client.Inbox, error) {
	limit := p.Limit
	if limit == 0 {
		limit = defaultListed
	}
	limit = min(limit, MaxListed)
	var rows []heldRow
	err := b.db.Read(ctx, func(tx *store.Tx) (err error) {
		if p.Taken {
			rows, err = sqlTaken(tx, p.After, time.Now().Add(-takenFor).UnixMilli(), p.Kinds, peers, limit+1)
		} else {
			rows, err = sqlInbox(tx, p.After, of, p.Kinds, peers, limit+1)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	answer := &client.Inbox{Messages: []client.HeldMessage{}}
	var unseen []uint64
	shown := make(map[uint64]wire.MessageID)
	for i, r := range rows {
		env, err := wire.ParseEnvelope(r.envelope)
		if err != nil {
			return nil, fmt.Errorf("inbox: message %d: %w", r.seq, err)
		}
		room -= 512 + len(env.Payload) + wire.LongestJSON(env.Kind+env.Agent+env.Thread+env.Trace+r.agent)
		if i == limit || i > 0 && room < 0 {
			answer.Next = rows[i-1].seq
			break
		}
		if of != nil {
			shown[r.seq] = env.ID
		}
		answer.Messages = append(answer.Messages, client.HeldMessage{Seq: r.seq, Envelope: *env, Agent: r.agent, TakenAt: client.Time{Time: store.FromMillis(r.taken)}})
		if of == nil && !r.seen && r.taken == 0 {
			unseen = append(unseen, r.seq)
		}
	}
	if p.Peek {
		return answer, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, seq := range unseen {
		b.seen[seq] = struct{}{}
	}
	if of != nil {
		b.shown.add(*of, shown)
	}
	return answer, nil
}

// Show lets the owner, or an agent, acknowledge messages of those that it may see; see mark.
func (b *Inbox) Show(ctx context.Context, seqs []uint64, of *string) error {
	var shown map[uint64]wire.MessageID
	err := b.db.Read(ctx, func(tx *store.Tx) (err error) {
		shown, err = sqlShown(tx, seqs, of)
		return err
	})
	if err != nil {
		return fmt.Errorf("shown: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if of != nil {
		b.shown.add(*of, shown)
		return nil
	}
	for seq := range shown {
		b.seen[seq] = struct{}{}
	}
	return nil
}

// SaveSeen writes what list has returned, a few messages a write. What cannot be
// written, as on a full disk, waits for the next mark: reading needs no space, and an
// ack finds what was read in this run of the daemon.
func (b *Inbox) SaveSeen(ctx context.Context) error {
	b.mu.Lock()
	seen := slices.Collect(maps.Keys(b.seen))
	b.mu.Unlock()
	for some := range slices.Chunk(seen, MaxChanged) {
		err := b.db.Write(ctx, false, func(tx *store.Tx) error {
			for _, seq := range some {
				if err := sqlSeen(tx, seq); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		b.mu.Lock()
		for _, seq := range some {
			delete(b.seen, seq)
		}
		b.mu.Unlock()
	}
	return nil
}

// Acknowledge removes messages that list has returned to the owner, never others. Where it fails
// in the middle some are gone, and the same ack again removes the others.
func (b *Inbox) Acknowledge(ctx context.Context, p *client.AckParams, peers []identity.ID) (n int, err error) {
	if err := b.SaveSeen(ctx); err != nil {
		return 0, fmt.Errorf("ack: %w", err)
	}
	if p.UpTo > 0 {
		where, args := filterSQL(p.Kinds, peers, []any{p.UpTo})
		n, err = b.remove(ctx, false, sqlRemove, "seen = 1 AND seq <= ?"+where, args...)
	}
	for ids := range slices.Chunk(p.IDs, MaxChanged) {
		args := make([]any, len(ids))
		for i := range ids {
			args[i] = ids[i][:]
		}
		var some int
		if some, err = b.remove(ctx, false, sqlRemove, "seen = 1 AND id IN (?"+strings.Repeat(", ?", len(ids)-1)+")", args...); err != nil {
			break
		}
		n += some
	}
	if err != nil {
		return n, fmt.Errorf("ack: %w", err)
	}
	return n, nil
}

// Take is ack for an agent: of what list has returned to it. What was for any agent lies
// beside the inbox for takenFor, with its name: it answers for what it has taken.
func (b *Inbox) Take(ctx context.Context, p *client.AckParams, agent string, peers []identity.ID) (n int, err error) {
	now := time.Now()
	own := func(tx *store.Tx, where string, most int, args ...any) ([]heldKey, error) {
		return sqlRemove(tx, where+" AND agent = ?", most, append(args, agent)...)
	}
	common := func(tx *store.Tx, where string, most int, args ...any) ([]heldKey, error) {
		return sqlTake(tx, agent, now.UnixMilli(), where+" AND agent = ''", most, args...)
	}
	b.mu.Lock()
	shown := b.shown.of(agent, p)
	b.mu.Unlock()
	taken := 0
	for seqs := range slices.Chunk(shown, MaxChanged-1) { // one more would be asked for again
		args := make([]any, len(seqs))
		for i, seq := range seqs {
			args[i] = seq
		}
		where, args := filterSQL(p.Kinds, peers, args)
		where = "seq IN (?" + strings.Repeat(", ?", len(seqs)-1) + ")" + where
		some, err := b.remove(ctx, false, own, where, args...)
		if n += some; err != nil {
			return n, fmt.Errorf("ack: %w", err)
		}
		some, err = b.remove(ctx, false, common, where, args...)
		if taken += some; err != nil {
			return n + taken, fmt.Errorf("ack: %w", err)
		}
		if len(p.Kinds)+len(peers) == 0 || p.UpTo == 0 {
			b.mu.Lock()
			b.shown.settled(agent, seqs)
			b.mu.Unlock()
		}
	}
	if taken > 0 {
		err = b.forgetTaken(ctx, false, "at <= ? OR (SELECT count(*) > ? OR sum(size) > ? FROM daemon_taken)", now.Add(-takenFor).UnixMilli(), maxTaken, maxTakenBytes)
	}
	return n + taken, err
}

// forgetTaken removes what where says of what agents took, a few messages a write.
func (b *Inbox) forgetTaken(ctx context.Context, durable bool, where string, args ...any) error {
	const atOnce = MaxChanged / 2 // each has a row in two tables
	for n := atOnce; n == atOnce; {
		err := b.db.Write(ctx, durable, func(tx *store.Tx) (err error) {
			n, err = sqlForgetTaken(tx, where, atOnce, args...)
			return err
		})
		if err != nil {
			return fmt.Errorf("forget what agents took: %w", err)
		}
	}
	return nil
}

// settling does something with the first messages of a condition, at most so many, and
// returns those that are held no more.
type settling func(tx *store.Tx, where string, most int, args ...any) ([]heldKey, error)

// remove does it with what where says, a few messages a write, and returns how many.
func (b *Inbox) remove(ctx context.Context, durable bool, do settling, where string, args ...any) (n int, err error) {
	for {
		var removed []heldKey
		err := b.db.Write(ctx, durable, func(tx *store.Tx) (err error) {
			removed, err = do(tx, where, MaxChanged, args...)
			return err
		})
		if err != nil {
			return n, err
		}
		b.release(removed)
		if n += len(removed); len(removed) < MaxChanged {
			return n, nil
		}
	}
}

// Senders returns the peers of whom anything is left, what agents have taken included.
func (b *Inbox) Senders(ctx context.Context) (all []identity.ID, err error) {
	err = b.db.Read(ctx, func(tx *store.Tx) (err error) {
		all, err = sqlSenders(tx)
		return err
	})
	return all, err
}

// RemovePeer removes everything of a peer, for good when it returns.
func (b *Inbox) RemovePeer(ctx context.Context, peer identity.ID) error {
	if _, err := b.remove(ctx, true, sqlRemove, "peer = ?", peer[:]); err != nil {
		return fmt.Errorf("purge the inbox: %w", err)
	}
	if err := b.forgetTaken(ctx, true, "seq IN (SELECT seq FROM daemon_inbox WHERE peer = ?)", peer[:]); err != nil {
		return fmt.Errorf("purge the inbox: %w", err)
	}
	return nil
}
