// Package schema has the tables of the daemon and of its packages in state.db. Only the package that reads and
// writes a table knows its content.
package schema

import (
	"context"

	"github.com/acpd/acpd/store"
)

// Migrate brings the tables of a database up to date.
func Migrate(ctx context.Context, db *store.DB) error { return db.Migrate(ctx, "daemon", steps) }

// steps are every step that these tables have taken; a released one never changes.
var steps = []string{`
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
) STRICT;`, `
ALTER TABLE daemon_task ADD COLUMN from_agent TEXT NOT NULL DEFAULT '';`, `
CREATE TABLE daemon_turn (
	agent   TEXT NOT NULL,
	message BLOB NOT NULL,
	sent    INTEGER NOT NULL,
	cause   BLOB NOT NULL,
	at      INTEGER NOT NULL,
	PRIMARY KEY (agent, message, sent)
) STRICT, WITHOUT ROWID;`, `
CREATE TABLE daemon_spent (
	day     TEXT NOT NULL,
	peer    BLOB NOT NULL,
	profile TEXT NOT NULL,
	runs    INTEGER NOT NULL,
	micros  INTEGER NOT NULL,
	tokens  INTEGER NOT NULL,
	PRIMARY KEY (day, peer, profile)
) STRICT, WITHOUT ROWID;

CREATE TABLE daemon_reserved (
	id      BLOB PRIMARY KEY,
	day     TEXT NOT NULL,
	peer    BLOB NOT NULL,
	profile TEXT NOT NULL,
	micros  INTEGER NOT NULL,
	tokens  INTEGER NOT NULL,
	at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE daemon_untrusts (
	peer  BLOB PRIMARY KEY,
	count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;`, `
ALTER TABLE daemon_task ADD COLUMN progress REAL;

ALTER TABLE daemon_task ADD COLUMN message TEXT NOT NULL DEFAULT '';

ALTER TABLE daemon_task ADD COLUMN questions INTEGER NOT NULL DEFAULT 0;

CREATE TABLE daemon_question (
	task    INTEGER NOT NULL,
	id      BLOB NOT NULL,
	hash    BLOB NOT NULL,
	since   INTEGER NOT NULL,
	payload BLOB NOT NULL,
	answer  BLOB,
	UNIQUE (task, id)
) STRICT;`, `
ALTER TABLE daemon_turn ADD COLUMN peer BLOB NOT NULL DEFAULT x'';`, `
CREATE TABLE daemon_turn_by_peer (
	agent   TEXT NOT NULL,
	peer    BLOB NOT NULL,
	message BLOB NOT NULL,
	sent    INTEGER NOT NULL,
	cause   BLOB NOT NULL,
	at      INTEGER NOT NULL,
	PRIMARY KEY (agent, peer, message, sent)
) STRICT, WITHOUT ROWID;

INSERT INTO daemon_turn_by_peer (agent, peer, message, sent, cause, at) SELECT agent, peer, message, sent, cause, at FROM daemon_turn;

DROP TABLE daemon_turn;

ALTER TABLE daemon_turn_by_peer RENAME TO daemon_turn;`, `
CREATE INDEX daemon_inbox_by_agent ON daemon_inbox (agent, peer, kind);`, `
CREATE TABLE daemon_certified_pin (
	peer      BLOB PRIMARY KEY,
	pq        BLOB NOT NULL,
	authority TEXT NOT NULL,
	seen      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;`, `
ALTER TABLE daemon_task ADD COLUMN to_agent TEXT NOT NULL DEFAULT '';

ALTER TABLE daemon_task ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;`, `
ALTER TABLE daemon_task ADD COLUMN parent BLOB NOT NULL DEFAULT x'';

ALTER TABLE daemon_task ADD COLUMN guessed INTEGER NOT NULL DEFAULT 0;`, `
ALTER TABLE daemon_inbox ADD COLUMN origin TEXT NOT NULL DEFAULT '';

CREATE TABLE daemon_file (
	row        INTEGER PRIMARY KEY AUTOINCREMENT,
	peer       BLOB NOT NULL,
	id         BLOB NOT NULL,
	name       TEXT NOT NULL,
	size       INTEGER NOT NULL,
	hash       BLOB NOT NULL,
	agent      TEXT NOT NULL,
	from_agent TEXT NOT NULL,
	ref        BLOB NOT NULL,
	thread     TEXT NOT NULL,
	hops       INTEGER NOT NULL,
	text       TEXT NOT NULL,
	whole      INTEGER NOT NULL DEFAULT 0,
	reported   INTEGER NOT NULL DEFAULT 0,
	taken_by   TEXT NOT NULL DEFAULT '',
	since      INTEGER NOT NULL,
	until      INTEGER NOT NULL,
	UNIQUE (peer, id)
) STRICT;

CREATE TABLE daemon_file_always (
	peer BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;`, `
CREATE TABLE daemon_kept (
	row        INTEGER PRIMARY KEY,
	id         BLOB NOT NULL UNIQUE,
	peer       BLOB NOT NULL,
	name       TEXT NOT NULL,
	kind       TEXT NOT NULL,
	agent      TEXT NOT NULL,
	by_name    TEXT NOT NULL,
	by_key     BLOB NOT NULL,
	text       TEXT NOT NULL,
	size       INTEGER NOT NULL,
	hash       BLOB NOT NULL,
	since      INTEGER NOT NULL,
	until      INTEGER NOT NULL,
	end_id     BLOB NOT NULL,
	state      TEXT NOT NULL,
	tries      INTEGER NOT NULL,
	last_error TEXT NOT NULL,
	outcome    TEXT NOT NULL DEFAULT '',
	ended      INTEGER NOT NULL DEFAULT 0,
	told       INTEGER NOT NULL DEFAULT 0,
	envelope   BLOB NOT NULL
) STRICT;`,
}
