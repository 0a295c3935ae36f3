package daemon

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
	"github.com/acpd/acpd/wire"
)

// All SQL of the package. Times are unix milliseconds, 0 for none.

// schema is every step that these tables have taken; a released one never changes.
var schema = []string{`
CREATE TABLE daemon_setting (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE daemon_inbox (
	seq      INTEGER PRIMARY KEY AUTOINCREMENT,
	size     INTEGER NOT NULL,
	seen     INTEGER NOT NULL DEFAULT 0,
	peer     BLOB NOT NULL,
	id       BLOB NOT NULL,
	kind     TEXT NOT NULL,
	envelope BLOB NOT NULL,
	UNIQUE (peer, id)
) STRICT;

CREATE TABLE daemon_task (
	row       INTEGER PRIMARY KEY AUTOINCREMENT,
	direction TEXT NOT NULL,
	peer      BLOB NOT NULL,
	id        BLOB NOT NULL,
	hash      BLOB NOT NULL,
	state     TEXT NOT NULL,
	agent     TEXT NOT NULL,
	thread    TEXT NOT NULL,
	hops      INTEGER NOT NULL,
	trace     TEXT NOT NULL,
	reports   INTEGER NOT NULL,
	created   INTEGER NOT NULL,
	deadline  INTEGER NOT NULL,
	partials  INTEGER NOT NULL DEFAULT 0,
	owed      INTEGER NOT NULL DEFAULT 0,
	final_id  BLOB NOT NULL DEFAULT x'',
	outcome   TEXT NOT NULL DEFAULT '',
	task      TEXT NOT NULL,
	ack       BLOB,
	partial   BLOB,
	final     BLOB,
	UNIQUE (direction, peer, id)
) STRICT;`, `
CREATE TABLE daemon_addr (
	peer BLOB PRIMARY KEY,
	addr TEXT NOT NULL
) STRICT, WITHOUT ROWID;`,
}

const settingPort = "port" // the UDP port that was chosen when 7117 was taken

