package inbox

import (
	"database/sql"
	"errors"
	"strings"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/internal/ownwords"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// readHeldKeys calls tell with the key and the size of each held message.
func readHeldKeys(tx *store.Tx, tell func(MessageKey, heldSize)) error {
	return tx.EachRow("SELECT peer, id, size, kind FROM daemon_inbox WHERE"+isHeld, func(scan func(...any) error) error {
		var k MessageKey
		var size heldSize
		var kind string
		if err := scan(store.Blob(k.Peer[:]), store.Blob(k.ID[:]), &size.bytes, &kind); err != nil {
			return err
		}
		size.requested = kinds.Has(kind, kinds.Report)
		tell(k, size)
		return nil
	})
}

// readHeldSenders returns the peers that sent the messages there are, held or taken.
func readHeldSenders(tx *store.Tx) ([]identity.ID, error) {
	return store.ReadRows(tx, "SELECT DISTINCT peer FROM daemon_inbox", func(scan func(...any) error) (id identity.ID, err error) {
		err = scan(store.Blob(id[:]))
		return id, err
	})
}

// readHeldEnvelope returns the text of a message, or nil.
func readHeldEnvelope(tx *store.Tx, k MessageKey) (envelope []byte, err error) {
	err = tx.QueryRow("SELECT envelope FROM daemon_inbox WHERE peer = ? AND id = ?", k.Peer[:], k.ID[:]).Scan(&envelope)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return envelope, err
}

// isHeld leaves out the messages that agents took. They stay in the same table for a while,
// so that to take one copies nothing.
const isHeld = " seq NOT IN (SELECT seq FROM daemon_taken)"

// insertHeldMessage inserts a message. It replaces one of the same name that an agent took.
func insertHeldMessage(tx *store.Tx, env *wire.Envelope, agent, origin string, envelope []byte) error {
	_, err := tx.Exec("DELETE FROM daemon_taken WHERE seq = (SELECT seq FROM daemon_inbox WHERE peer = ? AND id = ?)", env.From[:], env.ID[:])
	if err != nil {
		return err
	}
	_, err = tx.Exec("INSERT OR REPLACE INTO daemon_inbox (size, peer, id, kind, envelope, agent, origin) VALUES (?, ?, ?, ?, ?, ?, ?)",
		len(envelope), env.From[:], env.ID[:], env.Kind, envelope, agent, origin)
	return err
}

// appendSQLFilter returns a condition for kinds, peers and ids, and args with theirs. Its text
// depends only on how many there are.
func appendSQLFilter(kinds []string, peers []identity.ID, ids []wire.MessageID, args []any) (string, []any) {
	var where strings.Builder
	if len(kinds) > 0 {
		where.WriteString(" AND kind IN (?" + strings.Repeat(", ?", len(kinds)-1) + ")")
		for _, k := range kinds {
			args = append(args, k)
		}
	}
	if len(peers) > 0 {
		where.WriteString(" AND peer IN (?" + strings.Repeat(", ?", len(peers)-1) + ")")
		for _, p := range peers {
			args = append(args, p[:])
		}
	}
	if len(ids) > 0 {
		where.WriteString(" AND id IN (?" + strings.Repeat(", ?", len(ids)-1) + ")")
		for _, id := range ids {
			args = append(args, id[:])
		}
	}
	return where.String(), args
}

// heldRow is a row of the inbox.
type heldRow struct {
	seq      uint64
	agent    string // the agent that it is for, "" for any, or that took it
	taken    int64  // when; 0: it is held
	origin   string // client.OriginDaemon, or "" for what the peer has sent
	envelope []byte
}

// readHeldMessages returns held messages, as many as readMessageRows does: of all, or of those that the
// agent named of may see.
func readHeldMessages(tx *store.Tx, p *client.InboxParams, of *string, peers []identity.ID, limit, room int) ([]heldRow, error) {
	query, args := newHeldQuery(p, of, peers, limit)
	return readMessageRows(tx, room, query, args...)
}

// newHeldQuery returns the query of readHeldMessages, and its arguments. The inner SELECT reads no
// envelope, so that only those are read which are returned.
func newHeldQuery(p *client.InboxParams, of *string, peers []identity.ID, limit int) (query string, args []any) {
	where, args := appendSQLFilter(p.Kinds, peers, p.IDs, []any{p.After})
	if of != nil {
		where, args = where+" AND agent IN ('', ?)", append(args, *of)
	}
	return "SELECT seq, agent, 0, origin, envelope FROM daemon_inbox WHERE seq IN (SELECT seq FROM daemon_inbox WHERE seq > ? AND" + isHeld + where + " ORDER BY seq LIMIT ?) ORDER BY seq", append(args, limit)
}

// readHeldIDs returns the ids of the held messages of seqs that the owner, or the agent named
// of, may see.
func readHeldIDs(tx *store.Tx, seqs []uint64, of *string) (map[uint64]wire.MessageID, error) {
	args := make([]any, len(seqs), len(seqs)+1)
	for i, seq := range seqs {
		args[i] = seq
	}
	where := ""
	if of != nil {
		where, args = " AND agent IN ('', ?)", append(args, *of)
	}
	shown := make(map[uint64]wire.MessageID)
	err := tx.EachRow("SELECT seq, id FROM daemon_inbox WHERE seq IN (?"+strings.Repeat(", ?", len(seqs)-1)+") AND"+isHeld+where, func(scan func(...any) error) error {
		var seq uint64
		var id []byte
		err := scan(&seq, &id)
		shown[seq] = wire.MessageID(id)
		return err
	}, args...)
	return shown, err
}

// readHeldKeysByID returns the held messages of these ids and peers that the owner, or the agent named of, may see.
func readHeldKeysByID(tx *store.Tx, ids []wire.MessageID, peers []identity.ID, of *string) ([]MessageKey, error) {
	where, args := appendSQLFilter(nil, peers, ids, nil)
	if of != nil {
		where, args = where+" AND agent IN ('', ?)", append(args, *of)
	}
	return readMessageKeys(tx, "SELECT peer, id FROM daemon_inbox WHERE"+isHeld+where, args...)
}

// readHeldSeqs returns the numbers of held messages that an agent may see, most at most.
func readHeldSeqs(tx *store.Tx, agent string, most int) ([]uint64, error) {
	return store.ReadRows(tx, "SELECT seq FROM daemon_inbox WHERE agent IN ('', ?) AND"+isHeld+" LIMIT ?", func(scan func(...any) error) (seq uint64, err error) {
		err = scan(&seq)
		return seq, err
	}, agent, most)
}

// readHeldKeysOf returns the oldest held messages of a peer and kinds for exactly this agent name.
func readHeldKeysOf(tx *store.Tx, agent string, peer identity.ID, named []string, most int) ([]MessageKey, error) {
	where, args := appendSQLFilter(named, nil, nil, []any{agent, peer[:]})
	return readMessageKeys(tx, "SELECT peer, id FROM daemon_inbox WHERE agent = ? AND peer = ? AND"+isHeld+where+" ORDER BY seq LIMIT ?", append(args, most)...)
}

// readTakenMessages returns the messages that agents took since a time, as many as readMessageRows does.
func readTakenMessages(tx *store.Tx, p *client.InboxParams, since int64, peers []identity.ID, limit, room int) ([]heldRow, error) {
	where, args := appendSQLFilter(p.Kinds, peers, p.IDs, []any{p.After, since})
	return readMessageRows(tx, room, `SELECT seq, t.agent, t.at, i.origin, i.envelope FROM daemon_taken t JOIN daemon_inbox i USING (seq)
		WHERE seq > ? AND t.at > ?`+where+" ORDER BY seq LIMIT ?", append(args, limit)...)
}

// readMessageRows returns the rows of a query up to the one with which their envelopes have more than
// room bytes, and at least two.
func readMessageRows(tx *store.Tx, room int, query string, args ...any) (rows []heldRow, err error) {
	err = tx.EachRow(query, func(scan func(...any) error) error {
		var r heldRow
		if err := scan(&r.seq, &r.agent, &r.taken, &r.origin, &r.envelope); err != nil {
			return err
		}
		rows = append(rows, r)
		if room -= len(r.envelope); room < 0 && len(rows) > 1 {
			return errEnough
		}
		return nil
	}, args...)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return rows, err
}

// errEnough ends readMessageRows.
var errEnough = ownwords.New("enough rows")

// deleteHeldMessages deletes the first held messages that match the SQL condition, at most so many,
// and returns their keys.
func deleteHeldMessages(tx *store.Tx, where string, most int, args ...any) ([]MessageKey, error) {
	return readMessageKeys(tx, "DELETE FROM daemon_inbox WHERE seq IN (SELECT seq FROM daemon_inbox WHERE"+isHeld+" AND "+where+" ORDER BY seq LIMIT ?) RETURNING peer, id", append(args, most)...)
}

// moveHeldToTaken marks the first held messages that match the SQL condition as taken by an
// agent, at most so many, and returns their keys.
func moveHeldToTaken(tx *store.Tx, agent string, at int64, where string, most int, args ...any) (taken []MessageKey, err error) {
	from := " FROM daemon_inbox WHERE" + isHeld + " AND " + where + " ORDER BY seq LIMIT ?"
	args = append(args, most)
	if taken, err = readMessageKeys(tx, "SELECT peer, id"+from, args...); err != nil || len(taken) == 0 {
		return nil, err
	}
	_, err = tx.Exec("INSERT INTO daemon_taken (seq, size, agent, at) SELECT seq, size, ?, ?"+from, append([]any{agent, at}, args...)...)
	return taken, err
}

func readMessageKeys(tx *store.Tx, query string, args ...any) ([]MessageKey, error) {
	return store.ReadRows(tx, query, func(scan func(...any) error) (k MessageKey, err error) {
		err = scan(store.Blob(k.Peer[:]), store.Blob(k.ID[:]))
		return k, err
	}, args...)
}

// deleteTakenMessages deletes the oldest taken messages as long as the SQL condition holds, at most
// so many, and returns how many. It deletes one after the other, so that the condition may
// count them.
func deleteTakenMessages(tx *store.Tx, where string, most int, args ...any) (n int, err error) {
	for ; n < most; n++ {
		var seq int64
		err := tx.QueryRow("SELECT seq FROM daemon_taken WHERE "+where+" ORDER BY at, seq LIMIT 1", args...).Scan(&seq)
		if errors.Is(err, sql.ErrNoRows) {
			break
		}
		if err == nil {
			_, err = tx.Exec("DELETE FROM daemon_inbox WHERE seq = ?", seq)
		}
		if err == nil {
			_, err = tx.Exec("DELETE FROM daemon_taken WHERE seq = ?", seq)
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
