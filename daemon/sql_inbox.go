package daemon

import (
	"database/sql"
	"errors"
	"strings"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// sqlHeldKeys returns what is held, and how many bytes that are.
func sqlHeldKeys(tx *store.Tx) ([]heldKey, int, error) {
	return eachHeld(tx, "SELECT peer, id, size FROM daemon_inbox")
}

func eachHeld(tx *store.Tx, query string, args ...any) (keys []heldKey, bytes int, _ error) {
	err := tx.Each(query, func(scan func(...any) error) error {
		var k heldKey
		var peer, id []byte
		var size int
		err := scan(&peer, &id, &size)
		copy(k.peer[:], peer)
		copy(k.id[:], id)
		keys, bytes = append(keys, k), bytes+size
		return err
	}, args...)
	return keys, bytes, err
}

// sqlHeld returns a held envelope, nil if it is not there.
func sqlHeld(tx *store.Tx, k heldKey) (envelope []byte, err error) {
	err = tx.QueryRow("SELECT envelope FROM daemon_inbox WHERE peer = ? AND id = ?", k.peer[:], k.id[:]).Scan(&envelope)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return envelope, err
}

func sqlHold(tx *store.Tx, env *wire.Envelope, envelope []byte) error {
	_, err := tx.Exec("INSERT INTO daemon_inbox (size, peer, id, kind, envelope) VALUES (?, ?, ?, ?, ?)",
		len(envelope), env.From[:], env.ID[:], env.Kind, envelope)
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
	envelope []byte
}

func sqlInbox(tx *store.Tx, after uint64, kinds []string, peers []identity.ID, limit int) (held []heldRow, err error) {
	where, args := filterSQL(kinds, peers, []any{after})
	err = tx.Each("SELECT seq, seen, envelope FROM daemon_inbox WHERE seq > ?"+where+" ORDER BY seq LIMIT ?", func(scan func(...any) error) error {
		var r heldRow
		err := scan(&r.seq, &r.seen, &r.envelope)
		held = append(held, r)
		return err
	}, append(args, limit)...)
	return held, err
}

func sqlSeen(tx *store.Tx, seq uint64) error {
	_, err := tx.Exec("UPDATE daemon_inbox SET seen = 1 WHERE seq = ?", seq)
	return err
}

// sqlRemove deletes messages and returns what went.
func sqlRemove(tx *store.Tx, where string, args ...any) ([]heldKey, int, error) {
	return eachHeld(tx, "DELETE FROM daemon_inbox WHERE "+where+" RETURNING peer, id, size", args...)
}
