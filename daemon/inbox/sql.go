package inbox

import (
	"database/sql"
	"errors"
	"strings"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// readHeldKeys tells the key and the size of each held message.
func readHeldKeys(tx *store.Tx, tell func(heldKey, heldSize)) error {
	return tx.Each("SELECT peer, id, size, kind FROM daemon_inbox WHERE"+isHeld, func(scan func(...any) error) error {
		var peer, id []byte
		var size heldSize
		var kind string
		if err := scan(&peer, &id, &size.bytes, &kind); err != nil {
			return err
		}
		size.asked = isAsked(kind)
		tell(newHeldKey(peer, id), size)
		return nil
	})
}

func newHeldKey(peer, id []byte) (k heldKey) {
	copy(k.peer[:], peer)
	copy(k.id[:], id)
	return k
}

// readSenders returns the peers that sent the messages there are, held or taken.
func readSenders(tx *store.Tx) (all []identity.ID, err error) {
	err = tx.Each("SELECT DISTINCT peer FROM daemon_inbox", func(scan func(...any) error) error {
		var peer []byte
		err := scan(&peer)
		all = append(all, newHeldKey(peer, nil).peer)
		return err
	})
	return all, err
}

// readEnvelope returns the text of a message, nil if there is none.
func readEnvelope(tx *store.Tx, k heldKey) (envelope []byte, err error) {
	err = tx.QueryRow("SELECT envelope FROM daemon_inbox WHERE peer = ? AND id = ?", k.peer[:], k.id[:]).Scan(&envelope)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return envelope, err
}

// isHeld leaves out the messages that agents took. They stay in the same table for a while,
// so that to take one copies nothing.
const isHeld = " seq NOT IN (SELECT seq FROM daemon_taken)"

// insertHeld inserts a message. It replaces one of the same name that an agent took.
func insertHeld(tx *store.Tx, env *wire.Envelope, agent string, envelope []byte) error {
	_, err := tx.Exec("DELETE FROM daemon_taken WHERE seq = (SELECT seq FROM daemon_inbox WHERE peer = ? AND id = ?)", env.From[:], env.ID[:])
	if err != nil {
		return err
	}
	_, err = tx.Exec("INSERT OR REPLACE INTO daemon_inbox (size, peer, id, kind, envelope, agent) VALUES (?, ?, ?, ?, ?, ?)",
		len(envelope), env.From[:], env.ID[:], env.Kind, envelope, agent)
	return err
}

// appendFilter returns a condition for kinds and peers, and args with theirs. Its text
// depends only on how many there are.
func appendFilter(kinds []string, peers []identity.ID, args []any) (string, []any) {
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
	return where.String(), args
}

// heldRow is a row of the inbox.
type heldRow struct {
	seq      uint64
	seen     bool
	agent    string // whom it is for, or who took it
	taken    int64  // when; 0: it is held
	envelope []byte
}

// readHeld returns held messages: all, or those that the agent of may see.
func readHeld(tx *store.Tx, after uint64, of *string, kinds []string, peers []identity.ID, limit int) ([]heldRow, error) {
	where, args := appendFilter(kinds, peers, []any{after})
	if of != nil {
		where, args = where+" AND agent IN ('', ?)", append(args, *of)
	}
	return readRows(tx, "SELECT seq, seen, agent, 0, envelope FROM daemon_inbox WHERE seq > ? AND"+isHeld+where+" ORDER BY seq LIMIT ?", append(args, limit)...)
}

// readShown returns the ids of those messages of seqs that are held and that the owner, or
// the agent of, may see. For the owner it leaves out those that are marked as seen.
func readShown(tx *store.Tx, seqs []uint64, of *string) (map[uint64]wire.MessageID, error) {
	args := make([]any, len(seqs), len(seqs)+1)
	for i, seq := range seqs {
		args[i] = seq
	}
	where := " AND seen = 0"
	if of != nil {
		where, args = " AND agent IN ('', ?)", append(args, *of)
	}
	shown := make(map[uint64]wire.MessageID)
	err := tx.Each("SELECT seq, id FROM daemon_inbox WHERE seq IN (?"+strings.Repeat(", ?", len(seqs)-1)+") AND"+isHeld+where, func(scan func(...any) error) error {
		var seq uint64
		var id []byte
		err := scan(&seq, &id)
		shown[seq] = wire.MessageID(id)
		return err
	}, args...)
	return shown, err
}

// readTaken returns the messages that agents took since a time.
func readTaken(tx *store.Tx, after uint64, since int64, kinds []string, peers []identity.ID, limit int) ([]heldRow, error) {
	where, args := appendFilter(kinds, peers, []any{after, since})
	return readRows(tx, `SELECT seq, i.seen, t.agent, t.at, i.envelope FROM daemon_taken t JOIN daemon_inbox i USING (seq)
		WHERE seq > ? AND t.at > ?`+where+" ORDER BY seq LIMIT ?", append(args, limit)...)
}

func readRows(tx *store.Tx, query string, args ...any) (held []heldRow, err error) {
	err = tx.Each(query, func(scan func(...any) error) error {
		var r heldRow
		err := scan(&r.seq, &r.seen, &r.agent, &r.taken, &r.envelope)
		held = append(held, r)
		return err
	}, args...)
	return held, err
}

func markSeen(tx *store.Tx, seq uint64) error {
	_, err := tx.Exec("UPDATE daemon_inbox SET seen = 1 WHERE seq = ?", seq)
	return err
}

// deleteHeld deletes the first held messages that match where, at most so many, and returns
// their keys.
func deleteHeld(tx *store.Tx, where string, most int, args ...any) ([]heldKey, error) {
	return readKeys(tx, "DELETE FROM daemon_inbox WHERE seq IN (SELECT seq FROM daemon_inbox WHERE"+isHeld+" AND "+where+" ORDER BY seq LIMIT ?) RETURNING peer, id", append(args, most)...)
}

// moveToTaken enters the first held messages that match where as taken by an agent, at most
// so many, and returns their keys.
func moveToTaken(tx *store.Tx, agent string, at int64, where string, most int, args ...any) (taken []heldKey, err error) {
	from := " FROM daemon_inbox WHERE" + isHeld + " AND " + where + " ORDER BY seq LIMIT ?"
	args = append(args, most)
	if taken, err = readKeys(tx, "SELECT peer, id"+from, args...); err != nil || len(taken) == 0 {
		return nil, err
	}
	_, err = tx.Exec("INSERT INTO daemon_taken (seq, size, agent, at) SELECT seq, size, ?, ?"+from, append([]any{agent, at}, args...)...)
	return taken, err
}

func readKeys(tx *store.Tx, query string, args ...any) (keys []heldKey, err error) {
	err = tx.Each(query, func(scan func(...any) error) error {
		var peer, id []byte
		err := scan(&peer, &id)
		keys = append(keys, newHeldKey(peer, id))
		return err
	}, args...)
	return keys, err
}

// deleteTaken deletes the oldest taken messages while where holds, at most so many, and
// returns how many. It deletes one after the other, so that where may count them.
func deleteTaken(tx *store.Tx, where string, most int, args ...any) (n int, err error) {
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