func readSetting(ctx context.Context, db *store.DB, name string) (value string, err error) {
	err = db.Read(ctx, func(tx *store.Tx) error {
		err := tx.QueryRow("SELECT value FROM daemon_setting WHERE name = ?", name).Scan(&value)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return value, err
}

func writeSetting(ctx context.Context, db *store.DB, name, value string) error {
	return db.Write(ctx, true, func(tx *store.Tx) error {
		_, err := tx.Exec("INSERT INTO daemon_setting VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value)
		return err
	})
}

// Where peers were last connected.

func sqlAddrs(tx *store.Tx) (map[identity.ID]sighting, error) {
	rows, err := tx.Query("SELECT peer, addr FROM daemon_addr")
	if err != nil {
		return nil, err
	}
	all := make(map[identity.ID]sighting)
	for rows.Next() {
		var peer []byte
		var id identity.ID
		var s sighting
		if err := rows.Scan(&peer, &s.addr); err != nil {
			return nil, err
		}
		copy(id[:], peer)
		all[id] = s
	}
	return all, rows.Err()
}

// sqlSetAddr sets the address of a peer; "" removes it.
func sqlSetAddr(tx *store.Tx, id identity.ID, addr string) error {
	if addr == "" {
		_, err := tx.Exec("DELETE FROM daemon_addr WHERE peer = ?", id[:])
		return err
	}
	_, err := tx.Exec("INSERT INTO daemon_addr VALUES (?, ?) ON CONFLICT (peer) DO UPDATE SET addr = excluded.addr", id[:], addr)
	return err
}

// Inbox.

// sqlHeldKeys returns what is held, and how many bytes that are.
func sqlHeldKeys(tx *store.Tx) ([]heldKey, int, error) {
	return scanHeld(tx.Query("SELECT peer, id, size FROM daemon_inbox"))
}

func scanHeld(rows *sql.Rows, err error) (keys []heldKey, bytes int, _ error) {
	if err != nil {
		return nil, 0, err
	}
	for rows.Next() {
		var k heldKey
		var peer, id []byte
		var size int
		if err := rows.Scan(&peer, &id, &size); err != nil {
			return nil, 0, err
		}
		copy(k.peer[:], peer)
		copy(k.id[:], id)
		keys = append(keys, k)
		bytes += size
	}
	return keys, bytes, rows.Err()
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

func sqlInbox(tx *store.Tx, after uint64, kinds []string, peers []identity.ID, limit int) ([]heldRow, error) {
	where, args := filterSQL(kinds, peers, []any{after})
	rows, err := tx.Query("SELECT seq, seen, envelope FROM daemon_inbox WHERE seq > ?"+where+" ORDER BY seq LIMIT ?", append(args, limit)...)
	if err != nil {
		return nil, err
	}
	var held []heldRow
	for rows.Next() {
		var r heldRow
		if err := rows.Scan(&r.seq, &r.seen, &r.envelope); err != nil {
			return nil, err
		}
		held = append(held, r)
	}
	return held, rows.Err()
}

func sqlSeen(tx *store.Tx, seq uint64) error {
	_, err := tx.Exec("UPDATE daemon_inbox SET seen = 1 WHERE seq = ?", seq)
	return err
}

// sqlRemove deletes messages and returns what went.
func sqlRemove(tx *store.Tx, where string, args ...any) ([]heldKey, int, error) {
	return scanHeld(tx.Query("DELETE FROM daemon_inbox WHERE "+where+" RETURNING peer, id, size", args...))
}

// Tasks.

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func sqlTasks(tx *store.Tx) ([]*task, error) {
	rows, err := tx.Query(`SELECT row, direction, peer, id, hash, state, agent, thread, hops, trace, reports, created, deadline, partials, owed, final_id,
		ack IS NOT NULL FROM daemon_task ORDER BY row`)
	if err != nil {
		return nil, err
	}
	var all []*task
	for rows.Next() {
		t := new(task)
		var peer, id, hash, final []byte
		var created, deadline int64
		if err := rows.Scan(&t.row, &t.direction, &peer, &id, &hash, &t.state, &t.agent, &t.chain.thread, &t.chain.hops, &t.chain.trace,
			&t.reports, &created, &deadline, &t.partials, &t.owed, &final, &t.acked); err != nil {
			return nil, err
		}
		copy(t.peer[:], peer)
		copy(t.id[:], id)
		copy(t.hash[:], hash)
		copy(t.finalID[:], final)
		t.created, t.deadline = fromMillis(created), fromMillis(deadline)
		all = append(all, t)
	}
	return all, rows.Err()
}

// sqlBegin replaces an entry that was just dropped from memory and is about to be
// deleted here; rows are never used twice, so that deletes nothing of the new one.
func sqlBegin(tx *store.Tx, t *task, text string) error {
	_, err := tx.Exec(`INSERT OR REPLACE INTO daemon_task (row, direction, peer, id, hash, state, agent, thread, hops, trace, reports, created, deadline, task)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.row, t.direction, t.peer[:], t.id[:], t.hash[:], t.state, t.agent, t.chain.thread, t.chain.hops, t.chain.trace, t.reports,
		millis(t.created), millis(t.deadline), beginning(text))
	return err
}

// beginning bounds a text for [client.Task]: the whole of an outcome is in the
// payload that said it.
func beginning(text string) string {
	if len(text) <= client.MaxBeginning {
		return text
	}
	const more = "…"
	end := client.MaxBeginning - len(more)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// An ack, and a way between sent, unknown and refused, never undo an end that was
// written meanwhile.

func sqlAck(tx *store.Tx, row int64, state string, ack []byte) error {
	_, err := tx.Exec("UPDATE daemon_task SET ack = ?, state = CASE WHEN state IN ('sent', 'unknown', 'refused') THEN ? ELSE state END WHERE row = ?", ack, state, row)
	return err
}

func sqlState(tx *store.Tx, row int64, state string) error {
	_, err := tx.Exec("UPDATE daemon_task SET state = ? WHERE row = ? AND state IN ('sent', 'unknown', 'refused')", state, row)
	return err
}

func sqlRefused(tx *store.Tx, row int64, why string) error {
	_, err := tx.Exec("UPDATE daemon_task SET state = 'refused', outcome = ? WHERE row = ? AND state IN ('sent', 'unknown')", beginning(why), row)
	return err
}

func sqlPartial(tx *store.Tx, row int64, payload []byte) error {
	_, err := tx.Exec(`UPDATE daemon_task SET partials = partials + 1, partial = ?,
		state = CASE WHEN state IN ('sent', 'unknown') THEN 'accepted' ELSE state END WHERE row = ?`, payload, row)
	return err
}

func sqlFinal(tx *store.Tx, row int64, e ending) error {
	_, err := tx.Exec("UPDATE daemon_task SET state = ?, outcome = ?, final_id = ?, final = ?, owed = ? WHERE row = ?",
		e.state, beginning(e.outcome), e.id[:], []byte(e.payload), e.owed, row)
	return err
}

func sqlPaid(tx *store.Tx, row int64) error {
	_, err := tx.Exec("UPDATE daemon_task SET owed = 0 WHERE row = ?", row)
	return err
}

func sqlForget(tx *store.Tx, row int64) error {
	_, err := tx.Exec("DELETE FROM daemon_task WHERE row = ?", row)
	return err
}

func sqlAckOf(tx *store.Tx, row int64) (ack []byte, err error) {
	err = tx.QueryRow("SELECT ack FROM daemon_task WHERE row = ?", row).Scan(&ack)
	return ack, err
}

// sqlShow fills in what is not kept in memory.
func sqlShow(tx *store.Tx, row int64, t *client.Task, payloads bool) error {
	if !payloads {
		return tx.QueryRow("SELECT task, outcome FROM daemon_task WHERE row = ?", row).Scan(&t.Task, &t.Outcome)
	}
	var partial, final []byte
	err := tx.QueryRow("SELECT task, outcome, partial, final FROM daemon_task WHERE row = ?", row).Scan(&t.Task, &t.Outcome, &partial, &final)
	if t.Result = final; len(final) == 0 {
		t.Partial = partial // both may be too long for one line
	}
	return err
}
