package remote

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
CREATE TABLE carrier_parcel (
	seq    INTEGER PRIMARY KEY AUTOINCREMENT,
	id     TEXT NOT NULL UNIQUE,
	host   BLOB NOT NULL,
	agent  TEXT NOT NULL,
	key    TEXT NOT NULL,
	path   TEXT NOT NULL,
	body   BLOB NOT NULL,
	at     INTEGER NOT NULL,
	status INTEGER NOT NULL,
	answer BLOB NOT NULL
) STRICT;
CREATE INDEX carrier_parcel_line ON carrier_parcel (host, agent, seq);
CREATE TABLE carrier_guest (
	host   BLOB NOT NULL,
	agent  TEXT NOT NULL,
	record TEXT NOT NULL,
	PRIMARY KEY (host, agent)
) STRICT, WITHOUT ROWID;`, `
DELETE FROM carrier_parcel WHERE status <> 0;
ALTER TABLE carrier_parcel ADD COLUMN refusal BLOB NOT NULL DEFAULT x'';
CREATE INDEX carrier_parcel_refused ON carrier_parcel (at, seq) WHERE status <> 0;
CREATE INDEX carrier_parcel_refused_of ON carrier_parcel (host, agent, seq) WHERE status <> 0;
CREATE INDEX carrier_parcel_agent ON carrier_parcel (agent, seq);`,
}

// Messages for other hosts.

const messageColumns = "seq, id, host, agent, key, path, body, status, answer, refusal"

func scanMessage(row interface{ Scan(...any) error }) (*outgoingMessage, error) {
	p := new(outgoingMessage)
	var host []byte
	err := row.Scan(&p.seq, &p.id, &host, &p.agent, &p.idempotencyKey, &p.path, &p.body, &p.status, &p.answer, &p.refusal)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	copy(p.host[:], host)
	return p, err
}

// sqlSenders returns how many messages of each sender wait, and how many bytes in all.
func sqlSenders(tx *store.Tx) (waiting map[senderKey]int, bytes int, err error) {
	waiting = make(map[senderKey]int)
	err = tx.Each("SELECT host, agent, count(*), sum(length(body)) FROM carrier_parcel WHERE status = 0 GROUP BY host, agent", func(scan func(...any) error) error {
		var k senderKey
		var host []byte
		var n, size int
		err := scan(&host, &k.agent, &n, &size)
		copy(k.host[:], host)
		waiting[k], bytes = n, bytes+size
		return err
	})
	return waiting, bytes, err
}

func sqlMessage(tx *store.Tx, id string) (*outgoingMessage, error) {
	return scanMessage(tx.QueryRow("SELECT "+messageColumns+" FROM carrier_parcel WHERE id = ?", id))
}

func sqlFirstWaiting(tx *store.Tx, k senderKey) (*outgoingMessage, error) {
	return scanMessage(tx.QueryRow("SELECT "+messageColumns+" FROM carrier_parcel WHERE host = ? AND agent = ? AND status = 0 ORDER BY seq LIMIT 1", k.host[:], k.agent))
}

// sqlWaiting reads the first waiting messages of a sender for a channel, in their order, while more
// are wanted.
func sqlWaiting(tx *store.Tx, k senderKey, channel string, most int, more func(*outgoingMessage) bool) error {
	enough := errors.New("enough")
	err := tx.Each("SELECT id, answer FROM carrier_parcel WHERE host = ? AND agent = ? AND status = 0 AND (path = ? OR substr(path, 1, length(?)) = ?) ORDER BY seq LIMIT ?", func(scan func(...any) error) error {
		p := new(outgoingMessage)
		if err := scan(&p.id, &p.answer); err != nil {
			return err
		}
		if !more(p) {
			return enough
		}
		return nil
	}, k.host[:], k.agent, channel, channel+"/", channel+"/", most)
	if err == enough {
		return nil
	}
	return err
}

// sqlKeyed finds the message for a channel that was given an idempotency key.
func sqlKeyed(tx *store.Tx, k senderKey, channel, key string) (*outgoingMessage, error) {
	return scanMessage(tx.QueryRow("SELECT "+messageColumns+" FROM carrier_parcel WHERE host = ? AND agent = ? AND key = ? AND substr(path, 1, length(?)) = ? ORDER BY seq LIMIT 1",
		k.host[:], k.agent, key, channel, channel))
}

func sqlAddWaiting(tx *store.Tx, p *outgoingMessage, at time.Time) error {
	_, err := tx.Exec("INSERT INTO carrier_parcel (id, host, agent, key, path, body, at, status, answer) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?)",
		p.id, p.host[:], p.agent, p.idempotencyKey, p.path, p.body, at.UnixMilli(), p.answer)
	return err
}

func sqlDropMessage(tx *store.Tx, seq int64) error {
	_, err := tx.Exec("DELETE FROM carrier_parcel WHERE seq = ?", seq)
	return err
}

// sqlSetRefused keeps of a message what the host said, and what its sender is told.
func sqlSetRefused(tx *store.Tx, p *outgoingMessage, at time.Time) error {
	_, err := tx.Exec("UPDATE carrier_parcel SET status = ?, answer = ?, refusal = ?, body = ?, at = ? WHERE seq = ?", p.status, p.answer, p.refusal, p.body, at.UnixMilli(), p.seq)
	return err
}

// sqlTrimRefused forgets what the host has refused that agent beyond so many, and of all
// beyond so many the oldest.
func sqlTrimRefused(tx *store.Tx, k senderKey, most, mostAll int) error {
	_, err := tx.Exec("DELETE FROM carrier_parcel WHERE seq = (SELECT seq FROM carrier_parcel WHERE host = ? AND agent = ? AND status <> 0 ORDER BY seq DESC LIMIT 1 OFFSET ?)", k.host[:], k.agent, most)
	if err == nil {
		_, err = tx.Exec("DELETE FROM carrier_parcel WHERE seq IN (SELECT seq FROM carrier_parcel WHERE status <> 0 ORDER BY at DESC, seq DESC LIMIT -1 OFFSET ?)", mostAll)
	}
	return err
}

// sqlForgetRefused drops the refusals from before then.
func sqlForgetRefused(tx *store.Tx, before time.Time) error {
	_, err := tx.Exec("DELETE FROM carrier_parcel WHERE status <> 0 AND at < ?", before.UnixMilli())
	return err
}

const (
	unsentOfAll   = "SELECT seq, host, answer FROM carrier_parcel WHERE seq > ? ORDER BY seq LIMIT ?"
	unsentOfAgent = "SELECT seq, host, answer FROM carrier_parcel WHERE agent = ? AND seq > ? ORDER BY seq LIMIT ?"
)

// sqlUnsent reads the messages of an agent, or of all without one, in the order in which
// they were sent, after that one, whether they wait or were refused. An error of each ends it.
func sqlUnsent(tx *store.Tx, agent string, limit int, after int64, each func(seq int64, host identity.ID, message []byte) error) error {
	row := func(scan func(...any) error) error {
		var seq int64
		var host, message []byte
		if err := scan(&seq, &host, &message); err != nil {
			return err
		}
		var id identity.ID
		copy(id[:], host)
		return each(seq, id, message)
	}
	if agent == "" {
		return tx.Each(unsentOfAll, row, after, limit)
	}
	return tx.Each(unsentOfAgent, row, agent, after, limit)
}

// sqlHosts returns the hosts of which there are messages, whether they wait or not.
func sqlHosts(tx *store.Tx) (hosts []identity.ID, err error) {
	err = tx.Each("SELECT DISTINCT host FROM carrier_parcel", func(scan func(...any) error) error {
		var host []byte
		err := scan(&host)
		var id identity.ID
		copy(id[:], host)
		hosts = append(hosts, id)
		return err
	})
	return hosts, err
}

func sqlDropRefused(tx *store.Tx, host identity.ID) error {
	_, err := tx.Exec("DELETE FROM carrier_parcel WHERE host = ? AND status <> 0", host[:])
	return err
}

// sqlDropWaiting drops what of a sender waits, and returns how much that was.
func sqlDropWaiting(tx *store.Tx, k senderKey) (n, bytes int, err error) {
	err = tx.QueryRow("SELECT count(*), coalesce(sum(length(body)), 0) FROM carrier_parcel WHERE host = ? AND agent = ? AND status = 0", k.host[:], k.agent).Scan(&n, &bytes)
	if err == nil {
		_, err = tx.Exec("DELETE FROM carrier_parcel WHERE host = ? AND agent = ? AND status = 0", k.host[:], k.agent)
	}
	return n, bytes, err
}

// What hosts were told of the agents here.

func sqlGuests(tx *store.Tx, each func(host identity.ID, agent, record string)) error {
	return tx.Each("SELECT host, agent, record FROM carrier_guest", func(scan func(...any) error) error {
		var host []byte
		var id identity.ID
		var agent, record string
		err := scan(&host, &agent, &record)
		copy(id[:], host)
		each(id, agent, record)
		return err
	})
}

func sqlSaveGuest(tx *store.Tx, host identity.ID, agent, record string) error {
	_, err := tx.Exec("INSERT INTO carrier_guest (host, agent, record) VALUES (?, ?, ?) ON CONFLICT (host, agent) DO UPDATE SET record = excluded.record", host[:], agent, record)
	return err
}

func sqlDropGuest(tx *store.Tx, host identity.ID, agent string) error {
	_, err := tx.Exec("DELETE FROM carrier_guest WHERE host = ? AND agent = ?", host[:], agent)
	return err
}

func sqlDropGuests(tx *store.Tx, host identity.ID) error {
	_, err := tx.Exec("DELETE FROM carrier_guest WHERE host = ?", host[:])
	return err
}
