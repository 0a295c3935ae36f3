package daemon

import (
	"context"
	"database/sql"
	"errors"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
)

// The SQL of the package is here and in sql_inbox.go and sql_task.go. Times are unix
// milliseconds, 0 for none.

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
) STRICT, WITHOUT ROWID;`, `
ALTER TABLE daemon_task ADD COLUMN holder BLOB NOT NULL DEFAULT x'';

ALTER TABLE daemon_inbox ADD COLUMN agent TEXT NOT NULL DEFAULT '';

UPDATE daemon_inbox SET agent = coalesce(
	(SELECT t.agent FROM daemon_task t WHERE t.direction = 'given' AND t.agent <> '' AND t.peer = daemon_inbox.peer
		AND lower(hex(t.id)) = replace(json_extract(CAST(envelope AS TEXT), '$.ref'), '-', '')),
	json_extract(CAST(envelope AS TEXT), '$.agent'), '')
WHERE json_valid(CAST(envelope AS TEXT));

CREATE TABLE daemon_taken (
	seq   INTEGER PRIMARY KEY,
	size  INTEGER NOT NULL,
	agent TEXT NOT NULL,
	at    INTEGER NOT NULL
) STRICT;`,
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
		_, err := tx.Exec("INSERT INTO daemon_setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value)
		return err
	})
}

// Where peers were last connected.

func sqlAddrs(tx *store.Tx) (map[identity.ID]sighting, error) {
	all := make(map[identity.ID]sighting)
	return all, tx.Each("SELECT peer, addr FROM daemon_addr", func(scan func(...any) error) error {
		var peer []byte
		var id identity.ID
		var s sighting
		err := scan(&peer, &s.addr)
		copy(id[:], peer)
		all[id] = s
		return err
	})
}

// sqlSetAddr sets the address of a peer; "" removes it.
func sqlSetAddr(tx *store.Tx, id identity.ID, addr string) error {
	if addr == "" {
		_, err := tx.Exec("DELETE FROM daemon_addr WHERE peer = ?", id[:])
		return err
	}
	_, err := tx.Exec("INSERT INTO daemon_addr (peer, addr) VALUES (?, ?) ON CONFLICT (peer) DO UPDATE SET addr = excluded.addr", id[:], addr)
	return err
}
