package transfer

import (
	"database/sql"
	"errors"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
)

// All SQL of the package. Times are unix milliseconds.

// schema is every step that these tables have taken; a released one never changes.
var schema = []string{`
CREATE TABLE oacp_binding (
	project TEXT NOT NULL,
	agent   TEXT NOT NULL,
	peer    BLOB NOT NULL,
	mode    TEXT NOT NULL,
	linger  INTEGER NOT NULL,
	PRIMARY KEY (project, agent)
) STRICT, WITHOUT ROWID;

CREATE TABLE oacp_delivered (
	project TEXT NOT NULL,
	agent   TEXT NOT NULL,
	file    TEXT NOT NULL,
	hash    BLOB NOT NULL,
	at      INTEGER NOT NULL,
	PRIMARY KEY (project, agent, file)
) STRICT, WITHOUT ROWID;

CREATE TABLE oacp_arrival (
	peer    BLOB NOT NULL,
	project TEXT NOT NULL,
	agent   TEXT NOT NULL,
	file    TEXT NOT NULL,
	hash    BLOB NOT NULL,
	name    TEXT NOT NULL,
	state   TEXT NOT NULL,
	at      INTEGER NOT NULL,
	PRIMARY KEY (peer, project, agent, file, hash)
) STRICT, WITHOUT ROWID;

CREATE INDEX oacp_arrival_hash ON oacp_arrival (hash);`, `
ALTER TABLE oacp_delivered ADD COLUMN peer BLOB;
UPDATE oacp_delivered SET peer = (SELECT b.peer FROM oacp_binding b WHERE b.project = oacp_delivered.project AND b.agent = oacp_delivered.agent);`, `
ALTER TABLE oacp_delivered ADD COLUMN consumed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE oacp_arrival ADD COLUMN folder INTEGER NOT NULL DEFAULT 0;`, `
ALTER TABLE oacp_delivered ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;`, `
ALTER TABLE oacp_arrival ADD COLUMN size INTEGER NOT NULL DEFAULT 0;
CREATE INDEX oacp_arrival_over ON oacp_arrival (peer, at) WHERE state IN ('consumed', 'reported');
CREATE INDEX oacp_arrival_untold ON oacp_arrival (peer) WHERE state = 'consumed';
CREATE INDEX oacp_delivered_gone ON oacp_delivered (at) WHERE gone;`,
}

// Bindings.

func sqlBindings(tx *store.Tx) (all []Binding, err error) {
	err = tx.Each("SELECT project, agent, peer, mode, linger FROM oacp_binding", func(scan func(...any) error) error {
		var b Binding
		var peer []byte
		var linger int64
		err := scan(&b.Project, &b.Agent, &peer, &b.Mode, &linger)
		copy(b.Peer[:], peer)
		b.Linger = time.Duration(linger) * time.Second
		all = append(all, b)
		return err
	})
	return all, err
}

func sqlBind(tx *store.Tx, b Binding) error {
	_, err := tx.Exec("INSERT OR REPLACE INTO oacp_binding (project, agent, peer, mode, linger) VALUES (?, ?, ?, ?, ?)", b.Project, b.Agent, b.Peer[:], b.Mode, int64(b.Linger/time.Second))
	return err
}

func sqlUnbind(tx *store.Tx, p mailbox) error {
	if _, err := tx.Exec("UPDATE oacp_delivered SET gone = TRUE WHERE project = ? AND agent = ?", p.project, p.agent); err != nil {
		return err
	}
	_, err := tx.Exec("DELETE FROM oacp_binding WHERE project = ? AND agent = ?", p.project, p.agent)
	return err
}

// What was delivered. Of a file that is gone, or of an agent that is bound no more, a
// row is only the answer to who asks what became of it.

func sqlDelivered(tx *store.Tx, peer identity.ID, p mailbox, file string, hash [32]byte, at time.Time) error {
	_, err := tx.Exec("INSERT OR REPLACE INTO oacp_delivered (project, agent, file, hash, at, peer, consumed, gone) VALUES (?, ?, ?, ?, ?, ?, FALSE, FALSE)", p.project, p.agent, file, hash[:], at.UnixMilli(), peer[:])
	return err
}

