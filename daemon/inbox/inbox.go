// Package inbox keeps the messages that no attached agent took, on disk, until a
// consumer acknowledges them, and remembers inbound messages so that a repeat gets the
// outcome of the first run.
//
// A message that is held is on disk when [Inbox.AddMessage] returns, and nothing that is held
// is dropped. An agent, or the owner, acknowledges only what it was shown.
//
// It leaves to others whether a message is handed to an agent instead (package agents).
package inbox

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/acpd/acpd/budget"
	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// Bounds of the inbox. Package budget bounds what peers may have held.
const (
	defaultListed   = 100  // messages in an answer of List, unless its caller asks for more
	MaxListed       = 1000 // the most there can be; the length of a line bounds them too
	MaxRowsPerWrite = 64   // rows that one write marks or removes: other writers wait meanwhile

	// A message for any agent is kept for a while after one of them took it: enough to see what that agent
	// did in the last days. The oldest are deleted first.
	maxTaken      = 1000
	maxTakenBytes = 16 << 20
	takenKeptFor  = 7 * 24 * time.Hour
)

// Inbox keeps the messages that no attached agent took. It drops no message that it has accepted: a full
// inbox refuses new ones.
type Inbox struct {
	Removed func(MessageKey) // is called, not under a lock, after a message has left; may be nil, and is set before the first use

	db        *store.DB
	checkRoom func(identity.ID) error // returns an error if nothing of a peer may be kept; may be nil

	mu      sync.Mutex                     // guards what follows
	held    map[MessageKey]heldSize        // what is held or about to be
	senders map[wire.MessageID]identity.ID // of what is held
	shown   showings                       // what List has returned

	unrequested, requested accounts
}

// accounts are the budgets of peers for one sort of held message.
type accounts struct{ messages, bytes *budget.Account }

// heldSize holds what a message takes of its sender's share.
type heldSize struct {
	bytes     int64
	requested bool // the result of a delegation from here
	isEarlier bool // it was held when the inbox was opened
}

// MessageKey names a message: no two with the same key are held.
type MessageKey struct {
	Peer identity.ID
	ID   wire.MessageID
}

// OpenInbox reads what is held. room, which may be nil, returns an error if nothing of a peer
// may be kept now.
func OpenInbox(ctx context.Context, db *store.DB, book *budget.Book, maxMessage int, room func(identity.ID) error) (*Inbox, error) {
	b := &Inbox{
		db: db, checkRoom: room, held: make(map[MessageKey]heldSize), senders: make(map[wire.MessageID]identity.ID),
		unrequested: accounts{book.OpenAccount(budget.Inbox), book.OpenAccount(budget.NewInboxBytesRow(maxMessage))},
		requested:   accounts{book.OpenAccount(budget.Results), book.OpenAccount(budget.NewResultsBytesRow(maxMessage))},
	}
	err := db.Read(ctx, func(tx *store.Tx) error {
		return readHeldKeys(tx, func(k MessageKey, size heldSize) {
			size.isEarlier = true
			b.held[k], b.senders[k.ID] = size, k.Peer
			b.accountsOf(size).messages.AddUnchecked(k.Peer, 1)
			b.accountsOf(size).bytes.AddUnchecked(k.Peer, size.bytes)
		})
	})
	if err != nil {
		return nil, ownwords.Errorf("open inbox: %w", err)
	}
	return b, nil
}

// Contains reports whether the inbox has the message, so that a repeat makes no second copy
// after a restart either. It returns an error if the inbox has other content under the id.
func (b *Inbox) Contains(ctx context.Context, env *wire.Envelope) (bool, error) {
	key := MessageKey{env.From, env.ID}
	if !b.holds(key) {
		return false, nil
	}
	text, err := store.ReadValue(ctx, b.db, func(tx *store.Tx) ([]byte, error) { return readHeldEnvelope(tx, key) })
	if err != nil || text == nil { // acknowledged meanwhile
		return false, err
	}
	old, err := wire.ParseEnvelope(text)
	if err != nil {
		return false, ownwords.Errorf("inbox: message %s: %w", env.ID, err)
	}
	if HashMessage(old) != HashMessage(env) {
		return false, NewReusedIDError(env)
	}
	return true, nil
}

// holds reports whether a message is held or about to be.
func (b *Inbox) holds(key MessageKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, held := b.held[key]
	return held
}

// IsFromEarlierRun reports whether a message was held when the inbox was opened.
func (b *Inbox) IsFromEarlierRun(key MessageKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[key].isEarlier
}

