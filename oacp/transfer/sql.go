package transfer

import (
	"database/sql"
	"errors"
	"time"

	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/store"
)

// All SQL of the package. Times are unix milliseconds.

// schema holds the migrations. A released one never changes.
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

func sqlListAgentBindings(tx *store.Tx) (all []Binding, err error) {
	err = tx.EachRow("SELECT project, agent, peer, mode, linger FROM oacp_binding", func(scan func(...any) error) error {
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

// execSQL runs a statement, and returns only its error.
func execSQL(tx *store.Tx, statement string, args ...any) error {
	_, err := tx.Exec(statement, args...)
	return err
}

func sqlPutAgentBinding(tx *store.Tx, b Binding) error {
	return execSQL(tx, "INSERT OR REPLACE INTO oacp_binding (project, agent, peer, mode, linger) VALUES (?, ?, ?, ?, ?)", b.Project, b.Agent, b.Peer[:], b.Mode, int64(b.Linger/time.Second))
}

func sqlDeleteAgentBinding(tx *store.Tx, p mailbox) error {
	if err := execSQL(tx, "UPDATE oacp_delivered SET gone = TRUE WHERE project = ? AND agent = ?", p.project, p.agent); err != nil {
		return err
	}
	return execSQL(tx, "DELETE FROM oacp_binding WHERE project = ? AND agent = ?", p.project, p.agent)
}

// Deliveries. After its file is gone, or its agent is no longer bound, only Mailer.TraceFile uses
// a row.

// delivery is the last message that was delivered from a file.
type delivery struct {
	peer     identity.ID
	hash     [32]byte
	at       time.Time
	consumed bool // the agent there has finished it
	gone     bool // the file here is gone
}

func sqlPutDelivery(tx *store.Tx, peer identity.ID, p mailbox, file string, hash [32]byte, at time.Time) error {
	return execSQL(tx, "INSERT OR REPLACE INTO oacp_delivered (project, agent, file, hash, at, peer, consumed, gone) VALUES (?, ?, ?, ?, ?, ?, FALSE, FALSE)", p.project, p.agent, file, hash[:], at.UnixMilli(), peer[:])
}

// sqlMarkDeliveryConsumed notes that a peer's agent has finished the message from a file.
func sqlMarkDeliveryConsumed(tx *store.Tx, peer identity.ID, p mailbox, file string, hash [32]byte) error {
	return execSQL(tx, "UPDATE oacp_delivered SET consumed = TRUE WHERE project = ? AND agent = ? AND file = ? AND peer = ? AND hash = ?", p.project, p.agent, file, peer[:], hash[:])
}

// sqlReadDelivery returns the last delivery from a file, or nil.
func sqlReadDelivery(tx *store.Tx, p mailbox, file string) (*delivery, error) {
	var d delivery
	var peer, hash []byte
	var at int64
	err := tx.QueryRow("SELECT peer, hash, at, consumed, gone FROM oacp_delivered WHERE project = ? AND agent = ? AND file = ?", p.project, p.agent, file).Scan(&peer, &hash, &at, &d.consumed, &d.gone)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	copy(d.peer[:], peer)
	copy(d.hash[:], hash)
	d.at = time.UnixMilli(at)
	return &d, err
}

func sqlListDeliveredFiles(tx *store.Tx, p mailbox) (files []string, err error) {
	err = tx.EachRow("SELECT file FROM oacp_delivered WHERE project = ? AND agent = ? AND NOT gone", func(scan func(...any) error) error {
		var file string
		err := scan(&file)
		files = append(files, file)
		return err
	}, p.project, p.agent)
	return files, err
}

// sqlMarkFileGone notes that a file is gone.
func sqlMarkFileGone(tx *store.Tx, p mailbox, file string) error {
	return execSQL(tx, "UPDATE oacp_delivered SET gone = TRUE WHERE project = ? AND agent = ? AND file = ?", p.project, p.agent, file)
}

// Arrivals.

func sqlListArrivals(tx *store.Tx, where string, args ...any) (all []*arrival, err error) {
	err = tx.EachRow("SELECT peer, project, agent, file, hash, name, state, folder, size FROM oacp_arrival WHERE "+where, func(scan func(...any) error) error {
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

// sqlListOpenArrivals returns the arrivals that are half stored, or are in an inbox.
func sqlListOpenArrivals(tx *store.Tx) ([]*arrival, error) {
	return sqlListArrivals(tx, "state IN (?, ?)", writing, stored)
}

// sqlListUnreportedArrivals returns arrivals that are consumed and not reported to their peer, up to
// most.
func sqlListUnreportedArrivals(tx *store.Tx, peer identity.ID, most int) ([]*arrival, error) {
	return sqlListArrivals(tx, "peer = ? AND state = 'consumed' LIMIT ?", peer[:], most)
}

// sqlCountArrivalsByPeer returns the number of arrivals of each peer, and the peers that are to
// get reports.
func sqlCountArrivalsByPeer(tx *store.Tx) (rows map[identity.ID]int64, unreported []identity.ID, err error) {
	rows = make(map[identity.ID]int64)
	err = tx.EachRow("SELECT peer, COUNT(*), SUM(state = 'consumed') FROM oacp_arrival GROUP BY peer", func(scan func(...any) error) error {
		var peer []byte
		var all, consumed int64
		if err := scan(&peer, &all, &consumed); err != nil {
			return err
		}
		rows[identity.ID(peer)] = all
		if consumed > 0 {
			unreported = append(unreported, identity.ID(peer))
		}
		return nil
	})
	return rows, unreported, err
}

// sqlReadArrival returns an arrival, or nil if the message never came.
func sqlReadArrival(tx *store.Tx, k arrivalKey) (*arrival, error) {
	all, err := sqlListArrivals(tx, "peer = ? AND project = ? AND agent = ? AND file = ? AND hash = ?", k.peer[:], k.project, k.agent, k.file, k.hash[:])
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// sqlHasArrived reports whether a message for a mailbox ever came from a peer.
func sqlHasArrived(tx *store.Tx, p mailbox, hash [32]byte) (arrived bool, err error) {
	err = tx.QueryRow("SELECT EXISTS (SELECT 1 FROM oacp_arrival WHERE hash = ? AND project = ? AND agent = ? AND state != ?)", hash[:], p.project, p.agent, writing).Scan(&arrived)
	return arrived, err
}

// sqlAddArrival notes a message that the store does not know.
func sqlAddArrival(tx *store.Tx, a *arrival) error {
	return execSQL(tx, "INSERT INTO oacp_arrival (peer, project, agent, file, hash, name, state, at, folder, size) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		a.key.peer[:], a.key.project, a.key.agent, a.key.file, a.key.hash[:], a.name, a.state, time.Now().UnixMilli(), int64(a.folder), a.size)
}

// sqlUpdateArrival notes the state and the place of an arrival, if the store still has it.
func sqlUpdateArrival(tx *store.Tx, a *arrival) error {
	return execSQL(tx, "UPDATE oacp_arrival SET name = ?, state = ?, at = ?, folder = ? WHERE peer = ? AND project = ? AND agent = ? AND file = ? AND hash = ?",
		a.name, a.state, time.Now().UnixMilli(), int64(a.folder), a.key.peer[:], a.key.project, a.key.agent, a.key.file, a.key.hash[:])
}

func sqlDeleteArrival(tx *store.Tx, k arrivalKey) error {
	return execSQL(tx, "DELETE FROM oacp_arrival WHERE peer = ? AND project = ? AND agent = ? AND file = ? AND hash = ?", k.peer[:], k.project, k.agent, k.file, k.hash[:])
}

// sqlPruneArrivals deletes arrivals of a peer that ended before a time: the oldest first, up to
// most. It returns their number.
func sqlPruneArrivals(tx *store.Tx, peer identity.ID, before time.Time, most int) (int, error) {
	r, err := tx.Exec(`DELETE FROM oacp_arrival WHERE (peer, project, agent, file, hash) IN (
		SELECT peer, project, agent, file, hash FROM oacp_arrival WHERE peer = ? AND at < ? AND state IN ('consumed', 'reported') ORDER BY at LIMIT ?)`,
		peer[:], before.UnixMilli(), most)
	return countAffectedRows(r, err)
}

// sqlPruneDeliveries does the same for deliveries from files that are gone.
func sqlPruneDeliveries(tx *store.Tx, before time.Time, most int) (int, error) {
	r, err := tx.Exec(`DELETE FROM oacp_delivered WHERE (project, agent, file) IN (
		SELECT project, agent, file FROM oacp_delivered WHERE gone AND at < ? ORDER BY at LIMIT ?)`, before.UnixMilli(), most)
	return countAffectedRows(r, err)
}

func countAffectedRows(r sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	return int(n), err
}