// sqlMarkConsumed notes that a peer's agent is done with what was delivered from a file.
func sqlMarkConsumed(tx *store.Tx, peer identity.ID, p mailbox, file string, hash [32]byte) error {
	_, err := tx.Exec("UPDATE oacp_delivered SET consumed = TRUE WHERE project = ? AND agent = ? AND file = ? AND peer = ? AND hash = ?", p.project, p.agent, file, peer[:], hash[:])
	return err
}

// sqlDelivery returns what was delivered to a peer from a file that still lies here, and
// whether the agent there is done with it; ok is false if nothing was.
func sqlDelivery(tx *store.Tx, peer identity.ID, p mailbox, file string) (hash [32]byte, at time.Time, consumed, ok bool, err error) {
	var sum []byte
	var ms int64
	err = tx.QueryRow("SELECT hash, at, consumed FROM oacp_delivered WHERE project = ? AND agent = ? AND file = ? AND peer = ? AND NOT gone", p.project, p.agent, file, peer[:]).Scan(&sum, &ms, &consumed)
	if errors.Is(err, sql.ErrNoRows) {
		return hash, at, false, false, nil
	}
	copy(hash[:], sum)
	return hash, time.UnixMilli(ms), consumed, err == nil, err
}

func sqlDeliveredFiles(tx *store.Tx, p mailbox) (files []string, err error) {
	err = tx.Each("SELECT file FROM oacp_delivered WHERE project = ? AND agent = ? AND NOT gone", func(scan func(...any) error) error {
		var file string
		err := scan(&file)
		files = append(files, file)
		return err
	}, p.project, p.agent)
	return files, err
}

// sqlMarkGone notes that a file is gone.
func sqlMarkGone(tx *store.Tx, p mailbox, file string) error {
	_, err := tx.Exec("UPDATE oacp_delivered SET gone = TRUE WHERE project = ? AND agent = ? AND file = ?", p.project, p.agent, file)
	return err
}

// sqlLastDelivery returns what was last delivered from a file, which may be gone; ok is
// false if nothing was.
func sqlLastDelivery(tx *store.Tx, p mailbox, file string) (peer identity.ID, hash [32]byte, at time.Time, ok bool, err error) {
	var to, sum []byte
	var ms int64
	err = tx.QueryRow("SELECT peer, hash, at FROM oacp_delivered WHERE project = ? AND agent = ? AND file = ?", p.project, p.agent, file).Scan(&to, &sum, &ms)
	if errors.Is(err, sql.ErrNoRows) {
		return peer, hash, at, false, nil
	}
	copy(peer[:], to)
	copy(hash[:], sum)
	return peer, hash, time.UnixMilli(ms), err == nil, err
}

// What arrived.

func sqlArrivals(tx *store.Tx, where string, args ...any) (all []*arrival, err error) {
	err = tx.Each("SELECT peer, project, agent, file, hash, name, state, folder, size FROM oacp_arrival WHERE "+where, func(scan func(...any) error) error {
		a := new(arrival)
		var peer, hash []byte
		var folder int64
		err := scan(&peer, &a.key.project, &a.key.agent, &a.key.file, &hash, &a.name, &a.state, &folder, &a.size)
		a.folder = uint64(folder)
		copy(a.key.peer[:], peer)
		copy(a.key.hash[:], hash)
		all = append(all, a)
		return err
	}, args...)
	return all, err
}

// sqlOpenArrivals returns what is half stored, or lies in an inbox.
func sqlOpenArrivals(tx *store.Tx) ([]*arrival, error) {
	return sqlArrivals(tx, "state IN (?, ?)", writing, stored)
}

// sqlUnreported returns what a peer does not know to be consumed, some of it.
func sqlUnreported(tx *store.Tx, peer identity.ID, most int) ([]*arrival, error) {
	return sqlArrivals(tx, "peer = ? AND state = 'consumed' LIMIT ?", peer[:], most)
}