// FindSender returns who sent the held message of an id.
func (b *Inbox) FindSender(id wire.MessageID) (from identity.ID, held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	from, held = b.senders[id]
	return from, held
}

// findSendersOf returns the peers whose messages are searched for ids, because the index begins
// with the peer. They are the named peers, or else the peers that sent a held message of one of the
// ids. Without such a peer it returns the zero id, which matches no message.
func (b *Inbox) findSendersOf(ids []wire.MessageID, named []identity.ID) []identity.ID {
	if len(ids) == 0 || len(named) > 0 {
		return named
	}
	wanted, senders := make(map[wire.MessageID]bool, len(ids)), make(map[identity.ID]bool)
	for _, id := range ids {
		wanted[id] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for k := range b.held { // not b.senders: an older acpd has taken messages of two peers under one id
		if wanted[k.ID] {
			senders[k.Peer] = true
		}
	}
	if len(senders) == 0 {
		return []identity.ID{{}}
	}
	return slices.Collect(maps.Keys(senders))
}

// AddMessage keeps a message for the agent of a name, or for any if that is "". The message is on
// disk when AddMessage returns. origin is client.OriginDaemon if this daemon has made it. The error is
// overloaded if the peer's share is used up.
func (b *Inbox) AddMessage(ctx context.Context, env *wire.Envelope, agent, origin string) error {
	var buf bytes.Buffer
	if err := env.Append(&buf); err != nil {
		return ownwords.Errorf("hold: %w", err)
	}
	key, size := MessageKey{env.From, env.ID}, heldSize{bytes: int64(buf.Len()), requested: kinds.Has(env.Kind, kinds.Report)}
	if b.checkRoom != nil {
		if err := b.checkRoom(env.From); err != nil {
			return err
		}
	}
	if err := b.reserveShare(key, size); err != nil {
		return kinds.Errorf(kinds.Overloaded, "the inbox is full for this peer (%v): its owner has to read and acknowledge messages; try again later", err)
	}
	if err := b.db.Write(ctx, true, func(tx *store.Tx) error { return insertHeldMessage(tx, env, agent, origin, buf.Bytes()) }); err != nil {
		b.releaseShares([]MessageKey{key})
		return ownwords.Errorf("hold: %w", err)
	}
	return nil
}

func (b *Inbox) accountsOf(size heldSize) accounts {
	if size.requested {
		return b.requested
	}
	return b.unrequested
}

func (b *Inbox) reserveShare(key MessageKey, size heldSize) error {
	s := b.accountsOf(size)
	if err := s.messages.Reserve(key.Peer, 1); err != nil {
		return err
	}
	if err := s.bytes.Reserve(key.Peer, size.bytes); err != nil {
		s.messages.Release(key.Peer, 1)
		return err
	}
	b.releaseShares([]MessageKey{key}) // of a run that is so old that its repeat is not known as one
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[key] = size
	if _, known := b.senders[key.ID]; !known { // else an older acpd has taken messages of two peers under one id
		b.senders[key.ID] = key.Peer
	}
	return nil
}

func (b *Inbox) releaseShares(keys []MessageKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range keys {
		size, ok := b.held[k]
		if !ok {
			continue
		}
		delete(b.held, k)
		if b.senders[k.ID] == k.Peer {
			delete(b.senders, k.ID)
		}
		s := b.accountsOf(size)
		s.messages.Release(k.Peer, 1)
		s.bytes.Release(k.Peer, size.bytes)
	}
}

// List returns held messages in their order, or those that agents took. It returns as many
// as fit room bytes, and at least one. If of is nil it lists for the owner, else for the
// agent of that name, which sees what is for it or for any. From then on that caller may
// acknowledge them, unless it only peeks.
func (b *Inbox) List(ctx context.Context, p *client.InboxParams, of *string, peers []identity.ID, room int) (*client.Inbox, error) {
	limit := min(cmp.Or(p.Limit, defaultListed), MaxListed)
	if !p.Taken {
		peers = b.findSendersOf(p.IDs, peers)
	}
	rows, err := store.ReadValue(ctx, b.db, func(tx *store.Tx) ([]heldRow, error) {
		if p.Taken {
			return readTakenMessages(tx, p, time.Now().Add(-takenKeptFor).UnixMilli(), peers, limit+1, room)
		}
		return readHeldMessages(tx, p, of, peers, limit+1, room)
	})
	if err != nil {
		return nil, ownwords.Errorf("inbox: %w", err)
	}
	answer := &client.Inbox{Messages: []client.HeldMessage{}}
	shown := make(map[uint64]wire.MessageID)
	for i, r := range rows {
		env, err := wire.ParseEnvelope(r.envelope)
		if err != nil {
			return nil, ownwords.Errorf("inbox: message %d: %w", r.seq, err)
		}
		room -= max(len(r.envelope), 512+len(env.Payload)+wire.MaxJSONLength(env.Kind+env.Agent+env.FromAgent+env.Thread+env.Trace+r.agent))
		if i == limit || i > 0 && room < 0 {
			answer.Next = rows[i-1].seq
			break
		}
		if !p.Taken {
			shown[r.seq] = env.ID
		}
		answer.Messages = append(answer.Messages, client.HeldMessage{Seq: r.seq, Envelope: *env, Agent: r.agent, TakenAt: client.Time{Time: store.FromMillis(r.taken)}, Origin: r.origin})
	}
	if !p.Peek {
		b.recordShown(of, shown)
	}
	return answer, nil
}

// nameReader returns the name under which the showings of an agent, or of the owner, are kept.
func nameReader(of *string) string {
	if of == nil {
		return owner
	}
	return *of
}

// MarkShown lets the owner, or the agent of, acknowledge messages that it may see, as if
// List had returned them.
func (b *Inbox) MarkShown(ctx context.Context, seqs []uint64, of *string) error {
	shown, err := store.ReadValue(ctx, b.db, func(tx *store.Tx) (map[uint64]wire.MessageID, error) { return readHeldIDs(tx, seqs, of) })
	if err != nil {
		return ownwords.Errorf("shown: %w", err)
	}
	b.recordShown(of, shown)
	return nil
}

// recordShown lets the owner, or the agent of, acknowledge messages that it was shown.
func (b *Inbox) recordShown(of *string, shown map[uint64]wire.MessageID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown.recordShown(nameReader(of), shown, func(id wire.MessageID) bool {
		_, held := b.senders[id]
		return held
	})
}

// ReadMessage returns a held message, or nil if the inbox does not have it any more.
func (b *Inbox) ReadMessage(ctx context.Context, k MessageKey) (*wire.Envelope, error) {
	if !b.holds(k) {
		return nil, nil
	}
	text, err := store.ReadValue(ctx, b.db, func(tx *store.Tx) ([]byte, error) { return readHeldEnvelope(tx, k) })
	if err != nil || text == nil {
		return nil, err
	}
	return wire.ParseEnvelope(text)
}

// FindHeld returns which of these ids held messages have, of those that the owner, or the agent of, may see.
func (b *Inbox) FindHeld(ctx context.Context, ids []wire.MessageID, peers []identity.ID, of *string) (held []wire.MessageID, err error) {
	for some := range slices.Chunk(ids, MaxRowsPerWrite) {
		keys, err := store.ReadValue(ctx, b.db, func(tx *store.Tx) ([]MessageKey, error) {
			return readHeldKeysByID(tx, some, b.findSendersOf(some, peers), of)
		})
		if err != nil {
			return nil, ownwords.Errorf("find messages in the inbox: %w", err)
		}
		for _, k := range keys {
			held = append(held, k.ID)
		}
	}
	return held, nil
}

// CountMessages counts the held messages that an agent may see, up to most, and those of them that it was shown.
func (b *Inbox) CountMessages(ctx context.Context, agent string, most int) (all, shown int, err error) {
	seqs, err := store.ReadValue(ctx, b.db, func(tx *store.Tx) ([]uint64, error) { return readHeldSeqs(tx, agent, most) })
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(seqs), b.shown.countShown(agent, seqs), err
}

// ListKeys returns held messages for an agent, of the peers and kinds of kindsByPeer. The oldest of
// each peer comes first, then the second of each, and so on. It returns at most so many of one peer.
func (b *Inbox) ListKeys(ctx context.Context, agent string, kindsByPeer map[identity.ID][]string, most int) ([]MessageKey, error) {
	columns := make([][]MessageKey, 0, len(kindsByPeer))
	err := b.db.Read(ctx, func(tx *store.Tx) error {
		columns = columns[:0]
		for peer, named := range kindsByPeer {
			keys, err := readHeldKeysOf(tx, agent, peer, named, most)
			if err != nil {
				return err
			}
			columns = append(columns, keys)
		}
		return nil
	})
	var all []MessageKey
	for i := range most {
		for _, keys := range columns {
			if i < len(keys) {
				all = append(all, keys[i])
			}
		}
	}
	return all, err
}
