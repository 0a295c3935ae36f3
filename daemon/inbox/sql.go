package inbox

import (
	"database/sql"
	"errors"
	"strings"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// sqlHeldKeys tells what is held, and what that takes.
func sqlHeldKeys(tx *store.Tx, tell func(heldKey, heldSize)) error {
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

// sqlSenders returns the peers whose messages there are, held or taken.
func sqlSenders(tx *store.Tx) (all []identity.ID, err error) {
	err = tx.Each("SELECT DISTINCT peer FROM daemon_inbox", func(scan func(...any) error) error {
		var peer []byte
		err := scan(&peer)
		all = append(all, newHeldKey(peer, nil).peer)
		return err
	})
	return all, err
}

// sqlHeld returns a held envelope, nil if it is not there.
func sqlHeld(tx *store.Tx, k heldKey) (envelope []byte, err error) {
	err = tx.QueryRow("SELECT envelope FROM daemon_inbox WHERE peer = ? AND id = ?", k.peer[:], k.id[:]).Scan(&envelope)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return envelope, err
}

// isHeld leaves out the messages that agents took: they lie in the same table for a
// while, so that taking one copies nothing.
const isHeld = " seq NOT IN (SELECT seq FROM daemon_taken)"

// sqlHold replaces a message of the same name that an agent took.
func sqlHold(tx *store.Tx, env *wire.Envelope, agent string, envelope []byte) error {
	_, err := tx.Exec("DELETE FROM daemon_taken WHERE seq = (SELECT seq FROM daemon_inbox WHERE peer = ? AND id = ?)", env.From[:], env.ID[:])
	if err != nil {
		return err
	}
	_, err = tx.Exec("INSERT OR REPLACE INTO daemon_inbox (size, peer, id, kind, envelope, agent) VALUES (?, ?, ?, ?, ?, ?)",
		len(envelope), env.From[:], env.ID[:], env.Kind, envelope, agent)
	return err
}

// filterSQL restricts a statement to kinds and peers; its text depends only on
// how many there are.
func filterSQL(kinds []string, peers []identity.ID, args []any) (string, []any) {
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

// sqlInbox returns what is held: all of it, or what an agent may see.
func sqlInbox(tx *store.Tx, after uint64, of *string, kinds []string, peers []identity.ID, limit int) ([]heldRow, error) {
	where, args := filterSQL(kinds, peers, []any{after})
	if of != nil {
		where, args = where+" AND agent IN ('', ?)", append(args, *of)
	}
	return eachRow(tx, "SELECT seq, seen, agent, 0, envelope FROM daemon_inbox WHERE seq > ? AND"+isHeld+where+" ORDER BY seq LIMIT ?", append(args, limit)...)
}

// sqlShown returns the ids of those messages of seqs that are held and that the owner, or
// an agent, may see; for the owner without those that are marked as seen.
func sqlShown(tx *store.Tx, seqs []uint64, of *string) (map[uint64]wire.MessageID, error) {
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

// sqlTaken returns what agents took since a time.
func sqlTaken(tx *store.Tx, after uint64, since int64, kinds []string, peers []identity.ID, limit int) ([]heldRow, error) {
	where, args := filterSQL(kinds, peers, []any{after, since})
	return eachRow(tx, `SELECT seq, i.seen, t.agent, t.at, i.envelope FROM daemon_taken t JOIN daemon_inbox i USING (seq)
		WHERE seq > ? AND t.at > ?`+where+" ORDER BY seq LIMIT ?", append(args, limit)...)
}

func eachRow(tx *store.Tx, query string, args ...any) (held []heldRow, err error) {
	err = tx.Each(query, func(scan func(...any) error) error {
		var r heldRow
		err := scan(&r.seq, &r.seen, &r.agent, &r.taken, &r.envelope)
		held = append(held, r)
		return err
	}, args...)
	return held, err
}

func sqlSeen(tx *store.Tx, seq uint64) error {
	_, err := tx.Exec("UPDATE daemon_inbox SET seen = 1 WHERE seq = ?", seq)
	return err
}

// sqlRemove deletes the first messages that are held and that where says, at most so
// many, and returns what went.
func sqlRemove(tx *store.Tx, where string, most int, args ...any) ([]heldKey, error) {
	return eachKey(tx, "DELETE FROM daemon_inbox WHERE seq IN (SELECT seq FROM daemon_inbox WHERE"+isHeld+" AND "+where+" ORDER BY seq LIMIT ?) RETURNING peer, id", append(args, most)...)
}

// sqlTake is sqlRemove for messages that an agent takes.
func sqlTake(tx *store.Tx, agent string, at int64, where string, most int, args ...any) (taken []heldKey, err error) {
	from := " FROM daemon_inbox WHERE" + isHeld + " AND " + where + " ORDER BY seq LIMIT ?"
	args = append(args, most)
	if taken, err = eachKey(tx, "SELECT peer, id"+from, args...); err != nil || len(taken) == 0 {
		return nil, err
	}
	_, err = tx.Exec("INSERT INTO daemon_taken (seq, size, agent, at) SELECT seq, size, ?, ?"+from, append([]any{agent, at}, args...)...)
	return taken, err
}

func eachKey(tx *store.Tx, query string, args ...any) (keys []heldKey, err error) {
	err = tx.Each(query, func(scan func(...any) error) error {
		var peer, id []byte
		err := scan(&peer, &id)
		keys = append(keys, newHeldKey(peer, id))
		return err
	}, args...)
	return keys, err
}

// sqlForgetTaken deletes the oldest of what agents took that where says, one after the
// other so that where may count, at most so many, and returns how many.
func sqlForgetTaken(tx *store.Tx, where string, most int, args ...any) (n int, err error) {
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