// sqlPeers returns who sent what the store knows, with the number of messages, and to
// whom something is to be told.
func sqlPeers(tx *store.Tx) (rows map[identity.ID]int64, untold []identity.ID, err error) {
	rows = make(map[identity.ID]int64)
	err = tx.Each("SELECT peer, COUNT(*) FROM oacp_arrival GROUP BY peer", func(scan func(...any) error) error {
		var peer []byte
		var n int64
		err := scan(&peer, &n)
		rows[identity.ID(peer)] = n
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	err = tx.Each("SELECT DISTINCT peer FROM oacp_arrival WHERE state = 'consumed'", func(scan func(...any) error) error {
		var peer []byte
		err := scan(&peer)
		untold = append(untold, identity.ID(peer))
		return err
	})
	return rows, untold, err
}

// sqlArrival returns what is known of a message, nil if it never came.
func sqlArrival(tx *store.Tx, k arrivalKey) (*arrival, error) {
	all, err := sqlArrivals(tx, "peer = ? AND project = ? AND agent = ? AND file = ? AND hash = ?", k.peer[:], k.project, k.agent, k.file, k.hash[:])
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// sqlHasArrived reports whether a message for a place ever came from a peer.
func sqlHasArrived(tx *store.Tx, p mailbox, hash [32]byte) (arrived bool, err error) {
	err = tx.QueryRow("SELECT EXISTS (SELECT 1 FROM oacp_arrival WHERE hash = ? AND project = ? AND agent = ? AND state != ?)", hash[:], p.project, p.agent, writing).Scan(&arrived)
	return arrived, err
}

// sqlAddArrival notes a message that the store does not know.
func sqlAddArrival(tx *store.Tx, a *arrival) error {
	_, err := tx.Exec("INSERT INTO oacp_arrival (peer, project, agent, file, hash, name, state, at, folder, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		a.key.peer[:], a.key.project, a.key.agent, a.key.file, a.key.hash[:], a.name, a.state, time.Now().UnixMilli(), int64(a.folder), a.size)
	return err
}

// sqlUpdateArrival notes what has become of a message, unless it is forgotten by now.
func sqlUpdateArrival(tx *store.Tx, a *arrival) error {
	_, err := tx.Exec("UPDATE oacp_arrival SET name = ?, state = ?, at = ?, folder = ? WHERE peer = ? AND project = ? AND agent = ? AND file = ? AND hash = ?",
		a.name, a.state, time.Now().UnixMilli(), int64(a.folder), a.key.peer[:], a.key.project, a.key.agent, a.key.file, a.key.hash[:])
	return err
}

func sqlDeleteArrival(tx *store.Tx, k arrivalKey) error {
	_, err := tx.Exec("DELETE FROM oacp_arrival WHERE peer = ? AND project = ? AND agent = ? AND file = ? AND hash = ?", k.peer[:], k.project, k.agent, k.file, k.hash[:])
	return err
}

// sqlForgetReported forgets messages of a peer that have been over since before, the oldest
// first, most at a time, and returns how many.
func sqlForgetReported(tx *store.Tx, peer identity.ID, before time.Time, most int) (int, error) {
	r, err := tx.Exec(`DELETE FROM oacp_arrival WHERE (peer, project, agent, file, hash) IN (
		SELECT peer, project, agent, file, hash FROM oacp_arrival WHERE peer = ? AND at < ? AND state IN ('consumed', 'reported') ORDER BY at LIMIT ?)`,
		peer[:], before.UnixMilli(), most)
	return affected(r, err)
}

// sqlPruneDelivered does the same for what was delivered from files that are gone.
func sqlPruneDelivered(tx *store.Tx, before time.Time, most int) (int, error) {
	r, err := tx.Exec(`DELETE FROM oacp_delivered WHERE (project, agent, file) IN (
		SELECT project, agent, file FROM oacp_delivered WHERE gone AND at < ? ORDER BY at LIMIT ?)`, before.UnixMilli(), most)
	return affected(r, err)
}

func affected(r sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}
